"""Whether a run solves a mission, and how cheaply.

Stars: 1 for meeting every goal, 2 at no more than twice the cheapest price, 3 at the cheapest price. Only the levers of
the mission may differ from its setup: a run with other traffic is another question, not an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvlab.metrics import Metrics
from kvlab.metrics.catalog import METRICS
from kvlab.missions.model import Mission
from kvlab.prices import PRICES, Price, cost_of
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    """One goal of a mission, held against a run."""

    met: bool
    text: str
    value: str
    """What the run reached, with its unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a run is worth as an answer to a mission."""

    met: bool
    stars: int
    cost: int
    """Points for all levers that were moved."""
    goals: tuple[GoalResult, ...]
    strays: tuple[str, ...]
    """Settings that differ from the mission's setup and are none of its levers: with any, it can't be met."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "met": self.met,
            "stars": self.stars,
            "cost": self.cost,
            "goals": [{"met": goal.met, "text": goal.text, "value": goal.value} for goal in self.goals],
            "strays": list(self.strays),
        }


def judge(
    mission: Mission, scenario: Scenario, metrics: Metrics, prices: Mapping[str, Price] = PRICES
) -> Verdict | None:
    """The verdict on one run; None when it is of the other lab.

    Args:
        scenario: what was run; its name and service level don't matter.
        metrics: of that run.
    """
    if scenario.rules != mission.rules:
        return None
    before, after = mission.scenario().settings(), scenario.settings()
    moved = [field for field in after if after[field] != before[field] and SETTINGS[field].group != "slo"]
    strays = tuple(field for field in moved if field not in mission.levers)
    cost = cost_of(before, {field: after[field] for field in moved if field in mission.levers}, prices)
    values = metrics.values()
    goals = tuple(
        GoalResult(met=goal.met_by(metrics), text=goal.text, value=METRICS[goal.metric].format(values[goal.metric]))
        for goal in mission.goals
    )
    met = not strays and all(goal.met for goal in goals)
    return Verdict(met=met, stars=stars(cost, mission.cheapest) if met else 0, cost=cost, goals=goals, strays=strays)


def stars(cost: int, cheapest: int) -> int:
    """Stars of an answer that meets all goals at that price.

    >>> stars(2, 2), stars(4, 2), stars(5, 2)
    (3, 2, 1)
    """
    return 3 if cost <= cheapest else 2 if cost <= 2 * cheapest else 1
