"""The memory map over time, from the delta log: only what changed from one moment to the next.

A block's life is intervals of steps; between two moments most blocks keep their owner. So every interval becomes two
events (+ its owner, - its owner) at the moments that first show it and no longer show it, and equal neighbours in a
moment become one run:

    moment            0    1    2    3    4              runs (start, length, owner)
    block 7  request 3     +              -              1: (7, 2, 3)
    block 8  request 3     +         -                   3: (8, 1, free)     4: (7, 1, free)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvlab.core.memory import Stay
from kvlab.web.series import Ints, Moments

Words = npt.NDArray[np.uint32]

SHARED: Final = 1
COPIED: Final = 2
"""Flags in the two low bits of an owner; the rest is request id + 1. A free block is 0."""
_FLAG_BITS: Final = 2
_HOLDER: Final = 1 << 42  # events add holders above the owners; 1,024 holders of owner 2^31 stay below
_COPY: Final = 1 << 56


class Changes(NamedTuple):
    """`runs[3 k]`, from `offset[i]` to `offset[i + 1]`, are (start, length, owner) of what changed at moment i."""

    offset: Words
    runs: Words


class _Holdings(NamedTuple):
    """Blocks held, one entry per interval."""

    block: Ints
    first: Ints
    """The first moment that shows it."""
    after: Ints
    """The first that does not any more."""
    value: Ints
    """What its events add to the block."""


def changes(stays: Sequence[Stay], moments: Moments) -> Changes:
    """What changed in a pool of blocks, against the moment before (all free before the first)."""
    held = _holdings(stays, moments)
    block = np.concatenate([held.block, held.block])
    moment = np.concatenate([held.first, held.after])
    value = np.concatenate([held.value, -held.value])
    inside = moment < len(moments)
    return _runs(*_states(block[inside], moment[inside], value[inside]), len(moments))


def _holdings(stays: Sequence[Stay], moments: Moments) -> _Holdings:
    rows = np.array([_row(stay) for stay in stays], np.int64).reshape(-1, 7)
    length, start_step, end_step, initial, growth_step, block_size, owner = rows.T
    block = np.fromiter(chain.from_iterable(stay.blocks for stay in stays), np.int64, int(length.sum()))
    entry = np.arange(len(block)) - np.repeat(np.cumsum(length) - length, length)
    grown = entry - np.repeat(initial, length)
    start = np.where(
        grown < 0,
        np.repeat(start_step, length),
        np.repeat(growth_step, length) + grown * np.repeat(block_size, length),
    )
    end, owners = np.repeat(end_step, length), np.repeat(owner, length)
    held = _Holdings(block, moments.index_of(start), moments.index_after(end), owners * (1 << _FLAG_BITS) + _HOLDER)
    if any(stay.copied is not None for stay in stays):
        held = _with_copies(held, stays, np.cumsum(length) - length, moments)
    seen = held.first < held.after
    return _Holdings(*(column[seen] for column in held))


def _row(stay: Stay) -> tuple[int, ...]:
    growth_step = min(stay.growth_step, stay.end_step)  # NEVER times a block size is no 64-bit number
    return (
        len(stay.blocks), stay.start_step, stay.end_step, stay.initial_blocks, growth_step, stay.block_size,
        stay.request_id + 1,
    )  # fmt: skip


def _with_copies(held: _Holdings, stays: Sequence[Stay], first_entry: Ints, moments: Moments) -> _Holdings:
    """Before its copy, a sample held the shared source; the copy flashes in the first moment that shows it."""
    copied = [(stay, stay.copied, int(first)) for stay, first in zip(stays, first_entry, strict=True) if stay.copied]
    place = np.array([first + copy.entry for _, copy, first in copied])
    step = np.array([copy.step for _, copy, _ in copied])
    source = np.array([copy.source for _, copy, _ in copied])
    start = np.array([stay.start_step for stay, _, _ in copied])
    held.first[place] = moments.index_of(step)
    shown = held.first[place]
    more = (
        _Holdings(source, moments.index_of(start), moments.index_after(step), held.value[place]),
        _Holdings(held.block[place], shown, np.minimum(shown + 1, held.after[place]), np.full(len(place), _COPY)),
    )
    return _Holdings(*(np.concatenate(columns) for columns in zip(held, *more, strict=True)))


def _states(block: Ints, moment: Ints, value: Ints) -> tuple[Ints, Ints, Ints]:
    """(moment, block, new owner) of every block whose owner or flags differ from the moment before, in that order."""
    order = _sorted_by(block, moment)
    block, moment, value = block[order], moment[order], value[order]
    is_first = np.ones(len(block), bool)
    is_first[1:] = (block[1:] != block[:-1]) | (moment[1:] != moment[:-1])
    places = np.flatnonzero(is_first)
    if not len(places):
        return moment, block, value
    block, moment = block[places], moment[places]
    # a block's events add up to 0 or stop at the last moment: sums restart with each block
    total = np.cumsum(np.add.reduceat(value, places))
    opens = np.ones(len(block), bool)
    opens[1:] = block[1:] != block[:-1]
    before_block = np.concatenate([[0], total])[np.flatnonzero(opens)]
    total -= np.repeat(before_block, np.diff(np.append(np.flatnonzero(opens), len(block))))
    owner = _owner(total)
    before = np.where(opens, 0, np.concatenate([[0], owner[:-1]]))
    changed = owner != before
    moment, block, owner = moment[changed], block[changed], owner[changed]
    order = np.argsort(_small(moment), kind="stable")
    return moment[order], block[order], owner[order]


def _owner(total: Ints) -> Ints:
    """An owner with its flags from the sum of all who hold a block."""
    copies, rest = np.divmod(total, _COPY)
    holders, owners = np.divmod(rest, _HOLDER)
    # all holders are samples of one request
    owner: Ints = owners // np.maximum(holders, 1) + SHARED * (holders > 1) + COPIED * (copies > 0)
    return owner


def _sorted_by(major: Ints, minor: Ints) -> Ints:
    """Indices that sort by major, then minor; numpy sorts 16-bit numbers by radix, five times faster than 64-bit."""
    by_minor = np.argsort(_small(minor), kind="stable")
    order: Ints = by_minor[np.argsort(_small(major[by_minor]), kind="stable")]
    return order


def _small(values: Ints) -> npt.NDArray[np.uint16] | Ints:
    return values.astype(np.uint16) if len(values) and values.max() < 2**16 else values


def _runs(moment: Ints, block: Ints, owner: Ints, num_moments: int) -> Changes:
    opens = np.ones(len(block), bool)
    opens[1:] = (moment[1:] != moment[:-1]) | (block[1:] != block[:-1] + 1) | (owner[1:] != owner[:-1])
    first = np.flatnonzero(opens)
    length = np.diff(np.append(first, len(block)))
    runs = np.column_stack([block[first], length, owner[first]]).astype(np.uint32)
    offset = np.searchsorted(moment[first], np.arange(num_moments + 1), side="left")
    return Changes(offset.astype(np.uint32), runs.ravel())


def segments(stays: Iterable[Stay], moments: Moments, max_tokens: int) -> Changes:
    """Contiguous memory whole at each moment: `runs[4 k]` are (start, reserved, used, owner), by address."""
    held = [stay for stay in stays if stay.segment is not None]
    rows = np.array([_segment_row(stay) for stay in held], np.int64).reshape(-1, 6)
    start, reserved, start_step, end_step, decode_step, owner = rows.T
    first, after = moments.index_of(start_step), moments.index_after(end_step)
    count = np.maximum(after - first, 0)
    stay = np.repeat(np.arange(len(held)), count)
    moment = np.arange(len(stay)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    order = np.lexsort((start[stay], moment))
    stay, moment = stay[order], moment[order]
    emitted = np.maximum(moments.steps[moment] - decode_step[stay], 0)
    used = reserved[stay] - max_tokens + emitted
    words = np.column_stack([start[stay], reserved[stay], used, owner[stay] << _FLAG_BITS]).astype(np.uint32)
    offset = np.searchsorted(moment, np.arange(len(moments) + 1), side="left")
    return Changes(offset.astype(np.uint32), words.ravel())


def _segment_row(stay: Stay) -> tuple[int, ...]:
    assert stay.segment is not None
    decode_step = stay.end_step if stay.decode_step is None else stay.decode_step
    return (*stay.segment, stay.start_step, stay.end_step, decode_step, stay.request_id + 1)
