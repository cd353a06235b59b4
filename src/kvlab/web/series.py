"""The run over time, in at most 720 equal bins: what a chart draws. A bin shows its highest value: no peak is lost."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from kvlab.columns import Columns
from kvlab.core.records import StepRecord
from kvlab.units import NS_PER_S

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

MAX_BINS: Final = 720
MAX_SNAPSHOTS: Final = 200


_FIGURES: Final = ("t_ns", "dur_ns", "running", "waiting", "swapped", "reserved_tokens")
_PLACES: Final = {name: StepRecord._fields.index(name) for name in _FIGURES}


def step_lines(steps: Sequence[StepRecord]) -> Columns:
    """What the page draws of each step, and `start_ns`: a third of `Run.timeline`, in a third of its time."""
    columns = {
        name: np.fromiter(map(itemgetter(place), steps), np.int64, len(steps)) for name, place in _PLACES.items()
    }
    return {"start_ns": columns["t_ns"] - columns["dur_ns"], **columns}


def series(timeline: Columns, preemptions: Columns, capacity_tokens: int, end_ns: int) -> dict[str, Floats]:
    """One f32 array of equal length per line of the chart.

    `t` is the start of each bin in s; `usage` 0..1; `queue`, `running`, `swapped` the most in the bin; `recomputes`
    and `swaps` preemptions in the bin. One bin of zeros for a run without steps.
    """
    if not end_ns:
        return {name: np.zeros(1, np.float32) for name in _LINES}
    bins = min(MAX_BINS, max(1, end_ns))
    edges = bin_edges(end_ns, bins)
    most = _Most(timeline["start_ns"], timeline["t_ns"], edges)
    swaps = preemptions["outcome"] == "swap"
    times = preemptions["t_ns"]
    lines = {
        "t": edges[:-1] / NS_PER_S,
        "usage": most(timeline["reserved_tokens"]) / capacity_tokens,
        "queue": most(timeline["waiting"]),
        "running": most(timeline["running"]),
        "swapped": most(timeline["swapped"]),
        "recomputes": _counts(times[~swaps], edges),
        "swaps": _counts(times[swaps], edges),
    }
    return {name: line.astype(np.float32) for name, line in lines.items()}


_LINES: Final = ("t", "usage", "queue", "running", "swapped", "recomputes", "swaps")


def bin_edges(end_ns: int, bins: int) -> Ints:
    """`bins` + 1 whole times from 0 to `end_ns`, evenly spaced; exact, whatever the length of the run."""
    return np.array([end_ns * i // bins for i in range(bins + 1)], np.int64)


class _Most:
    """The highest value of the steps that overlap each bin; 0 where no step runs."""

    def __init__(self, starts: Ints, ends: Ints, edges: Ints) -> None:
        first = np.searchsorted(ends, edges[:-1], side="right")
        after = np.searchsorted(starts, edges[1:], side="left")
        self._runs = after > first
        self._ranges = np.column_stack([first[self._runs], after[self._runs]]).ravel()

    def __call__(self, values: Ints) -> npt.NDArray[np.float64]:
        most = np.zeros(len(self._runs))
        # one element more, as a range may end behind the last step; every other result is between two ranges
        most[self._runs] = np.maximum.reduceat(np.append(values, 0), self._ranges)[::2]
        return most


def _counts(times: Ints, edges: Ints) -> npt.NDArray[np.float64]:
    places = np.searchsorted(edges, times, side="right") - 1
    return np.bincount(places, minlength=len(edges) - 1).astype(np.float64)


class Moments:
    """The evenly spaced moments that the memory map shows, from 0 to the end of the run, where all is free again.

    `steps` is the step that runs at each moment, -1 where none does. `first[s]` is the first moment that shows what
    step s took; `after[s]` the first that no longer shows what was freed before step s.
    """

    def __init__(self, timeline: Columns, end_ns: int, count: int = MAX_SNAPSHOTS) -> None:
        self.times_ns: Ints = bin_edges(end_ns, count - 1) if end_ns else np.zeros(1, np.int64)
        number = np.searchsorted(timeline["t_ns"], self.times_ns, side="right")
        starts = np.append(timeline["start_ns"], np.iinfo(np.int64).max)
        runs = starts[number] <= self.times_ns
        self.steps: Ints = np.where(runs, number, -1)
        # steps are even numbers, the time before step s is the odd one below
        places = np.where(runs, 2 * number, 2 * number - 1)
        steps = 2 * np.arange(len(timeline["t_ns"]) + 1)
        self.first: Ints = np.searchsorted(places, steps, side="left")
        self.after: Ints = np.searchsorted(places, steps - 1, side="left")

    def __len__(self) -> int:
        return len(self.times_ns)

    def values(self, column: Ints) -> npt.NDArray[np.float64]:
        """A figure of the timeline at each moment; 0 where no step runs."""
        if not len(column):
            return np.zeros(len(self))
        return np.where(self.steps < 0, 0, column[self.steps]).astype(np.float64)
