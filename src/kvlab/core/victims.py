"""Victim choice: which running request loses its memory. What becomes of it is another piece (preemption.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvlab.core.sequence import Job

VictimPolicy = Callable[[dict[int, Job]], Job]
"""From the running requests, in admission order, to one of them."""


def latest_admitted(running: dict[int, Job]) -> Job:
    """The one that entered the running set last. Source: MODEL.md, "Preemption lab" 1 and "Block-table lab" 1."""
    return next(reversed(running.values()))


VICTIM_POLICIES: Final[dict[str, VictimPolicy]] = {"latest-admitted": latest_admitted}
