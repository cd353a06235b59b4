"""The report as one HTML file that needs no network."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go
import plotly.io

from kvlab.sweeps.report import FRONT, Point, Points, front, label, middle_of, setting_label

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sweep {title}</title>
<style>
:root {{ color-scheme: light; }}
body {{ margin: 2rem auto; max-width: 70rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: #1d2433; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }} p {{ max-width: 60ch; }}
</style>
</head>
<body>
<h1>Sweep {title}</h1>
<p>{summary}</p>
{plots}
</body>
</html>
"""


def page(points: Points, metrics: tuple[str, ...], title: str) -> str:
    """A whole document; the same for the same table."""
    figures = [(label(metric), _figure(points, metric)) for metric in metrics]
    figures.append((f"Pareto front: {label(FRONT[0])} against {label(FRONT[1])}", _front(points)))
    plots = []
    for number, (heading, figure) in enumerate(figures):
        figure.update_layout(template="plotly_white", margin={"l": 70, "r": 20, "t": 20, "b": 60}, height=420)
        plot = plotly.io.to_html(
            figure,
            full_html=False,
            include_plotlyjs=number == 0,
            div_id=f"plot-{number}",
            config={"displaylogo": False, "responsive": True},
        )
        plots.append(f"<h2>{heading}</h2>\n{plot}")
    seeds = (
        "one seed" if points.num_seeds == 1 else f"{points.num_seeds} seeds; lines and colours are medians over them"
    )
    summary = f"{len(points.points):,} points along {', '.join(points.names)}, {seeds}."
    if points.num_failed:
        summary += f" {points.num_failed:,} runs were impossible and are in no picture; sweep.csv has the reasons."
    return _PAGE.format(title=title, summary=summary, plots="\n".join(plots))


def _figure(points: Points, metric: str) -> go.Figure:
    """A heatmap over the two longest axes, or a curve."""
    axes = sorted(points.names, key=lambda name: -len(points.axis(name)))
    if len(axes) > 1 and len(points.axis(axes[1])) > 1:
        return _heatmap(points, metric, axes[0], axes[1])
    return _curve(points, metric, axes[0])


def _curve(points: Points, metric: str, name: str) -> go.Figure:
    places = points.axis(name)
    values = [[v for point in points.where({name: place}) for v in point.values[metric]] for place in places]
    middles = [middle_of(points.where({name: place}), metric) for place in places]
    low, high = [min(some, default=None) for some in values], [max(some, default=None) for some in values]
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


def _heatmap(points: Points, metric: str, across: str, up: str) -> go.Figure:
    columns, rows = points.axis(across), points.axis(up)
    cells = [[middle_of(points.where({across: column, up: row}), metric) for column in columns] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            x=list(map(str, columns)),
            y=list(map(str, rows)),
            z=cells,
            colorscale="Viridis",
            colorbar={"title": {"text": label(metric), "side": "right"}},
            hovertemplate=f"{across} %{{x}}, {up} %{{y}}: %{{z:.4g}}<extra></extra>",
        )
    )
    figure.update_xaxes(title=setting_label(across), type="category")
    figure.update_yaxes(title=setting_label(up), type="category")
    return figure


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
    return figure


def _dots(points: Points, some: list[Point], **style: Any) -> go.Scatter:
    more, less = FRONT
    texts = [
        "<br>".join(f"{name} {value}" for name, value in zip(points.names, point.settings, strict=True))
        for point in some
    ]
    return go.Scatter(
        x=[point.middle(less) for point in some],
        y=[point.middle(more) for point in some],
        text=texts,
        hovertemplate="%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
        **style,
    )
