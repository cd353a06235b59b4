"""Long quiet stretches, which short random runs never have: the fast engine takes them in one go."""

from __future__ import annotations

import pytest
from tests.differential.compare import assert_engines_agree
from tests.strategies import MS, Case

from kvlab.core.config import BlockTableLabConfig, PreemptionLabConfig
from kvlab.core.request import Request

PREEMPTION = PreemptionLabConfig(
    num_gpu_blocks=700,
    num_cpu_blocks=50,
    block_size=16,
    max_num_seqs=2,
    headroom_blocks=0,
    preemption_mode="swap",
    prefill_budget_tokens=512,
    base_ns=25 * MS,
    per_seq_ns=300_000,
    per_prefill_token_ns=120_000,
    swap_per_token_ns=25_000,
    swap_per_block_ns=150_000,
)
BLOCK_TABLES = BlockTableLabConfig(
    allocator="paged",
    kv_tokens=6_000,
    block_size=16,
    max_tokens=5_000,
    max_num_seqs=2,
    base_ns=9 * MS,
    per_seq_ns=150_000,
    per_context_token_ns=90,
    per_prefill_token_ns=60_000,
    paging_overhead_num=6,
    paging_overhead_den=10,
)
CONTIGUOUS = BlockTableLabConfig(
    allocator="contiguous",
    kv_tokens=11_000,
    block_size=16,
    max_tokens=5_000,
    max_num_seqs=2,
    base_ns=9 * MS,
    per_seq_ns=150_000,
    per_context_token_ns=90,
    per_prefill_token_ns=60_000,
    paging_overhead_num=6,
    paging_overhead_den=10,
)


@pytest.mark.parametrize("config", [PREEMPTION, BLOCK_TABLES, CONTIGUOUS], ids=["preemption", "paged", "contiguous"])
def test_both_engines_agree_over_thousands_of_quiet_steps(
    config: PreemptionLabConfig | BlockTableLabConfig,
) -> None:
    """One long answer, one that leaves in between, and two that wait behind a full house."""
    requests = (
        Request(0, 0, 300, (5_000,)),
        Request(1, 1_000 * MS, 200, (400,)),
        Request(2, 2_000 * MS, 400, (1_000,)),
        Request(3, 2_000 * MS, 500, (1,)),
    )
    assert_engines_agree(Case(config, requests, window_ns=60_000 * MS))
