"""Missions of the labs: broken setups, what may be done about them, and a judge of what somebody did.

`missions_for(lab)` gives them in order, `judge(mission, scenario, metrics)` a verdict with stars, and
`mission.card()` the texts for a page. What each lever costs is in `kvlab.prices`.
"""

from __future__ import annotations

from typing import Final

from kvlab.errors import UnknownNameError
from kvlab.missions import block_table_lab, preemption_lab
from kvlab.missions.judge import GoalResult, Verdict, judge
from kvlab.missions.model import Goal, Guess, Mission, Question
from kvlab.setting_table import RULES

MISSIONS: Final[dict[str, Mission]] = {
    mission.id: mission for mission in (*preemption_lab.MISSIONS, *block_table_lab.MISSIONS)
}
"""Every mission by its id, each lab's in the order in which they unlock."""

__all__ = ["MISSIONS", "Goal", "GoalResult", "Guess", "Mission", "Question", "Verdict", "judge", "mission",
           "missions_for"]  # fmt: skip


def missions_for(rules: str) -> tuple[Mission, ...]:
    """The missions of one lab, in order; a real server has none.

    Raises:
        UnknownNameError: no such lab; names the nearest.
    """
    if rules not in RULES:
        raise UnknownNameError("lab", rules, RULES)
    return tuple(mission for mission in MISSIONS.values() if mission.rules == rules)


def mission(mission_id: str) -> Mission:
    """The mission of that id.

    Raises:
        UnknownNameError: no such mission; names the nearest.
    """
    if mission_id not in MISSIONS:
        raise UnknownNameError("mission", mission_id, MISSIONS)
    return MISSIONS[mission_id]
