"""The delta log of memory as columns: one numpy array per figure of a stay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvlab.core.memory import Copied, Stay

Ints = npt.NDArray[np.int64]

NEVER: Final = -1
"""Of `decode_step`: the stay ended before its first token."""
FINISHED, RECOMPUTE, SWAP, RESUMED, OPEN, GROWN = range(6)
_ENDS: Final = {
    "finished": FINISHED,
    "recompute": RECOMPUTE,
    "swap": SWAP,
    "resumed": RESUMED,
    "open": OPEN,
    "grown": GROWN,
}
"""A stay that ended as grown goes on as the next one of its request, at the same step."""


class StayColumns(NamedTuple):
    """One entry per stay; see `kvlab.core.memory.Stay`."""

    request_id: Ints
    start_step: Ints
    end_step: Ints
    until_step: Ints
    """The same of the last of the stays that go on in one another: so long its blocks are held."""
    decode_step: Ints
    initial_blocks: Ints
    """Without those of the stay before."""
    growth_step: Ints
    block_size: Ints
    end: Ints
    """Why it ended: one of the numbers above."""
    segment: Ints
    """(first token, length), one row each; no rows where memory is paged."""
    num_blocks: Ints
    earlier_blocks: Ints
    """Of the table, those that the stay before brought, which this one goes on from."""
    table_blocks: Ints
    """Length of the table at the end of the last of the stays that go on in one another."""
    last_end: Ints
    """Why that one ended."""
    blocks: Ints
    """Of all stays, one after the other; of one that goes on from another, those that came with it."""
    copies: list[tuple[int, Copied]]
    """(place of the stay, its copy on write)."""
    may_share: bool
    """Whether two may hold the same block at a time."""

    @property
    def first_entry(self) -> Ints:
        """Where the blocks of each stay begin."""
        return np.cumsum(self.num_blocks) - self.num_blocks

    def entry_steps(self) -> Ints:
        """The step that took each of the blocks."""
        count = self.num_blocks
        entry = np.arange(len(self.blocks)) - np.repeat(self.first_entry, count)
        grown = entry - np.repeat(self.initial_blocks, count)
        steps = np.repeat(self.start_step, count)
        is_grown = grown >= 0
        growth_step = np.repeat(self.growth_step, count)[is_grown]
        steps[is_grown] = growth_step + grown[is_grown] * np.repeat(self.block_size, count)[is_grown]
        return steps


def stay_columns(stays: Sequence[Stay], *, may_share: bool = True) -> StayColumns:
    """The columns of some stays, in the order of their ends; all in blocks, or all in segments.

    Args:
        may_share: False if no block was ever shared, which spares work.
    """
    turned: list[tuple[Any, ...]] = list(zip(*stays, strict=True)) or [()] * len(Stay._fields)
    column = dict(zip(Stay._fields, turned, strict=True))
    blocks: Sequence[tuple[int, ...]] = column["blocks"]
    before, lasts = [0] * len(stays), stays
    if "grown" in column["end"]:
        before, lasts = _spliced(stays)
        blocks = [stay.blocks[skipped:] for stay, skipped in zip(stays, before, strict=True)]
    num_blocks = _ints(list(map(len, blocks)))
    return StayColumns(
        request_id=_ints(column["request_id"]),
        start_step=_ints(column["start_step"]),
        end_step=_ints(column["end_step"]),
        until_step=_ints([stay.end_step for stay in lasts]),
        decode_step=_ints([NEVER if step is None else step for step in column["decode_step"]]),
        initial_blocks=_ints(column["initial_blocks"]) - _ints(before),
        growth_step=_ints(column["growth_step"]),
        block_size=_ints(column["block_size"]),
        end=_ints([_ENDS[end] for end in column["end"]]),
        segment=_ints([segment for segment in column["segment"] if segment is not None]).reshape(-1, 2),
        num_blocks=num_blocks,
        earlier_blocks=_ints(before),
        table_blocks=_ints([len(stay.blocks) for stay in lasts]),
        last_end=_ints([_ENDS[stay.end] for stay in lasts]),
        blocks=np.fromiter(chain.from_iterable(blocks), np.int64, int(num_blocks.sum())),
        copies=[(place, copied) for place, copied in enumerate(column["copied"]) if copied is not None],
        may_share=may_share,
    )


def _spliced(stays: Sequence[Stay]) -> tuple[list[int], list[Stay]]:
    """Of each stay, how many blocks come from the stay that it goes on from; and which it goes on to in the end."""
    known: dict[int, int] = {}
    """Admission order -> blocks of the stay before, while it goes on."""
    before = []
    for stay in stays:
        before.append(known.pop(stay.order, 0))
        if stay.end == "grown":
            known[stay.order] = len(stay.blocks)
    last: dict[int, Stay] = {}
    lasts = []
    for stay in reversed(stays):
        if stay.end != "grown":
            last[stay.order] = stay
        lasts.append(last[stay.order])
    return before, lasts[::-1]


def _ints(values: Sequence[Any]) -> Ints:
    return np.array(values, np.int64)
