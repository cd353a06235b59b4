"""A picture as one HTML file that needs no network, by plotly."""

from __future__ import annotations

from html import escape
from typing import Any

import plotly.graph_objects as go

from kvlab.advice.pictures import INK, Curve, Panel, Picture
from kvlab.plots.document import document


def page(picture: Picture) -> str:
    """A whole document; the same for the same picture."""
    return document(picture.title, [picture.text], [(panel.title, _figure(panel)) for panel in picture.panels])


def _figure(panel: Panel) -> go.Figure:
    figure = go.Figure([trace for curve in panel.curves for trace in _traces(curve)])
    figure.add_traces(_lines(panel))
    figure.update_layout(
        template="plotly_white",
        margin={"l": 70, "r": 20, "t": 20, "b": 60},
        height=400,
        font={"color": INK},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        showlegend=True,
    )
    figure.update_xaxes(title=escape(panel.x_label), type="log" if panel.x_log else "linear")
    figure.update_yaxes(title=escape(panel.y_label), type="log" if panel.y_log else "linear")
    if not panel.y_log:
        figure.update_yaxes(rangemode="tozero")
    return figure


def _lines(panel: Panel) -> list[go.Scatter]:
    """Limit, mark and span as traces, which have a place in the legend and are right on logarithmic axes, too."""
    across = [float(x) for curve in panel.curves for x in curve.x]
    up = [y for curve in panel.curves for some in (curve.y, curve.low or (), curve.high or ()) for y in some]
    heights = [float(y) for y in up if y is not None] + ([] if panel.limit is None else [panel.limit])
    low, high = (min(heights), max(heights)) if heights else (0.0, 1.0)
    low = low if panel.y_log else min(low, 0.0)
    found = []
    if panel.span is not None:
        left, right = panel.span
        found.append(
            go.Scatter(
                x=[left, left, right, right], y=[low, high, high, low], fill="toself", mode="lines", line={"width": 0},
                fillcolor="rgba(178,106,0,0.16)", name=escape(panel.span_label), hoverinfo="skip",
            )
        )  # fmt: skip
    if panel.mark is not None:
        found.append(_line([panel.mark] * 2, [low, high], panel.mark_label, "solid"))
    if panel.limit is not None and across:
        found.append(_line([min(across), max(across)], [panel.limit] * 2, panel.limit_label, "dash"))
    return found


def _line(x: list[float], y: list[float], label: str, dash: str) -> go.Scatter:
    line = {"color": INK, "width": 1.2, "dash": dash}
    return go.Scatter(x=x, y=y, mode="lines", line=line, name=escape(label), hoverinfo="name")


def _traces(curve: Curve) -> list[go.Scatter]:
    line: dict[str, Any] = {"color": curve.colour}
    mode = "lines+markers" if curve.with_dots else "lines"
    middle = go.Scatter(x=list(curve.x), y=list(curve.y), mode=mode, line=line, name=escape(curve.label))
    if curve.low is None or curve.high is None:
        return [middle]
    red, green, blue = (int(curve.colour[i : i + 2], 16) for i in (1, 3, 5))
    edge: dict[str, Any] = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    return [
        go.Scatter(x=list(curve.x), y=list(curve.high), **edge),
        go.Scatter(
            x=list(curve.x), y=list(curve.low), fill="tonexty", fillcolor=f"rgba({red},{green},{blue},0.18)", **edge
        ),
        middle,
    ]
