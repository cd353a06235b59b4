"""What a trace holds: how many requests, how fast, how bursty, how long. One pass, bounded memory, exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise
from math import isqrt
from typing import Final

from kvlab.core.tally import Tally
from kvlab.units import NS_PER_S
from kvlab.workloads.traces.rows import TraceRow

_MINUTE_NS: Final = 60 * NS_PER_S
_BATCH_ROWS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthSummary:
    """Tokens; percentiles by nearest rank."""

    mean: Fraction
    p50: int
    p95: int
    p99: int
    max: int

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return {"mean": _six_digits(self.mean), "p50": self.p50, "p95": self.p95, "p99": self.p99, "max": self.max}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """Rates are None where all requests arrive at once, or there is only one."""

    num_requests: int
    span_ns: int
    """From the first arrival to the last."""
    request_rate: Fraction | None
    """Per second, over the span."""
    gap_cv: Fraction | None
    """Coefficient of variation of the gaps between arrivals, to six digits; 1 for a Poisson process."""
    busiest_minute: int
    """Most requests in one minute, counted from the first arrival."""
    prompt: LengthSummary
    output: LengthSummary
    hash_blocks: int
    """Block ids of all prompts."""

    @property
    def burstiness(self) -> Fraction | None:
        """Shape of gamma gaps with the same variation: 1 / CV^2."""
        return None if not self.gap_cv else 1 / self.gap_cv**2

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return {
            "num_requests": self.num_requests,
            "span_ns": self.span_ns,
            "request_rate": _six_digits(self.request_rate),
            "gap_cv": _six_digits(self.gap_cv),
            "burstiness": _six_digits(self.burstiness),
            "busiest_minute": self.busiest_minute,
            "prompt_tokens": self.prompt.to_dict(),
            "output_tokens": self.output.to_dict(),
            "hash_blocks": self.hash_blocks,
        }


def describe(rows: Iterable[TraceRow]) -> TraceSummary:
    """The summary of rows in order of arrival; at least one."""
    prompts, outputs, minutes = Counter[int](), Counter[int](), Counter[int]()
    first_ns = before_ns = -1
    squares = hash_blocks = busiest = 0
    rest = iter(rows)
    while batch := list(islice(rest, _BATCH_ROWS)):
        _, times, prompt_tokens, output_tokens, hash_ids = zip(*batch, strict=True)
        if before_ns < 0:
            first_ns = before_ns = times[0]
        squares += sum((after - before) ** 2 for before, after in pairwise((before_ns, *times)))
        before_ns = times[-1]
        minutes.update((time - first_ns) // _MINUTE_NS for time in times)
        busiest = max(busiest, *minutes.values())
        minutes = Counter({minute: count for minute, count in minutes.items() if minute == max(minutes)})
        prompts.update(prompt_tokens)
        outputs.update(output_tokens)
        hash_blocks += sum(map(len, hash_ids))
    span_ns = before_ns - first_ns
    num_gaps = prompts.total() - 1
    return TraceSummary(
        num_requests=prompts.total(),
        span_ns=span_ns,
        request_rate=Fraction(num_gaps * NS_PER_S, span_ns) if span_ns else None,
        gap_cv=_ratio_root(squares * num_gaps - span_ns**2, span_ns**2) if span_ns else None,
        busiest_minute=busiest,
        prompt=_lengths(prompts),
        output=_lengths(outputs),
        hash_blocks=hash_blocks,
    )


def _lengths(counts: Counter[int]) -> LengthSummary:
    tally = Tally(limit=None)
    for tokens, count in counts.items():
        tally.add(tokens, count)
    p50, p95, p99 = (percentile or 0 for percentile in tally.percentiles(50, 95, 99))  # None only over no rows
    return LengthSummary(
        mean=Fraction(tally.total, tally.num_values), p50=p50, p95=p95, p99=p99, max=tally.largest or 0
    )


def _ratio_root(num: int, den: int) -> Fraction:
    """Square root of num / den, rounded down to six digits after the point."""
    return Fraction(isqrt(num * 10**12 // den), 10**6)


def _six_digits(value: Fraction | None) -> float | int | None:
    """The nearest number with six digits after the point, as JSON writes it."""
    if value is None:
        return None
    rounded = round(value, 6)
    return int(rounded) if rounded.denominator == 1 else float(rounded)
