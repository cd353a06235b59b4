"""The contiguous address space: first fit by lowest address, freed ranges merge with free neighbours."""

from __future__ import annotations

from bisect import bisect_left


class SegmentSpace:
    """Addresses 0..size-1. Holes are kept as two parallel lists, sorted by address, never adjacent and never empty."""

    __slots__ = ("_lengths", "_starts", "num_free", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_free = size
        self._starts = [0] if size else []
        self._lengths = [size] if size else []

    @property
    def largest_hole(self) -> int:
        """Length of the biggest free range; 0 when full."""
        return max(self._lengths, default=0)

    def fits(self, length: int, count: int) -> bool:
        """Whether `count` segments of `length` can be taken one after the other."""
        return sum(hole // length for hole in self._lengths) >= count

    def take(self, length: int) -> int:
        """First address of the lowest hole that is long enough. None such is the caller's bug: ask `fits` first."""
        for i, hole in enumerate(self._lengths):
            if hole >= length:
                start = self._starts[i]
                if hole == length:
                    del self._starts[i], self._lengths[i]
                else:
                    self._starts[i] += length
                    self._lengths[i] -= length
                self.num_free -= length
                return start
        raise AssertionError(f"take({length}) with a largest hole of {self.largest_hole}")

    def give_back(self, start: int, length: int) -> None:
        """Frees a taken segment."""
        i = bisect_left(self._starts, start)
        after = i < len(self._starts) and self._starts[i] == start + length
        before = i > 0 and self._starts[i - 1] + self._lengths[i - 1] == start
        if before and after:
            self._lengths[i - 1] += length + self._lengths[i]
            del self._starts[i], self._lengths[i]
        elif before:
            self._lengths[i - 1] += length
        elif after:
            self._starts[i] = start
            self._lengths[i] += length
        else:
            self._starts.insert(i, start)
            self._lengths.insert(i, length)
        self.num_free += length
        assert self.num_free <= self.size, f"{self.num_free} free of {self.size}"

    def holes(self) -> list[tuple[int, int]]:
        """(start, length) of each free range, lowest address first."""
        return list(zip(self._starts, self._lengths, strict=True))
