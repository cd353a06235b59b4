"""What a run is worth to each mission of its lab."""

from __future__ import annotations

from typing import Any

from kvlab.metrics import Metrics
from kvlab.missions import judge, missions_for
from kvlab.scenarios import Scenario


def verdicts(scenario: Scenario, metrics: Metrics) -> dict[str, Any]:
    """By mission, ready for JSON."""
    judged = ((mission.id, judge(mission, scenario, metrics)) for mission in missions_for(scenario.rules))
    return {name: verdict.to_dict() for name, verdict in judged if verdict is not None}
