"""Every entry of the engine's registries keeps its piece's contract; a new entry is found by itself."""

from __future__ import annotations

import itertools

import pytest

from kvlab.core.admission import ADMISSION_RULES
from kvlab.core.allocators import ALLOCATORS
from kvlab.core.config import BlockTableLabConfig, PreemptionLabConfig
from kvlab.core.cost import STEP_COSTS, context_cost, linear_cost
from kvlab.core.preemption import GROUP_PREEMPTION_MODES, PREEMPTION_MODES
from kvlab.core.prefill import PREFILL_RULES
from kvlab.core.queues import WAITING_ORDERS
from kvlab.core.request import Request
from kvlab.core.schedulers import SCHEDULERS, scheduler_for
from kvlab.core.sequence import Job
from kvlab.core.victims import VICTIM_POLICIES

PREEMPTION = PreemptionLabConfig(
    num_gpu_blocks=40, num_cpu_blocks=8, block_size=4, max_num_seqs=8, headroom_blocks=0, preemption_mode="swap",
    prefill_budget_tokens=32, base_ns=1000, per_seq_ns=10, per_prefill_token_ns=3, swap_per_token_ns=2,
    swap_per_block_ns=5,
)  # fmt: skip
BLOCK_TABLES = BlockTableLabConfig(
    allocator="paged", kv_tokens=160, block_size=4, max_tokens=20, max_num_seqs=8, base_ns=1000, per_seq_ns=10,
    per_context_token_ns=1, per_prefill_token_ns=3, paging_overhead_num=6, paging_overhead_den=10,
)  # fmt: skip


def jobs(count: int, samples: int = 1) -> list[Job]:
    return [Job(Request(i, i * 10, 9 + i, (5,) * samples)) for i in range(count)]


@pytest.mark.parametrize("name", WAITING_ORDERS)
def test_a_waiting_order_loses_nobody_and_its_head_is_taken_next(name: str) -> None:
    queue = WAITING_ORDERS[name]()
    everybody = jobs(6)
    for job in everybody[:4]:
        queue.add(job)
    for job in everybody[4:]:
        queue.add_preempted(job)
    taken = []
    while queue:
        head = queue.head()
        assert queue.take_head() is head
        taken.append(head.id)
    assert sorted(taken) == [job.id for job in everybody]


@pytest.mark.parametrize("name", VICTIM_POLICIES)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_victim_is_one_of_the_running_and_choosing_changes_nothing(name: str, count: int) -> None:
    running = {job.id: job for job in jobs(count)}
    before = list(running.items())
    victim = VICTIM_POLICIES[name](running)
    assert victim in running.values()
    assert victim is VICTIM_POLICIES[name](running)
    assert list(running.items()) == before


@pytest.mark.parametrize("name", PREEMPTION_MODES)
def test_a_victim_is_swapped_only_into_space_that_is_there(name: str) -> None:
    for blocks, free in itertools.product(range(6), repeat=2):
        if PREEMPTION_MODES[name](blocks, free):
            assert 1 <= blocks <= free


@pytest.mark.parametrize("name", GROUP_PREEMPTION_MODES)
def test_a_group_is_swapped_only_into_space_that_is_there(name: str) -> None:
    for samples, blocks, free in itertools.product(range(1, 4), range(1, 6), range(6)):
        if GROUP_PREEMPTION_MODES[name](samples, blocks, free):
            assert blocks <= free
    assert GROUP_PREEMPTION_MODES[name](1, 1, 9) == (name == "swap")
    assert GROUP_PREEMPTION_MODES[name](2, 1, 9) == (name != "recompute")


@pytest.mark.parametrize("name", ADMISSION_RULES)
def test_admission_never_promises_blocks_that_are_not_free_and_an_empty_server_takes_what_fits(name: str) -> None:
    may_admit = ADMISSION_RULES[name]
    for need, free, reserve in itertools.product(range(6), range(6), range(4)):
        for nothing_runs in (False, True):
            if may_admit(need, free, reserve, nothing_runs):
                assert need <= free
        assert may_admit(need, free, reserve, True) == (need <= free)


@pytest.mark.parametrize("name", PREFILL_RULES)
def test_a_prefill_makes_progress_and_never_computes_too_much(name: str) -> None:
    for todo, budget in itertools.product(range(1, 8), repeat=2):
        assert 1 <= PREFILL_RULES[name](todo, budget) <= todo


def test_every_step_cost_has_a_lab_that_uses_it() -> None:
    assert {type(linear_cost(PREEMPTION)), type(context_cost(BLOCK_TABLES))} == set(STEP_COSTS.values())


@pytest.mark.parametrize("cost", [linear_cost(PREEMPTION), context_cost(BLOCK_TABLES)], ids=list(STEP_COSTS))
def test_a_step_takes_longer_the_more_it_does(cost: object) -> None:
    least = cost.duration_ns(1, 10, 0, 0)  # type: ignore[attr-defined]
    assert least > 0
    for load in ((2, 10, 0, 0), (1, 10, 5, 0), (1, 10, 0, 7)):
        assert cost.duration_ns(*load) > least  # type: ignore[attr-defined]
    longer = cost.duration_ns(1, 100_000, 0, 0)  # type: ignore[attr-defined]
    assert (longer > least) == cost.grows_with_context  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ALLOCATORS)
@pytest.mark.parametrize("samples", [1, 3])
def test_an_allocator_gives_back_all_that_it_gave(name: str, samples: int) -> None:
    memory = ALLOCATORS[name](BLOCK_TABLES)
    free = memory.space.num_free
    assert free * memory.tokens_per_unit == memory.capacity_tokens == memory.largest_hole
    placed: list[Job] = []
    for job in jobs(12, samples):
        assert memory.can_ever_hold(job.request)
        if memory.has_room(job, nothing_runs=not placed):
            memory.place(job)
            placed.append(job)
            assert all(seq.table for seq in job.live)
    assert 1 <= len(placed) < 12
    memory.check([seq for job in placed for seq in job.live])
    for job in placed[::-1]:
        for seq in job.live:
            memory.release(seq)
    memory.check([])
    assert memory.space.num_free == free
    assert memory.largest_hole == memory.capacity_tokens


@pytest.mark.parametrize("config", [PREEMPTION, BLOCK_TABLES], ids=["preemption lab", "block-table lab"])
def test_a_fresh_scheduler_has_nothing_and_all_memory(config: PreemptionLabConfig | BlockTableLabConfig) -> None:
    assert type(config) in SCHEDULERS
    scheduler = scheduler_for(config, log_memory=True)
    assert not scheduler.has_work
    assert scheduler.space.num_free * scheduler.tokens_per_unit == scheduler.capacity_tokens
    scheduler.check(0)
