"""What every entry of the registries of traffic must do; a new entry is tested by being there."""

from __future__ import annotations

import io
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from kvlab.core.request import RequestSource
from kvlab.workloads.arrivals import ARRIVALS, operational_times
from kvlab.workloads.lengths import LENGTHS, MAX_TOKENS, parse_lengths, sampler
from kvlab.workloads.streams import CHUNK, Stream
from kvlab.workloads.traces import TRACE_FORMATS, TraceRow, cut, read_trace, reading, scale
from kvlab.workloads.traffic import Traffic, source

EXAMPLES = {
    "fixed": "fixed(300)",
    "uniform": "uniform(200, 1500)",
    "exponential": "exponential(250, max=1500)",
    "lognormal": "lognormal(p50=600, p95=3000)",
    "histogram": "histogram(100:5, 200:3)",
    "empirical": "empirical({file}, tokens)",
}


@pytest.fixture
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    file = tmp_path / "lengths.csv"
    file.write_text("tokens\n12\n0\n99\n12\n")
    return EXAMPLES[request.param].format(file=file)


each_distribution = pytest.mark.parametrize("spec", list(LENGTHS), indirect=True)


@each_distribution
def test_a_distribution_reads_back(spec: str) -> None:
    lengths = parse_lengths(spec, "prompt_tokens")
    assert parse_lengths(str(lengths), "prompt_tokens") == lengths
    assert hash(lengths) == hash(parse_lengths(str(lengths), "prompt_tokens"))


@each_distribution
def test_a_distribution_is_an_inverse_cdf_of_whole_lengths(spec: str) -> None:
    """It rises with u, depends on nothing else, and leaves its input alone."""
    draw = sampler(parse_lengths(spec, "prompt_tokens"))
    u = np.sort(np.concatenate([Stream(1, "test").take(2000), [0.0, 1.0 - 2.0**-53]]))
    before = u.copy()
    lengths = draw(u, 1.0)
    assert (np.diff(lengths) >= 0).all()
    assert lengths.min() >= 1
    assert lengths.max() <= MAX_TOKENS
    assert (u == before).all()
    assert draw(u[::-1], 1.0).tolist() == lengths[::-1].tolist()
    assert (draw(u, 3.0) >= lengths).all()
    assert draw(u, 1e-9).tolist() == [1] * len(u)


@each_distribution
def test_a_cap_holds(spec: str) -> None:
    text = spec if "max=" in spec else spec[:-1] + ", max=40)"
    lengths = parse_lengths(text, "prompt_tokens")
    assert lengths.max_tokens is not None
    u = Stream(1, "test").take(2000)
    assert sampler(lengths)(u, 50.0).max() == lengths.max_tokens


def traffic_with(arrivals: str) -> Traffic:
    users = 5 if arrivals == "closed-loop" else None
    return Traffic(arrivals=arrivals, max_concurrency=users, num_requests=3000)


def drained(feed: RequestSource) -> list[tuple[int, int]]:
    """Every request ends 1 s after it arrived."""
    taken = []
    while (arrival_ns := feed.next_arrival_ns()) is not None:
        request = feed.pop()
        assert request.arrival_ns == arrival_ns
        taken.append((request.id, arrival_ns))
        feed.ended(request, arrival_ns + 10**9)
    return taken


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals_come_in_order_and_always_the_same(name: str) -> None:
    first, second = (drained(source(traffic_with(name))) for _ in range(2))
    assert first == second
    assert [number for number, _ in first] == list(range(3000))
    times = [time for _, time in first]
    assert times == sorted(times)
    assert times[0] >= 0


@pytest.mark.parametrize("name", [name for name, process in ARRIVALS.items() if process.gaps and process.follows_rate])
def test_a_process_has_mean_gap_1(name: str) -> None:
    gaps = ARRIVALS[name].gaps
    assert gaps is not None
    last = [chunk[-1] for chunk in islice(operational_times(gaps, 1, Decimal(1)), 30)][-1]
    assert Fraction(last, 2**40) == pytest.approx(30 * CHUNK, rel=0.02)


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals_say_what_they_are(name: str) -> None:
    assert len(ARRIVALS[name].summary) > 5


ROWS = [TraceRow(0, 7_000_000 * i, i % 2000 + 1, 3 * i + 1) for i in range(9000)]


@pytest.mark.parametrize("name", TRACE_FORMATS)
def test_what_a_format_writes_it_reads(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"trace{TRACE_FORMATS[name].suffix}"
    with file.open("wb") as stream:
        TRACE_FORMATS[name].write(iter(ROWS), stream)
    assert [row[1:4] for row in read_trace(str(file), name)] == [row[1:4] for row in ROWS]
    with reading(str(file)) as (detected, _):
        assert detected == name


@pytest.mark.parametrize("name", TRACE_FORMATS)
def test_times_are_rounded_down_to_the_resolution(name: str) -> None:
    resolution_ns = TRACE_FORMATS[name].resolution_ns
    rows = [TraceRow(0, 0, 5, 5), TraceRow(0, 123_456_789, 5, 5)]
    exact = [row._replace(arrival_ns=row.arrival_ns // resolution_ns * resolution_ns) for row in rows]
    assert written(name, rows) == written(name, exact)


@pytest.mark.parametrize("name", TRACE_FORMATS)
def test_a_format_writes_the_same_bytes_again(name: str) -> None:
    assert written(name, ROWS[:50]) == written(name, ROWS[:50])


@pytest.mark.parametrize("name", [name for name, entry in TRACE_FORMATS.items() if entry.has_hash_ids])
def test_block_ids_are_kept_where_there_is_a_place_for_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    rows = [TraceRow(0, 0, 600, 5, (3, 9)), TraceRow(0, 10**6, 20, 5, (3,))]
    file.write_bytes(written(name, rows))
    assert [row.hash_ids for row in read_trace(str(file))] == [(3, 9), (3,)]


@pytest.mark.parametrize("name", TRACE_FORMATS)
def test_a_trace_survives_a_cut_and_a_scale(name: str, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_bytes(written(name, ROWS[:100]))
    rows = scale(cut(read_trace(str(file)), 70_000_000, 140_000_000), Fraction(7))
    assert [(row.arrival_ns, row.prompt_tokens) for row in rows] == [(1_000_000 * i, i + 11) for i in range(10)]


def written(name: str, rows: list[TraceRow]) -> bytes:
    stream = io.BytesIO()
    TRACE_FORMATS[name].write(iter(rows), stream)
    return stream.getvalue()
