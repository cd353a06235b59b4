"""The stream of "What is the cheapest fix?": fixes as they are found, and everything about them in words.

Lines: `start` (goals, seeds), `fix` for each fix, `done` (the answer, with the fixes by price). All texts are made
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvlab.advice.advise import find_fixes
from kvlab.advice.answer import Advice, Effect, Fix
from kvlab.advice.goals import Goal, parse_goals
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.metrics import METRICS
from kvlab.missions import MISSIONS
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.settings import Value
from kvlab.sweeps.workers import Executor
from kvlab.web.queries import FindTrace, scenario_of
from kvlab.web.streams import Emit, Work

_SEEDS: Final = 3


def advising(fields: dict[str, str], find_trace: FindTrace) -> Work:
    """The search for `goals` (a text), beside the fields of a run. With `mission`, only its levers are moved.

    Raises:
        KvlabError: as for a run; or what is wrong with the goals, as the field `goals`.
    """
    text, mission = fields.pop("goals", ""), fields.pop("mission", None)
    goals = _goals(text)
    scenario = scenario_of(fields, find_trace).scenario
    levers = None if mission is None else _levers(mission)
    first = scenario.traffic.seed
    seeds = tuple(range(first, first + _SEEDS))

    def work(emit: Emit, executor: Executor) -> None:
        emit({"start": {"goals": [goal.text for goal in goals], "seeds": list(seeds)}})
        advice = find_fixes(
            scenario,
            goals,
            executor=executor,
            seeds=seeds,
            levers=levers,
            found=lambda fix: emit({"fix": _fix(fix, scenario, goals)}),
        )
        emit({"done": _done(advice, goals)})

    return work


def _goals(text: str) -> tuple[Goal, ...]:
    try:
        return parse_goals(text)
    except ConfigError as error:
        raise ConfigError("goals", text, str(error)) from None
    except UnknownNameError as error:
        raise ConfigError("goals", text, str(error)) from None


def _levers(mission: str) -> Mapping[str, tuple[Value, ...]]:
    if mission not in MISSIONS:
        raise UnknownNameError("mission", mission, MISSIONS)
    levers = MISSIONS[mission].levers
    return {name: tuple(SETTINGS[name].parse(text) for text in texts) for name, texts in levers.items()}


def _fix(fix: Fix, scenario: Scenario, goals: tuple[Goal, ...]) -> dict[str, Any]:
    settings = scenario.settings()
    return {
        **fix.to_dict(),
        "changes": {name: SETTINGS[name].show(value) for name, value in fix.change},
        "before": {name: SETTINGS[name].show(settings[name]) for name, _ in fix.change},
        "effects": [_effect(effect, goals) for effect in fix.effects],
    }


def _effect(effect: Effect, goals: tuple[Goal, ...]) -> dict[str, Any]:
    metric = METRICS[effect.metric]
    return {
        "metric": effect.metric,
        "label": metric.label,
        "before": metric.format(effect.before),
        "after": metric.format(effect.after),
        "low": metric.format(effect.low),
        "high": metric.format(effect.high),
        "worse": effect.is_worse,
        "goal": next((goal.text for goal in goals if goal.metric == effect.metric), None),
    }


def _done(advice: Advice, goals: tuple[Goal, ...]) -> dict[str, Any]:
    return {
        "verdict": advice.verdict,
        "kv_is_bottleneck": advice.kv_is_bottleneck,
        "fixes": [_fix(fix, advice.scenario, goals) for fix in advice.fixes],
        "nearest": None if advice.nearest is None else _fix(advice.nearest, advice.scenario, goals),
        "runs": advice.runs,
        "complete": advice.complete,
    }
