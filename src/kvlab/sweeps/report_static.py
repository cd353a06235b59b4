"""The report as a picture for papers: PNG or SVG."""

from __future__ import annotations

from typing import Any, BinaryIO

import matplotlib
import matplotlib.figure

from kvlab.sweeps.report import Points, label, middle_of, setting_label

Figure = matplotlib.figure.Figure


def draw(points: Points, metrics: tuple[str, ...]) -> Figure:
    """One panel per metric: a heatmap over the two longest axes, or a curve with the spread of the seeds."""
    axes = sorted(points.names, key=lambda name: -len(points.axis(name)))
    is_flat = len(axes) > 1 and len(points.axis(axes[1])) > 1
    figure = Figure(figsize=(6.4, 3.4 * len(metrics)), layout="constrained")
    for number, metric in enumerate(metrics, start=1):
        panel = figure.add_subplot(len(metrics), 1, number)
        if is_flat:
            _heatmap(figure, panel, points, metric, axes[0], axes[1])
        else:
            _curve(panel, points, metric, axes[0])
    return figure


def _curve(panel: Any, points: Points, metric: str, name: str) -> None:
    places = points.axis(name)
    spots = range(len(places)) if any(isinstance(place, str | bool) for place in places) else places
    values = [[v for point in points.where({name: place}) for v in point.values[metric]] or [0.0] for place in places]
    panel.fill_between(spots, [min(v) for v in values], [max(v) for v in values], alpha=0.2, color="#2b6cb0", lw=0)
    panel.plot(spots, [middle_of(points.where({name: place}), metric) for place in places], "o-", color="#2b6cb0", ms=4)
    if spots is not places:
        panel.set_xticks(list(spots), list(map(str, places)))
    panel.set_xlabel(setting_label(name))
    panel.set_ylabel(label(metric))
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)


def _heatmap(figure: Figure, panel: Any, points: Points, metric: str, across: str, up: str) -> None:
    columns, rows = points.axis(across), points.axis(up)
    cells = [[middle_of(points.where({across: column, up: row}), metric) for column in columns] for row in rows]
    blank = float("nan")
    image = panel.imshow(
        [[blank if cell is None else cell for cell in row] for row in cells], origin="lower", aspect="auto"
    )
    panel.set_xticks(range(len(columns)), list(map(str, columns)))
    panel.set_yticks(range(len(rows)), list(map(str, rows)))
    panel.set_xlabel(setting_label(across))
    panel.set_ylabel(setting_label(up))
    figure.colorbar(image, ax=panel, label=label(metric))


def write(figure: Figure, stream: BinaryIO, kind: str) -> None:
    """PNG or SVG; the same bytes for the same table."""
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "kvlab", "svg.fonttype": "path"}):
        figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
