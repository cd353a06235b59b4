"""The paged pool: a free queue of blocks, and how many tables hold each block that is shared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


class BlockPool:
    """KV blocks 0..num_blocks-1, first in, first out. Taking more than `num_free` is the caller's bug.

    The free blocks are `_queue[_head:]`: taking is a slice and giving back an append, so both cost a few
    nanoseconds a block; the spent front is dropped once it is as long as the pool.
    """

    __slots__ = ("_extra_holders", "_head", "_queue", "num_blocks", "num_free")

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        self._queue = list(range(num_blocks))
        self._head = 0
        self._extra_holders: dict[int, int] = {}  # of shared blocks only: holders beyond the first

    @property
    def num_taken(self) -> int:
        """Blocks that some table holds."""
        return self.num_blocks - self.num_free

    def take(self, count: int) -> list[int]:
        """The `count` blocks that were free longest, each now held once."""
        assert count <= self.num_free, f"take({count}) with {self.num_free} free"
        head = self._head
        self._head = head + count
        self.num_free -= count
        return self._queue[head : head + count]

    def extend_each(self, tables: Collection[list[int]]) -> None:
        """One more block for each table, in order, as `take(1)` would give it."""
        head, count = self._head, len(tables)
        assert count <= self.num_free, f"{count} tables grow with {self.num_free} free"
        self._head = end = head + count
        self.num_free -= count
        any(map(list.append, tables, self._queue[head:end]))  # append returns None: no table is left out

    def share(self, blocks: Iterable[int], extra: int) -> None:
        """`extra` more holders of each of these taken blocks."""
        if extra:
            for block in blocks:
                self._extra_holders[block] = self._extra_holders.get(block, 0) + extra

    def is_shared(self, block: int) -> bool:
        """Whether more than one table holds the block."""
        return block in self._extra_holders

    def num_holders(self, block: int) -> int:
        """Tables that hold a taken block."""
        return 1 + self._extra_holders.get(block, 0)

    def give_back(self, blocks: Sequence[int]) -> int:
        """Lets go of a table's blocks, first to last; those without a holder left go to the tail. Returns how many."""
        if self._extra_holders:
            blocks = [block for block in blocks if self._is_last_holder(block)]
        self._queue += blocks
        self.num_free += len(blocks)
        assert self.num_free <= self.num_blocks, f"{self.num_free} free of {self.num_blocks}"
        if self._head > self.num_blocks:
            del self._queue[: self._head]
            self._head = 0
        return len(blocks)

    def _is_last_holder(self, block: int) -> bool:
        extra = self._extra_holders.get(block)
        if extra is None:
            return True
        if extra == 1:
            del self._extra_holders[block]
        else:
            self._extra_holders[block] = extra - 1
        return False

    def free_blocks(self) -> list[int]:
        """In the order in which they would be taken. A copy, for checks."""
        return self._queue[self._head :]


class StackBlockPool(BlockPool):
    """KV blocks 0..num_blocks-1, last in, first out: the highest number is taken first. `_queue` ends with the top."""

    __slots__ = ()

    def take(self, count: int) -> list[int]:
        """The `count` blocks on top, each now held once."""
        assert count <= self.num_free, f"take({count}) with {self.num_free} free"
        stack = self._queue
        taken = stack[: -count - 1 : -1]
        del stack[len(stack) - count :]
        self.num_free -= count
        return taken

    def extend_each(self, tables: Collection[list[int]]) -> None:
        """One more block for each table, in order, as `take(1)` would give it."""
        any(map(list.append, tables, self.take(len(tables))))  # append returns None: no table is left out

    def free_blocks(self) -> list[int]:
        """In the order in which they would be taken. A copy, for checks."""
        return self._queue[::-1]
