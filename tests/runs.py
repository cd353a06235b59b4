"""Small runs that tests of results, tables and pictures share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kvlab import reference
from kvlab.core import engine
from kvlab.core.config import EVERYTHING, BlockTableLabConfig, LabConfig, PreemptionLabConfig, Recording
from kvlab.core.request import OpenLoop, Request
from kvlab.reference import ReferenceRun
from kvlab.results import Run

MS = 1_000_000

PREEMPTION = PreemptionLabConfig(
    num_gpu_blocks=12, num_cpu_blocks=4, block_size=4, max_num_seqs=6, headroom_blocks=0, preemption_mode="swap",
    prefill_budget_tokens=16, base_ns=10 * MS, per_seq_ns=MS, per_prefill_token_ns=MS // 10, swap_per_token_ns=MS // 10,
    swap_per_block_ns=MS // 5,
)  # fmt: skip
PAGED = BlockTableLabConfig(
    allocator="paged", kv_tokens=50, block_size=4, max_tokens=24, max_num_seqs=8, base_ns=9 * MS, per_seq_ns=MS,
    per_context_token_ns=100, per_prefill_token_ns=MS // 20, paging_overhead_num=6, paging_overhead_den=10,
)  # fmt: skip
CONTIGUOUS = BlockTableLabConfig(
    allocator="contiguous", kv_tokens=96, block_size=4, max_tokens=24, max_num_seqs=8, base_ns=9 * MS, per_seq_ns=MS,
    per_context_token_ns=100, per_prefill_token_ns=MS // 20, paging_overhead_num=6, paging_overhead_den=10,
)  # fmt: skip

ONE_SAMPLE = tuple(
    Request(i, arrival * MS, prompt, (output,))
    for i, (arrival, prompt, output) in enumerate(
        [(5, 9, 12), (5, 10, 14), (8, 11, 9), (30, 6, 20), (31, 60, 3), (900, 5, 4), (1000, 13, 1)]
    )
)
"""Fills 12 blocks of 4, leaves a pause before 900 ms; request 4 can never run there."""
SAMPLES = tuple(
    Request(i, arrival * MS, prompt, outputs)
    for i, (arrival, prompt, outputs) in enumerate(
        [(0, 9, (12, 5)), (0, 10, (8, 8, 3)), (3, 6, (20,)), (700, 8, (4, 9)), (701, 3, (2, 2, 2, 2, 2, 2, 2, 2, 2))]
    )
)
"""Parallel samples; request 4 has more than 8."""


@dataclass(frozen=True)
class NamedScenario:
    """The least that a run needs of a scenario."""

    name: str = "test"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "traffic": {"seed": 1}}


def run_of(
    config: LabConfig,
    requests: Sequence[Request],
    *,
    recording: Recording = EVERYTHING,
    name: str = "test",
) -> Run:
    """A run on the fast engine with a window of 100 ms."""
    record = engine.simulate(
        config,
        OpenLoop(requests),
        recording=recording,
        window_ns=100 * MS,
    )
    scenario = NamedScenario(name)
    return Run(scenario=scenario, record=record, config=config, window_ns=100 * MS, kv_bytes_per_token=1024)


@cache
def preemption_run() -> Run:
    return run_of(PREEMPTION, ONE_SAMPLE)


@cache
def paged_run() -> Run:
    return run_of(PAGED, SAMPLES)


@cache
def contiguous_run() -> Run:
    return run_of(CONTIGUOUS, SAMPLES)


def stopped(run: Run, *, after_steps: int) -> Run:
    """The run as it would be if somebody had stopped it (the engine asks only every few thousand steps)."""
    steps = run.record.steps[:after_steps]
    totals = replace(run.record.totals, steps=after_steps, end_ns=steps[-1].t_ns)
    return replace(run, record=replace(run.record, steps=steps, totals=totals, interrupted=True))


def reference_of(config: LabConfig, requests: Sequence[Request]) -> ReferenceRun:
    """The same on the naive engine."""
    return reference.simulate(config, OpenLoop(requests), window_ns=100 * MS)
