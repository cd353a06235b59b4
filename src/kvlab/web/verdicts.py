"""The missions of a lab, and what a run is worth to each."""

from __future__ import annotations

from typing import Any

from kvlab.metrics import Metrics
from kvlab.scenarios import Scenario


def missions_of(lab: str) -> tuple[Any, ...]:
    """In the order of the page."""
    try:
        from kvlab.missions import missions_for
    except ImportError:
        return ()
    return missions_for(lab)


def verdicts(scenario: Scenario, metrics: Metrics) -> dict[str, Any]:
    """By mission, ready for JSON."""
    found = missions_of(scenario.rules)
    if not found:
        return {}
    from kvlab.missions import judge

    return {mission.id: verdict.to_dict() for mission in found if (verdict := judge(mission, scenario, metrics))}
