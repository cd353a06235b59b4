"""The largest of the latest values, for any start, without keeping them all."""

from __future__ import annotations

from bisect import bisect_left


class RecentMax:
    """Step durations, of which only those are kept that no later one reaches: a falling staircase."""

    __slots__ = ("_steps", "_values")

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._values: list[int] = []

    def push(self, step: int, value: int) -> None:
        """The value of a step; steps come in rising order. Amortised constant time."""
        values = self._values
        steps = self._steps
        while values and values[-1] <= value:
            values.pop()
            steps.pop()
        values.append(value)
        steps.append(step)

    def since(self, step: int) -> int:
        """The largest value of `step` or later; 0 if there is none."""
        i = bisect_left(self._steps, step)
        return self._values[i] if i < len(self._values) else 0
