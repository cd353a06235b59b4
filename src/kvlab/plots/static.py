"""The picture as PNG or SVG, by matplotlib."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from kvlab.plots.picture import Latencies, Picture, Series, picture
from kvlab.plots.series import SHOWN_SHARES, Floats, nines
from kvlab.plots.theme import Theme
from kvlab.units import NS_PER_S, format_duration

if TYPE_CHECKING:
    from kvlab.results import Run

_WIDTH_INCHES: Final = 9.6
_DPI: Final = 160
_COLUMNS: Final = int(_WIDTH_INCHES * _DPI)
_LEFT: Final = 0.115
_RIGHT: Final = 0.98
_DASHED: Final = (0, (4, 3))
_STYLE: Final[Any] = {  # Any: the names that rc_context knows differ between versions
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.5,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "kvlab",  # equal runs, equal files
}


def draw(run: Run, theme: Theme) -> Figure:
    """The picture of a run, about 10 x 8 inches."""
    shown = picture(run, _COLUMNS)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, 7.8), dpi=_DPI, facecolor=theme.paper)
        FigureCanvasAgg(figure)
        _head(figure, 0.977, shown.title, theme.ink, size=14, room=60, fontweight="bold")
        _head(figure, 0.941, shown.subtitle, theme.muted, size=9, room=120)
        lanes = _lanes(shown, theme)
        # inches from the top: over time, then (further down, for the time axis) the latencies
        strip_ratio = 0.16 * len(lanes) or 0.001
        timed = figure.add_gridspec(
            3, 1, height_ratios=[strip_ratio, 2.4, 1.45], left=_LEFT, right=_RIGHT, top=0.89 if lanes else 0.91,
            bottom=0.375, hspace=0.32,
        )  # fmt: skip
        spreads = figure.add_gridspec(1, 2, left=_LEFT, right=_RIGHT, top=0.285, bottom=0.065, wspace=0.17)
        kv = figure.add_subplot(timed[1])
        load = figure.add_subplot(timed[2], sharex=kv)
        strips = [figure.add_subplot(timed[0], sharex=kv)] if lanes else []
        _draw_kv(kv, shown, theme)
        _draw_load(load, shown, theme)
        for strip in strips:
            _draw_preemptions(strip, lanes, theme)
        if shown.arrivals_end is not None:
            for axes in (kv, load, *strips):
                axes.axvline(shown.arrivals_end, color=theme.ink, linewidth=1, linestyle=_DASHED, zorder=1.5)
        for place, latencies in enumerate(shown.latencies):
            _draw_latencies(figure.add_subplot(spreads[place]), latencies, theme, first=place == 0)
        figure.align_ylabels([axes for axes in figure.axes if axes not in strips][:3])
    return figure


def write(figure: Figure, stream: BinaryIO, kind: str) -> None:
    """The bytes of a PNG or SVG; the same for the same run."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # a name may use letters that the font lacks: they show as boxes, which needs no message
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(
            stream, format=kind, facecolor=figure.get_facecolor(), metadata={"Date": None} if kind == "svg" else None
        )


def _head(figure: Figure, y: float, text: str, colour: str, *, size: float, room: int, **style: Any) -> None:
    """A line above the panels, in smaller type if it has more than `room` characters; names are not formulas."""
    fitting = size * min(1.0, room / max(len(text), 1))
    figure.text(_LEFT, y, text, fontsize=fitting, color=colour, va="top", parse_math=False, **style)


Lane = tuple[str, Floats, str, str]


def _lanes(shown: Picture, theme: Theme) -> list[Lane]:
    """(label, times, marker, colour) of each kind of preemption that happened."""
    lanes = [
        (f"recompute ({shown.num_recomputes:,})", shown.recomputes, "v", theme.recompute),
        (f"swap ({shown.num_swaps:,})", shown.swaps, "D", theme.swap),
    ]
    return [lane for lane in lanes if len(lane[1])]


def _draw_preemptions(axes: Axes, lanes: list[Lane], theme: Theme) -> None:
    _plain(axes, theme, "Preemptions")
    for row, (_, times, marker, colour) in enumerate(lanes):
        axes.plot(
            times, np.full(len(times), -row), marker, color=colour, markersize=3.6, markeredgewidth=0, clip_on=False
        )
    axes.set_yticks([-row for row in range(len(lanes))], [label for label, *_ in lanes])
    axes.set_ylim(0.6 - len(lanes), 0.6)
    axes.grid(visible=False)
    axes.tick_params(axis="x", labelbottom=False, length=0)
    axes.tick_params(axis="y", length=0, labelsize=8)
    for side in axes.spines.values():
        side.set_visible(False)


