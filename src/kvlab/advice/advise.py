"""`kvlab.advise`: the ranked list of fixes for a scenario and a service level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Any, Final

from kvlab.advice.goals import Goal
from kvlab.advice.levers import levers as usual_levers
from kvlab.advice.search import Change, Lab, Trial, cheaper_together, combined, singles, sufficient
from kvlab.errors import ConfigError
from kvlab.metrics import METRICS
from kvlab.prices import PRICES, Price
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.settings import Value
from kvlab.sweeps.workers import Executor, local

TILES: Final = (
    "throughput_tokens_per_s", "p95_ttft_ns", "p50_ttft_ns", "p99_gap_ns", "p95_tpot_ns", "p95_e2e_ns", "max_gap_ns",
    "preemptions_per_1000", "paused_ratio", "recomputed_tokens", "peak_kv_usage_ratio", "mean_running",
)  # fmt: skip
"""What a fix is told by, besides the goals."""
MOST_RUNS: Final = 2_000
"""Of combinations of two levers; then the search says that it stopped."""
MOST_FIXES: Final = 8
_WORSE: Final = 0.05
"""From that share on, a change for the worse is a side effect."""
_FULL: Final = 0.97
"""A pool that was never so full is no bottleneck."""
_NUMBERS: Final = (int, Decimal)
HOLDS: Final = "holds"
FIX: Final = "fix"
NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One metric before and after, over the seeds; None where a run has no value."""

    metric: str
    before: float | None
    """Median."""
    after: float | None
    """Median."""
    low: float | None
    high: float | None

    @property
    def is_worse(self) -> bool:
        """Whether the median got worse by a twentieth or more."""
        better = METRICS[self.metric].better
        if better is None or self.before is None or self.after is None:
            return False
        change = self.after - self.before if better == "lower" else self.before - self.after
        return change > _WORSE * max(abs(self.before), 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"metric": self.metric, "before": self.before, "after": self.after, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A change that keeps every goal with every seed."""

    change: Change
    price: int
    """Points of `kvlab.prices`."""
    reasons: tuple[str, ...]
    """What is really paid with, a sentence per setting."""
    effects: tuple[Effect, ...]

    @property
    def text(self) -> str:
        """The settings as kvlab writes them."""
        return ", ".join(f"{name}={SETTINGS[name].show(value)}" for name, value in self.change)

    @property
    def side_effects(self) -> tuple[Effect, ...]:
        """What got worse."""
        return tuple(effect for effect in self.effects if effect.is_worse)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "change": {name: SETTINGS[name].to_json(value) for name, value in self.change},
            "price": self.price,
            "reasons": list(self.reasons),
            "effects": [effect.to_dict() for effect in self.effects],
            "side_effects": [effect.metric for effect in self.side_effects],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do."""

    scenario: Scenario
    goals: tuple[Goal, ...]
    seeds: tuple[int, ...]
    verdict: str
    """`HOLDS`, `FIX` or `NOTHING`."""
    kv_is_bottleneck: bool
    """Whether requests were preempted, or the pool was full."""
    peak_kv_usage: float
    """Largest over the seeds, a ratio of 1."""
    fixes: tuple[Fix, ...]
    """The cheapest first."""
    nearest: Fix | None
    """Where nothing helps: the single lever that misses the goals least."""
    runs: int
    complete: bool
    """False: the search for pairs stopped at its limit."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "scenario": self.scenario.to_dict(),
            "slo": [goal.text for goal in self.goals],
            "seeds": list(self.seeds),
            "verdict": self.verdict,
            "kv_is_bottleneck": self.kv_is_bottleneck,
            "peak_kv_usage_ratio": self.peak_kv_usage,
            "fixes": [fix.to_dict() for fix in self.fixes],
            "nearest": None if self.nearest is None else self.nearest.to_dict(),
            "runs": self.runs,
            "complete": self.complete,
        }


def find_fixes(
    scenario: Scenario,
    goals: Sequence[Goal],
    *,
    seeds: Sequence[int] = (),
    levers: Mapping[str, Sequence[Value]] | None = None,
    prices: Mapping[str, Price] = PRICES,
    executor: Executor | None = None,
    most_runs: int = MOST_RUNS,
) -> Advice:
    """Searches single levers, then pairs that would be cheaper than the cheapest of them, then three at once.

    Args:
        goals: all must hold, with every seed.
        seeds: of the traffic; by default three from the scenario's own on. Every change sees the same requests.
        levers: setting -> values to try; by default those of `kvlab.advice.levers`.
    Raises:
        ConfigError: no goals, or the scenario itself can't run.
    """
    if not goals:
        raise ConfigError("slo", "", "needs at least one limit")
    first = scenario.traffic.seed
    tried = tuple(seeds) or (first, first + 1, first + 2)
    lab = Lab(local() if executor is None else executor)
    base = Trial((), 0, scenario)
    lab.run([base], tried)
    problem = next((outcome.error for outcome in base.outcomes.values() if outcome.error is not None), None)
    if problem is not None:
        raise ConfigError("scenario", scenario.name, problem)
    usage = max(_number(outcome.metrics, "peak_kv_usage_ratio") for outcome in base.outcomes.values())
    preempted = any(_number(outcome.metrics, "preemptions") > 0 for outcome in base.outcomes.values())

    def answer(
        verdict: str, fixes: Sequence[Trial] = (), nearest: Trial | None = None, *, complete: bool = True
    ) -> Advice:
        return Advice(
            scenario=scenario,
            goals=tuple(goals),
            seeds=tried,
            verdict=verdict,
            kv_is_bottleneck=preempted or usage >= _FULL,
            peak_kv_usage=usage,
            fixes=tuple(_fix(trial, base, goals, prices) for trial in fixes),
            nearest=None if nearest is None else _fix(nearest, base, goals, prices),
            runs=lab.runs,
            complete=complete,
        )

    if base.keeps(goals):
        return answer(HOLDS)
    moves = usual_levers(scenario) if levers is None else levers
    alone = singles(scenario, moves, prices)
    good = sufficient(lab, alone, goals, tried)
    found = _smallest_of_each(good, scenario)
    below = min((trial.price for trial in found), default=None)
    before = lab.runs
    together: list[Trial] = []
    for count in (2, 3):
        if count == 3 and (found or together):
            break  # three levers at once are a last resort
        limit = most_runs - (lab.runs - before)
        candidates = combined(scenario, moves, prices, count=count)
        together = cheaper_together(lab, candidates, goals, tried, below=below, most_runs=limit)
    complete = bool(together) or lab.runs - before < most_runs
    ranked = sorted([*found, *together], key=lambda trial: (trial.price, len(trial.change), _distance(trial, scenario)))
    if ranked:
        return answer(FIX, ranked[:MOST_FIXES], complete=complete)
    lab.run(alone, tried)
    nearest = min(alone, key=lambda trial: _missed(trial, goals), default=None)
    return answer(NOTHING, nearest=nearest, complete=complete)


def _smallest_of_each(good: Sequence[Trial], scenario: Scenario) -> list[Trial]:
    """Of each lever the cheapest sufficient value, and of those the nearest to what is set."""
    best: dict[str, Trial] = {}
    for trial in good:
        name = trial.change[0][0]
        rank = (trial.price, _distance(trial, scenario))
        if name not in best or rank < (best[name].price, _distance(best[name], scenario)):
            best[name] = trial
    return list(best.values())


def _distance(trial: Trial, scenario: Scenario) -> float:
    """How far a change goes: the sum of relative moves of numbers."""
    settings = scenario.settings()
    moves = [(settings[name], value) for name, value in trial.change]
    return sum(
        abs(float(value) - float(now)) / max(abs(float(now)), 1.0)
        for now, value in moves
        if isinstance(now, _NUMBERS) and isinstance(value, _NUMBERS)
    )


def _missed(trial: Trial, goals: Sequence[Goal]) -> float:
    """By how much a change misses the goals, the seeds added up."""
    missed = 0.0
    for outcome in trial.outcomes.values():
        if outcome.metrics is None:
            return float("inf")
        missed += sum(float(goal.missed_by(outcome.metrics)) for goal in goals)
    return missed


def _fix(trial: Trial, base: Trial, goals: Sequence[Goal], prices: Mapping[str, Price]) -> Fix:
    names = dict.fromkeys((*(goal.metric for goal in goals), *TILES))
    return Fix(
        change=trial.change,
        price=trial.price,
        reasons=tuple(prices[name].reason for name, _ in trial.change),
        effects=tuple(_effect(name, base, trial) for name in names),
    )


def _effect(metric: str, base: Trial, trial: Trial) -> Effect:
    before, after = _values(metric, base), _values(metric, trial)
    return Effect(
        metric=metric,
        before=median(before) if before else None,
        after=median(after) if after else None,
        low=min(after, default=None),
        high=max(after, default=None),
    )


def _values(metric: str, trial: Trial) -> list[float]:
    found = [None if outcome.metrics is None else outcome.metrics[metric] for outcome in trial.outcomes.values()]
    return [float(value) for value in found if value is not None]


def _number(metrics: Mapping[str, int | float | None] | None, name: str) -> float:
    return 0.0 if metrics is None else float(metrics[name] or 0)
