"""Lines that a picture can show: steps as corners, long runs thinned without losing a peak, tallies as percentiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvlab.core.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Line = tuple[Floats, Floats]
"""x and y, of one length."""


def step_line(starts: Floats, ends: Floats, values: Floats) -> Line:
    """Corners of a line that is `values[i]` from `starts[i]` to `ends[i]`, and 0 before, between and after.

    Steps are in order and do not overlap.
    """
    if not len(starts):
        return np.zeros(0), np.zeros(0)
    x = np.column_stack([starts, ends]).ravel()
    y = np.repeat(values, 2)
    idle = np.flatnonzero(starts[1:] > ends[:-1])  # after these steps nothing ran for a while
    at = np.repeat(2 * (idle + 1), 2)
    x = np.insert(x, at, np.column_stack([ends[idle], starts[idle + 1]]).ravel())
    y = np.insert(y, at, 0.0)
    return np.concatenate([[0.0, starts[0]], x, [ends[-1]]]), np.concatenate([[0.0, 0.0], y, [0.0]])


def thin(line: Line, columns: int) -> Line:
    """At most four points per pixel column: its first, lowest, highest and last, so the drawing stays the same.

    x must not fall.
    """
    x, y = line
    if len(x) <= 4 * columns or x[-1] == x[0]:
        return line
    column = np.minimum(((x - x[0]) * (columns / (x[-1] - x[0]))).astype(np.int64), columns - 1)
    first = np.flatnonzero(_rises(column))
    last = np.concatenate([first[1:], [len(x)]]) - 1
    group = np.repeat(np.arange(len(first)), last - first + 1)
    lowest = _first_of_group(y == np.minimum.reduceat(y, first)[group], group)
    highest = _first_of_group(y == np.maximum.reduceat(y, first)[group], group)
    kept = np.unique(np.concatenate([first, lowest, highest, last]))
    return x[kept], y[kept]


def _first_of_group(chosen: npt.NDArray[np.bool_], group: Ints) -> Ints:
    found: Ints = np.flatnonzero(chosen)
    first: Ints = found[_rises(group[found])]
    return first


def _rises(sorted_values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before; the first always does."""
    return np.concatenate([[True], sorted_values[1:] != sorted_values[:-1]])


def is_restless(line: Line) -> bool:
    """Whether a line goes up and down so often that only its outline could be seen: over 300 times its range."""
    _, y = line
    return bool(len(y)) and float(np.abs(np.diff(y)).sum()) > 300 * float(np.ptp(y))


def means(line: Line, bins: int) -> Line:
    """The line's mean over each of `bins` equal parts of x, weighted by x, as corners. x must not fall."""
    x, y = line
    area = np.concatenate([[0.0], np.cumsum((y[1:] + y[:-1]) / 2 * np.diff(x))])
    edges = np.linspace(x[0], x[-1], bins + 1)
    mean = np.diff(np.interp(edges, x, area)) / np.diff(edges)
    return np.repeat(edges, 2)[1:-1], np.repeat(mean, 2)


def one_per_column(times: Floats, end: float, columns: int) -> Floats:
    """Times of events, at most one per pixel column of 0..end."""
    if len(times) <= 1 or end <= 0:
        return times
    kept: Floats = times[_rises((times * (columns / end)).astype(np.int64))]
    return kept


MAX_NINES = 5.0
"""Top of a percentile axis: 99.999 %."""
SHOWN_SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
"""Ticks of a percentile axis."""


def nines(share: Floats) -> Floats:
    """Where a share of 0..1 stands on a percentile axis that spreads the tail: 0 %, 90 %, 99 %, 99.9 % are 0, 1, 2, 3.

    1 stands at the top, at MAX_NINES.
    """
    height: Floats = -np.log10(np.maximum(1.0 - share, 10.0**-MAX_NINES))
    return height


def percentile_line(tally: Tally, points: int = 1000) -> Line:
    """Values of a tally against the share of values at most as large, thinned to about `points` corners."""
    items = tally.items()
    if not items:
        return np.zeros(0), np.zeros(0)
    values = np.array([value for value, _ in items], dtype=np.float64)
    share = np.cumsum([count for _, count in items]) / tally.num_values
    # a corner per visible difference in height; the first and the last value always
    row = (nines(share) * (points / MAX_NINES)).astype(np.int64)
    kept = _rises(row)
    kept[-1] = True
    values, share = values[kept], share[kept]
    return np.repeat(values, 2), np.concatenate([[0.0], np.repeat(share, 2)[:-1]])
