"""Random runs under the rules of vLLM 0.6: both engines must agree on every time, block and book."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.differential.compare import assert_engines_agree
from tests.vllm_v0_strategies import V0Case, v0_cases

from kvlab.reference import ReferenceRun

FIXED_RUNS = 500
FIXED_SEED = 1

NEEDED = (
    "a recompute", "a swap-out", "a swap-in", "several victims in one step", "a request preempted twice",
    "a request that makes itself go", "a victim although its table is not full", "samples swapped together",
    "samples swapped while they share a block to be written", "several samples recomputed: no room for a swap",
    "one sample left of several, recomputed", "a copy on write", "an admission that waits for the swapped",
    "decodes that pause", "prefill steps in a row", "several admissions in one step", "a rejection",
    "a request that fails", "a stalled run", "an answer cut at max_model_len", "a clock jump", "equal arrivals",
    "a closed loop", "a plain decode step", "an output of one token",
)  # fmt: skip


@pytest.mark.parametrize("coarse", [False, True], ids=["ns", "whole ms"])
def test_both_engines_agree(coarse: bool, request: pytest.FixtureRequest) -> None:
    runs = request.config.getoption("--runs")
    met: Counter[str] = Counter(dict.fromkeys(NEEDED, 0))

    @settings(
        max_examples=runs or FIXED_RUNS,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(v0_cases(coarse=coarse))
    def agree(case: V0Case) -> None:
        met.update(situations(case, assert_engines_agree(case)))

    (agree if runs else seed(FIXED_SEED + coarse)(agree))()
    print(*(f"{count:9,} x {what}" for what, count in sorted(met.items())), sep="\n")
    if runs is None or runs >= FIXED_RUNS:
        assert not [what for what, count in met.items() if count == 0]


def situations(case: V0Case, run: ReferenceRun) -> Counter[str]:
    """How often each rare situation occurred in a run."""
    found = Counter(dict.fromkeys(NEEDED, 0))
    found.update(_in_steps(case, run))
    record, config = run.record, case.config
    samples = {r.id: r.num_samples for r in record.requests}
    fates = [(i, fate) for step in record.steps for i, fate in step.preempted]
    found["a swap-in"] = record.totals.swap_ins
    found["a copy on write"] = record.totals.cow_copies
    found["samples swapped together"] = sum(fate == "swap" and samples[i] > 1 for i, fate in fates)
    found["a request preempted twice"] = sum(r.preemptions > 1 for r in record.requests)
    found["a rejection"] = len(record.rejected)
    unfinished = [r for r in record.requests if not r.rejected and r.finish_ns is None]
    left = record.steps[-1].waiting + record.steps[-1].swapped if record.steps else 0
    found["a request that fails"] = len(unfinished) - left
    found["a stalled run"] = left > 0
    found["an answer cut at max_model_len"] = sum(
        not r.rejected and r.output_tokens < sum(case.requests[r.id].output_tokens) for r in record.requests
    )
    found["equal arrivals"] = sum(a.arrival_ns == b.arrival_ns for a, b in pairwise(record.requests))
    found["a closed loop"] = case.users is not None
    found["an output of one token"] = sum(not r.rejected and r.output_tokens == 1 for r in record.requests)
    assert record.totals.unfinished == len(unfinished)
    assert config.max_num_seqs >= record.totals.peak_running
    return found


def _in_steps(case: V0Case, run: ReferenceRun) -> Counter[str]:
    found: Counter[str] = Counter()
    steps = run.record.steps
    prompts = {r.id: r.prompt_tokens for r in case.requests}
    for number, (before, step) in enumerate(pairwise(steps), start=1):
        tables = run.tables[number - 1]
        running = [i for i, _ in tables if i not in before.finished]
        victims = [i for i, _ in step.preempted]
        found["a request that makes itself go"] += bool(victims) and running[0] == victims[-1]
        found["decodes that pause"] += bool(step.admitted and running)
        found["prefill steps in a row"] += bool(step.admitted and before.admitted)
        found["a clock jump"] += step.t_ns - step.dur_ns > before.t_ns
        for request_id, fate in step.preempted:
            mine = [table for (i, _), table in tables.items() if i == request_id]
            shares = len(mine) > 1 and mine[0][-1] == mine[1][-1] and prompts[request_id] % case.config.block_size
            alone = len(mine) == 1 and len(case.requests[request_id].output_tokens) > 1
            found["samples swapped while they share a block to be written"] += bool(shares) and fate == "swap"
            found["one sample left of several, recomputed"] += alone and fate == "recompute"
            found["several samples recomputed: no room for a swap"] += (
                len(mine) > 1 and fate == "recompute" and case.config.preemption_mode != "recompute"
            )
        if victims and not step.running:
            found["a victim although its table is not full"] += before.used_tokens < before.reserved_tokens
    for step in steps:
        fates = [fate for _, fate in step.preempted]
        found["a recompute"] += fates.count("recompute")
        found["a swap-out"] += fates.count("swap")
        found["several victims in one step"] += len(fates) > 1
        found["several admissions in one step"] += len(step.admitted) > 1
        found["an admission that waits for the swapped"] += bool(step.waiting and step.swapped and not fates)
        found["a plain decode step"] += bool(step.running) and not (fates or step.admitted or step.resumed)
        assert not (step.admitted and (fates or step.resumed)), "prefills share a step with decodes"
    return found