def _draw_kv(axes: Axes, shown: Picture, theme: Theme) -> None:
    _plain(axes, theme, shown.kv_title)
    axes.fill_between(
        *shown.reserved.line, facecolor=theme.paper, edgecolor=theme.hatch, hatch="//////", linewidth=0,
        label="reserved, not used",
    )  # fmt: skip
    axes.fill_between(*shown.used.line, facecolor=theme.used, linewidth=0, label="used")
    _draw_series(axes, shown.reserved, theme.line, 0.8, None)
    axes.set_ylabel("KV cache (%)")
    axes.set_ylim(0, 102)
    axes.yaxis.set_major_locator(FixedLocator([0, 25, 50, 75, 100]))
    axes.tick_params(axis="x", labelbottom=False)
    if shown.arrivals_end is not None:
        axes.plot([], [], color=theme.ink, linewidth=1, linestyle=_DASHED, label=shown.arrivals_end_label)
    _legend(axes, theme)


def _draw_load(axes: Axes, shown: Picture, theme: Theme) -> None:
    _plain(axes, theme, "Queue and batch")
    _draw_series(axes, shown.waiting, theme.waiting, 1.3, "waiting requests")
    _draw_series(axes, shown.running, theme.running, 1.3, "running sequences")
    if shown.swapped is not None:
        _draw_series(axes, shown.swapped, theme.swap, 1.3, "swapped-out requests")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, shown.end or 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylabel("count")
    axes.set_xlabel(shown.time_title, labelpad=2)
    _legend(axes, theme)


def _draw_series(axes: Axes, series: Series, colour: str, width: float, label: str | None) -> None:
    if series.peaks is not None:
        axes.plot(*series.peaks, color=colour, linewidth=0.5, alpha=0.35)
    axes.plot(*series.line, color=colour, linewidth=width, label=label)


def _draw_latencies(axes: Axes, latencies: Latencies, theme: Theme, *, first: bool) -> None:
    _plain(axes, theme, latencies.title)
    axes.set_xscale("log")
    seconds, share = latencies.line
    axes.plot(seconds, nines(share), color=theme.line, linewidth=1.6)
    if len(seconds):
        decades = max(1.0, float(np.log10(seconds[-1] / seconds[0])))
        # room for labels left of the first mark
        axes.set_xlim(seconds[0] / 10 ** (0.3 * decades), seconds[-1] * 10 ** (0.05 * decades))
    for percent, value in latencies.marks:
        place = (value / NS_PER_S, _height(percent / 100))
        axes.plot(*place, "o", color=theme.ink, markersize=3.5)
        axes.annotate(
            f"p{percent} {format_duration(value)}", place, (-5, 2), textcoords="offset points", ha="right", fontsize=8,
            color=theme.ink,
        )  # fmt: skip
    top = latencies.top
    axes.set_ylim(0, top)
    ticks = [share for share in SHOWN_SHARES if _height(share) < top + 0.01]
    axes.yaxis.set_major_locator(FixedLocator([_height(share) for share in ticks]))
    axes.set_yticklabels([f"{100 * share:g}" for share in ticks])
    short = axes.get_xlim()[1] < 30 * axes.get_xlim()[0]
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if short else (1,), numticks=6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: format_duration(round(seconds * NS_PER_S))))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(latencies.axis, labelpad=2)
    if first:
        axes.set_ylabel("percentile")


def _height(share: float) -> float:
    return float(nines(np.array([share]))[0])


def _plain(axes: Axes, theme: Theme, title: str) -> None:
    axes.set_facecolor(theme.paper)
    axes.set_title(title, loc="left", color=theme.ink, pad=5)
    axes.grid(visible=True, color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=theme.muted, labelcolor=theme.muted)
    axes.xaxis.label.set_color(theme.ink)
    axes.yaxis.label.set_color(theme.ink)
    for name, side in axes.spines.items():
        side.set_visible(name in ("left", "bottom"))
        side.set_color(theme.muted)


def _legend(axes: Axes, theme: Theme) -> None:
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False, labelcolor=theme.ink, borderpad=0.2,
        handlelength=1.6, columnspacing=1.4,
    )  # fmt: skip
