"""A service level over a whole run, as people write it: "gap_p99<=150ms, ttft_p95<=2s, throughput>=700"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.metrics import METRICS
from kvlab.scenarios import NO_LIMITS, Scenario
from kvlab.units import parse_bytes, parse_decimal, parse_duration_ns, parse_ratio

_GOAL: Final = re.compile(r"\s*([A-Za-z0-9_]+)\s*(<=|>=|≤|≥|<|>)\s*(\S.*?)\s*\Z")
_SECOND: Final = re.compile(r"[<>≤≥]")
_SPREADS: Final = ("p50", "p90", "p95", "p99", "max", "mean")
_LATENCIES: Final = {"ttft": "ttft", "itl": "gap", "gap": "gap", "tpot": "tpot", "e2e": "e2e", "e2el": "e2e",
                     "queue_time": "queue_time", "queue": "queue_time"}  # fmt: skip
_SHORT: Final = {
    "throughput": "throughput_in_window_tokens_per_s",
    "goodput": "goodput_per_s",
    "paused": "paused_ratio",
    "kv_usage": "peak_kv_usage_ratio",
}
_GOOD: Final = ("goodput_per_s", "good_ratio")
_PARSERS: Final[dict[str, Callable[[object, str], int | Decimal]]] = {
    "ns": parse_duration_ns,
    "bytes": parse_bytes,
    "ratio": parse_ratio,
}

Outcome = Mapping[str, int | float | Fraction | None]
"""Metrics of a run by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A limit on one metric of a run."""

    metric: str
    at_most: bool
    """False: at least."""
    limit: Fraction
    """In the metric's own unit: ns, bytes, a ratio of 1, a count."""

    def met_by(self, metrics: Outcome) -> bool:
        """Whether a run keeps it; a metric without a value doesn't."""
        return self.missed_by(metrics) == 0

    def missed_by(self, metrics: Outcome) -> Fraction:
        """By what share of the limit a run misses it; 0 where it keeps it, and 1,000 without a value."""
        value = metrics[self.metric]
        if value is None:
            return Fraction(1000)
        over = Fraction(value) - self.limit if self.at_most else self.limit - Fraction(value)
        return Fraction(0) if over <= 0 else over / max(abs(self.limit), Fraction(1, 1000))

    @property
    def text(self) -> str:
        """As reports show it."""
        metric = METRICS[self.metric]
        return f"{metric.label} {'at most' if self.at_most else 'at least'} {metric.format(self.limit)}"


def parse_goals(text: str) -> tuple[Goal, ...]:
    """The goals of a text.

    >>> parse_goals("gap_p99<=150ms")
    (Goal(metric='p99_gap_ns', at_most=True, limit=Fraction(150000000, 1)),)

    Raises:
        ConfigError: not of this form, or no goal at all.
        UnknownNameError: no such metric; names the nearest.
    """
    goals = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _GOAL.match(part)
        if match is None:
            raise ConfigError("slo", part, 'expected limits such as "gap_p99<=150ms, ttft_p95<=2s"')
        if match[3] == "=":
            raise ConfigError("slo", part, f"needs a value, such as {match[1]}<=2s")
        if _SECOND.search(match[3]):
            raise ConfigError("slo", part, "is more than one limit: put a comma between them")
        metric = metric_named(match[1])
        limit = limit_of(metric, match[3], f"slo {match[1]}")
        _check_limit(match[1], match[3], METRICS[metric].unit, limit)
        goals.append(Goal(metric=metric, at_most=match[2] in ("<=", "≤", "<"), limit=limit))
    if not goals:
        raise ConfigError("slo", text, 'needs at least one limit, such as "gap_p99<=150ms"')
    return tuple(goals)


def check_goals(goals: Iterable[Goal], scenario: Scenario) -> None:
    """Whether runs of this scenario can have the metrics at all. Goodput is of requests that meet limits of their own.

    Raises:
        ConfigError: throughput in the window of traffic without one; goodput without limits of what is good.
    """
    for goal in goals:
        if goal.metric == _SHORT["throughput"] and scenario.window_ns is None:
            remedy = "this traffic has no window in which it arrives: limit throughput_tokens_per_s instead"
            raise ConfigError("slo", goal.metric, remedy)
        if goal.metric in _GOOD and scenario.slo == NO_LIMITS:
            remedy = 'what is a good request? Give its limits, such as --good "ttft<=2s, tpot<=60ms"'
            raise ConfigError("slo", goal.metric, f"{remedy}, or set the scenario's slo")


def limit_of(metric: str, text: str, field: str) -> Fraction:
    """A limit as the metric holds it: nanoseconds, bytes, a ratio of 1, a count.

    >>> limit_of("p95_ttft_ns", "2 s", "slo"), limit_of("paused_ratio", "5 %", "slo")
    (Fraction(2000000000, 1), Fraction(1, 20))

    Raises:
        ConfigError: no such quantity; `field` is what it is called.
    """
    return Fraction(_PARSERS.get(METRICS[metric].unit, _plain)(text, field))


def _check_limit(name: str, text: str, unit: str, limit: Fraction) -> None:
    """What was hardly meant: a time without a unit, a share of more than all, less than nothing."""
    if unit == "ns" and text.strip().replace(".", "", 1).isdigit():
        raise ConfigError(f"slo {name}", text, "needs a unit, such as 150ms or 2s")
    if limit < 0:
        raise ConfigError(f"slo {name}", text, "can't be negative")
    if unit == "ratio" and limit > 1:
        hint = "" if "%" in text else f"; {text} % is written {text}%"
        raise ConfigError(f"slo {name}", text, f"is more than all of it{hint}")


def _plain(text: object, field: str) -> Decimal:
    return parse_decimal(text, field)


def metric_named(text: str, kind: str = "metric in slo") -> str:
    """The metric of the catalog that a name means: its own, or a short one.

    >>> metric_named("ttft_p95"), metric_named("p95_ttft"), metric_named("throughput")
    ('p95_ttft_ns', 'p95_ttft_ns', 'throughput_in_window_tokens_per_s')

    Raises:
        UnknownNameError: no such metric of this kind; names the nearest.
    """
    name = text.strip().lower()
    words = name.removesuffix("_ns").split("_")
    for latency, spread in (("_".join(words[:-1]), words[-1]), ("_".join(words[1:]), words[0])):
        if latency in _LATENCIES and spread in _SPREADS:
            return f"{spread}_{_LATENCIES[latency]}_ns"
    metric = _SHORT.get(name, name)
    if metric not in METRICS:
        known = (*METRICS, *_SHORT, *(f"{latency}_{spread}" for latency in _LATENCIES for spread in _SPREADS))
        raise UnknownNameError(kind, name, known)
    return metric
