"""Waiting orders: who is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from kvlab.core.sequence import Job


class FcfsQueue:
    """First come, first served; a preempted request goes to the head."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def add(self, job: Job) -> None:
        """A new arrival."""
        self._jobs.append(job)

    def add_preempted(self, job: Job) -> None:
        """A request that lost its memory and waits again."""
        self._jobs.appendleft(job)

    def head(self) -> Job:
        """The next to be admitted; nobody waiting is the caller's bug."""
        return self._jobs[0]

    def pop(self) -> Job:
        """Takes the head out."""
        return self._jobs.popleft()


WAITING_ORDERS: Final = {"fcfs": FcfsQueue}
