from __future__ import annotations

import pytest

from kvlab.core.request import OpenLoop, Request


def test_requests_come_in_order_and_then_no_more() -> None:
    requests = [Request(0, 5, 10, (1,)), Request(1, 5, 10, (1,)), Request(2, 9, 10, (1,))]
    source = OpenLoop(iter(requests))
    for request in requests:
        assert source.next_arrival_ns() == request.arrival_ns
        assert source.pop() == request
        source.ended(request, 100)
    assert source.next_arrival_ns() is None


def test_no_requests_are_fine() -> None:
    assert OpenLoop([]).next_arrival_ns() is None


def test_requests_are_asked_for_one_at_a_time() -> None:
    asked = []

    def endless():
        for i in range(10**9):
            asked.append(i)
            yield Request(i, i, 10, (1,))

    source = OpenLoop(endless())
    source.pop()
    assert asked == [0, 1]


def test_popping_from_an_empty_source_is_the_callers_bug() -> None:
    with pytest.raises(AssertionError, match="no request left"):
        OpenLoop([]).pop()


def test_arrivals_out_of_order_are_the_workloads_bug() -> None:
    source = OpenLoop([Request(0, 5, 10, (1,)), Request(1, 4, 10, (1,))])
    with pytest.raises(AssertionError, match="out of order"):
        source.pop()
