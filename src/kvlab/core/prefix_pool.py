"""The paged pools of the vLLM V1 scheduler: blocks 1, 2, ..., taken from the front of one free queue.

Blocks of a table are given back from the last to the first: those without a cache entry to the front of the queue,
those with one to its back. So the queue is always a stack of blocks without an entry, and behind it a line of blocks
with one; a block loses its entry when it is taken out of that line as a new block.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence

Key = int | tuple[int, int]
"""What a full block holds, and everything before it. Equal keys, equal content."""


class StackPool:
    """Without a prefix cache. The top of the stack is its end, so that taking and giving back are slices."""

    __slots__ = ("_stack", "num_blocks", "num_free")

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        self._stack = list(range(num_blocks, 0, -1))

    def take(self, count: int) -> list[int]:
        """The first `count` free blocks."""
        assert count <= self.num_free, f"take({count}) with {self.num_free} free"
        self.num_free -= count
        return self._pop(count)

    def _pop(self, count: int) -> list[int]:
        stack = self._stack
        taken = stack[: -count - 1 : -1]
        del stack[len(stack) - count :]
        return taken

    def extend_each(self, tables: Collection[list[int]]) -> None:
        """One more block for each table, in order, as `take(1)` would give it."""
        any(map(list.append, tables, self.take(len(tables))))  # append returns None: no table is left out

    def give_back(self, table: Sequence[int]) -> None:
        """Lets go of a table's blocks, last to first."""
        self._stack += table
        self.num_free += len(table)
        assert self.num_free <= self.num_blocks, f"{self.num_free} free of {self.num_blocks}"

    def free_blocks(self) -> list[int]:
        """In the order in which they would be taken. A copy, for checks."""
        return self._stack[::-1]


class PrefixPool(StackPool):
    """With a prefix cache: full blocks have keys, and who needs the same content shares them."""

    __slots__ = ("_doubles", "_extra_holders", "_first", "_key_of", "_line", "evicted", "num_shared")

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self._line: OrderedDict[int, None] = OrderedDict()
        """Free blocks with an entry, the next to be taken in front."""
        self._key_of: dict[int, Key] = {}
        self._first: dict[Key, int] = {}
        """Key -> the block with it that entered first."""
        self._doubles: dict[Key, list[int]] = {}
        """Key -> further blocks with it, in the order in which they entered."""
        self._extra_holders: dict[int, int] = {}
        """Of blocks that several tables hold: holders beyond the first."""
        self.num_shared = 0
        """Sum of those."""
        self.evicted = 0
        """Entries lost so far."""

    @property
    def num_keys(self) -> int:
        """Distinct keys in the cache."""
        return len(self._first)

    def _pop(self, count: int) -> list[int]:
        plain = min(count, len(self._stack))
        taken = super()._pop(plain) if plain else []
        if plain < count:
            taken += self._evict(count - plain)
        return taken

    def _evict(self, count: int) -> list[int]:
        """The first `count` blocks of the line; their entries go."""
        pop, key_of, first, doubles = self._line.popitem, self._key_of, self._first, self._doubles
        self.evicted += count
        taken = [pop(last=False)[0] for _ in range(count)]
        for block in taken:
            key = key_of.pop(block)
            if key in doubles:
                self._drop_double(key, block)
            else:
                del first[key]
        return taken

    def _drop_double(self, key: Key, block: int) -> None:
        """The key keeps the other blocks with it, in their order."""
        others = self._doubles[key]
        if self._first[key] == block:
            self._first[key] = others.pop(0)
        else:
            others.remove(block)
        if not others:
            del self._doubles[key]

    def enter(self, block: int, key: Key) -> None:
        """A taken block is full now: from here on it can be hit. It has no entry yet."""
        self._key_of[block] = key
        if key in self._first:
            self._doubles.setdefault(key, []).append(block)
        else:
            self._first[key] = block

    def lookup(self, keys: Iterable[Key]) -> list[int]:
        """The blocks of the longest start of `keys` that is in the cache."""
        found = []
        first = self._first
        for key in keys:
            block = first.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def num_idle(self, blocks: Iterable[int]) -> int:
        """How many of the blocks are free."""
        return sum(map(self._line.__contains__, blocks))

    def hold(self, blocks: Iterable[int]) -> None:
        """One more holder of each of these blocks, which have entries."""
        line, extra = self._line, self._extra_holders
        for block in blocks:
            if block in line:
                del line[block]
                self.num_free -= 1
            else:
                extra[block] = extra.get(block, 0) + 1
                self.num_shared += 1

    def give_back(self, table: Sequence[int]) -> None:
        """Lets go of a table's blocks, last to first; those without a holder left are free."""
        line, extra, key_of = self._line, self._extra_holders, self._key_of
        plain: list[int] = []
        for block in reversed(table):
            if block in extra:
                self._let_go(block)
            elif block in key_of:
                line[block] = None
                self.num_free += 1
            else:
                plain.append(block)
        plain.reverse()
        self._stack += plain
        self.num_free += len(plain)
        assert self.num_free <= self.num_blocks, f"{self.num_free} free of {self.num_blocks}"

    def _let_go(self, block: int) -> None:
        """One of several holders leaves."""
        self.num_shared -= 1
        left = self._extra_holders[block] - 1
        if left:
            self._extra_holders[block] = left
        else:
            del self._extra_holders[block]

    def free_blocks(self) -> list[int]:
        """In the order in which they would be taken. A copy, for checks."""
        return [*super().free_blocks(), *self._line]

    def free_keys(self) -> list[Key]:
        """What free blocks hold, the next to be taken first."""
        return [self._key_of[block] for block in self._line]
