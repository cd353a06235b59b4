"""The paged pools against a model that counts holders block by block."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from kvlab.core.blocks import BlockPool, StackBlockPool

Table = list[int]


class PoolMachine(RuleBasedStateMachine):
    """Tables take blocks, share them with further tables, and let them go in any order."""

    tables: Bundle[Table] = Bundle("tables")

    @initialize(num_blocks=st.integers(1, 40))
    def start(self, num_blocks: int) -> None:
        self.pool = self.new_pool(num_blocks)
        self.free = deque(self.pool.free_blocks())
        self.holders = [0] * num_blocks

    def new_pool(self, num_blocks: int) -> BlockPool:
        """First in, first out."""
        return BlockPool(num_blocks)

    def now_free(self, block: int) -> None:
        """Its place among the free blocks, the next to be taken in front."""
        self.free.append(block)

    def _taken_from_the_front(self, count: int) -> Table:
        blocks = [self.free.popleft() for _ in range(count)]
        for block in blocks:
            self.holders[block] = 1
        return blocks

    def _let_go(self, blocks: Table) -> int:
        """Returns how many became free."""
        freed = 0
        for block in blocks:
            self.holders[block] -= 1
            if self.holders[block] == 0:
                self.now_free(block)
                freed += 1
        return freed

    @rule(target=tables, data=st.data())
    def take(self, data: st.DataObject) -> Table:
        count = data.draw(st.integers(0, len(self.free)))
        taken = self.pool.take(count)
        assert taken == self._taken_from_the_front(count)
        return taken

    @rule(target=tables, table=tables, samples=st.integers(2, 4), data=st.data())
    def fork(self, table: Table, samples: int, data: st.DataObject) -> object:
        """Further tables share the first blocks of one."""
        shared = table[: data.draw(st.integers(0, len(table)))]
        self.pool.share(shared, samples - 1)
        for block in shared:
            self.holders[block] += samples - 1
        return multiple(*(list(shared) for _ in range(samples - 1)))

    @rule(table=consumes(tables))
    def give_back(self, table: Table) -> None:
        assert self.pool.give_back(table) == self._let_go(table)

    @precondition(lambda self: self.free)
    @rule(table=tables, data=st.data())
    def copy_on_write(self, table: Table, data: st.DataObject) -> None:
        """A fresh block first, then the shared one is let go."""
        shared = [entry for entry, block in enumerate(table) if self.holders[block] > 1]
        if shared:
            entry = data.draw(st.sampled_from(shared))
            fresh = self.pool.take(1)
            assert fresh == self._taken_from_the_front(1)
            assert self.pool.give_back([table[entry]]) == self._let_go([table[entry]]) == 0
            table[entry] = fresh[0]

    @invariant()
    def same_queue_and_holders(self) -> None:
        assert self.pool.free_blocks() == list(self.free)
        assert self.pool.num_free == len(self.free)
        assert self.pool.num_taken == self.pool.num_blocks - len(self.free)
        for block, count in enumerate(self.holders):
            if count:
                assert self.pool.num_holders(block) == count
                assert self.pool.is_shared(block) == (count > 1)


class StackMachine(PoolMachine):
    """The same for a stack."""

    def new_pool(self, num_blocks: int) -> BlockPool:
        """Last in, first out."""
        return StackBlockPool(num_blocks)

    def now_free(self, block: int) -> None:
        """On top."""
        self.free.appendleft(block)


TestPool = PoolMachine.TestCase
TestStack = StackMachine.TestCase
TestPool.settings = TestStack.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, derandomize=True
)


def test_a_queue_begins_with_the_lowest_number_and_a_stack_with_the_highest() -> None:
    assert BlockPool(3).take(2) == [0, 1]
    assert StackBlockPool(3).take(2) == [2, 1]


def test_tables_grow_in_order() -> None:
    for pool in (BlockPool(5), StackBlockPool(5)):
        expected = pool.free_blocks()
        tables: list[list[int]] = [[], [], []]
        pool.extend_each(tables)
        assert tables == [[block] for block in expected[:3]]


def test_taking_more_than_is_free_is_the_callers_bug() -> None:
    pool = BlockPool(3)
    pool.take(2)
    with pytest.raises(AssertionError, match=r"take\(2\) with 1 free"):
        pool.take(2)


def test_the_queue_does_not_grow_with_the_number_of_turns() -> None:
    pool = BlockPool(4)
    expected = deque(range(4))
    for _ in range(10_000):
        blocks = pool.take(3)
        assert blocks == [expected.popleft() for _ in range(3)]
        pool.give_back(blocks)
        expected.extend(blocks)
    assert pool.free_blocks() == list(expected)
