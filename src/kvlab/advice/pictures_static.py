"""A picture as PNG or SVG, by matplotlib."""

from __future__ import annotations

import textwrap
from typing import Any, BinaryIO, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from kvlab.advice.pictures import INK, Curve, Panel, Picture
from kvlab.units import format_number

_WIDTH: Final = 8.0
_PANEL_HEIGHT: Final = 3.2
_TEXT_COLUMNS: Final = 112
_LINE_HEIGHT: Final = 0.19
_MUTED: Final = "#5a6270"
_STYLE: Final[Any] = {"font.size": 9.0, "svg.hashsalt": "kvlab", "svg.fonttype": "path"}


def draw(picture: Picture) -> Figure:
    """Panels below each other, under the title and the text."""
    lines = textwrap.wrap(picture.text, _TEXT_COLUMNS)
    head = 0.45 + _LINE_HEIGHT * len(lines)
    height = head + _PANEL_HEIGHT * len(picture.panels)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), dpi=150, facecolor="white")
        FigureCanvasAgg(figure)
        top: dict[str, Any] = {"x": 0.012, "ha": "left", "va": "top", "parse_math": False}
        figure.text(y=1 - 0.1 / height, s=picture.title, fontsize=12, fontweight="bold", color=INK, **top)
        figure.text(y=1 - 0.38 / height, s="\n".join(lines), fontsize=8.5, color=_MUTED, **top)
        figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - head / height))
        for number, panel in enumerate(picture.panels, start=1):
            above = figure.axes[0] if figure.axes else None
            _draw_panel(figure.add_subplot(len(picture.panels), 1, number, sharex=above), panel)
    return figure


def write(figure: Figure, stream: BinaryIO, kind: str) -> None:
    """The bytes; the same for the same picture."""
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context(_STYLE):
        figure.savefig(stream, format=kind, metadata=metadata)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left", color=INK, fontsize=9.5, parse_math=False)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(visible=True, color="#e3e6ea", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for curve in panel.curves:
        _draw_curve(axes, curve)
    if panel.span is not None:
        axes.axvspan(*panel.span, color="#b26a00", alpha=0.16, linewidth=0, label=panel.span_label)
    if panel.mark is not None:
        axes.axvline(panel.mark, color=INK, linewidth=1, label=panel.mark_label)
    if panel.limit is not None:
        axes.axhline(panel.limit, color=INK, linewidth=1, linestyle=(0, (4, 3)), label=panel.limit_label)
    for is_log, set_scale, axis in (
        (panel.x_log, axes.set_xscale, axes.xaxis),
        (panel.y_log, axes.set_yscale, axes.yaxis),
    ):
        if is_log:
            set_scale("log")
            axis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
            axis.set_minor_formatter(NullFormatter())
    if not panel.y_log:
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _draw_curve(axes: Axes, curve: Curve) -> None:
    nan = float("nan")
    if curve.low is not None and curve.high is not None:
        low, high = ([nan if value is None else value for value in some] for some in (curve.low, curve.high))
        axes.fill_between(curve.x, low, high, color=curve.colour, alpha=0.18, linewidth=0)
    values = [nan if value is None else value for value in curve.y]
    axes.plot(
        curve.x, values, "o-" if curve.with_dots else "-", color=curve.colour, linewidth=1.5, markersize=3.5,
        label=curve.label,
    )  # fmt: skip
