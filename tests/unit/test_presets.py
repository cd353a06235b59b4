"""The presets tell their story at first sight, and one lever mends it. Counts are exact: runs are deterministic."""

from __future__ import annotations

import pytest

import kvlab
from kvlab.metrics import Metrics


def metrics(lab: str, **changes: object) -> Metrics:
    run = kvlab.simulate(kvlab.scenario(lab, **changes), record=kvlab.METRICS)
    assert run.metrics.arrived == run.metrics.finished + run.metrics.rejected
    return run.metrics


def test_the_preemption_lab_fills_its_cache_and_preempts() -> None:
    broken = metrics("preemption-lab")
    assert (broken.arrived, broken.preemptions, broken.recomputed_tokens) == (449, 67, 43_081)
    assert broken.peak_kv_usage_ratio == 1
    assert broken.preemptions_per_1000 is not None
    assert 50 <= broken.preemptions_per_1000 <= 150
    assert broken.max_gap_ns is not None
    assert broken.p50_gap_ns is not None
    assert broken.p99_gap_ns is not None
    assert broken.p99_gap_ns > 2 * broken.p50_gap_ns
    assert broken.max_gap_ns > 1_000_000_000


def test_fewer_sequences_at_once_mend_the_preemption_lab() -> None:
    broken, mended = metrics("preemption-lab"), metrics("preemption-lab", max_num_seqs=48)
    assert mended.preemptions == 1
    for name in ("p95_ttft_ns", "p99_ttft_ns", "p99_gap_ns", "max_gap_ns", "p99_e2e_ns", "end_ns"):
        assert getattr(mended, name) < getattr(broken, name)
    assert mended.throughput_tokens_per_s is not None
    assert broken.throughput_tokens_per_s is not None
    assert mended.throughput_tokens_per_s > broken.throughput_tokens_per_s
    assert mended.max_gap_ns is not None
    assert mended.max_gap_ns < 110_000_000


def test_the_story_does_not_hang_on_one_seed() -> None:
    for seed in (2, 3, 4, 5):
        broken = metrics("preemption-lab", seed=seed)
        mended = metrics("preemption-lab", seed=seed, max_num_seqs=48)
        assert broken.peak_kv_usage_ratio == 1
        assert broken.preemptions_per_1000 is not None
        assert 50 <= broken.preemptions_per_1000 <= 150
        assert 3 * mended.preemptions < broken.preemptions


def test_more_memory_mends_the_block_table_lab() -> None:
    broken, mended = metrics("block-table-lab"), metrics("block-table-lab", kv_memory_bytes="5 GiB")
    assert (broken.arrived, broken.preemptions, mended.preemptions) == (501, 39, 1)
    assert broken.peak_kv_usage_ratio == 1
    assert broken.preemptions_per_1000 is not None
    assert 50 <= broken.preemptions_per_1000 <= 150
    assert broken.p95_ttft_ns is not None
    assert mended.p95_ttft_ns is not None
    assert broken.p95_ttft_ns > 20 * mended.p95_ttft_ns


def test_contiguous_memory_wastes_what_paging_uses() -> None:
    paged, contiguous = metrics("block-table-lab"), metrics("block-table-lab", allocator="contiguous")
    assert contiguous.preemptions == 0
    assert paged.waste_ratio is not None
    assert contiguous.waste_ratio is not None
    assert contiguous.waste_ratio > 10 * paged.waste_ratio
    assert contiguous.p95_ttft_ns is not None
    assert paged.p95_ttft_ns is not None
    assert contiguous.p95_ttft_ns > 3 * paged.p95_ttft_ns


@pytest.mark.parametrize("lab", ["preemption-lab", "block-table-lab"])
def test_two_runs_of_one_scenario_are_equal(lab: str) -> None:
    scenario = kvlab.scenario(lab, duration_ns="20 s")
    assert kvlab.simulate(scenario).record == kvlab.simulate(scenario).record
