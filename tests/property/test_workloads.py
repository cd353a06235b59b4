"""Laws of traffic that hold for all settings."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.units import NS_PER_S
from kvlab.workloads.lengths import parse_lengths
from kvlab.workloads.rates import UNITS_PER_GAP, RateCurve, RateEvent, format_rate_events, parse_rate_events
from kvlab.workloads.traffic import Traffic, requests

FACTORS = st.decimals("0", "20", places=2)
LENGTHS = st.integers(1, 10_000_000)
MEANS = st.decimals("1", "10000000", places=3)
CAPS = st.none() | LENGTHS


@st.composite
def rate_events(draw: st.DrawFn) -> tuple[RateEvent, ...]:
    """Bursts anywhere, and ramps that don't overlap each other."""
    edges = draw(st.lists(st.integers(0, 10**11), min_size=4, max_size=4, unique=True).map(sorted))
    ramps = [RateEvent(a, b, draw(FACTORS), draw(FACTORS)) for a, b in (edges[:2], edges[2:])]
    bursts = [
        RateEvent(start, start + length, factor, factor)
        for start, length, factor in draw(
            st.lists(st.tuples(st.integers(0, 10**11), st.integers(1, 10**11), FACTORS), max_size=3)
        )
    ]
    return (*draw(st.sampled_from([[], ramps[:1], ramps])), *bursts)


@given(
    rate_events(),
    st.decimals("0.001", "1000", places=3),
    st.lists(st.integers(0, 2**56), min_size=1, max_size=20).map(sorted),
)
def test_an_arrival_is_the_last_ns_at_which_the_cumulative_rate_is_not_above_it(
    events: tuple[RateEvent, ...], rate: Decimal, units: list[int]
) -> None:
    curve = RateCurve(rate, events)
    times = curve.times_ns(units)
    assert times == sorted(times)
    for w, t in zip(units, times, strict=True):
        assert curve.expected(t) * UNITS_PER_GAP <= w < curve.expected(t + 1) * UNITS_PER_GAP


@given(rate_events())
def test_rate_events_read_back(events: tuple[RateEvent, ...]) -> None:
    text = format_rate_events(events)
    again = parse_rate_events(text, "rate_events")
    assert format_rate_events(again) == text
    assert [(e.start_ns, e.end_ns, e.first, e.last) for e in again] == [
        (e.start_ns, e.end_ns, e.first, e.last) for e in events
    ]


@given(
    st.one_of(
        st.builds("fixed({})".format, LENGTHS),
        st.builds(lambda a, b: f"uniform({min(a, b)}, {max(a, b)})", LENGTHS, LENGTHS),
        st.builds(lambda m, c: f"exponential({m}" + (f", max={c})" if c else ")"), MEANS, CAPS),
        st.builds(lambda a, b: f"lognormal(p50={min(a, b)}, p95={max(a, b)})", MEANS, MEANS),
        st.lists(st.tuples(LENGTHS, st.integers(1, 10**9)), min_size=1, max_size=9).map(
            lambda bars: f"histogram({', '.join(f'{tokens}:{weight}' for tokens, weight in bars)})"
        ),
        st.text(max_size=20).filter(lambda s: '"' not in s).map(lambda s: f'empirical("{s}", "a, b")'),
    )
)
def test_lengths_read_back(text: str) -> None:
    lengths = parse_lengths(text, "output_tokens")
    assert parse_lengths(str(lengths), "output_tokens") == lengths


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**53 - 1),
    rate=st.decimals("0.1", "200", places=2),
    factor=st.integers(2, 9),
    events=rate_events(),
)
def test_the_rate_scales_the_same_arrivals(
    seed: int, rate: Decimal, factor: int, events: tuple[RateEvent, ...]
) -> None:
    """Events apart, `factor` times the rate divides every time by `factor`."""
    slow = Traffic(seed=seed, request_rate=rate, num_requests=50)
    fast = Traffic(seed=seed, request_rate=rate * factor, num_requests=50)
    for a, b in zip(requests(slow), requests(fast), strict=True):
        assert a.arrival_ns // factor == b.arrival_ns
        assert a[2:] == b[2:]
    moved = Traffic(seed=seed, request_rate=rate, num_requests=50, rate_events=format_rate_events(events))
    start_ns = min((event.start_ns for event in events), default=10**9 * NS_PER_S)
    for a, b in zip(requests(slow), requests(moved), strict=True):
        assert a[2:] == b[2:]
        assert a.arrival_ns == b.arrival_ns or b.arrival_ns >= start_ns
