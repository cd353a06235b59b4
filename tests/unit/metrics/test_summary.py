from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from tests.runs import CONTIGUOUS, ONE_SAMPLE, PAGED, PREEMPTION, SAMPLES, reference_of

from kvlab.core.config import LabConfig
from kvlab.core.records import RunRecord, Totals
from kvlab.core.request import Request
from kvlab.core.tally import Tally
from kvlab.metrics import METRICS, Metrics, summarize
from kvlab.reference import ReferenceRun
from kvlab.units import NS_PER_S

EMPTY = Totals(
    arrived=0, finished=0, rejected=0, unfinished=0, steps=0, end_ns=0, busy_ns=0, output_tokens=0,
    output_tokens_in_window=0, good=0, paused=0, preemptions=0, prefill_tokens=0, recomputed_tokens=0, swap_outs=0,
    swap_ins=0, swapped_tokens=0, swap_ns=0, cow_copies=0, reserved_token_steps=0, used_token_steps=0,
    reserved_token_ns=0, used_token_ns=0, largest_hole_token_ns=0, saved_block_ns=0, running_ns=0, waiting_ns=0,
    peak_running=0, peak_waiting=0, peak_reserved_tokens=0,
)  # fmt: skip


def record_of(totals: Totals, *, interrupted: bool = False, **tallies: Tally) -> RunRecord:
    spread = {name: tallies.get(name, Tally()) for name in ("ttft", "gap", "tpot", "e2e", "queue_time")}
    return RunRecord(
        totals=totals,
        capacity_tokens=1000,
        rejected=(),
        requests=(),
        steps=(),
        stays=(),
        interrupted=interrupted,
        **spread,
    )


def test_nothing_ran_so_there_is_nothing_to_measure() -> None:
    metrics = summarize(record_of(EMPTY), window_ns=None, kv_bytes_per_token=None)
    missing = {name for name, value in metrics.values().items() if value is None}
    counts = {name for name, value in metrics.values().items() if value == 0}
    assert {
        "p50_ttft_ns",
        "max_gap_ns",
        "throughput_tokens_per_s",
        "mean_kv_usage_ratio",
        "kv_capacity_bytes",
    } <= missing
    assert counts | missing == set(METRICS) - {"kv_capacity_tokens"}
    assert "rejected" in counts
    assert metrics.kv_capacity_tokens == 1000


def test_every_figure_from_known_totals() -> None:
    totals = replace(
        EMPTY, arrived=10, finished=8, rejected=2, steps=40, end_ns=10 * NS_PER_S, busy_ns=8 * NS_PER_S,
        output_tokens=400, output_tokens_in_window=300, good=6, paused=2, preemptions=3, swap_outs=1, swap_ins=1,
        prefill_tokens=900, recomputed_tokens=70, swapped_tokens=50, swap_ns=5, cow_copies=4,
        reserved_token_ns=4000 * NS_PER_S, used_token_ns=3000 * NS_PER_S, largest_hole_token_ns=1000 * NS_PER_S,
        saved_block_ns=25 * NS_PER_S, running_ns=30 * NS_PER_S, waiting_ns=5 * NS_PER_S, peak_running=7, peak_waiting=6,
        peak_reserved_tokens=900,
    )  # fmt: skip
    metrics = summarize(record_of(totals), window_ns=6 * NS_PER_S, kv_bytes_per_token=512)
    assert metrics.throughput_in_window_tokens_per_s == 50
    assert metrics.throughput_tokens_per_s == 40
    assert metrics.requests_per_s == Fraction(4, 5)
    assert metrics.goodput_per_s == Fraction(3, 5)
    assert metrics.good_ratio == Fraction(6, 10)
    assert metrics.preemptions_per_1000 == 375
    assert (metrics.recomputes, metrics.swap_outs) == (2, 1)
    assert metrics.paused_ratio == Fraction(1, 4)
    assert metrics.kv_capacity_bytes == 512_000
    assert metrics.mean_kv_usage_ratio == Fraction(4000, 10_000), "two idle seconds count, with nothing reserved"
    assert metrics.peak_kv_usage_ratio == Fraction(9, 10)
    assert metrics.mean_waste_tokens == 100
    assert metrics.waste_ratio == Fraction(1, 4)
    assert metrics.mean_largest_hole_tokens == 300, "all 1,000 tokens are one hole in the two idle seconds"
    assert metrics.external_fragmentation_ratio == Fraction(3, 4), (
        "4,000 free token-seconds in steps, 1,000 in the hole"
    )
    assert metrics.mean_saved_blocks == Fraction(5, 2)
    assert (metrics.mean_running, metrics.mean_waiting) == (3, Fraction(1, 2))
    assert metrics.mean_step_ns == NS_PER_S // 5
    assert metrics.busy_ratio == Fraction(4, 5)


def test_a_stopped_run_saw_only_part_of_its_window() -> None:
    totals = replace(
        EMPTY, end_ns=2 * NS_PER_S, output_tokens=100, output_tokens_in_window=100, arrived=1, unfinished=1
    )
    stopped = summarize(record_of(totals, interrupted=True), window_ns=10 * NS_PER_S, kv_bytes_per_token=None)
    complete = summarize(record_of(totals), window_ns=10 * NS_PER_S, kv_bytes_per_token=None)
    assert stopped.throughput_in_window_tokens_per_s == 50
    assert complete.throughput_in_window_tokens_per_s == 10


