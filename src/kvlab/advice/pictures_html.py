"""A picture as one HTML file that needs no network, by plotly."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import plotly.graph_objects as go
import plotly.io

from kvlab.advice.pictures import INK, Curve, Panel, Picture

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light; }}
body {{ margin: 2rem auto; max-width: 64rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: #1a1d23; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }} p {{ max-width: 70ch; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{text}</p>
{plots}
</body>
</html>
"""


def page(picture: Picture) -> str:
    """A whole document; the same for the same picture."""
    plots = []
    for number, panel in enumerate(picture.panels):
        plot = plotly.io.to_html(
            _figure(panel),
            full_html=False,
            include_plotlyjs=number == 0,
            div_id=f"plot-{number}",
            config={"displaylogo": False, "responsive": True},
        )
        plots.append(f"<h2>{escape(panel.title)}</h2>\n{plot}")
    return _PAGE.format(title=escape(picture.title), text=escape(picture.text), plots="\n".join(plots))


def _figure(panel: Panel) -> go.Figure:
    figure = go.Figure([trace for curve in panel.curves for trace in _traces(curve)])
    figure.update_layout(
        template="plotly_white", margin={"l": 70, "r": 20, "t": 30, "b": 60}, height=400, font={"color": INK}
    )
    figure.update_xaxes(title=escape(panel.x_label), type="log" if panel.x_log else "linear")
    figure.update_yaxes(title=escape(panel.y_label), type="log" if panel.y_log else "linear")
    if not panel.y_log:
        figure.update_yaxes(rangemode="tozero")
    if panel.span is not None:
        low, high = panel.span
        figure.add_vrect(
            x0=low, x1=high, fillcolor="#b26a00", opacity=0.16, line_width=0, annotation_text=escape(panel.span_label),
            annotation_position="top left",
        )  # fmt: skip
    if panel.mark is not None:
        figure.add_vline(x=panel.mark, line={"color": INK, "width": 1}, annotation_text=escape(panel.mark_label))
    if panel.limit is not None:
        figure.add_hline(
            y=panel.limit, line={"color": INK, "width": 1, "dash": "dash"}, annotation_text=escape(panel.limit_label)
        )
    return figure


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
