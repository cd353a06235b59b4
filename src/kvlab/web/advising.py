"""The stream of "What is the cheapest fix?": fixes as they are found, and everything about them in words.

Lines: `start` (the limits, how many seeds), `fix` for each fix, `done` (the answer in words, and the fixes by rank). A
fix of one lever replaces an earlier one of the same lever. The page formats nothing: all texts are made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvlab.advice.advise import MOST_RUNS, find_fixes
from kvlab.advice.answer import FIX, HOLDS, Advice, Effect, Fix
from kvlab.advice.goals import Goal, parse_goals
from kvlab.advice.served import paired_seeds
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.metrics import METRICS
from kvlab.missions import MISSIONS
from kvlab.missions.model import Mission
from kvlab.scenarios import Scenario
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB, SETTINGS, VLLM_V1
from kvlab.settings import Value
from kvlab.sweeps.workers import Executor
from kvlab.web.controls import CONTROLS, TILES
from kvlab.web.errors import BAD_REQUEST, Refusal, RefusedError
from kvlab.web.queries import FindTrace, scenario_of
from kvlab.web.streams import Emit, Work

SEEDS: Final = 3
_LABELS: Final = {"trace_speed": "Speed of the trace", "prefill_budget_tokens": "Tokens of prefill per step"}
"""Of settings that are no knobs of the page."""
LIMITS: Final[dict[str, tuple[str, ...]]] = {
    PREEMPTION_LAB: (
        "preemptions_per_1000<=10", "itl_p99<=150ms", "ttft_p95<=2s", "ttft_p95<=10s", "paused<=0.5%",
        "throughput>=700",
    ),
    BLOCK_TABLE_LAB: (
        "ttft_p95<=2s", "ttft_p95<=5s", "itl_p99<=150ms", "preemptions<=2", "waste_ratio<=5%", "throughput>=800",
    ),
    VLLM_V1: (
        "ttft_p95<=2s", "itl_p99<=150ms", "tpot_p95<=50ms", "e2e_p95<=30s", "preemptions_per_1000<=10",
        "throughput>=1500",
    ),
}  # fmt: skip
"""What the page offers, by tab; the first ones are there from the start."""
_FIRST: Final = {PREEMPTION_LAB: 2, BLOCK_TABLE_LAB: 1, VLLM_V1: 2}


def limits_for(lab: str) -> dict[str, Any]:
    """What the panel starts with, and the limits that are one click away; ready for JSON."""
    return {"first": ", ".join(LIMITS[lab][: _FIRST[lab]]), "common": list(LIMITS[lab])}


def limits_of(mission: Mission) -> str:
    """A mission's goals as one writes limits."""
    return ", ".join(f"{goal.metric}{goal.op}{goal.limit}" for goal in mission.goals)


def advising(fields: dict[str, str], find_trace: FindTrace) -> Work:
    """The search for what keeps the limits `goals` (a text), beside the fields of a run.

    With `mission`, only its levers are moved, to the values that it offers, and its own requests decide, as they do
    when it is judged. Otherwise three seeds have to agree.

    Raises:
        KvlabError: as for a run, or no such mission.
        RefusedError: what is wrong with `goals`.
    """
    text, mission = fields.pop("goals", ""), fields.pop("mission", None)
    goals = _goals(text)
    scenario = scenario_of(fields, find_trace).scenario
    levers = None if mission is None else _levers(mission)
    seeds = paired_seeds(scenario, (), usual=SEEDS if mission is None else 1)

    def work(emit: Emit, executor: Executor) -> None:
        emit({"start": {"goals": [goal.text for goal in goals], "seeds": len(seeds), "note": _note(len(seeds))}})
        advice = find_fixes(
            scenario,
            goals,
            executor=executor,
            seeds=seeds,
            levers=levers,
            found=lambda fix: emit({"fix": _fix(fix, scenario, goals)}),
        )
        emit({"done": _done(advice, in_mission=mission is not None)})

    return work


def _goals(text: str) -> tuple[Goal, ...]:
    try:
        return parse_goals(text)
    except UnknownNameError as error:
        near = f'did you mean "{error.nearest}"? ' if error.nearest else ""
        message = (
            f'no figure is called "{error.value}": {near}Try ttft_p95, itl_p99 or tpot_mean; docs/metrics.md has all'
        )
    except ConfigError as error:
        message = f"{error.value}: {error.remedy}" if error.value else error.remedy
    raise RefusedError(Refusal(status=BAD_REQUEST, message=message, field="goals", value=text))


def _levers(mission: str) -> Mapping[str, tuple[Value, ...]]:
    if mission not in MISSIONS:
        raise UnknownNameError("mission", mission, MISSIONS)
    levers = MISSIONS[mission].levers
    return {name: tuple(SETTINGS[name].parse(text) for text in texts) for name, texts in levers.items()}


