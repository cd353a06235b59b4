"""What a mission is: a broken setup, the levers that may be moved, goals on tiles, and words around them.

Missions are data. Whether one is solved, and at what price, is decided in `kvlab.missions.judge`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal

from kvlab.advice.goals import Goal as Measure
from kvlab.advice.goals import limit_of
from kvlab.metrics import Metrics
from kvlab.metrics.catalog import METRICS
from kvlab.prices import PRICES
from kvlab.scenarios import Scenario, preset
from kvlab.units import NS_PER_S

Op = Literal["<=", ">="]
_WORDS: Final[dict[Op, str]] = {"<=": "at most", ">=": "at least"}
LABELS: Final[dict[str, str]] = {
    "throughput_in_window_tokens_per_s": "Throughput",
    "p95_ttft_ns": "First token, p95",
    "p99_gap_ns": "Gap between tokens, p99",
    "preemptions_per_1000": "Preemptions per 1,000",
    "preemptions": "Preemptions",
    "paused_ratio": "Paused over 1 s",
    "recomputed_tokens": "Recomputed",
    "waste_ratio": "Internal waste",
    "mean_saved_blocks": "Saved by sharing",
}
"""What goals call a metric: the words on the labs' tiles."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit on one metric: `Goal("p95_ttft_ns", "<=", "2 s")`."""

    metric: str
    op: Op
    limit: str
    """In the metric's unit, as people write it: "2 s", "5 %", "700"."""

    @property
    def limit_value(self) -> Fraction:
        """The limit as the metric holds it: nanoseconds, bytes, a ratio of 1, a count."""
        return limit_of(self.metric, self.limit, self.metric)

    @property
    def measure(self) -> Measure:
        """The same as `kvlab advise` has it."""
        return Measure(metric=self.metric, at_most=self.op == "<=", limit=self.limit_value)

    @property
    def tile_limit(self) -> float:
        """The limit in the units of tiles: seconds where the metric has nanoseconds."""
        return float(self.limit_value / (NS_PER_S if METRICS[self.metric].unit == "ns" else 1))

    @property
    def text(self) -> str:
        """As the page shows it.

        >>> Goal("p95_ttft_ns", "<=", "2 s").text, Goal("throughput_in_window_tokens_per_s", ">=", "700").text
        ('First token, p95: at most 2 s', 'Throughput: at least 700 tokens/s')
        """
        metric = METRICS[self.metric]
        return f"{LABELS[self.metric]}: {_WORDS[self.op]} {metric.format(self.limit_value)}"

    def met_by(self, metrics: Metrics) -> bool:
        """Whether a run keeps the limit; a metric without a value doesn't."""
        return self.measure.met_by(metrics.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One option of a question: what becomes of the metric, in per cent of its value before the change."""

    text: str
    above: int | None = None
    """True when more than that is left; None: no lower end."""
    up_to: int | None = None
    """True when at most that is left; None: no upper end."""

    def holds(self, before: Fraction, after: Fraction) -> bool:
        """Whether this is what happened."""
        left = 100 * after
        if self.above is not None and left <= self.above * before:
            return False
        return self.up_to is None or left <= self.up_to * before


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Asked before the mission's first run: what will this change do to that metric?"""

    text: str
    change: Mapping[str, str]
    metric: str
    guesses: tuple[Guess, ...]
    answer: int
    """Index of the guess that holds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mission:
    """One task of a lab."""

    id: str
    rules: str
    title: str
    story: str
    """Two sentences in an operator's words."""
    setup: Mapping[str, str]
    """The broken configuration, as changes of the lab's preset."""
    levers: Mapping[str, tuple[str, ...]]
    """Field -> the stops that its slider offers here, in order; the setup's value is among them."""
    goals: tuple[Goal, ...]
    cheapest: int
    """Points of the cheapest combination of stops that meets the goals."""
    decoys: tuple[str, ...]
    """Levers that can't do it alone, at any stop."""
    question: Question
    hints: tuple[str, str, str]
    """Where to look; which lever; how far."""
    why: str
    """Shown after success: what happened, the flag, and what to watch in the engine's metrics."""
    vllm_flag: str

    def scenario(self) -> Scenario:
        """The broken setup."""
        return _scenario(self)

    def card(self) -> dict[str, Any]:
        """The mission for the page, JSON-ready; what it costs at least stays a secret."""
        return {
            "id": self.id,
            "title": self.title,
            "story": self.story,
            "setup": dict(self.setup),
            "levers": list(self.levers),
            "stops": {field: list(stops) for field, stops in self.levers.items()},
            "goals": [
                {"metric": goal.metric, "op": goal.op, "limit": goal.tile_limit, "text": goal.text}
                for goal in self.goals
            ],
            "prices": [{"field": field, "text": PRICES[field].text(field)} for field in self.levers],
            "hints": list(self.hints),
            "why": self.why,
            "vllm_flag": self.vllm_flag,
            "question": {
                "text": self.question.text,
                "options": [guess.text for guess in self.question.guesses],
                "answer": self.question.answer,
            },
        }


@lru_cache(maxsize=64)
def _scenario(mission: Mission) -> Scenario:
    return preset(mission.rules).replace(**mission.setup)
