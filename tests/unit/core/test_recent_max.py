from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.recent_max import RecentMax


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=40))
def test_it_agrees_with_the_whole_list(pushes: list[tuple[int, int]]) -> None:
    recent, seen, step = RecentMax(), [], 0
    for gap, value in pushes:
        step += gap
        recent.push(step, value)
        seen.append((step, value))
    for start in range(step + 2):
        assert recent.since(start) == max((value for at, value in seen if at >= start), default=0)


def test_it_keeps_only_what_no_later_value_reaches() -> None:
    recent = RecentMax()
    for step in range(1000):
        recent.push(step, step % 10)
    assert len(recent._steps) == 1
    assert recent.since(0) == 9
