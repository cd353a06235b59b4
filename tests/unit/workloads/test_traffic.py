from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from decimal import Decimal
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from kvlab.core.request import Request
from kvlab.errors import ConfigError, TraceError
from kvlab.units import NS_PER_S
from kvlab.workloads.traffic import Traffic, requests, source

LAB = Traffic()


def made(**changes: Any) -> list[Request]:
    return list(requests(replace(LAB, **changes)))


def arrivals(rows: list[Request]) -> list[int]:
    return [row.arrival_ns for row in rows]


def sizes(rows: list[Request]) -> list[tuple[int, tuple[int, ...]]]:
    return [(row.prompt_tokens, row.output_tokens) for row in rows]


def test_two_minutes_of_the_lab() -> None:
    rows = made()
    assert [row.id for row in rows] == list(range(len(rows)))
    assert arrivals(rows) == sorted(arrivals(rows))
    assert 0 <= rows[0].arrival_ns <= rows[-1].arrival_ns < 120 * NS_PER_S
    assert all(200 <= row.prompt_tokens <= 1500 and 1 <= row.output_tokens[0] <= 1500 for row in rows)
    assert len(rows) == pytest.approx(480, abs=4 * math.sqrt(480))


def test_the_same_settings_give_the_same_requests() -> None:
    assert made() == made()
    assert made(seed=2) != made()


# One line per path through the drawing code. A change here changes every scenario that people have saved.
FROZEN = {
    "482cc0297753e2bf": Traffic(),
    "f5e468896ea1e78e": Traffic(arrivals="gamma", burstiness=Decimal("0.3")),
    "44edce39d5c59433": Traffic(arrivals="gamma", burstiness=Decimal(7)),
    "3d04da48d3354b26": Traffic(arrivals="constant", request_rate=Decimal("7.3")),
    "ea59b940ee2b56c5": Traffic(
        rate_events="ramp(0 s, 60 s, 0.5, 3); burst(30 s, 50 s, 0); ramp(80 s, 90 s, 2, 0)",
        burst=Decimal("2.5"),
        request_rate=Decimal(50),
    ),
    "cca1b89ed43a2dc4": Traffic(
        prompt_tokens="lognormal(p50=600, p95=3000)", output_tokens="lognormal(p50=300, p95=1500, max=4000)"
    ),
    "899b917318760121": Traffic(prompt_tokens="histogram(100:5, 200:3, 7:1)", output_tokens="fixed(12)", num_samples=3),
    "411beecd6c858c6f": Traffic(long_report_users=True, longer_answers=Decimal(2), num_samples=4, seed=2**53 - 1),
}


@pytest.mark.parametrize(("digest", "traffic"), FROZEN.items(), ids=[t.arrivals for t in FROZEN.values()])
def test_20_000_requests_are_the_same_on_every_machine(digest: str, traffic: Traffic) -> None:
    rows = [tuple(row[:5]) for row in requests(replace(traffic, num_requests=20_000))]  # what else it has is not drawn
    assert hashlib.sha256(repr(rows).encode()).hexdigest()[:16] == digest


