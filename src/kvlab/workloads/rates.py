"""The arrival rate over time, and the exact inverse of its integral.

    base rate x factor   3 |          __/|          one piece per stretch on which the factor is linear:
                           |       __/   |          burst (constant), ramp (a straight line), their product
                         1 |______/      |______
                           0     20s    60s     t

A unit-rate process lives on "operational time" w, in units of 2^-40 of a mean gap; an arrival at w happens at the
last whole nanosecond t whose cumulative rate is at most w. All of it is integer arithmetic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from math import ceil, isqrt, lcm
from typing import Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.units import NS_PER_MS, NS_PER_S, NS_PER_US, parse_decimal, parse_duration_ns
from kvlab.workloads.spec import format_call, parse_call

UNITS_PER_GAP: Final = 2**40
MAX_FACTOR: Final = 1_000
EVENTS: Final = ("burst", "ramp")


@dataclass(frozen=True, slots=True)
class RateEvent:
    """The rate is multiplied by a factor that goes straight from `first` to `last` over [start_ns, end_ns)."""

    start_ns: int
    end_ns: int
    first: Decimal
    last: Decimal

    def __str__(self) -> str:
        span = (_shown_ns(self.start_ns), _shown_ns(self.end_ns))
        if self.first == self.last:
            return format_call("burst", *span, self.first)
        return format_call("ramp", *span, self.first, self.last)

    def factor_at(self, t_ns: int) -> Fraction:
        """The factor at a time within or at the end of the event."""
        done = Fraction(t_ns - self.start_ns, self.end_ns - self.start_ns)
        return Fraction(self.first) + (Fraction(self.last) - Fraction(self.first)) * done


def parse_rate_events(text: str, field: str) -> tuple[RateEvent, ...]:
    """Events from "burst(40 s, 70 s, 2.5); ramp(0 s, 60 s, 1, 3)"; "" is none.

    Raises:
        UnknownNameError: neither a burst nor a ramp.
        ConfigError: a window or factor that can't work.
    """
    events = tuple(_parse_event(part, field) for part in text.split(";") if part.strip())
    check_overlaps(events, field)
    return events


def format_rate_events(events: Iterable[RateEvent]) -> str:
    """Text that `parse_rate_events` reads back."""
    return "; ".join(str(event) for event in events)


def _parse_event(text: str, field: str) -> RateEvent:
    call = parse_call(text, field)
    if call.name not in EVENTS:
        raise UnknownNameError(f"{field} event", call.name, EVENTS)
    args = call.positional(3 if call.name == "burst" else 4)
    call.check_all_used()
    start_ns, end_ns = (parse_duration_ns(arg, field) for arg in args[:2])
    factors = [parse_decimal(arg, field) for arg in args[2:]]
    if not 0 <= start_ns < end_ns:
        raise ConfigError(field, text.strip(), "an event starts at 0 or later and ends after it starts")
    if any(not 0 <= factor <= MAX_FACTOR for factor in factors):
        raise ConfigError(field, text.strip(), f"a factor is a number from 0 to {MAX_FACTOR:,}")
    return RateEvent(start_ns, end_ns, factors[0], factors[-1])


def check_overlaps(events: Iterable[RateEvent], field: str) -> None:
    """Overlapping factors multiply, but two ramps must not overlap: the rate would no longer be straight.

    Raises:
        ConfigError: two ramps overlap.
    """
    ramps = [event for event in events if event.first != event.last]
    for a, b in combinations(ramps, 2):
        if a.start_ns < b.end_ns and b.start_ns < a.end_ns:
            raise ConfigError(field, f"{a}; {b}", "two ramps must not overlap; join them into one, or move one")


class RateCurve:
    """Rate over time: `rate_per_s`, times the factors of the events that are on."""

    def __init__(self, rate_per_s: Decimal, events: Iterable[RateEvent] = ()) -> None:
        events = tuple(events)
        edges = sorted({0, *(t for event in events for t in (event.start_ns, event.end_ns))})
        base = Fraction(rate_per_s) * UNITS_PER_GAP / NS_PER_S  # units per ns
        self._pieces: list[_Piece] = []
        done = Fraction(0)
        for start_ns, end_ns in zip(edges, [*edges[1:], None], strict=True):
            first = last = base
            for event in events:
                if end_ns is not None and event.start_ns <= start_ns < event.end_ns:
                    first *= event.factor_at(start_ns)
                    last *= event.factor_at(end_ns)
            piece = _Piece(start_ns, end_ns, done, first, last)
            self._pieces.append(piece)
            done = piece.units_until(end_ns) if end_ns is not None else done
        self._starts = [ceil(piece.done) for piece in self._pieces]  # in operational time

    def times_ns(self, units: list[int]) -> list[int]:
        """Arrival times of rising operational times, rounded down to whole nanoseconds."""
        times: list[int] = []
        begin = 0
        while begin < len(units):
            index = bisect_right(self._starts, units[begin]) - 1  # the last of equals: a rate of 0 takes no time
            later = self._starts[index + 1 :]
            end = bisect_left(units, later[0], lo=begin) if later else len(units)
            times += self._pieces[index].times_ns(units[begin:end])
            begin = end
        return times

    def expected(self, duration_ns: int) -> Fraction:
        """Mean number of arrivals in [0, duration_ns)."""
        piece = [piece for piece in self._pieces if piece.start_ns <= duration_ns][-1]
        return piece.units_until(duration_ns) / UNITS_PER_GAP


class _Piece:
    """A stretch of time on which the rate is a straight line; the last one is constant and has no end."""

    def __init__(self, start_ns: int, end_ns: int | None, done: Fraction, first: Fraction, last: Fraction) -> None:
        self.start_ns = start_ns
        self.done = done  # units before the start
        self._first = first  # units per ns
        self._half_slope = Fraction(0) if end_ns is None else (last - first) / (2 * (end_ns - start_ns))
        self._scale = lcm(done.denominator, first.denominator, self._half_slope.denominator)

    def units_until(self, t_ns: int) -> Fraction:
        span = t_ns - self.start_ns
        return self.done + self._first * span + self._half_slope * span * span

    def times_ns(self, units: list[int]) -> list[int]:
        """The last whole ns at which `units_until` is at most each of `units`."""
        scale, start_ns = self._scale, self.start_ns
        done, b, a = (int(x * scale) for x in (self.done, self._first, self._half_slope))
        if a == 0:
            return [start_ns + (w * scale - done) // b for w in units]
        # The largest n with a n^2 + b n <= c. Flooring the root first changes nothing, as all else is whole.
        if a > 0:
            return [start_ns + (isqrt(b * b + 4 * a * (w * scale - done)) - b) // (2 * a) for w in units]
        return [start_ns + (b - _ceil_sqrt(b * b + 4 * a * (w * scale - done))) // (-2 * a) for w in units]


def _ceil_sqrt(n: int) -> int:
    return isqrt(n - 1) + 1 if n else 0


def _shown_ns(ns: int) -> str:
    """A duration as its shortest exact text: "40 s", "1500 ms", "7 ns"."""
    for unit, size in (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US)):
        if ns % size == 0:
            return f"{ns // size} {unit}"
    return f"{ns} ns"
