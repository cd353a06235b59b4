"""Waiting orders: who is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, Protocol

from kvlab.core.sequence import Job


class Queue(Protocol):
    """Waiting requests. Iterates in the order of service."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Job]: ...

    def add(self, job: Job, /) -> None:
        """A new arrival."""

    def add_preempted(self, job: Job, /) -> None:
        """A request that lost its memory and waits again."""

    def head(self) -> Job:
        """The next to be admitted; nobody waiting is the caller's bug."""

    def take_head(self) -> Job:
        """Takes the next to be admitted out of the queue."""


class FcfsQueue(deque[Job]):
    """First come, first served; a preempted request goes to the head. Iterates in the order of service."""

    add = deque.append
    """A new arrival."""
    add_preempted = deque.appendleft
    """A request that lost its memory and waits again."""
    take_head = deque.popleft
    """Takes the next to be admitted out of the queue."""

    def head(self) -> Job:
        """The next to be admitted; nobody waiting is the caller's bug."""
        return self[0]


class PriorityQueue:
    """The most urgent first: smallest priority, then earliest arrival, then rank, then id."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, int, Job]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Job]:
        return (entry[-1] for entry in sorted(self._heap))

    def add(self, job: Job) -> None:
        """A new arrival, or one that lost its memory and waits again."""
        request = job.request
        heappush(self._heap, (request.priority, request.arrival_ns, request.rank, job.id, job))

    add_preempted = add

    def head(self) -> Job:
        """The next to be admitted; nobody waiting is the caller's bug."""
        return self._heap[0][-1]

    def take_head(self) -> Job:
        """Takes it out of the queue."""
        return heappop(self._heap)[-1]


WAITING_ORDERS: Final[dict[str, Callable[[], Queue]]] = {"fcfs": FcfsQueue, "priority": PriorityQueue}
