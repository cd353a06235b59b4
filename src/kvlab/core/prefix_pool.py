"""The paged pools of the vLLM V1 scheduler: blocks 1, 2, ..., taken from the front of one free queue.

Blocks of a table are given back from the last to the first: those without a cache entry to the front of the queue,
those with one to its back. So the queue is always a stack of blocks without an entry, and behind it a line of blocks
with one; a block loses its entry when it is taken out of that line as a new block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from kvlab.core.blocks import StackBlockPool

Key = int | tuple[int, int]
"""What a full block holds, and everything before it. Equal keys, equal content."""


class StackPool(StackBlockPool):
    """Without a prefix cache: a stack with block 1 on top."""

    __slots__ = ()

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self._queue = list(range(num_blocks, 0, -1))

    def give_back(self, blocks: Sequence[int], entered: int = 0) -> int:
        """Lets go of a table's blocks, last to first. Without a cache none has `entered` it."""
        return super().give_back(blocks)


class PrefixPool(StackPool):
    """With a prefix cache: full blocks have keys, and who needs the same content shares them.

    Most of what is done to a table is done to all its blocks at once, in a call or two of the interpreter's own.
    """

    __slots__ = ("_doubles", "_first", "_idle", "_key_of", "_line", "_stale", "evicted", "num_shared")

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self._line: deque[int] = deque()
        """Free blocks with an entry, the next to be taken in front; and places that blocks left, see `_stale`."""
        self._stale: dict[int, int] = {}
        """Block -> how many of its places in the line, from the front on, it has left."""
        self._idle: set[int] = set()
        """Free blocks with an entry."""
        self._key_of: dict[int, Key] = {}
        self._first: dict[Key, int] = {}
        """Key -> the block with it that entered first."""
        self._doubles: dict[Key, list[int]] = {}
        """Key -> further blocks with it, in the order in which they entered."""
        self.num_shared = 0
        """Holders of blocks beyond the first, summed up."""
        self.evicted = 0
        """Entries lost so far."""

    @property
    def num_keys(self) -> int:
        """Distinct keys in the cache."""
        return len(self._first)

    def take(self, count: int) -> list[int]:
        """The first `count` free blocks: those without an entry, then those that were free longest."""
        assert count <= self.num_free, f"take({count}) with {self.num_free} free"
        plain = min(count, len(self._queue))
        taken = super().take(plain) if plain else []
        if plain < count:
            self.num_free -= count - plain
            taken += self._evict(count - plain)
        return taken

    def _evict(self, count: int) -> list[int]:
        """The first `count` blocks of the line; their entries go."""
        taken = self._leave_line(count)
        self.evicted += count
        self._idle.difference_update(taken)
        keys = list(map(self._key_of.pop, taken))
        if self._doubles and not self._doubles.keys().isdisjoint(keys):
            for block, key in zip(taken, keys, strict=True):
                self._drop(key, block)
        else:
            deque(map(self._first.pop, keys), 0)
        return taken

    def _leave_line(self, count: int) -> list[int]:
        """The first `count` blocks of the line, without places that are stale."""
        pop, stale = self._line.popleft, self._stale
        taken = [pop() for _ in range(count)]
        if stale and not stale.keys().isdisjoint(taken):
            left, taken = taken, []
            while left:
                taken += [block for block in left if not self._was_stale(block)]
                left = [pop() for _ in range(count - len(taken))]
        return taken

    def _was_stale(self, block: int) -> bool:
        """Whether the block's first place in the line was one that it has left."""
        left = self._stale.get(block)
        if left is None:
            return False
        if left == 1:
            del self._stale[block]
        else:
            self._stale[block] = left - 1
        return True

    def _drop(self, key: Key, block: int) -> None:
        """The key keeps the other blocks with it, in their order, if there are any."""
        others = self._doubles.get(key)
        if others is None:
            del self._first[key]
            return
        if self._first[key] == block:
            self._first[key] = others.pop(0)
        else:
            others.remove(block)
        if not others:
            del self._doubles[key]

    def enter(self, blocks: Sequence[int], keys: Sequence[Key]) -> None:
        """Taken blocks are full now: from here on they can be hit. They have no entries yet."""
        first = self._first
        if len(blocks) == 1 and keys[0] not in first:  # what a decode fills
            self._key_of[blocks[0]] = keys[0]
            first[keys[0]] = blocks[0]
            return
        self._key_of.update(zip(blocks, keys, strict=True))
        if first.keys().isdisjoint(keys):  # and no two of them are equal, being of one request
            first.update(zip(keys, blocks, strict=True))
            return
        for block, key in zip(blocks, keys, strict=True):
            if key in first:
                self._doubles.setdefault(key, []).append(block)
            else:
                first[key] = block

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
        return len(self._idle.intersection(blocks))

    def hold(self, blocks: Iterable[int]) -> None:
        """One more holder of each of these blocks, which have entries."""
        idle, stale, extra = self._idle, self._stale, self._extra_holders
        for block in blocks:
            if block in idle:
                idle.remove(block)
                stale[block] = stale.get(block, 0) + 1
                self.num_free -= 1
            else:
                extra[block] = extra.get(block, 0) + 1
                self.num_shared += 1

    def give_back(self, blocks: Sequence[int], entered: int = 0) -> int:
        """Lets go of a table's blocks, last to first; those without a holder left are free. Returns how many.

        Args:
            entered: how many of them, from the start on, have an entry.
        """
        cached = blocks[:entered]
        extra = self._extra_holders
        if extra and not extra.keys().isdisjoint(cached):
            held = extra.keys() & set(cached)
            for block in held:
                self._let_go(block)
            cached = [block for block in cached if block not in held]
        self._line.extend(reversed(cached))
        self._idle.update(cached)
        self.num_free += len(cached)
        if len(self._line) > 2 * self.num_blocks:
            self._line = deque(self._in_line())
            self._stale.clear()
        return len(cached) + super().give_back(blocks[entered:])

    def _let_go(self, block: int) -> None:
        """One of several holders leaves."""
        self.num_shared -= 1
        left = self._extra_holders[block] - 1
        if left:
            self._extra_holders[block] = left
        else:
            del self._extra_holders[block]

    def _in_line(self) -> list[int]:
        """Free blocks with an entry, the next to be taken first."""
        left = dict(self._stale)
        found = []
        for block in self._line:
            if left.get(block):
                left[block] -= 1
            else:
                found.append(block)
        return found

    def free_blocks(self) -> list[int]:
        """In the order in which they would be taken. A copy, for checks."""
        return [*super().free_blocks(), *self._in_line()]

    def free_keys(self) -> list[Key]:
        """What free blocks hold, the next to be taken first."""
        return [self._key_of[block] for block in self._in_line()]
