"""Waiting orders: who is next."""

from __future__ import annotations

from collections import deque
from typing import Final

from kvlab.core.sequence import Job


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


WAITING_ORDERS: Final = {"fcfs": FcfsQueue}