def test_twice_the_rate_halves_the_same_arrivals() -> None:
    slow, fast = made(num_requests=3000), made(num_requests=3000, request_rate=Decimal(8))
    assert [t // 2 for t in arrivals(slow)] == arrivals(fast)
    assert sizes(slow) == sizes(fast)


def test_a_burst_moves_the_same_arrivals_and_leaves_those_before_it() -> None:
    calm, burst = made(num_requests=600), made(num_requests=600, burst=Decimal("2.5"))
    assert sizes(calm) == sizes(burst)
    for before, after in zip(arrivals(calm), arrivals(burst), strict=True):
        start = 40 * NS_PER_S
        assert after == before if before < start else start <= after <= before
    inside = [t for t in arrivals(burst) if 40 * NS_PER_S <= t < 70 * NS_PER_S]
    assert len(inside) == pytest.approx(300, abs=4 * math.sqrt(300))


@pytest.mark.parametrize(
    "change",
    [
        {"request_rate": Decimal("4.5")},
        {"burst": Decimal("2.5")},
        {"rate_events": "ramp(0 s, 100 s, 1, 2)"},
        {"arrivals": "constant"},
        {"arrivals": "gamma", "burstiness": Decimal("0.5")},
        {"duration_ns": 300 * NS_PER_S},
        {"num_requests": 2000},
    ],
    ids=str,
)
def test_what_changes_arrivals_reshuffles_no_length(change: dict[str, Any]) -> None:
    before, after = sizes(made()), sizes(made(**change))
    common = min(len(before), len(after))
    assert common > 300
    assert before[:common] == after[:common]


def test_what_changes_outputs_touches_neither_arrivals_nor_prompts() -> None:
    before = made()
    for change in ({"output_tokens": "uniform(1, 9)"}, {"longer_answers": Decimal(2)}, {"long_report_users": True}):
        after = made(**change)
        assert [row[:3] for row in after] == [row[:3] for row in before]
        assert sizes(after) != sizes(before)


def test_what_changes_prompts_touches_nothing_else() -> None:
    before, after = made(), made(prompt_tokens="uniform(1, 9)")
    assert [(r.arrival_ns, r.output_tokens) for r in after] == [(r.arrival_ns, r.output_tokens) for r in before]


def test_more_samples_keep_the_first_ones() -> None:
    one, four = made(), made(num_samples=4)
    assert [row.output_tokens[:1] for row in four] == [row.output_tokens for row in one]
    assert any(len(set(row.output_tokens)) > 1 for row in four)


def test_longer_answers_are_twice_as_long_before_rounding_and_the_cap() -> None:
    for (short,), (long,) in zip(
        (r.output_tokens for r in made()), (r.output_tokens for r in made(longer_answers=Decimal(2))), strict=True
    ):
        assert long == 1500 if short > 750 else abs(long - 2 * short) <= 1


def test_one_request_in_five_is_a_long_report() -> None:
    plain, long = made(num_requests=20_000), made(num_requests=20_000, long_report_users=True)
    longer = [
        b[0] for a, b in zip([r.output_tokens for r in plain], [r.output_tokens for r in long], strict=True) if b > a
    ]
    assert len(longer) == pytest.approx(4000, abs=4 * math.sqrt(20_000 * 0.2 * 0.8))
    uncapped = replace(LAB, num_requests=20_000, long_report_users=True, output_tokens="exponential(250)")
    mean = sum(row.output_tokens[0] for row in requests(uncapped)) / 20_000
    assert mean == pytest.approx(0.8 * 250 + 0.2 * 1500, rel=0.05)


@pytest.mark.parametrize(("burstiness", "cv"), [("0.25", 2), ("1", 1), ("16", 0.25)])
def test_gamma_gaps_have_the_variation_that_was_asked_for(burstiness: str, cv: float) -> None:
    times = arrivals(made(num_requests=40_000, arrivals="gamma", burstiness=Decimal(burstiness)))
    gaps = [b - a for a, b in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(NS_PER_S / 4, rel=0.05)
    assert deviation / mean == pytest.approx(cv, rel=0.05)


def test_constant_arrivals_are_exact() -> None:
    rows = made(arrivals="constant")
    assert arrivals(rows) == [i * NS_PER_S // 4 for i in range(480)]


def test_all_at_once() -> None:
    assert arrivals(made(arrivals="all-at-once", num_requests=1500)) == [0] * 1500


def test_a_number_of_requests_counts_whatever_the_duration() -> None:
    assert len(made(num_requests=3000)) == 3000
    assert len(made(num_requests=1024)) == 1024
    assert made(num_requests=5) == made()[:5]


def test_a_window_can_be_empty() -> None:
    assert made(duration_ns=1) == []


def test_an_open_source_delivers_the_same_requests() -> None:
    feed = source(LAB)
    taken = []
    while feed.next_arrival_ns() is not None:
        taken.append(feed.pop())
    assert taken == made()


def test_a_closed_loop_draws_the_same_lengths() -> None:
    traffic = replace(LAB, arrivals="closed-loop", max_concurrency=8, num_requests=2000)
    feed, taken, now_ns = source(traffic), [], 0
    while feed.next_arrival_ns() is not None:
        request = feed.pop()
        taken.append(request)
        now_ns += 1
        feed.ended(request, request.arrival_ns + now_ns)
    assert [row.id for row in taken] == list(range(2000))
    assert sizes(taken) == sizes(made(num_requests=2000))
    with pytest.raises(ConfigError, match="take source"):
        requests(traffic)


def test_requests_are_made_as_they_are_asked_for() -> None:
    endless = requests(replace(LAB, num_requests=10**9))
    assert [row.id for row in islice(endless, 3000)] == list(range(3000))


def test_a_request_is_a_request() -> None:
    first = made()[0]
    assert type(first) is Request
    assert first == Request(first.id, first.arrival_ns, first.prompt_tokens, first.output_tokens, ())


TRACE = "arrival_s,prompt_tokens,output_tokens\n100,10,4\n101.5,20,5\n103,30,6\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    return str(file)


def test_a_trace_is_replayed(trace: str) -> None:
    assert made(trace=trace) == [
        Request(0, 0, 10, (4,)),
        Request(1, 1_500_000_000, 20, (5,)),
        Request(2, 3_000_000_000, 30, (6,)),
    ]


def test_a_window_of_a_trace_counts_from_its_start(trace: str) -> None:
    rows = made(trace=trace, trace_from_ns=NS_PER_S, trace_until_ns=3 * NS_PER_S, trace_speed=Decimal(2))
    assert rows == [Request(0, 250_000_000, 20, (5,))]


def test_events_on_outputs_work_on_a_trace(trace: str) -> None:
    rows = made(trace=trace, longer_answers=Decimal("1.5"), num_samples=2, num_requests=2)
    assert [row.output_tokens for row in rows] == [(6, 6), (8, 8)]


def test_a_window_without_requests_is_an_error(trace: str) -> None:
    with pytest.raises(TraceError, match="no request from 4 s on; one arrives at 3 s"):
        made(trace=trace, trace_from_ns=4 * NS_PER_S)
    with pytest.raises(TraceError, match=r"no request from 2 s until 2\.5 s"):
        made(trace=trace, trace_from_ns=2 * NS_PER_S, trace_until_ns=5 * NS_PER_S // 2)


def test_a_missing_trace_is_named_when_it_is_opened() -> None:
    with pytest.raises(TraceError, match=r"nowhere\.csv: can't be opened"):
        source(Traffic(trace="nowhere.csv"))


def test_the_window_is_known_unless_a_count_or_a_trace_ends_it(trace: str) -> None:
    assert LAB.window_ns == 120 * NS_PER_S
    assert replace(LAB, num_requests=5).window_ns is None
    assert Traffic(trace=trace).window_ns is None
    cut = Traffic(trace=trace, trace_from_ns=NS_PER_S, trace_until_ns=4 * NS_PER_S, trace_speed=Decimal(2))
    assert cut.window_ns == 1_500_000_000


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"seed": -1}, "seed", "must be from 0 to"),
        ({"seed": 2**53}, "seed", "must be from 0 to"),
        ({"seed": 1.0}, "seed", "whole number"),
        ({"seed": True}, "seed", "whole number"),
        ({"arrivals": "poison"}, "arrivals", 'did you mean "poisson"'),
        ({"arrivals": 3}, "arrivals", "expected text"),
        ({"request_rate": Decimal(0)}, "request_rate", "must be from"),
        ({"request_rate": Decimal(-4)}, "request_rate", "must be from"),
        ({"request_rate": Decimal("NaN")}, "request_rate", "must be from"),
        ({"request_rate": Decimal("Infinity")}, "request_rate", "must be from"),
        ({"request_rate": Decimal("1e9")}, "request_rate", "must be from"),
        ({"request_rate": 4.5}, "request_rate", "exact number"),
        ({"request_rate": Decimal(100_000), "duration_ns": 10**6 * NS_PER_S}, "request_rate", "would arrive"),
        ({"burstiness": Decimal("0.5")}, "burstiness", "only arrivals = gamma"),
        ({"arrivals": "gamma", "burstiness": Decimal(0)}, "burstiness", "must be from 0.01"),
        ({"max_concurrency": 8}, "max_concurrency", "closed-loop"),
        ({"arrivals": "closed-loop"}, "max_concurrency", "number of users"),
        ({"arrivals": "closed-loop", "max_concurrency": 0}, "max_concurrency", "must be from 1"),
        ({"arrivals": "closed-loop", "max_concurrency": 2, "burst": Decimal(2)}, "burst", "follow no rate"),
        ({"think_time_ns": 5}, "think_time_ns", "closed-loop"),
        ({"think_time_ns": -5}, "think_time_ns", "must be from 0"),
        ({"duration_ns": 0}, "duration_ns", "must be from 1"),
        ({"duration_ns": 10**30}, "duration_ns", "must be from 1"),
        ({"num_requests": 0}, "num_requests", "must be from 1"),
        ({"num_requests": 10**10}, "num_requests", "must be from 1"),
        ({"arrivals": "all-at-once"}, "num_requests", "number of requests"),
        ({"burst": Decimal(-1)}, "burst", "must be from 0"),
        ({"rate_events": "burst(1 s)"}, "rate_events", "takes 3 values"),
        ({"rate_events": None}, "rate_events", "expected text"),
        ({"prompt_tokens": 512}, "prompt_tokens", "expected text"),
        ({"prompt_tokens": "uniform(5, 1)"}, "prompt_tokens", "above the high end"),
        ({"output_tokens": "zipf(2)"}, "output_tokens distribution", "Known"),
        ({"longer_answers": Decimal(0)}, "longer_answers", "must be from"),
        ({"long_report_users": 1}, "long_report_users", "true or false"),
        ({"num_samples": 0}, "num_samples", "must be from 1"),
        ({"trace_from_ns": 5}, "trace_from_ns", "there is no trace"),
        ({"trace_speed": Decimal(2)}, "trace_speed", "there is no trace"),
        ({"trace_format": "csv"}, "trace_format", "there is no trace"),
        ({"trace": ""}, "trace", "name of a file"),
        ({"trace": "x", "trace_speed": Decimal(0)}, "trace_speed", "must be from"),
        ({"trace": "x", "trace_from_ns": 9, "trace_until_ns": 9}, "trace_until_ns", "must be after"),
        ({"trace": "x", "trace_format": "azzure"}, "trace_format", 'did you mean "azure"'),
        ({"trace": "x", "trace_format": "azure", "trace_columns": "prompt=p"}, "trace_columns", "of its own"),
        ({"trace": "x", "trace_columns": "promt=p"}, "trace_columns role", 'did you mean "prompt"'),
        ({"trace": "x", "arrivals": "gamma"}, "arrivals", "brings its own"),
        ({"trace": "x", "burst": Decimal(2)}, "burst", "brings its own"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_with_field_value_and_remedy(
    changes: dict[str, Any], field: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Traffic(**changes)
    assert caught.value.field == field
    assert remedy in str(caught.value)
