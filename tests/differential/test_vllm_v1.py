"""Random runs under the vLLM V1 rules: both engines must agree on every decision, block and book."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.differential.compare import token_times
from tests.vllm_strategies import VllmCase, vllm_cases

from kvlab.core import engine as core
from kvlab.core.config import EVERYTHING, METRICS, Recording, VllmV1Config
from kvlab.core.memory import gpu_stays_at
from kvlab.core.records import RunRecord
from kvlab.core.request import Request
from kvlab.core.step_time import LinearStepTime
from kvlab.core.vllm_lines import core_lines
from kvlab.reference import vllm_v1 as reference

Line = dict[str, Any]

FIXED_RUNS = 400
FIXED_SEED = 1

NEEDED = (
    "a preemption", "several victims in one step", "a victim in the middle of the list", "a request preempted twice",
    "a hit", "a hit of a block that somebody holds", "an eviction",
    "a resume that hits", "a rejection", "a stalled run", "an answer cut at max_model_len",
    "a chunk that ends inside a prompt", "a partial request before one that decodes", "a plain decode step",
    "a clock jump", "equal arrivals", "a closed loop",
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
    @given(vllm_cases(coarse=coarse))
    def agree(case: VllmCase) -> None:
        met.update(situations(case, assert_engines_agree(case)))

    (agree if runs else seed(FIXED_SEED + coarse)(agree))()
    print(*(f"{count:9,} x {what}" for what, count in sorted(met.items())), sep="\n")
    if runs is None or runs >= FIXED_RUNS:
        assert not [what for what, count in met.items() if count == 0]


@pytest.mark.parametrize("caching", [False, True])
def test_a_livelock_ends_a_run(caching: bool) -> None:
    """A request whose prompt fits, but not its answer, is let in and preempts itself again and again.

    With a cache it hits all it had and lacks one block more than the pool has: it stalls at the door.
    """
    config = VllmV1Config(
        num_gpu_blocks=4,
        block_size=2,
        max_num_seqs=4,
        max_num_batched_tokens=4,
        max_model_len=100,
        reserve_full_prompt=False,
        enable_prefix_caching=caching,
        step_time=LinearStepTime(base_ns=1),
    )
    run = assert_engines_agree(VllmCase(config=config, requests=(Request(0, 0, 5, (10,)), Request(1, 0, 1, (1,)))))
    assert run.record.totals.unfinished >= 1
    assert bool(run.lines[-1]["preempted"]) == (not caching)


def assert_engines_agree(case: VllmCase) -> reference.VllmReferenceRun:
    expected = reference.run(case.config, case.source(), window_ns=case.window_ns, slo=case.slo)
    lines, _ = core_lines(case.config, case.source())
    pairs: Iterable[tuple[Line, Line]] = zip_longest(expected.lines, lines, fillvalue={})
    for number, (one, other) in enumerate(pairs):
        assert ordered(one) == ordered(other), f"step {number}\nreference: {one}\ncore:      {other}"
    got = run_core(case, EVERYTHING, check=True)
    for number, (row, mine) in enumerate(zip_longest(expected.record.steps, got.steps)):
        assert row == mine, f"step {number}\nreference: {row}\ncore:      {mine}"
    for field in ("requests", "rejected", "totals", "ttft", "gap", "tpot", "e2e", "queue_time", "capacity_tokens"):
        assert getattr(expected.record, field) == getattr(got, field), field
    times = token_times(got)
    for owner, theirs in expected.token_times.items():
        assert times.get((owner, 0), []) == theirs, f"token times of request {owner}"
    for number, line in enumerate(expected.lines):
        stays = gpu_stays_at(got.stays, number)
        tables = [(stay.request_id, stay.table_at(number)) for stay in stays]
        assert tables == list(line["tables"].items()), f"step {number}: tables from the log"
    for recording in (METRICS, Recording(memory=True)):
        again = run_core(case, recording)
        for field in ("totals", "ttft", "gap", "tpot", "e2e", "queue_time"):
            assert getattr(again, field) == getattr(got, field), f"{field} depend on {recording}"
    return expected


def run_core(case: VllmCase, recording: Recording, *, check: bool = False) -> RunRecord:
    return core.simulate(
        case.config, case.source(), recording=recording, window_ns=case.window_ns, slo=case.slo, check=check
    )


def ordered(line: dict[str, Any]) -> dict[str, Any]:
    """With the order of ids as part of it, and keys in one order."""
    return {key: list(line[key].items()) if isinstance(line[key], dict) else line[key] for key in sorted(line)}


def situations(case: VllmCase, run: reference.VllmReferenceRun) -> Counter[str]:
    """Which rare situations a run went through."""
    found: Counter[str] = Counter()
    record, config = run.record, case.config
    for before, line in zip(run.lines, run.lines[1:], strict=False):
        running = [*before["tables"]]
        left = [i for i in running if i not in before["finished"]]
        found["a victim in the middle of the list"] += any(i in left[:-1] for i in line["preempted"][:1])
        found["a clock jump"] += line["t"] > before["t"] + before["dt"]
    for line in run.lines:
        sched, emitted = line["sched"], set(line["emitted"])
        found["a preemption"] += len(line["preempted"])
        found["several victims in one step"] += len(line["preempted"]) > 1
        assert bool(line["preempted"]) or len(sched) == len(line["tables"]), "the budget reaches everybody who runs"
        found["a hit"] += any(line.get("hits", {}).values())
        found["an eviction"] += line.get("evicted", 0)
        found["a resume that hits"] += any(line["hits"][i] for i in line["resumed"]) if "hits" in line else 0
        found["a chunk that ends inside a prompt"] += any(i not in emitted for i in sched)
        order = [i in emitted for i in sched]
        found["a partial request before one that decodes"] += order != sorted(order, reverse=True)
        found["a plain decode step"] += line["decode"] == len(line["tables"]) > 0
    steps = record.steps
    found["a hit of a block that somebody holds"] += sum(step.saved_blocks > 0 for step in steps)
    found["a request preempted twice"] += sum(r.preemptions > 1 for r in record.requests)
    found["a rejection"] += len(record.rejected)
    livelocked = bool(record.totals.unfinished and run.lines and run.lines[-1]["preempted"])
    found["a livelock"] += livelocked
    found["a stalled run"] += bool(record.totals.unfinished) and not livelocked
    found["an answer cut at max_model_len"] += sum(
        r.finish_ns is not None and r.prompt_tokens + r.output_tokens == config.max_model_len for r in record.requests
    )
    arrivals = [r.arrival_ns for r in record.requests]
    found["equal arrivals"] += len(arrivals) - len(set(arrivals))
    found["a closed loop"] += case.users is not None
    return found
