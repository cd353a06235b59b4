"""Weighted records: how often each value occurred, and exact nearest-rank percentiles of them."""

from __future__ import annotations

from typing import Final

from kvlab.units import ceil_div

EXACT_VALUES: Final = 2**18
"""Distinct values kept before a tally rounds them, to bound its memory."""
_KEPT_BITS: Final = 11  # of a rounded value: off by at most 1 part in 2,048


class Tally:
    """Counts by value, in bounded memory.

    Exact up to `limit` distinct values; from then on values are rounded down to 11 significant bits. `is_exact` says
    which. The count, the sum (so the mean) and the extremes stay exact in both cases.
    """

    __slots__ = ("_counts", "_limit", "is_exact", "largest", "num_values", "total")

    def __init__(self, limit: int | None = EXACT_VALUES) -> None:
        self._counts: dict[int, int] = {}
        self._limit = limit
        self.is_exact = True
        self.num_values = 0
        self.total = 0
        """Sum of all values."""
        self.largest: int | None = None

    def add(self, value: int, count: int = 1) -> None:
        """`count` more occurrences of a non-negative value."""
        counts = self._counts
        self.num_values += count
        self.total += value * count
        if self.largest is None or value > self.largest:
            self.largest = value
        key = value if self.is_exact else _rounded(value)
        counts[key] = counts.get(key, 0) + count
        if self.is_exact and self._limit is not None and len(counts) > self._limit:
            self._round()

    def _round(self) -> None:
        self.is_exact = False
        rounded: dict[int, int] = {}
        for value, count in self._counts.items():
            key = _rounded(value)
            rounded[key] = rounded.get(key, 0) + count
        self._counts = rounded

    def items(self) -> list[tuple[int, int]]:
        """(value, count) pairs, smallest value first."""
        return sorted(self._counts.items())

    def percentiles(self, *percents: int) -> list[int | None]:
        """Nearest rank: the ceil(p x n / 100)-th smallest of the n values; None over no values."""
        found: list[int | None] = [None] * len(percents)
        ranks = sorted((max(1, ceil_div(p * self.num_values, 100)), i) for i, p in enumerate(percents))
        seen, todo = 0, 0
        for value, count in self.items():
            seen += count
            while todo < len(ranks) and ranks[todo][0] <= seen:
                found[ranks[todo][1]] = value
                todo += 1
        return found

    def mean(self) -> int | None:
        """Rounded down; None over no values."""
        return self.total // self.num_values if self.num_values else None

    def count_above(self, limit: int) -> int:
        """Values greater than `limit`."""
        return sum(count for value, count in self._counts.items() if value > limit)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.items() == other.items() and self.total == other.total

    __hash__ = None  # type: ignore[assignment] # a tally changes

    def __repr__(self) -> str:
        return f"Tally({self.num_values} values, {len(self._counts)} distinct, mean {self.mean()})"


def _rounded(value: int) -> int:
    drop = max(0, value.bit_length() - _KEPT_BITS)
    return value >> drop << drop