def test_without_a_window_there_is_no_throughput_inside_it() -> None:
    totals = replace(EMPTY, end_ns=NS_PER_S, output_tokens=7, output_tokens_in_window=7)
    metrics = summarize(record_of(totals), window_ns=None, kv_bytes_per_token=None)
    assert metrics.throughput_in_window_tokens_per_s is None
    assert metrics.throughput_tokens_per_s == 7


def test_percentiles_are_nearest_rank_and_the_mean_is_rounded_down() -> None:
    ttft = Tally()
    for value in range(1, 201):
        ttft.add(value)
    metrics = summarize(record_of(EMPTY, ttft=ttft), window_ns=None, kv_bytes_per_token=None)
    assert metrics.mean_ttft_ns == 100
    assert (metrics.p50_ttft_ns, metrics.p90_ttft_ns, metrics.p95_ttft_ns, metrics.p99_ttft_ns) == (100, 180, 190, 198)
    assert metrics.max_ttft_ns == 200
    assert metrics.percentiles_exact


def test_rounded_tallies_are_named() -> None:
    gap = Tally(limit=4)
    for value in range(10_000, 10_020):
        gap.add(value)
    metrics = summarize(record_of(EMPTY, gap=gap), window_ns=None, kv_bytes_per_token=None)
    assert not metrics.percentiles_exact
    assert metrics.max_gap_ns == 10_019


CASES = [(PREEMPTION, ONE_SAMPLE), (PAGED, SAMPLES), (CONTIGUOUS, SAMPLES)]


@pytest.mark.parametrize(("config", "requests"), CASES, ids=["preemption", "paged", "contiguous"])
def test_figures_equal_the_raw_lists(config: LabConfig, requests: tuple[Request, ...]) -> None:
    run = reference_of(config, requests)
    got = summarize(run.record, window_ns=None, kv_bytes_per_token=None)
    for name, expected in naive(run).items():
        assert got.values()[name] == expected, name


def naive(run: ReferenceRun) -> dict[str, int | Fraction | None]:
    """Metrics from complete lists, each the way its definition reads."""
    steps, served = run.record.steps, [r for r in run.record.requests if r.finish_ns is not None]
    times = {r.id: [run.token_times[r.id, k] for k in range(r.num_samples)] for r in served}
    lists: dict[str, list[int]] = {
        "ttft": [min(t[0] for t in times[r.id]) - r.arrival_ns for r in served],
        "gap": [b - a for r in served for t in times[r.id] for a, b in pairwise(t)],
        "e2e": [max(t[-1] for t in times[r.id]) - r.arrival_ns for r in served],
        "queue_time": [r.admitted_ns - r.arrival_ns for r in served if r.admitted_ns is not None],
    }
    figures: dict[str, int | Fraction | None] = {}
    for name, values in lists.items():
        ranked = sorted(values)
        for percent in (50, 90, 95, 99):
            figures[f"p{percent}_{name}_ns"] = ranked[-(-percent * len(ranked) // 100) - 1]
        figures[f"mean_{name}_ns"] = sum(ranked) // len(ranked)
        figures[f"max_{name}_ns"] = ranked[-1]
    end, capacity = steps[-1].t_ns, run.record.capacity_tokens
    reserved = sum(s.reserved_tokens * s.dur_ns for s in steps)
    free = sum((capacity - s.reserved_tokens) * s.dur_ns for s in steps)
    figures |= {
        "arrived": len(run.record.requests),
        "finished": len(served),
        "mean_kv_usage_ratio": Fraction(reserved, capacity * end),
        "peak_kv_usage_ratio": Fraction(max(s.reserved_tokens for s in steps), capacity),
        "waste_ratio": Fraction(sum((s.reserved_tokens - s.used_tokens) * s.dur_ns for s in steps), reserved),
        "external_fragmentation_ratio": 1 - Fraction(sum(s.largest_hole_tokens * s.dur_ns for s in steps), free),
        "mean_running": Fraction(sum(s.running * s.dur_ns for s in steps), end),
        "peak_waiting": max(s.waiting for s in steps),
        "preemptions": sum(len(s.preempted) for s in steps),
        "swap_outs": sum(outcome == "swap" for s in steps for _, outcome in s.preempted),
        "paused_ratio": Fraction(
            sum(any(b - a > NS_PER_S for t in times[r.id] for a, b in pairwise(t)) for r in served), len(served)
        ),
        "steps": len(steps),
    }
    return figures


def test_json_has_doubles_for_ratios_and_whole_numbers_for_the_rest() -> None:
    metrics: Metrics = summarize(reference_of(PREEMPTION, ONE_SAMPLE).record, window_ns=10**9, kv_bytes_per_token=1)
    document = metrics.to_dict()
    assert list(document) == list(METRICS)
    assert document["mean_kv_usage_ratio"] == float(metrics.mean_kv_usage_ratio or 0)
    assert isinstance(document["p99_gap_ns"], int)
