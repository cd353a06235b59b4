from __future__ import annotations

from itertools import repeat

import pytest

from kvlab.core.request import Request
from kvlab.units import NS_PER_S
from kvlab.workloads.closed_loop import REFUSED_PAUSE_NS, ClosedLoop


def loop(users: int, think_ns: int = 0, until_ns: int | None = None, num_requests: int | None = None) -> ClosedLoop:
    return ClosedLoop(
        repeat((10, (5,))), num_users=users, think_time_ns=think_ns, until_ns=until_ns, num_requests=num_requests
    )


def pop_all(source: ClosedLoop, now_ns: int) -> list[Request]:
    found = []
    while (arrival_ns := source.next_arrival_ns()) is not None and arrival_ns <= now_ns:
        found.append(source.pop())
    return found


def test_all_users_start_at_once_and_then_wait() -> None:
    source = loop(3)
    assert [(r.id, r.arrival_ns) for r in pop_all(source, 0)] == [(0, 0), (1, 0), (2, 0)]
    assert source.next_arrival_ns() is None


def test_the_next_request_comes_when_one_has_ended_and_its_user_has_thought() -> None:
    source = loop(2, think_ns=7)
    first, second = pop_all(source, 0)
    source.ended(second, 100)
    assert source.next_arrival_ns() == 107
    source.ended(first, 50)
    assert [(r.id, r.arrival_ns) for r in pop_all(source, 200)] == [(2, 57), (3, 107)]


def test_equal_arrivals_come_in_the_order_of_the_ends() -> None:
    sizes = iter([(n, (1,)) for n in range(1, 9)])
    source = ClosedLoop(sizes, num_users=3, think_time_ns=0, until_ns=None, num_requests=None)
    a, b, c = pop_all(source, 0)
    for request in (c, a, b):
        source.ended(request, 10)
    assert [(r.id, r.prompt_tokens) for r in pop_all(source, 10)] == [(3, 4), (4, 5), (5, 6)]


def test_it_stops_after_the_number_of_requests() -> None:
    source = loop(2, num_requests=3)
    first, second = pop_all(source, 0)
    source.ended(first, 10)
    source.ended(second, 11)
    assert [r.id for r in pop_all(source, 100)] == [2]
    assert source.next_arrival_ns() is None


def test_more_users_than_requests() -> None:
    assert len(pop_all(loop(5, num_requests=2), 0)) == 2


def test_nobody_sends_at_the_end_of_the_window() -> None:
    source = loop(2, until_ns=100)
    first, second = pop_all(source, 0)
    source.ended(first, 99)
    source.ended(second, 100)
    assert [r.arrival_ns for r in pop_all(source, 1000)] == [99]
    assert source.next_arrival_ns() is None


@pytest.mark.parametrize(("think_ns", "pause_ns"), [(0, REFUSED_PAUSE_NS), (3 * NS_PER_S, 3 * NS_PER_S)])
def test_a_refused_user_does_not_ask_again_in_the_same_instant(think_ns: int, pause_ns: int) -> None:
    source = loop(1, think_ns=think_ns)
    (request,) = pop_all(source, 0)
    source.ended(request, request.arrival_ns)
    assert source.next_arrival_ns() == pause_ns
