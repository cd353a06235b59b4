"""The pictures of the page: real against simulated. PNG files, so that they hold no table of what was recorded."""

from __future__ import annotations

import io
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kvlab.plots.series import step_line
from kvlab.plots.theme import LIGHT
from kvlab.units import NS_PER_S
from kvlab.validation.numbers import Watermark
from kvlab.validation.recordings import Floats
from kvlab.validation.runs import Replayed, over_time

_DPI: Final = 120
_STYLE: Final[Any] = {"font.size": 9.0, "axes.titlesize": 9.5, "legend.fontsize": 8.5}
_REAL: Final = LIGHT.ink
_COLOURS: Final = {"running": LIGHT.running, "waiting": LIGHT.waiting, "KV cache taken, %": LIGHT.line}


def run_picture(done: Replayed) -> bytes:
    """Queue, batch and KV over time; TTFT of each request; TPOT of all."""
    lines = over_time(done)
    with mpl.rc_context(_STYLE):
        figure = _figure(7.2)
        grid = figure.add_gridspec(2, 2, hspace=0.34, wspace=0.2, left=0.075, right=0.985, top=0.93, bottom=0.075)
        counts = figure.add_subplot(grid[0, 0])
        _over_time(counts, done, {name: lines[name] for name in ("running", "waiting")})
        _label(counts, "Requests running and waiting", "time (s)", "requests")
        second = figure.add_subplot(grid[0, 1])
        kv = {name: line for name, line in lines.items() if name.startswith("KV")}
        if kv:
            _over_time(second, done, kv)
            _label(second, "KV cache taken", "time (s)", "%")
        else:
            _delivered(second, done)
            _label(second, "Requests answered", "time (s)", "requests")
        _ttft(figure.add_subplot(grid[1, 0]), done)
        _tpot(figure.add_subplot(grid[1, 1]), done)
        return _png(figure)


def watermark_picture(table: Watermark) -> bytes:
    """Preemptions by watermark: the report, and the range over seeds."""
    with mpl.rc_context(_STYLE):
        figure = _figure(3.4, width=6.4)
        axes = figure.add_axes((0.11, 0.15, 0.86, 0.73))
        at = np.arange(len(table.rows))
        low, mean, high = (
            np.array([how(row.preemptions) for row in table.rows], float) for how in (min, np.mean, max)
        )  # fmt: skip
        axes.bar(at, mean, width=0.55, color=LIGHT.used, label=f"simulated, mean of {len(table.seeds)} seeds")
        axes.errorbar(
            at, mean, [mean - low, high - mean], fmt="none", ecolor=LIGHT.line, capsize=5, label="their range"
        )
        reported = [row.reported_preemptions for row in table.rows]
        axes.plot(at, reported, "D", color=LIGHT.recompute, markersize=6, label="reported")
        axes.set_xticks(at, [f"{row.percent:g} %" for row in table.rows])
        _label(axes, "Preemptions by watermark, case U01", "blocks kept free at admission", "preemptions")
        _legend(axes)
        return _png(figure)


def _figure(height: float, width: float = 9.6) -> Figure:
    figure = Figure(figsize=(width, height), dpi=_DPI, facecolor=LIGHT.paper)
    FigureCanvasAgg(figure)
    return figure


def _over_time(axes: Axes, done: Replayed, lines: dict[str, tuple[Floats, Floats]]) -> None:
    ends = np.array([step.t_ns for step in done.record.steps], float) / NS_PER_S
    starts = np.array([step.t_ns - step.dur_ns for step in done.record.steps], float) / NS_PER_S
    for name, (real, simulated) in lines.items():
        axes.plot(*step_line(starts, ends, simulated), color=_COLOURS[name], linewidth=1.1, label=f"{name}, simulated")
        axes.plot(
            done.recording.seconds["t"], real, ".", color=_REAL, markersize=2.4,
            label="real, each second" if name == list(lines)[-1] else None,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    _legend(axes)


def _delivered(axes: Axes, done: Replayed) -> None:
    count = np.arange(1, len(done.real.last) + 1, dtype=float)
    axes.plot(np.sort(done.simulated.last), count, color=LIGHT.line, linewidth=1.4, label="simulated")
    axes.plot(np.sort(done.real.last)[::4], count[::4], ".", color=_REAL, markersize=3, label="real")
    _legend(axes)


def _ttft(axes: Axes, done: Replayed) -> None:
    axes.plot(done.simulated.arrival, done.simulated.ttft, "-", color=LIGHT.waiting, linewidth=1.2, label="simulated")
    axes.plot(done.real.arrival, done.real.ttft, ".", color=_REAL, markersize=2.8, label="real")
    _label(axes, "Time to the first token", "arrival (s)", "TTFT (s)")
    axes.set_ylim(bottom=0)
    _legend(axes)


def _tpot(axes: Axes, done: Replayed) -> None:
    share = np.arange(1, len(done.real.last) + 1) / len(done.real.last) * 100
    axes.plot(1000 * np.sort(done.simulated.tpot), share, color=LIGHT.line, linewidth=1.4, label="simulated")
    axes.plot(1000 * np.sort(done.real.tpot)[::3], share[::3], ".", color=_REAL, markersize=2.8, label="real")
    _label(axes, "Time per token, of each request", "TPOT (ms)", "% of requests")
    axes.set_ylim(0, 102)
    _legend(axes)


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", color=LIGHT.ink, pad=5)
    axes.set_xlabel(x, color=LIGHT.ink, labelpad=2)
    axes.set_ylabel(y, color=LIGHT.ink)
    axes.grid(visible=True, color=LIGHT.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=LIGHT.muted, labelcolor=LIGHT.muted)
    for name, side in axes.spines.items():
        side.set_visible(name in ("left", "bottom"))
        side.set_color(LIGHT.muted)


def _legend(axes: Axes) -> None:
    axes.legend(loc="best", frameon=False, labelcolor=LIGHT.ink, handlelength=1.4)


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", facecolor=figure.get_facecolor())
    return stream.getvalue()
