"""Expectations of public cases against what came out: a number with its tolerance, or a statement that holds or not."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvlab.api import simulate
from kvlab.cases import case
from kvlab.core.config import METRICS
from kvlab.results import Run
from kvlab.units import NS_PER_S
from kvlab.validation.numbers import CaseNumbers, CheckNumbers


def near(what: str, expected: float, obtained: float, percent: float, unit: str = "") -> CheckNumbers:
    """Holds within so many per cent of what is expected."""
    holds = bool(abs(obtained - expected) <= abs(expected) * percent / 100)
    return CheckNumbers(
        what=what, expected=shown(expected, unit), obtained=shown(obtained, unit), holds=holds,
        tolerance=f"{percent:g} %" if percent else "exactly",
    )  # fmt: skip


def within(what: str, expected: float, obtained: float, points: float, unit: str = "%") -> CheckNumbers:
    """Holds within so many of the unit."""
    holds = bool(abs(obtained - expected) <= points)
    return CheckNumbers(
        what=what, expected=shown(expected, unit), obtained=shown(obtained, unit), holds=holds,
        tolerance=f"{points:g} points" if unit == "%" else shown(points, unit),
    )  # fmt: skip


def between(what: str, expected: str, obtained: float, low: float, high: float, unit: str = "") -> CheckNumbers:
    """Holds from `low` to `high`."""
    return CheckNumbers(
        what=what, expected=expected, obtained=shown(obtained, unit), holds=bool(low <= obtained <= high),
        tolerance=f"{shown(low, unit)} to {shown(high, unit)}",
    )  # fmt: skip


def true(what: str, expected: str, obtained: str, holds: bool) -> CheckNumbers:
    """Holds or doesn't."""
    return CheckNumbers(what=what, expected=expected, obtained=obtained, holds=holds, tolerance="")


def shown(value: float | Fraction, unit: str = "") -> str:
    """Four significant digits, whole numbers whole.

    >>> shown(299584, "tokens"), shown(16.0349, "s"), shown(0.47086)
    ('299,584 tokens', '16.03 s', '0.4709')
    """
    number = float(value)
    if number == int(number) or abs(number) >= 10_000:
        text = f"{round(number):,}"
    else:
        text = f"{float(f'{number:.4g}'):,}".removesuffix(".0")
    return f"{text} {unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case's variant came to, in a reader's units."""

    run: Run

    @property
    def preemptions(self) -> int:
        """All of the run."""
        return self.run.record.totals.preemptions

    @property
    def tokens_per_s(self) -> float:
        """Output tokens over the time to the last one."""
        totals = self.run.record.totals
        return totals.output_tokens * NS_PER_S / totals.end_ns

    @property
    def end_s(self) -> float:
        """The last token."""
        return self.run.record.totals.end_ns / NS_PER_S

    @property
    def running(self) -> float:
        """Mean over time."""
        return self.run.record.totals.running_ns / self.run.record.totals.end_ns

    @property
    def waiting(self) -> float:
        """Mean over time."""
        return self.run.record.totals.waiting_ns / self.run.record.totals.end_ns

    @property
    def peak_kv_percent(self) -> float:
        """Blocks taken, at most."""
        return 100 * self.run.record.totals.peak_reserved_tokens / self.run.record.capacity_tokens

    def seconds(self, metric: str) -> float:
        """A metric in ns, in seconds."""
        value = getattr(self.run.metrics, metric)
        assert value is not None, f"{metric} of a run without any"
        return float(value) / NS_PER_S


def outcome(case_id: str, variant: str, **settings: object) -> Outcome:
    """A variant of a case, simulated; settings change it further."""
    scenario = case(case_id).scenario(variant)
    return Outcome(simulate(scenario.replace(**settings) if settings else scenario, record=METRICS))


def reported(case_id: str, checks: list[CheckNumbers], why: str = "", how: str = "") -> CaseNumbers:
    """The numbers of a case that `kvlab.cases` has."""
    found = case(case_id)
    return CaseNumbers(
        id=found.id, title=found.title, source=found.source, how=how or f"Simulated. {found.assumed}",
        checks=tuple(checks), why=why,
    )  # fmt: skip
