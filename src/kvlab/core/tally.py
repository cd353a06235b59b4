"""Weighted records: how often each value occurred, and exact nearest-rank percentiles of them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from kvlab.units import ceil_div

EXACT_VALUES: Final = 2**15
"""Distinct values kept before a tally rounds them, to bound its memory."""
NO_LIMIT: Final = 1 << 62
_KEPT_BITS: Final = 11  # of a rounded value: low by less than 1 part in 1,024


class Tally:
    """Counts by value, in bounded memory.

    Exact up to `limit` distinct values; from then on the values are rounded down to 11 significant bits, `limit` of
    them at a time. `is_exact` says which. The number of values, their sum (so the mean) and the largest stay exact.
    """

    __slots__ = ("_limit", "_rounded", "_rounded_largest", "_rounded_total", "counts")

    def __init__(self, limit: int | None = EXACT_VALUES) -> None:
        self._limit = NO_LIMIT if limit is None else limit
        self.counts: Counter[int] = Counter()
        """Of exact values. A hot loop may write here, if it calls `trim` every thousand values or so."""
        self._rounded: dict[int, int] = {}
        self._rounded_total = 0  # exact sum of the values that were rounded
        self._rounded_largest = 0

    def add(self, value: int, count: int = 1) -> None:
        """`count` more occurrences of a non-negative value."""
        self.counts[value] += count
        self.trim()

    def update(self, values: Iterable[int]) -> None:
        """One more occurrence of each of these non-negative values."""
        self.counts.update(values)
        self.trim()

    def trim(self) -> None:
        """Rounds what was kept exactly, if that has become too much."""
        counts = self.counts
        if len(counts) <= self._limit:
            return
        for value, count in counts.items():
            drop = max(0, value.bit_length() - _KEPT_BITS)
            key = value >> drop << drop
            self._rounded[key] = self._rounded.get(key, 0) + count
            self._rounded_total += value * count
        self._rounded_largest = max(self._rounded_largest, *counts)
        counts.clear()

    @property
    def is_exact(self) -> bool:
        """Whether every percentile is a value that occurred; otherwise it is low by at most 1 part in 1,024."""
        return not self._rounded

    @property
    def num_values(self) -> int:
        """How many values were added."""
        return sum(self.counts.values()) + sum(self._rounded.values())

    @property
    def total(self) -> int:
        """Sum of all values."""
        return sum(value * count for value, count in self.counts.items()) + self._rounded_total

    @property
    def largest(self) -> int | None:
        """The largest value; None over no values."""
        return max([self._rounded_largest, *self.counts], default=None) if self.counts or self._rounded else None

    def mean(self) -> int | None:
        """Rounded down; None over no values."""
        num_values = self.num_values
        return self.total // num_values if num_values else None

    def items(self) -> list[tuple[int, int]]:
        """(value, count) pairs, smallest value first."""
        counts: dict[int, int] = self.counts
        if self._rounded:
            counts = dict(self._rounded)
            for value, count in self.counts.items():
                counts[value] = counts.get(value, 0) + count
        # numbers are sorted in a third of the time of pairs
        return [(value, counts[value]) for value in sorted(counts)]

    def percentiles(self, *percents: int) -> list[int | None]:
        """Nearest rank: the ceil(p x n / 100)-th smallest of the n values; None over no values."""
        items = self.items()
        if not items:
            return [None] * len(percents)
        up_to = list(accumulate(count for _, count in items))
        ranks = [max(1, ceil_div(percent * up_to[-1], 100)) for percent in percents]
        return [items[bisect_left(up_to, rank)][0] for rank in ranks]

    def count_above(self, limit: int) -> int:
        """Values greater than `limit`."""
        return sum(count for value, count in self.items() if value > limit)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.items() == other.items() and self.total == other.total

    __hash__ = None  # type: ignore[assignment] # a tally changes

    def __repr__(self) -> str:
        return f"Tally({self.num_values} values, {len(self.items())} distinct, mean {self.mean()})"
