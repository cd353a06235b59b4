"""Which rare situations a run went through: a random test that never meets them shows nothing."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.strategies import Case

from kvlab.core.config import BlockTableLabConfig, PreemptionLabConfig
from kvlab.core.records import StepRecord
from kvlab.reference import ReferenceRun
from kvlab.units import ceil_div


def situations(case: Case, run: ReferenceRun) -> Counter[str]:
    """How often each occurred in one run; 0 for those that did not."""
    found = _in_steps(run.record.steps)
    found.update(_of_requests(case, run))
    if isinstance(case.config, PreemptionLabConfig):
        found.update(_in_preemption_lab(case.config, run))
    else:
        found.update(_in_block_table_lab(case, case.config, run))
    return found


def _in_steps(steps: tuple[StepRecord, ...]) -> Counter[str]:
    found: Counter[str] = Counter()
    for before, step in pairwise(steps):
        found["a plain step after one that preempted"] += bool(before.preempted) and _is_plain(step)
        found["a plain step after one that finished something"] += bool(before.finished) and _is_plain(step)
        found["a preemption in the step after an admission"] += bool(step.preempted and before.admitted)
        found["a clock jump over an idle time"] += step.t_ns - step.dur_ns > before.t_ns
    for step in steps:
        found["a preemption"] += len(step.preempted)
        found["several preemptions in one step"] += len(step.preempted) > 1
        found["several requests finish in one step"] += len(step.finished) > 1
        found["several admissions in one step"] += len(step.admitted) > 1
    return found


def _is_plain(step: StepRecord) -> bool:
    return not (step.preempted or step.admitted or step.resumed or step.prefill_tokens)


def _of_requests(case: Case, run: ReferenceRun) -> Counter[str]:
    found: Counter[str] = Counter()
    requests = run.record.requests
    plain_ends = {step.t_ns for step in run.record.steps if _is_plain(step) and not step.finished}
    found["a rejection"] += len(run.record.rejected)
    found["an arrival at the very end of a plain step"] += sum(r.arrival_ns in plain_ends for r in requests)
    found["equal arrivals"] += sum(a.arrival_ns == b.arrival_ns for a, b in pairwise(requests))
    found["an output of one token"] += sum(r.output_tokens == 1 for r in requests)
    found["a request preempted twice"] += sum(r.preemptions > 1 for r in requests)
    found["a pause over one second"] += run.record.totals.paused
    found["a request that missed the SLO"] += run.record.totals.finished - run.record.totals.good
    found["a token after the window"] += run.record.totals.output_tokens_in_window < run.record.totals.output_tokens
    found["one sequence at most"] += case.config.max_num_seqs == 1
    found["blocks of one token"] += case.config.block_size == 1
    found["closed loop"] += case.users is not None
    return found


def _in_preemption_lab(config: PreemptionLabConfig, run: ReferenceRun) -> Counter[str]:
    found: Counter[str] = Counter()
    totals = run.record.totals
    found["a swap-in"] = totals.swap_ins
    found["a request swapped twice"] = sum(r.swap_outs > 1 for r in run.record.requests)
    fates = [fate for step in run.record.steps for _, fate in step.preempted]
    found["recomputed although swapping: no room, or nothing computed"] = (
        fates.count("recompute") if config.preemption_mode == "swap" else 0
    )
    found["preempted before its first token"] = sum(
        r.first_token_ns is not None
        and any(
            r.id == victim and step.t_ns <= r.first_token_ns
            for step in run.record.steps
            for victim, _ in step.preempted
        )
        for r in run.record.requests
    )
    found["a full swap space"] = sum(
        bool(config.num_cpu_blocks) and sum(map(len, tables.values())) == config.num_cpu_blocks
        for tables in run.cpu_tables
    )
    found["a full pool"] = sum(sum(map(len, tables.values())) == config.num_gpu_blocks for tables in run.tables)
    found["a pool that holds barely one request"] = sum(
        not r.rejected and ceil_div(r.prompt_tokens + r.output_tokens - 1, config.block_size) == config.num_gpu_blocks
        for r in run.record.requests
    )
    found["headroom larger than the pool"] = config.headroom_blocks > config.num_gpu_blocks
    found["one prefill token a step"] = config.prefill_budget_tokens == 1
    found["an admission waits for the swapped"] = sum(
        bool(step.waiting and step.swapped and not step.preempted) for step in run.record.steps
    )
    return found


def _in_block_table_lab(case: Case, config: BlockTableLabConfig, run: ReferenceRun) -> Counter[str]:
    found: Counter[str] = Counter()
    steps = run.record.steps
    found["a copy on write"] = run.record.totals.cow_copies
    found["a last holder writes in place"] = sum(
        before.saved_blocks > step.saved_blocks and not (step.preempted or before.finished)
        for before, step in pairwise(steps)
    )
    found["samples that end apart"] = sum(len(set(r.output_tokens)) > 1 for r in case.requests)
    found["samples preempted together"] = sum(r.preemptions and r.num_samples > 1 for r in run.record.requests)
    found["a sample that ended before its request was preempted"] = sum(
        run.token_times[r.id, k][-1] <= _last_preemption_ns(steps, r.id)
        for r in run.record.requests
        if r.preemptions
        for k in range(r.num_samples)
    )
    if config.allocator == "contiguous":
        found["a hole between two segments"] = sum(
            step.largest_hole_tokens < config.kv_tokens - step.reserved_tokens for step in steps
        )
        found["holes that merged"] = sum(
            bool(before.finished) and step.largest_hole_tokens > before.largest_hole_tokens
            for before, step in pairwise(steps)
        )
    return found


def _last_preemption_ns(steps: tuple[StepRecord, ...], request_id: int) -> int:
    """Start of the step that preempted it last."""
    return max(step.t_ns - step.dur_ns for step in steps if any(victim == request_id for victim, _ in step.preempted))
