"""Scenarios small enough to follow MODEL.md by hand. The numbers in the comments are the sums."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.core.config import BlockTableLabConfig, PreemptionLabConfig, Slo
from kvlab.core.request import OpenLoop, Request
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.reference import ReferenceRun, simulate


def preemption_lab(**changes: Any) -> PreemptionLabConfig:
    """Four blocks of two tokens; a step lasts 100 + 10 per sequence + 1 per prefill token."""
    settings: dict[str, Any] = {
        "num_gpu_blocks": 4,
        "num_cpu_blocks": 4,
        "block_size": 2,
        "max_num_seqs": 8,
        "headroom_blocks": 0,
        "preemption_mode": "recompute",
        "prefill_budget_tokens": 100,
        "base_ns": 100,
        "per_seq_ns": 10,
        "per_prefill_token_ns": 1,
        "swap_per_token_ns": 3,
        "swap_per_block_ns": 5,
    }
    return PreemptionLabConfig(**settings | changes)


def block_table_lab(**changes: Any) -> BlockTableLabConfig:
    """Ten blocks of two tokens; a step lasts 100 + 10 per sample + 1 per prefill token, paging aside."""
    settings: dict[str, Any] = {
        "allocator": "paged",
        "kv_tokens": 20,
        "block_size": 2,
        "max_tokens": 4,
        "max_num_seqs": 8,
        "base_ns": 100,
        "per_seq_ns": 10,
        "per_context_token_ns": 0,
        "per_prefill_token_ns": 1,
        "paging_overhead_num": 0,
        "paging_overhead_den": 10,
    }
    return BlockTableLabConfig(**settings | changes)


def run(config: PreemptionLabConfig | BlockTableLabConfig, *requests: tuple[Any, ...], **options: Any) -> ReferenceRun:
    """Requests as (arrival, prompt, output, ...)."""
    rows = [Request(i, t, prompt, tuple(outputs)) for i, (t, prompt, *outputs) in enumerate(requests)]
    return simulate(config, OpenLoop(rows), **options)


def test_nothing_to_do_takes_no_step() -> None:
    record = run(preemption_lab()).record
    assert (record.totals.steps, record.totals.end_ns, record.steps) == (0, 0, ())


def test_one_request_alone() -> None:
    """Prefill of 3 tokens: 100 + 10 + 3; then one decode: 100 + 10."""
    result = run(preemption_lab(), (50, 3, 2))
    assert result.token_times == {(0, 0): [163, 273]}
    assert result.tables == [{(0, 0): (0, 1)}, {(0, 0): (0, 1)}]
    [request] = result.record.requests
    assert (request.admitted_ns, request.first_token_ns, request.finish_ns, request.tpot_ns) == (50, 163, 273, 110)


def test_the_kv_of_the_last_token_is_never_written() -> None:
    """8 tokens fit: 6 + 3 - 1 fills the pool, 6 + 4 - 1 never runs."""
    record = run(preemption_lab(), (0, 6, 3), (0, 6, 4)).record
    assert record.rejected == (1,)
    assert record.totals.finished == 1


def test_a_prefill_in_chunks_emits_when_it_completes() -> None:
    """2 + 2 + 1 tokens: 112, 112 and 111 ns."""
    result = run(preemption_lab(prefill_budget_tokens=2), (0, 5, 1))
    assert [step.prefill_tokens for step in result.record.steps] == [2, 2, 1]
    assert [step.used_tokens for step in result.record.steps] == [2, 4, 5]
    assert result.token_times == {(0, 0): [335]}


def test_the_latest_admitted_loses_its_blocks_and_computes_them_again() -> None:
    """Two prompts of 4 fill the pool. In step 1 request 0 needs a third block: request 1 goes, with 4 computed."""
    result = run(preemption_lab(), (0, 4, 2), (0, 4, 2))
    first, second, third = result.record.steps
    assert (first.admitted, first.dur_ns) == ((0, 1), 128)
    assert (second.preempted, second.running, second.waiting, second.dur_ns) == (((1, "recompute"),), 1, 1, 110)
    assert result.tables[1] == {(0, 0): (0, 1, 2)}
    assert (third.admitted, third.prefill_tokens, third.dur_ns) == ((1,), 5, 115)
    assert result.tables[2] == {(1, 0): (3, 0, 1)}  # 2 and 3 were freed by request 1, then 0, 1, 2 by request 0
    assert result.record.requests[1].recomputed_tokens == 4
    assert result.token_times == {(0, 0): [128, 238], (1, 0): [128, 353]}


def test_a_victim_is_copied_out_and_back_at_the_same_price() -> None:
    """4 tokens in 2 blocks cost 3 x 4 + 5 x 2 = 22 each way; back, it decodes in the same step."""
    result = run(preemption_lab(preemption_mode="swap"), (0, 4, 2), (0, 4, 2))
    _, second, third = result.record.steps
    assert (second.preempted, second.swapped, second.dur_ns) == (((1, "swap"),), 1, 132)
    assert result.cpu_tables[1] == {(1, 0): (0, 1)}
    assert (third.resumed, third.swapped, third.prefill_tokens, third.dur_ns) == ((1,), 0, 0, 132)
    assert result.token_times[1, 0] == [128, 392]
    totals = result.record.totals
    assert (totals.swap_outs, totals.swap_ins, totals.swapped_tokens, totals.swap_ns) == (1, 1, 8, 44)


def test_a_full_swap_space_means_recompute() -> None:
    result = run(preemption_lab(preemption_mode="swap", num_cpu_blocks=1), (0, 4, 2), (0, 4, 2))
    assert result.record.steps[1].preempted == ((1, "recompute"),)
    assert result.record.totals.swap_outs == 0


def test_headroom_is_kept_unless_nothing_runs() -> None:
    """Headroom of 3: the first comes in, the second has to wait until the first has gone."""
    steps = run(preemption_lab(headroom_blocks=3), (0, 2, 1), (0, 2, 1)).record.steps
    assert [step.admitted for step in steps] == [(0,), (1,)]


def test_the_window_and_the_slo_are_inclusive() -> None:
    totals = run(preemption_lab(), (50, 3, 2), window_ns=163, slo=Slo(ttft_ns=113, e2e_ns=222)).record.totals
    assert (totals.output_tokens_in_window, totals.good) == (1, 0)
    assert run(preemption_lab(), (50, 3, 2), slo=Slo(ttft_ns=113, e2e_ns=223)).record.totals.good == 1


def test_samples_share_the_prompt_until_they_write() -> None:
    """Prompt of 3 in blocks of 2: block 0 stays shared, block 1 is copied by two of three samples."""
    result = run(block_table_lab(), (0, 3, 2, 2, 2))
    shared, copied = result.tables
    assert shared == {(0, 0): (0, 1), (0, 1): (0, 1), (0, 2): (0, 1)}
    assert copied == {(0, 0): (0, 2), (0, 1): (0, 3), (0, 2): (0, 1)}
    first, second = result.record.steps
    assert (first.reserved_tokens, first.used_tokens, first.saved_blocks, first.dur_ns) == (4, 3, 4, 133)
    assert (second.reserved_tokens, second.used_tokens, second.saved_blocks) == (8, 8, 2)
    assert result.record.totals.cow_copies == 2


def test_a_request_is_preempted_whole_and_prefills_what_its_samples_had() -> None:
    """Five blocks: two requests of 2 x 1 token blocks grow until request 1 has to go with both samples."""
    config = block_table_lab(kv_tokens=10)
    result = run(config, (0, 2, 3, 3), (0, 2, 3, 3))
    steps = result.record.steps
    assert steps[0].admitted == (0, 1)
    assert steps[1].preempted == ((1, "recompute"),)
    again = next(step for step in steps[1:] if step.admitted)
    assert again.prefill_tokens == 2 + 2 * 1
    assert result.record.requests[1].recomputed_tokens == 2 + 2 * 0


def test_contiguous_segments_take_the_lowest_hole_and_merge() -> None:
    """20 cells, 3 + 4 each: two fit. The third waits for the first to end and takes its place."""
    config = block_table_lab(allocator="contiguous")
    result = run(config, (0, 3, 1), (0, 3, 3), (0, 3, 1))
    assert result.tables == [
        {(0, 0): (0, 7), (1, 0): (7, 7)},
        {(1, 0): (7, 7), (2, 0): (0, 7)},
        {(1, 0): (7, 7)},
    ]
    assert [step.largest_hole_tokens for step in result.record.steps] == [6, 6, 7]


def test_paging_makes_the_step_longer_but_not_the_prefill() -> None:
    """(100 + 10 + 2 x 3) x 26 // 20 + 3"""
    config = block_table_lab(paging_overhead_num=6, per_context_token_ns=2)
    assert run(config, (0, 3, 1)).token_times == {(0, 0): [(100 + 10 + 6) * 26 // 20 + 3]}


def test_too_many_samples_never_run() -> None:
    assert run(block_table_lab(max_num_seqs=2), (0, 1, 1, 1, 1)).record.rejected == (0,)


def test_tables_may_be_kept_now_and_then() -> None:
    every = run(preemption_lab(), (0, 1, 6))
    third = run(preemption_lab(), (0, 1, 6), tables_every=3)
    assert third.tables == every.tables[::3]
    assert third.record == every.record


@pytest.mark.parametrize(
    ("config", "request_row", "message"),
    [
        (preemption_lab(), (0, 3, 1, 1), "num_samples = 2: request 0"),
        (preemption_lab(), (0, 0, 1), "prompt_tokens = 0: request 0"),
        (preemption_lab(), (0, 3, 0), "output_tokens = 0: request 0"),
        (preemption_lab(), (0, 3), "output_tokens = 0: request 0"),
        (block_table_lab(), (0, 3, 1, 0), "output_tokens = 0: request 0"),
        (block_table_lab(), (0, 3, 5), "output_tokens = 5: request 0: at most max_tokens = 4"),
    ],
)
def test_what_the_rules_do_not_describe_is_refused(config: Any, request_row: tuple[int, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(config, request_row)


def test_unknown_words_give_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "swap"'):
        run(preemption_lab(preemption_mode="swop"))
    with pytest.raises(UnknownNameError, match='did you mean "paged"'):
        run(block_table_lab(allocator="page"))
