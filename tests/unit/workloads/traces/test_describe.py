from __future__ import annotations

from fractions import Fraction

from tests.shared import shared_file

from kvlab.units import NS_PER_S
from kvlab.workloads.traces import TraceRow, cut, describe, read_trace, scale, sort


def rows_at(*seconds: float) -> list[TraceRow]:
    return [TraceRow(i, int(s * NS_PER_S), 10 * i, i) for i, s in enumerate(seconds, 1)]


def test_rate_burstiness_and_lengths() -> None:
    summary = describe(rows_at(0, 1, 2, 5))
    assert (summary.num_requests, summary.span_ns) == (4, 5 * NS_PER_S)
    assert summary.request_rate == Fraction(3, 5)
    assert summary.gap_cv == Fraction(565_685, 10**6)  # gaps 1, 1, 3: sqrt(8/9) / (5/3)
    assert summary.burstiness is not None
    assert abs(summary.burstiness - Fraction(25, 8)) < Fraction(1, 10**4)
    assert (summary.prompt.mean, summary.prompt.p50, summary.prompt.p95, summary.prompt.max) == (25, 20, 40, 40)
    assert summary.output.p50 == 2


def test_one_request_or_one_instant_has_no_rate() -> None:
    for rows in (rows_at(3), rows_at(0, 0, 0)):
        summary = describe(rows)
        assert (summary.request_rate, summary.gap_cv, summary.burstiness) == (None, None, None)


def test_the_busiest_minute_may_come_anywhere() -> None:
    seconds = [i * 30 for i in range(5000)] + [150_000 + i / 100 for i in range(4100)]
    assert describe(rows_at(*seconds)).busiest_minute == 4100
    assert describe(rows_at(*range(100))).busiest_minute == 60


def test_it_is_ready_for_json() -> None:
    document = describe(rows_at(0, 1, 2, 5)).to_dict()
    assert document["request_rate"] == 0.6
    assert document["prompt_tokens"] == {"mean": 25, "p50": 20, "p95": 40, "p99": 40, "max": 40}


def test_cut_scale_and_sort() -> None:
    rows = rows_at(0, 1, 2, 5)
    assert [row.arrival_ns for row in cut(rows, NS_PER_S, 5 * NS_PER_S)] == [0, NS_PER_S]
    assert [row.arrival_ns for row in cut(rows, 0, None)] == [row.arrival_ns for row in rows]
    assert [row.arrival_ns for row in scale(rows, Fraction(3))] == [0, 333_333_333, 666_666_666, 1_666_666_666]
    mixed = [rows[2], rows[0], rows[3]._replace(arrival_ns=0), rows[1]]
    assert [row.line for row in sort(mixed)] == [1, 4, 2, 3]
    assert sort(rows_at(7))[0].arrival_ns == 0


def test_the_azure_trace_has_its_published_figures() -> None:
    summary = describe(read_trace(str(shared_file("data/traces/azure_llm_2023_conv.csv"))))
    assert summary.num_requests == 19_366
    assert summary.request_rate is not None
    assert summary.gap_cv is not None
    assert (round(summary.request_rate, 2), round(summary.gap_cv, 2)) == (Fraction("5.53"), Fraction("1.09"))
    prompt, output = summary.prompt, summary.output
    assert (round(prompt.mean, 1), prompt.p50, prompt.p95) == (Fraction("1154.7"), 1020, 4083)
    assert (prompt.p99, prompt.max) == (4142, 14_050)
    assert (round(output.mean, 1), output.p50, output.p95) == (Fraction("211.1"), 129, 451)
    assert (output.p99, output.max) == (601, 1000)


def test_the_mooncake_trace_has_its_published_figures() -> None:
    rows = list(read_trace(str(shared_file("data/traces/mooncake_conversation.jsonl"))))
    summary = describe(rows)
    assert summary.num_requests == 12_031
    assert summary.request_rate is not None
    assert round(summary.request_rate, 2) == Fraction("3.40")
    assert (round(summary.prompt.mean), summary.prompt.p50, summary.prompt.max) == (12_035, 6909, 126_195)
    assert (round(summary.output.mean, 1), summary.output.p50, summary.output.p95) == (Fraction("342.6"), 350, 698)
    seen: set[int] = set()
    hits = 0
    for row in rows:  # with an unlimited prefix cache 36.6 % of the blocks hit
        hits += sum(block in seen for block in row.hash_ids)
        seen.update(row.hash_ids)
    assert round(Fraction(hits, summary.hash_blocks), 3) == Fraction("0.366")


def test_the_logged_runs_are_generic_csv() -> None:
    rows = list(read_trace(str(shared_file("data/runs/RTX4090_Llama-3.1-8B/requests.csv"))))
    assert len(rows) == 300
    assert rows[:2] == [TraceRow(2, 0, 2358, 531), TraceRow(3, 265_091_000, 1034, 769)]
