"""Names for what full blocks hold: equal keys, equal tokens and equal tokens before them.

Keys are numbers, made once per block of a request and never from token lists: content comes as segments (pieces of
conversations, system prompts) or as a trace's hash ids.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from kvlab.core.prefix_pool import Key
from kvlab.core.request import Request, Segment

HASHED_TOKENS: Final = 512
"""Tokens of a prompt that one of a trace's hash ids stands for."""

Piece = tuple[Segment, int, int]


class BlockKeys:
    """Makes the keys of one run. Blocks that nobody else can have get numbers below zero, which are never reused."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._numbers: dict[tuple[Key, tuple[Piece, ...]], int] = {}
        self._unique = 0

    def extend(self, request: Request, keys: list[Key], num_blocks: int) -> None:
        """Appends to a request's keys until it has one for each of its first `num_blocks` blocks."""
        if request.content is not None:
            for place in range(len(keys), num_blocks):
                keys.append(self._shared(request, keys[-1] if keys else 0, place))
            return
        if request.hash_ids and len(keys) < num_blocks:
            self._extend_hashed(request, keys, num_blocks)
        more = num_blocks - len(keys)
        if more > 0:
            self._unique -= more
            keys += range(self._unique + more - 1, self._unique - 1, -1)

    def _extend_hashed(self, request: Request, keys: list[Key], num_blocks: int) -> None:
        """Blocks inside what hash ids stand for: one is told by the last id it touches, and its place."""
        size = self._block_size
        hashed = min(len(request.hash_ids) * HASHED_TOKENS, request.prompt_tokens) // size
        if HASHED_TOKENS % size == 0:
            each = HASHED_TOKENS // size
            while len(keys) < min(num_blocks, hashed):
                number, first = divmod(len(keys), each)
                last = min(each, first + min(num_blocks, hashed) - len(keys))
                start = request.hash_ids[number] * each
                keys += range(start + first, start + last)
            return
        for place in range(len(keys), min(num_blocks, hashed)):
            keys.append((request.hash_ids[((place + 1) * size - 1) // HASHED_TOKENS], place))

    def _shared(self, request: Request, before: Key, place: int) -> Key:
        """The key of a block of known content after a block with the key `before`."""
        pieces = self._pieces(request, place * self._block_size, (place + 1) * self._block_size)
        if pieces is None:
            self._unique -= 1
            return self._unique
        return self._numbers.setdefault((before, pieces), len(self._numbers) + 1)

    def _pieces(self, request: Request, start: int, end: int) -> tuple[Piece, ...] | None:
        """The tokens from `start` to `end` in as few pieces as possible; None: nobody else has them."""
        content = request.content
        assert content is not None
        bounds = [0, *accumulate(piece[2] for piece in content.prompt)]
        found: list[Piece] = []
        while start < end:
            place = bisect_right(bounds, start) - 1
            if place < len(content.prompt):
                segment, first, _ = content.prompt[place]
                until = min(end, bounds[place + 1])
            elif content.output is None:
                return None
            else:
                segment, first, until = content.output, 0, end
            offset = first + start - bounds[place]
            if found and found[-1][0] == segment and found[-1][1] + found[-1][2] == offset:
                found[-1] = (segment, found[-1][1], found[-1][2] + until - start)
            else:
                found.append((segment, offset, until - start))
            start = until
        return tuple(found)