def _note(seeds: int) -> str:
    return f"Figures are medians of {seeds} seeds: the run above is one of them." if seeds > 1 else ""


def _fix(fix: Fix, scenario: Scenario, goals: tuple[Goal, ...]) -> dict[str, Any]:
    settings = scenario.settings()
    return {
        "changes": {name: SETTINGS[name].show(value) for name, value in fix.change},
        "moves": [
            _move(scenario.rules, name, SETTINGS[name].show(settings[name]), SETTINGS[name].show(value), reason)
            for (name, value), reason in zip(fix.change, fix.reasons, strict=True)
        ],
        "price": fix.price,
        "cost": "free" if fix.price == 0 else f"{fix.price} point{'' if fix.price == 1 else 's'}",
        "flags": fix.flags,
        "effects": [_effect(effect, scenario.rules, goals) for effect in fix.effects],
    }


def _move(rules: str, name: str, before: str, after: str, reason: str) -> dict[str, str]:
    """A move of a setting as the page's own knobs say it."""
    control = next((control for control in CONTROLS[rules] if control.name == name), None)
    if control is None:
        return {"name": name, "label": _LABELS.get(name, name), "before": before, "after": after, "reason": reason}
    return {
        "name": name,
        "label": control.label,
        "before": control.show(before),
        "after": control.show(after),
        "reason": reason,
    }


def _effect(effect: Effect, rules: str, goals: tuple[Goal, ...]) -> dict[str, Any]:
    metric = METRICS[effect.metric]
    low, high = metric.format(effect.low), metric.format(effect.high)
    limits = [f"{'at most' if goal.at_most else 'at least'} {metric.format(goal.limit)}"
              for goal in goals if goal.metric == effect.metric]  # fmt: skip
    return {
        "metric": effect.metric,
        "label": next((tile.label for tile in TILES[rules] if tile.name == effect.metric), metric.label),
        "limit": ", ".join(limits),
        "before": metric.format(effect.before),
        "after": metric.format(effect.after),
        "range": _range(low, high),
        "worse": effect.is_worse,
    }


def _range(low: str, high: str) -> str:
    """Both ends, the unit once.

    >>> _range("508 tokens/s", "617 tokens/s"), _range("590 ms", "7.05 s"), _range("0", "0")
    ('508 to 617 tokens/s', '590 ms to 7.05 s', '0')
    """
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if unit == high.partition(" ")[2] else f"{low} to {high}"


def _done(advice: Advice, *, in_mission: bool) -> dict[str, Any]:
    scenario, goals = advice.scenario, advice.goals
    return {
        "verdict": advice.verdict,
        "texts": _texts(advice, in_mission=in_mission),
        "now": [_effect(effect, scenario.rules, goals) for effect in advice.now],
        "fixes": [_fix(fix, scenario, goals) for fix in advice.fixes],
        "nearest": None if advice.nearest is None else _fix(advice.nearest, scenario, goals),
        "runs": advice.runs,
        "complete": advice.complete,
    }


def _texts(advice: Advice, *, in_mission: bool) -> list[str]:
    """The answer in sentences."""
    count = len(advice.seeds)
    everywhere = "" if count == 1 else f", with each of {count} seeds"
    texts = []
    if advice.verdict == HOLDS:
        texts.append(f"The limits hold already{everywhere}: nothing needs a fix.")
    elif advice.verdict == FIX:
        number = len(advice.fixes)
        texts.append(f"{'One fix keeps' if number == 1 else f'{number} fixes keep'} all limits{everywhere}.")
        if advice.crossover is not None and advice.preempts and not in_mission:
            texts.append(f"Swap or recompute? {advice.crossover.text.partition('. ')[0]}.")
    else:
        texts.append("No change of the levers keeps all limits" + (", alone or combined." if advice.complete else "."))
        if advice.nearest is not None:
            texts.append("The nearest is below: it misses the limits least.")
    if not advice.kv_is_bottleneck:
        usage = METRICS["peak_kv_usage_ratio"].format(advice.peak_kv_usage)
        texts.append(
            f"The KV cache is not the bottleneck: no request was preempted, and at most {usage} of the pool was in "
            "use. More memory won't help; look at the rate, the step time and the limit of running sequences."
        )
    if advice.turned_away:
        texts.append(
            f"{advice.turned_away:,} requests are turned away and in no figure: the limit rejected<=0 asks for them."
        )
    if not advice.complete:
        texts.append(
            f"The search for combinations stopped at its limit of {MOST_RUNS:,} runs: there may be "
            f"{'cheaper ones' if advice.fixes else 'one that works'}. `kvlab advise --most-runs` searches further."
        )
    return texts
