"""Whether a run keeps a service level: every goal, and nobody turned away to make it easy.

Latencies are over finished requests: a server that rejects all long ones is fast. So a run in which requests were
rejected or never ended keeps nothing, unless a goal says how many may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kvlab.advice.goals import Goal
from kvlab.scenarios import Scenario

TURNED_AWAY: Final = ("rejected", "unfinished")


def turned_away(metrics: Mapping[str, Any]) -> int:
    """Requests of a run that got no answer."""
    return sum(int(metrics.get(name) or 0) for name in TURNED_AWAY)


def keeps(metrics: Mapping[str, Any] | None, goals: Sequence[Goal]) -> bool:
    """Whether a run with these metrics keeps all goals; a run that was impossible doesn't."""
    if metrics is None or not all(goal.met_by(metrics) for goal in goals):
        return False
    return not turned_away(metrics) or any(goal.metric in TURNED_AWAY for goal in goals)


def missed(metrics: Mapping[str, Any] | None, goals: Sequence[Goal]) -> float:
    """By how much a run misses the goals, as shares of their limits added up; infinity where it was impossible.

    Requests that got no answer count as their share of all, where no goal is about them.
    """
    if metrics is None:
        return float("inf")
    shares = sum(float(goal.missed_by(metrics)) for goal in goals)
    away = turned_away(metrics)
    if not away or any(goal.metric in TURNED_AWAY for goal in goals):
        return shares
    return shares + away / max(away, int(metrics.get("arrived") or 0))


def paired_seeds(scenario: Scenario, seeds: Sequence[int], *, usual: int) -> tuple[int, ...]:
    """The seeds to try: those given, else so many from the scenario's own on; its own alone where it draws nothing."""
    first = scenario.traffic.seed
    if "seed" in scenario.traffic.idle():
        return (first,)
    return tuple(seeds) or tuple(range(first, first + usual))
