"""The decode clock against a list that counts tokens one by one."""

from __future__ import annotations

import pytest

from kvlab.core.blocks import BlockPool
from kvlab.core.decode import DecodeBatch
from kvlab.core.request import Request
from kvlab.core.sequence import NEVER, Job


def joined(batch: DecodeBatch, request_id: int, known: int, output: int, step: int, order: int) -> Job:
    job = Job(Request(request_id, 0, known, (output,)))
    job.live[0].order = order
    job.live[0].table = list(range(-(-known // 4)))
    batch.join(job, step)
    return job


@pytest.mark.parametrize("known", range(1, 10))
def test_a_table_grows_in_just_the_steps_in_which_a_token_finds_it_full(known: int) -> None:
    batch, pool = DecodeBatch(4), BlockPool(50)
    job = joined(batch, 0, known, 30, step=7, order=1)
    seq = job.live[0]
    for step in range(8, 7 + 30):
        assert batch.grow(step, pool)
        assert len(seq.table) == -(-job.known_at(step) // 4), f"step {step}"
    assert batch.next_end() == 7 + 30 - 1


def test_too_few_blocks_grow_nothing() -> None:
    batch, pool = DecodeBatch(4), BlockPool(1)
    first, second = (joined(batch, i, 4, 9, step=0, order=i) for i in range(2))
    assert not batch.grow(1, pool)
    assert pool.num_free == 1
    assert len(first.live[0].table) == len(second.live[0].table) == 1


def test_members_of_a_phase_take_blocks_in_admission_order_even_if_they_joined_late() -> None:
    batch, pool = DecodeBatch(4), BlockPool(9)
    late = joined(batch, 0, 4, 9, step=0, order=5)
    early = joined(batch, 1, 4, 9, step=0, order=2)
    assert batch.grow(1, pool)
    assert early.live[0].table[-1] == 0
    assert late.live[0].table[-1] == 1


def test_ends_come_by_step_and_then_by_admission_order_and_skip_those_that_left() -> None:
    batch = DecodeBatch(4)
    slow = joined(batch, 0, 3, 5, step=0, order=1)
    gone = joined(batch, 1, 3, 2, step=0, order=2)
    tied = joined(batch, 2, 3, 3, step=2, order=3)
    batch.leave(gone.live[0])
    gone.live[0].order = -1
    assert batch.num_seqs == 2
    assert batch.next_end() == 4
    assert batch.pop_ended(3) is None
    assert batch.pop_ended(4) is slow.live[0]
    assert batch.pop_ended(4) is tied.live[0]
    assert batch.pop_ended(4) is None
    assert batch.next_end() == NEVER


def test_without_blocks_nothing_grows() -> None:
    batch = DecodeBatch(None)
    joined(batch, 0, 4, 9, step=0, order=1)
    assert not batch.grows
    assert batch.phases == [{}]
