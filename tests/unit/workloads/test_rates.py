from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.units import NS_PER_S
from kvlab.workloads.rates import UNITS_PER_GAP, RateCurve, RateEvent, format_rate_events, parse_rate_events


def event(start_s: int, end_s: int, first: str, last: str | None = None) -> RateEvent:
    return RateEvent(start_s * NS_PER_S, end_s * NS_PER_S, Decimal(first), Decimal(last or first))


def times_s(curve: RateCurve, *gaps: int) -> list[Fraction]:
    return [Fraction(t, NS_PER_S) for t in curve.times_ns([gap * UNITS_PER_GAP for gap in gaps])]


def test_a_constant_rate_divides() -> None:
    assert times_s(RateCurve(Decimal(4)), 0, 1, 2, 480) == [0, Fraction(1, 4), Fraction(1, 2), 120]


def test_times_are_rounded_down_to_whole_ns() -> None:
    assert RateCurve(Decimal(3)).times_ns([UNITS_PER_GAP]) == [333_333_333]


def test_a_burst_packs_the_same_arrivals_closer() -> None:
    curve = RateCurve(Decimal(4), [event(40, 70, "2.5")])
    # 160 requests by 40 s, then 10/s until 70 s (460), then 4/s again.
    assert times_s(curve, 160, 161, 460, 464) == [40, Fraction("40.1"), 70, 71]
    assert curve.expected(120 * NS_PER_S) == 4 * 120 + 30 * 6


def test_a_ramp_is_inverted_exactly() -> None:
    curve = RateCurve(Decimal(2), [event(0, 10, "0", "1")])  # 0 to 2/s: t^2 / 10 requests by t
    assert times_s(curve, 0, 10) == [0, 10]
    assert times_s(curve, 1)[0] == pytest.approx(Fraction(3.1622776601), abs=1e-9)
    falling = RateCurve(Decimal(2), [event(0, 10, "1", "0")])
    assert times_s(falling, 10, 11) == [10, Fraction("10.5")]
    assert times_s(falling, 9)[0] == pytest.approx(10 - Fraction(3.1622776601), abs=1e-9)


def test_overlapping_factors_multiply() -> None:
    curve = RateCurve(Decimal(1), [event(0, 20, "2"), event(10, 30, "3"), event(10, 20, "1", "2")])
    assert curve.expected(10 * NS_PER_S) == 20
    assert curve.expected(20 * NS_PER_S) == 20 + 90  # 6 to 12 per second
    assert curve.expected(40 * NS_PER_S) == 20 + 90 + 30 + 10


def test_nothing_arrives_while_the_rate_is_0() -> None:
    curve = RateCurve(Decimal(1), [event(0, 5, "0"), event(10, 20, "0")])
    assert times_s(curve, 0, 4, 5, 6) == [5, 9, 20, 21]


@pytest.mark.parametrize("text", ["", "burst(40 s, 70 s, 2.5)", "burst(40 s, 70 s, 2.5); ramp(1500 ms, 3 s, 0, 3)"])
def test_texts_read_back(text: str) -> None:
    events = parse_rate_events(text, "rate_events")
    assert format_rate_events(events) == text
    assert parse_rate_events(format_rate_events(events), "rate_events") == events


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("burst(40 s, 70 s)", "takes 3 values, 2 given"),
        ("ramp(40 s, 70 s, 2)", "takes 4 values, 3 given"),
        ("burst(70 s, 40 s, 2)", "ends after it starts"),
        ("burst(-1 s, 40 s, 2)", "starts at 0 or later"),
        ("burst(0 s, 40 s, -2)", "from 0 to 1,000"),
        ("burst(0 s, 40 s, nan)", "finite"),
        ("burst(0 s, 40 parsecs, 2)", "expected a number with a unit"),
        ("burst 40", "expected the form"),
        ("ramp(0 s, 9 s, 1, 2); ramp(8 s, 10 s, 1, 2)", "two ramps must not overlap"),
    ],
)
def test_what_cannot_work_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rate_events(text, "rate_events")
    assert message in str(caught.value)


def test_an_unknown_event_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "burst"'):
        parse_rate_events("brust(0 s, 1 s, 2)", "rate_events")
