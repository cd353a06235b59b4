"""A closed loop: a fixed number of users, each of whom sends its next request when the last one has ended.

user 0   |-- request 0 --|.think.|------ request 3 ------|
user 1   |---- request 1 ----|.think.|-- request 4 --|
user 2   |------------ request 2 ------------|.think.|-- ...
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from kvlab.core.request import Request
from kvlab.units import NS_PER_S

REFUSED_PAUSE_NS: Final = NS_PER_S
"""A user whose request was rejected waits at least that long: otherwise it would ask forever in one instant."""


class ClosedLoop:
    """`num_users` users who all start at 0.

    Ids number the requests in order of delivery and draw the lengths; equal arrivals are delivered in the order in
    which the ends that brought them about were reported. Nothing is sent at or after `until_ns`, nor more than
    `num_requests` in all.
    """

    def __init__(
        self,
        sizes: Iterator[tuple[int, tuple[int, ...]]],
        *,
        num_users: int,
        think_time_ns: int,
        until_ns: int | None,
        num_requests: int | None,
    ) -> None:
        self._sizes = sizes
        self._think_time_ns = think_time_ns
        self._until_ns = until_ns
        self._num_requests = num_requests
        self._issued = [(0, user) for user in range(num_users)]  # a heap of (arrival, order of issue)
        self._num_issued = num_users
        self._next_id = 0

    def next_arrival_ns(self) -> int | None:
        """When the next request arrives; None if all users wait for an answer, or none sends any more."""
        if not self._issued or self._next_id == self._num_requests:
            return None
        arrival_ns = self._issued[0][0]
        return None if self._until_ns is not None and arrival_ns >= self._until_ns else arrival_ns

    def pop(self) -> Request:
        """The next request, with the next free id."""
        assert self.next_arrival_ns() is not None, "pop() with no request left"
        arrival_ns, _ = heappop(self._issued)
        prompt_tokens, output_tokens = next(self._sizes)
        request = Request(self._next_id, arrival_ns, prompt_tokens, output_tokens)
        self._next_id += 1
        return request

    def ended(self, request: Request, t_ns: int) -> None:
        """Its user thinks, then sends the next one."""
        pause_ns = self._think_time_ns
        if t_ns == request.arrival_ns:  # rejected
            pause_ns = max(pause_ns, REFUSED_PAUSE_NS)
        heappush(self._issued, (t_ns + pause_ns, self._num_issued))
        self._num_issued += 1
