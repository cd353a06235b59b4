"""The contiguous space against a model that is a plain array of cells."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from kvlab.core.segments import SegmentSpace

Segment = tuple[int, int]


class SpaceMachine(RuleBasedStateMachine):
    """Segments come and go; whether and where one fits is answered by looking at every cell."""

    segments: Bundle[Segment] = Bundle("segments")

    @initialize(size=st.integers(1, 60))
    def start(self, size: int) -> None:
        self.space = SegmentSpace(size)
        self.is_free = [True] * size

    def _holes(self) -> list[Segment]:
        holes = []
        start = None
        for address, free in enumerate([*self.is_free, False]):
            if free and start is None:
                start = address
            elif not free and start is not None:
                holes.append((start, address - start))
                start = None
        return holes

    def _first_fit(self, length: int) -> int | None:
        return next((start for start, size in self._holes() if size >= length), None)

    @rule(target=segments, length=st.integers(1, 20))
    def take(self, length: int) -> object:
        start = self._first_fit(length)
        assert self.space.fits(length, 1) == (start is not None)
        if start is None:
            return multiple()
        assert self.space.take(length) == start
        self.is_free[start : start + length] = [False] * length
        return start, length

    @rule(target=segments, length=st.integers(1, 12), count=st.integers(1, 5))
    def take_all_or_none(self, length: int, count: int) -> object:
        """As many samples as `fits` promises can be placed one after the other, and no more than it promises."""
        before = list(self.is_free)
        taken = []
        while len(taken) < count and (start := self._first_fit(length)) is not None:
            self.is_free[start : start + length] = [False] * length
            taken.append((start, length))
        assert self.space.fits(length, count) == (len(taken) == count)
        if len(taken) < count:
            self.is_free = before
            return multiple()
        assert [(self.space.take(length), length) for _ in range(count)] == taken
        return multiple(*taken)

    @rule(segment=consumes(segments))
    def give_back(self, segment: Segment) -> None:
        start, length = segment
        self.space.give_back(start, length)
        self.is_free[start : start + length] = [True] * length

    @invariant()
    def same_holes_and_merged(self) -> None:
        holes = self._holes()
        assert self.space.holes() == holes
        assert self.space.num_free == sum(self.is_free)
        assert self.space.largest_hole == max((length for _, length in holes), default=0)


TestSpace = SpaceMachine.TestCase
TestSpace.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, derandomize=True)


def test_taking_what_does_not_fit_is_the_callers_bug() -> None:
    space = SegmentSpace(10)
    space.take(4)
    with pytest.raises(AssertionError, match=r"take\(7\) with a largest hole of 6"):
        space.take(7)


def test_an_empty_space_has_no_hole() -> None:
    space = SegmentSpace(0)
    assert (space.holes(), space.largest_hole, space.fits(1, 1)) == ([], 0, False)
