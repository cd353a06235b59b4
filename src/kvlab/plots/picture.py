"""What both kinds of picture show, worked out once: titles, lines, marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kvlab.core.tally import Tally
from kvlab.metrics import METRICS
from kvlab.plots.series import (
    MAX_NINES,
    Floats,
    Line,
    is_restless,
    means,
    one_per_column,
    percentile_line,
    step_line,
    thin,
)
from kvlab.units import NS_PER_S, format_bytes, format_duration

if TYPE_CHECKING:
    from kvlab.results import Run

MARKED_PERCENTS: Final = (50, 95, 99)
_MEANS: Final = 240
"""Parts of a restless run's time axis."""


class Series(NamedTuple):
    """One quantity over time."""

    line: Line
    """What it was; of a restless run, means that show where it stood."""
    peaks: Line | None
    """Of a restless run, every peak, to be drawn faintly; None where `line` has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """One distribution."""

    title: str
    axis: str
    top: float
    """Of the percentile axis, in nines: what so many values can show."""
    line: Line
    """Seconds; share of values at most as large."""
    marks: tuple[tuple[int, int], ...]
    """(per cent, ns)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything that is drawn. x of time lines is in `time_unit`; KV series are in per cent of the capacity."""

    title: str
    subtitle: str
    time_unit: str
    time_title: str
    end: float
    arrivals_end: float | None
    """None: no window, or the run ended before it."""
    arrivals_end_label: str
    kv_title: str
    reserved: Series
    used: Series
    waiting: Series
    running: Series
    swapped: Series | None
    """None where nothing was ever swapped out."""
    recomputes: Floats
    swaps: Floats
    num_recomputes: int
    num_swaps: int
    latencies: tuple[Latencies, Latencies]


def picture(run: Run, columns: int) -> Picture:
    """The picture of a run, with lines thinned for `columns` pixels.

    Raises:
        ConfigError: the run didn't record its steps.
    """
    timeline, totals, capacity = run.timeline, run.record.totals, run.record.capacity_tokens
    unit, size_ns = _time_unit(totals.end_ns)
    starts, ends = timeline["start_ns"] / size_ns, timeline["t_ns"] / size_ns

    def corners(name: str, scale: float = 1.0) -> Line:
        return step_line(starts, ends, timeline[name] * scale)

    restless = any(is_restless(thin(corners(name), columns)) for name in ("reserved_tokens", "running"))

    def series(name: str, scale: float = 1.0) -> Series:
        line = corners(name, scale)
        peaks = thin(line, columns)
        return Series(means(line, _MEANS), peaks) if restless else Series(peaks, None)

    note = f" – lines: means of {format_duration(totals.end_ns // _MEANS)}, faint: every peak" if restless else ""
    times, outcomes = run.preemptions["t_ns"] / size_ns, run.preemptions["outcome"]
    end = totals.end_ns / size_ns
    window = run.window_ns if run.window_ns is not None and run.window_ns < totals.end_ns else None
    percent = 100.0 / capacity
    return Picture(
        title=run.scenario.name,
        subtitle=_subtitle(run),
        time_unit=unit,
        time_title=f"time ({unit}){note}",
        end=end,
        arrivals_end=None if window is None else window / size_ns,
        arrivals_end_label="" if window is None else f"arrivals end ({format_duration(window)})",
        kv_title=f"KV cache, % of {_capacity(run)}",
        reserved=series("reserved_tokens", percent),
        used=series("used_tokens", percent),
        waiting=series("waiting"),
        running=series("running"),
        swapped=series("swapped") if timeline["swapped"].any() else None,
        recomputes=one_per_column(times[outcomes != "swap"], end, columns),
        swaps=one_per_column(times[outcomes == "swap"], end, columns),
        num_recomputes=int(np.count_nonzero(outcomes != "swap")),
        num_swaps=int(np.count_nonzero(outcomes == "swap")),
        latencies=(
            _latencies("Time to first token (TTFT)", "requests", "TTFT, log scale", run.record.ttft),
            _latencies("Gap between tokens (ITL)", "gaps", "gap, log scale", run.record.gap),
        ),
    )


def _latencies(title: str, counted: str, axis: str, tally: Tally) -> Latencies:
    values, share = percentile_line(tally)
    marks = tuple(
        (percent, value)
        for percent, value in zip(MARKED_PERCENTS, tally.percentiles(*MARKED_PERCENTS), strict=True)
        if value is not None
    )
    return Latencies(
        title=f"{title}, {tally.num_values:,} {counted}",
        axis=axis,
        top=min(MAX_NINES, max(3.0, float(len(str(tally.num_values))))),
        line=(values / NS_PER_S, share),
        marks=marks,
    )


def _time_unit(end_ns: int) -> tuple[str, int]:
    """The unit in which a run's time axis reads easily, and its length in ns."""
    if end_ns <= 600 * NS_PER_S:
        return "s", NS_PER_S
    return ("min", 60 * NS_PER_S) if end_ns <= 3 * 3600 * NS_PER_S else ("h", 3600 * NS_PER_S)


def _capacity(run: Run) -> str:
    size = run.metrics.kv_capacity_bytes
    return f"{run.record.capacity_tokens:,} tokens" + ("" if size is None else f" ({format_bytes(size)})")


def _subtitle(run: Run) -> str:
    metrics = run.metrics

    def shown(name: str) -> str:
        return METRICS[name].format(metrics.values()[name])

    rejected = f", {metrics.rejected:,} rejected" if metrics.rejected else ""
    parts = [
        f"{metrics.finished:,} of {metrics.arrived:,} requests finished{rejected}",
        f"{shown('throughput_tokens_per_s')}",
        f"TTFT p99 {shown('p99_ttft_ns')}",
        f"ITL p99 {shown('p99_gap_ns')}, longest {shown('max_gap_ns')}",
        f"{shown('preemptions_per_1000')} preemptions per 1,000",
    ]
    if run.interrupted:
        parts.insert(0, f"stopped at {format_duration(metrics.end_ns)}, partial")
    return " · ".join(parts)
