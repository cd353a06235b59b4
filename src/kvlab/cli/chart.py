"""KV usage over time, preemptions and queue, drawn with characters.

    100 % ┤        ⣀⣠⣴⣶⣿⣿⣿⣿⣿⣿⣿⣿⣷⣤⣀       one braille cell: 2 instants x 4 levels
     50 % ┤   ⣀⣤⣶⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣦
      0 % ┼───────┬───────┬───────┬───
           0 s     40 s    80 s    120 s
recomputed           2 1 4  5 1            how many in this column; bars once there are ten
   waiting     ▁▁▃▄▅▆▇▇██▇▅▃▁      peak 91
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kvlab.cli.terminal import Terminal, pad
from kvlab.results import Run
from kvlab.units import NS_PER_MS, NS_PER_S, NS_PER_US

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_HEIGHT: Final = 8
_LEVELS: Final = 4 * _HEIGHT
_GUTTER: Final = 12
_LEFT: Final = (0x00, 0x40, 0x44, 0x46, 0x47)  # dots of a cell's left half, filled from below
_RIGHT: Final = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_BARS: Final = " ▁▂▃▄▅▆▇█"
_LEAST_GAP: Final = 9
_MIN: Final = 60 * NS_PER_S
_HOUR: Final = 60 * _MIN
_TICKS: Final = (
    *(digit * 10**power for power in range(10) for digit in (1, 2, 5)),
    *(seconds * NS_PER_S for seconds in (10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600)),
    *(hours * _HOUR for hours in (12, 24, 48, 168, 720, 2_160, 8_760, 87_600, 876_000)),
)


def chart(run: Run, terminal: Terminal) -> list[str]:
    """The chart as lines; none when the run had no step.

    Args:
        run: with its steps recorded.
    """
    if not run.record.steps:
        return []
    totals = run.record.totals
    peak = f"peak {totals.peak_waiting:,}"
    tail = 1 + max(len(peak), len(_in_all(totals.preemptions)))  # behind the rows
    width = terminal.width - _GUTTER - tail
    usage = _peaks(run, run.timeline["reserved_tokens"], 2 * width) / run.record.capacity_tokens
    lines = _area(usage, terminal)
    lines += time_axis(totals.end_ns, width, tail, terminal)
    lines += _preemptions(run, width, terminal)
    waiting = _peaks(run, run.timeline["waiting"], width)
    if waiting.max() > 0:
        bars = "".join(_BARS[int(level)] for level in np.ceil(waiting / waiting.max() * 8))
        lines.append(_row("waiting", terminal.style(bars, "yellow") + " " + terminal.style(peak, "dim"), terminal))
    return lines


def _row(label: str, text: str, terminal: Terminal) -> str:
    return terminal.style(pad(label, _GUTTER - 1, ">"), "dim") + " " + text


def _peaks(run: Run, values: Ints, count: int) -> Ints:
    """The largest value in each of `count` equal stretches of the run; 0 where no step ran."""
    starts, ends = run.timeline["start_ns"], run.timeline["t_ns"]
    edges = np.array([run.record.totals.end_ns * i // count for i in range(count + 1)], dtype=np.int64)
    peaks = np.zeros(count, dtype=np.int64)
    for times in (starts, ends - 1):
        np.maximum.at(peaks, np.clip(np.searchsorted(edges, times, side="right") - 1, 0, count - 1), values)
    # a step longer than a stretch is seen from the middle of those that it covers
    middles = (edges[:-1] + edges[1:]) // 2
    step = np.minimum(np.searchsorted(ends, middles, side="right"), len(ends) - 1)
    return np.maximum(peaks, np.where(starts[step] <= middles, values[step], 0))


def _area(usage: Floats, terminal: Terminal) -> list[str]:
    """Filled up to the usage; the topmost level is reached by a full cache only."""
    levels = np.where(usage > 0, np.maximum(1, np.floor(usage * _LEVELS)), 0).astype(int)
    labels = {0: "100 % ┤", _HEIGHT // 2: "50 % ┤"}
    lines = []
    for line in range(_HEIGHT):
        floor = 4 * (_HEIGHT - 1 - line)
        heights = np.clip(levels - floor, 0, 4)
        cells = "".join(chr(0x2800 + _LEFT[a] + _RIGHT[b]) for a, b in zip(heights[::2], heights[1::2], strict=True))
        label = pad(labels.get(line, "┤"), _GUTTER, ">")
        cells = cells.replace(chr(0x2800), " ")
        lines.append(terminal.style(label, "dim") + terminal.style(cells, "cyan"))
    return lines


def time_axis(end_ns: int, width: int, tail: int, terminal: Terminal) -> list[str]:
    """The bottom of the chart and the times under it: at round numbers, at least nine columns apart.

    Args:
        width: columns of the chart; the last label may reach `tail` columns further.
    """
    tick_ns = next((tick for tick in _TICKS if end_ns * _LEAST_GAP <= width * tick), end_ns)
    rule = ["─"] * width
    labels = [" "] * (width + tail)
    for i in range(end_ns // tick_ns + 1):
        column = min(i * tick_ns * width // end_ns, width - 1)
        rule[column] = "┬"
        text = _time_label(i * tick_ns, tick_ns)
        if column + len(text) <= len(labels):
            labels[column : column + len(text)] = text
    left = terminal.style(pad("0 % ┼", _GUTTER, ">"), "dim")
    return [
        left + terminal.style("".join(rule), "dim"),
        " " * _GUTTER + terminal.style("".join(labels).rstrip(), "dim"),
    ]


def _time_label(t_ns: int, tick_ns: int) -> str:
    for unit, size in (("h", _HOUR), ("min", _MIN), ("s", NS_PER_S), ("ms", NS_PER_MS), ("µs", NS_PER_US), ("ns", 1)):
        if tick_ns % size == 0:
            return f"{t_ns // size} {unit}"
    raise AssertionError("every time is a whole number of ns")


def _preemptions(run: Run, width: int, terminal: Terminal) -> list[str]:
    lines = []
    times, outcomes = run.preemptions["t_ns"], run.preemptions["outcome"]
    for outcome, label, colour in (("recompute", "recomputed", "red"), ("swap", "swapped out", "magenta")):
        chosen = times[outcomes == outcome]
        if len(chosen):
            edges = np.array([run.record.totals.end_ns * i // width for i in range(1, width)], dtype=np.int64)
            counts = np.bincount(np.searchsorted(edges, chosen, side="right"), minlength=width)
            marks = _count_marks(counts)
            total = terminal.style(_in_all(len(chosen)), "dim")
            lines.append(_row(label, terminal.style(marks, colour) + " " + total, terminal))
    return lines


def _count_marks(counts: Ints) -> str:
    """A digit per column, or a bar where there are too many for digits."""
    if counts.max() < 10:
        return "".join(str(n) if n else " " for n in counts.tolist())
    return "".join(_BARS[int(level)] for level in np.ceil(counts / counts.max() * 8))


def _in_all(count: int) -> str:
    return f"{count:,} in all"
