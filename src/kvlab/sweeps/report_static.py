"""The report as a picture for papers: PNG or SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from math import nan
from typing import Any, BinaryIO, Final

import matplotlib
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from kvlab.sweeps.report_data import FRONT, Points, are_numbers, front, label, middle_of, setting_label, shown
from kvlab.sweeps.report_layout import Layout, heatmaps

_SIDE_BY_SIDE: Final = 3
_PANEL: Final = (6.4, 3.4)
"""Inches of a curve or a single heatmap."""
_FACET: Final = (4.0, 3.0)
_LINE: Final = 0.18
"""Inches of a line of text, which has so many letters an inch:"""
_LETTERS: Final = 12.5
_BAR_LETTERS: Final = 30
"""In a line beside a bar of colours."""
_DIGITS: Final = 6


def draw(points: Points, plan: Layout, metrics: tuple[str, ...], summary: Sequence[str]) -> Figure:
    """Below each other every metric, as heatmaps or as a curve with the spread of the seeds, and the Pareto front."""
    if points.is_empty:
        return _only_text(summary)
    columns = min(_SIDE_BY_SIDE, len(plan.facets))
    rows = -(-len(plan.facets) // columns)
    width = _PANEL[0] if columns == 1 else _FACET[0] * columns
    height = _PANEL[1] if columns == 1 else _FACET[1] * rows + 0.5
    lines = _wrapped(summary[1:], width)
    heights = [*(height if points.has(metric) else 1 for metric in metrics), _PANEL[1]]
    figure = Figure(figsize=(width, sum(heights) + _LINE * len(lines)), layout="constrained")
    if lines:
        figure.suptitle("\n".join(lines), x=0.02, ha="left", fontsize=9)
    parts = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    for number, metric in enumerate(metrics):
        if points.has(metric) and plan.up is not None:
            grid = parts[number].subgridspec(rows, columns)
            _heatmaps(figure, [figure.add_subplot(grid[divmod(place, columns)]) for place in range(len(plan.facets))],
                      points, plan, metric, plan.up)  # fmt: skip
            continue
        panel = figure.add_subplot(parts[number])
        panel.set_title(label(metric), fontsize=11)
        if points.has(metric):
            _curve(panel, points, metric, plan.across)
        else:
            panel.axis("off")
            panel.text(0.5, 0.5, "No run has a value of it.", ha="center", fontsize=9)
    _front(figure.add_subplot(parts[len(metrics)]), points)
    _settle(figure)
    return figure


def _settle(figure: Figure) -> None:
    """Keeps the layout without its last digits, which differ from time to time and would be in names of SVG."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for panel in figure.axes:
        panel.set_position([round(edge, _DIGITS) for edge in panel.get_position().bounds])  # type: ignore[arg-type]


def _wrapped(sentences: Sequence[str], width: float) -> list[str]:
    return [line for sentence in sentences for line in textwrap.wrap(sentence, int(_LETTERS * width))]


def _only_text(summary: Sequence[str]) -> Figure:
    lines = _wrapped(summary, _PANEL[0])
    figure = Figure(figsize=(_PANEL[0], 0.4 + _LINE * len(lines)))
    figure.text(0.02, 0.5, "\n".join(lines), va="center", fontsize=9, parse_math=False)
    return figure


def _curve(panel: Any, points: Points, metric: str, name: str) -> None:
    places = points.axis(name)
    spots = places if are_numbers(places) else range(len(places))
    found = points.along([name])
    values = [[v for point in found[place,] for v in point.values[metric]] or [0.0] for place in places]
    panel.fill_between(spots, [min(v) for v in values], [max(v) for v in values], alpha=0.2, color="#2b6cb0", lw=0)
    panel.plot(spots, [middle_of(found[place,], metric) for place in places], "o-", color="#2b6cb0", ms=4)
    if spots is not places:
        panel.set_xticks(list(spots), [shown(name, place) for place in places])
    panel.set_xlabel(setting_label(name))
    panel.set_ylim(0, 1.05 * panel.get_ylim()[1])
    panel.grid(alpha=0.3)


def _heatmaps(figure: Figure, panels: Sequence[Any], points: Points, plan: Layout, metric: str, up: str) -> None:
    """One for each facet, all with the same colours."""
    cells = heatmaps(points, plan, metric)
    known = [cell for heatmap in cells for row in heatmap for cell in row if cell is not None]
    low, high = min(known), max(known)
    scale = Normalize(low, high if high > low else low + 1)
    for panel, facet, heatmap in zip(panels, plan.facets, cells, strict=True):
        numbers = [[nan if cell is None else cell for cell in row] for row in heatmap]
        image = panel.imshow(numbers, origin="lower", aspect="auto", norm=scale)
        panel.set_title(plan.title(facet), fontsize=9)
        panel.set_xticks(*_ticks(points, plan.across))
        panel.set_yticks(*_ticks(points, up))
        panel.set_xlabel(setting_label(plan.across))
        panel.set_ylabel(setting_label(up))
    bar = figure.colorbar(image, ax=panels)
    if len(panels) == 1:
        panels[0].set_title(label(metric), fontsize=11)
    else:
        bar.set_label(textwrap.fill(label(metric), _BAR_LETTERS))


def _ticks(points: Points, name: str) -> tuple[range, list[str]]:
    values = points.axis(name)
    return range(len(values)), [shown(name, value) for value in values]


def _front(panel: Any, points: Points) -> None:
    more, less = FRONT
    known = [point for point in points.points if point.values[more] and point.values[less]]
    best = front(known, more, less)
    panel.plot([p.middle(less) for p in known], [p.middle(more) for p in known], "o", color="#94a3b8", ms=5)
    panel.plot([p.middle(less) for p in best], [p.middle(more) for p in best], "o-", color="#c2410c", ms=6)
    panel.set_title("Pareto front", fontsize=11)
    panel.set_xlabel(label(less))
    panel.set_ylabel(label(more))
    panel.grid(alpha=0.3)


def write(figure: Figure, stream: BinaryIO, kind: str) -> None:
    """PNG or SVG; the same bytes for the same table."""
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "kvlab", "svg.fonttype": "path"}):
        figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
