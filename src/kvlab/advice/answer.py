"""What advice is made of: effects, fixes, and the answer with all of them; frozen, for JSON and dataframes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kvlab.advice.goals import Goal
from kvlab.advice.levers import in_force
from kvlab.advice.search import Change, Trial
from kvlab.metrics import METRICS
from kvlab.prices import Price
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.tabular import Tabular
from kvlab.units import counted
from kvlab.vllm_print import changed_flags

if TYPE_CHECKING:
    import pyarrow as pa

    from kvlab.advice.crossover import Crossover

TILES: Final = (
    "throughput_tokens_per_s", "mean_ttft_ns", "p50_ttft_ns", "p95_ttft_ns", "p99_ttft_ns", "p99_gap_ns", "p95_tpot_ns",
    "p95_e2e_ns", "max_gap_ns", "preemptions_per_1000", "paused_ratio", "recomputed_tokens", "peak_kv_usage_ratio",
    "mean_running", "output_tokens",
)  # fmt: skip
"""What a fix is told by, besides the goals."""
_WORSE: Final = 0.05
"""From that share on, a change for the worse is a side effect."""
_FEWER_IS_WORSE: Final = ("output_tokens",)
"""Of the same traffic: answers are cut, or users sent away. As a figure of a run more is neither better nor worse."""
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
        better = "higher" if self.metric in _FEWER_IS_WORSE else METRICS[self.metric].better
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
    before: Change
    """The same settings as they are now; a limit that is left to the engine as the engine has it."""
    price: int
    """Points of `kvlab.prices`."""
    reasons: tuple[str, ...]
    """What is really paid with, a sentence per setting."""
    effects: tuple[Effect, ...]
    flags: str
    """What of the `vllm serve` command changes; empty where nothing of it does."""

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
            "before": {name: SETTINGS[name].to_json(value) for name, value in self.before},
            "price": self.price,
            "reasons": list(self.reasons),
            "flags": self.flags,
            "effects": [effect.to_dict() for effect in self.effects],
            "side_effects": [effect.metric for effect in self.side_effects],
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Advice(Tabular):
    """What to do."""

    scenario: Scenario
    goals: tuple[Goal, ...]
    seeds: tuple[int, ...]
    verdict: str
    """`HOLDS`, `FIX` or `NOTHING`."""
    kv_is_bottleneck: bool
    """Whether requests were preempted, the pool was full, or nobody found a range in it that was long enough."""
    peak_kv_usage: float
    """Largest over the seeds, a ratio of 1."""
    turned_away: int
    """Requests of the scenario as it is that are rejected or never end, most over the seeds: they are in no figure."""
    now: tuple[Effect, ...]
    """The scenario as it is, after being the same as before."""
    fixes: tuple[Fix, ...]
    """The cheapest first; of equal price, the one with the fewest side effects."""
    nearest: Fix | None
    """Where nothing helps: the single lever that misses the goals least."""
    crossover: Crossover | None
    """Swap or recompute for this server; None where nothing is ever preempted by its rules."""
    runs: int
    complete: bool
    """False: the search for combinations stopped at its limit."""

    def __repr__(self) -> str:
        first = f", the first {self.fixes[0].text}" if self.fixes else ""
        return f"<Advice on {self.scenario.name}: {self.verdict}{first}; {counted(self.runs, 'run')}>"

    @property
    def preempts(self) -> bool:
        """Whether the scenario preempts as it is."""
        return any(effect.metric == "preemptions_per_1000" and effect.high for effect in self.now)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "scenario": self.scenario.to_dict(),
            "slo": [goal.text for goal in self.goals],
            "seeds": list(self.seeds),
            "verdict": self.verdict,
            "kv_is_bottleneck": self.kv_is_bottleneck,
            "peak_kv_usage_ratio": self.peak_kv_usage,
            "turned_away": self.turned_away,
            "now": [{"metric": e.metric, "value": e.before, "low": e.low, "high": e.high} for e in self.now],
            "fixes": [fix.to_dict() for fix in self.fixes],
            "nearest": None if self.nearest is None else self.nearest.to_dict(),
            "crossover": None if self.crossover is None else self.crossover.summary(),
            "runs": self.runs,
            "complete": self.complete,
        }

    def table(self) -> pa.Table:
        """One row per fix and metric: rank, change, price, flags, metric, before, after, low, high, worse."""
        import pyarrow as pa

        pairs = [(rank, fix, effect) for rank, fix in enumerate(self.fixes, 1) for effect in fix.effects]
        columns = {
            "rank": pa.array([rank for rank, _, _ in pairs], pa.int64()),
            "change": pa.array([fix.text for _, fix, _ in pairs], pa.string()),
            "price": pa.array([fix.price for _, fix, _ in pairs], pa.int64()),
            "flags": pa.array([fix.flags for _, fix, _ in pairs], pa.string()),
            "metric": pa.array([effect.metric for _, _, effect in pairs], pa.string()),
        }
        for name in ("before", "after", "low", "high"):
            columns[name] = pa.array([getattr(effect, name) for _, _, effect in pairs], pa.float64())
        columns["worse"] = pa.array([effect.is_worse for _, _, effect in pairs], pa.bool_())
        return pa.table(columns)


def fix_of(trial: Trial, base: Trial, goals: Sequence[Goal], prices: Mapping[str, Price]) -> Fix:
    """A trial beside the scenario as it was."""
    now = in_force(base.scenario)
    return Fix(
        change=trial.change,
        before=tuple((name, now[name]) for name, _ in trial.change),
        price=trial.price,
        reasons=tuple(prices[name].reason for name, _ in trial.change),
        effects=effects_of(trial, base, goals),
        flags=changed_flags(base.scenario, trial.scenario),
    )


def effects_of(trial: Trial, base: Trial, goals: Sequence[Goal]) -> tuple[Effect, ...]:
    """The goals' metrics first, then the tiles."""
    return tuple(_effect(name, base, trial) for name in dict.fromkeys((*(goal.metric for goal in goals), *TILES)))


def _effect(metric: str, base: Trial, trial: Trial) -> Effect:
    before, after = base.values(metric), trial.values(metric)
    return Effect(
        metric=metric,
        before=median(before) if before else None,
        after=median(after) if after else None,
        low=min(after, default=None),
        high=max(after, default=None),
    )
