"""The report as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kvlab.plots.document import document
from kvlab.sweeps.report_data import FRONT, Point, Points, are_numbers, front, label, middle_of, setting_label, shown
from kvlab.sweeps.report_layout import Layout, heatmaps

_SIDE_BY_SIDE: Final = 3


def page(points: Points, plan: Layout, metrics: tuple[str, ...], title: str, summary: Sequence[str]) -> str:
    """A whole document; the same for the same table."""
    sections: list[tuple[str, go.Figure | str]] = []
    if not points.is_empty:
        sections = [
            (label(metric), _figure(points, plan, metric) if points.has(metric) else "No run has a value of it.")
            for metric in metrics
        ]
        sections.append((f"Pareto front: {label(FRONT[0])} against {label(FRONT[1])}", _front(points)))
    return document(f"Sweep {title}", summary, sections)


def _figure(points: Points, plan: Layout, metric: str) -> go.Figure:
    if plan.up is None:
        return _styled(_curve(points, metric, plan.across))
    return _heatmaps(points, plan, metric, plan.up)


def _styled(figure: go.Figure, *, height: int = 420, top: int = 20) -> go.Figure:
    margin = {"l": 70, "r": 20, "t": top, "b": 60}
    return figure.update_layout(template="plotly_white", margin=margin, height=height)


def _curve(points: Points, metric: str, name: str) -> go.Figure:
    places = points.axis(name)
    found = points.along([name])
    values = [[v for point in found[place,] for v in point.values[metric]] for place in places]
    middles = [middle_of(found[place,], metric) for place in places]
    low, high = [min(some, default=None) for some in values], [max(some, default=None) for some in values]
    if not are_numbers(places):
        places = [shown(name, place) for place in places]
    line = {"color": "#2b6cb0"}
    figure = go.Figure(
        [
            go.Scatter(x=places, y=high, mode="lines", line={"width": 0}, showlegend=False, hoverinfo="skip"),
            go.Scatter(
                x=places, y=low, mode="lines", line={"width": 0}, fill="tonexty", fillcolor="rgba(43,108,176,0.2)",
                name="least to most of a seed", hoverinfo="skip",
            ),
            go.Scatter(x=places, y=middles, mode="lines+markers", line=line, name="median"),
        ]
    )  # fmt: skip
    figure.update_xaxes(title=setting_label(name))
    figure.update_yaxes(title=label(metric), rangemode="tozero")
    return figure


def _heatmaps(points: Points, plan: Layout, metric: str, up: str) -> go.Figure:
    """One for each facet, all with the same colours."""
    columns = min(_SIDE_BY_SIDE, len(plan.facets))
    rows = -(-len(plan.facets) // columns)
    titles = [plan.title(facet) for facet in plan.facets]
    gaps = {"horizontal_spacing": 0.12 / columns, "vertical_spacing": 0.3 / rows}
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=titles if any(titles) else None, **gaps)
    for number, cells in enumerate(heatmaps(points, plan, metric)):
        heatmap = go.Heatmap(
            x=[shown(plan.across, value) for value in points.axis(plan.across)],
            y=[shown(up, value) for value in points.axis(up)],
            z=cells,
            coloraxis="coloraxis",
            hovertemplate=f"{plan.across} %{{x}}, {up} %{{y}}: %{{z:.4g}}<extra></extra>",
        )
        figure.add_trace(heatmap, row=number // columns + 1, col=number % columns + 1)
    figure.update_xaxes(title=setting_label(plan.across), type="category")
    figure.update_yaxes(type="category")
    figure.update_yaxes(title=setting_label(up), col=1)
    figure.update_layout(
        coloraxis={"colorscale": "Viridis", "colorbar": {"title": {"text": label(metric), "side": "right"}}}
    )
    return _styled(figure, height=420 if rows == 1 else 320 * rows, top=50 if any(titles) else 20)


def _front(points: Points) -> go.Figure:
    more, less = FRONT
    known = [point for point in points.points if point.values[more] and point.values[less]]
    best = front(known, more, less)
    others: dict[str, Any] = {"size": 8, "color": "#94a3b8"}
    figure = go.Figure(
        [
            _dots(points, known, mode="markers", marker=others, name="all points"),
            _dots(points, best, mode="lines+markers", marker={"size": 10, "color": "#c2410c"}, name="front"),
        ]
    )
    figure.update_xaxes(title=label(less))
    figure.update_yaxes(title=label(more))
    return _styled(figure)


def _dots(points: Points, some: list[Point], **style: Any) -> go.Scatter:
    more, less = FRONT
    texts = [
        "<br>".join(f"{name} {shown(name, value)}" for name, value in zip(points.names, point.settings, strict=True))
        for point in some
    ]
    return go.Scatter(
        x=[point.middle(less) for point in some],
        y=[point.middle(more) for point in some],
        text=texts,
        hovertemplate="%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
        **style,
    )
