"""The memory map over time, from the delta log: only what changed from one moment to the next.

A block is held for intervals of steps. Each becomes two events, at the first moment that shows it and at the first that
no longer does. Sorted by block and time, their sums say who holds a block when; sorted by time and block, equal
neighbours become one run:

    moment            0    1    2    3    4              runs (start, length, owner)
    block 7  request 3     +              -              1: (7, 2, 3)
    block 8  request 3     +         -                   3: (8, 1, free)     4: (7, 1, free)

Events are packed into one number each, because numpy sorts numbers in a tenth of the time that it needs for rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvlab.web.series import Moments
from kvlab.web.stays import Ints, StayColumns

Words = npt.NDArray[np.uint32]

SHARED: Final = 1
COPIED: Final = 2
"""Flags in the two low bits of an owner; the rest is request id + 1. A free block is 0."""
CACHED: Final = 1
KEPT: Final = 2
"""In place of an owner: a free block whose content can be hit again; one that the engine keeps for itself."""
_FLAG_BITS: Final = 2

_OWNER_BITS: Final = 22
_MOMENT_BITS: Final = 10
_BLOCK_BITS: Final = 24
_MOMENT_MASK: Final = (1 << _MOMENT_BITS) - 1
_OWNER_MASK: Final = (1 << _OWNER_BITS) - 1
_ENDS: Final = 1
"""Flags of an event: the interval ends; it is the flash of a copy."""
_FLASH: Final = 2

_LAST_OWNER: Final = _OWNER_MASK >> _FLAG_BITS
"""More than any request's; those just below it stand for no request while states are computed."""

Intervals = tuple[Ints, ...]
"""(block, first moment, moment after, owner) of every table entry."""

_HOLDER: Final = 1 << 42  # sums of owners stay below: 1,024 samples of the largest owner
_COPY: Final = 1 << 56


class Extra(NamedTuple):
    """Blocks that are something else than free or held: one entry per stretch of moments, `after` not included."""

    block: Ints
    first: Ints
    after: Ints
    what: Ints
    """`CACHED` or `KEPT`."""


class Changes(NamedTuple):
    """Rows `offset[i]` to `offset[i + 1]` of `runs` are what moment i brings: start, length, owner."""

    offset: Words
    runs: Words


def changes(stays: StayColumns, moments: Moments, extra: Extra | None = None) -> Changes:
    """What changed in a pool of blocks, against the moment before (all free before the first)."""
    held = _intervals(stays, moments)
    if extra is not None:
        others = (extra.block, extra.first, extra.after, _LAST_OWNER - extra.what)
        held = tuple(map(np.concatenate, zip(held, others, strict=True)))
    states = _shared_states(stays, moments, held) if stays.may_share else _sole_states(held)
    found = _runs(states, len(moments))
    if extra is not None:
        owner = found.runs[2::3]
        for what in (CACHED, KEPT):
            owner[owner == (_LAST_OWNER - what) << _FLAG_BITS] = what
    return found


def _sole_states(held: Intervals) -> Ints:
    """As `_states`, where no block has two holders at once: no sums are needed, and only one sort."""
    block, first, after, owner = held
    seen = first < after
    block, owner = block[seen], owner[seen] << _FLAG_BITS
    events = np.empty(2 * len(block), np.int64)  # moment | block | whether it is taken | owner
    events[: len(block)] = ((((after[seen] << _BLOCK_BITS) | block) << 1) << _OWNER_BITS) | owner
    events[len(block) :] = (((((first[seen] << _BLOCK_BITS) | block) << 1) | 1) << _OWNER_BITS) | owner
    events.sort()
    # who leaves a block in the moment in which another gets it stands just before
    place, owner = events >> (_OWNER_BITS + 1), events & _OWNER_MASK
    passed_on = np.flatnonzero(place[1:] == place[:-1])
    kept = np.ones(len(events), bool)
    kept[passed_on] = False
    kept[passed_on + 1] = owner[passed_on] != owner[passed_on + 1]
    owner[(events >> _OWNER_BITS) & 1 == 0] = 0
    return ((place << _OWNER_BITS) | owner)[kept]


def _shared_states(stays: StayColumns, moments: Moments, held: Intervals) -> Ints:
    """As `_sole_states`, where a block may have several holders."""
    block, first, after, owner = held
    low = owner << _FLAG_BITS
    if stays.copies:
        block, first, after, low = _with_copies(stays, moments, block, first, after, low)
    seen = first < after
    block, low = block[seen] << _MOMENT_BITS, low[seen]
    begins, ends = block | first[seen], block | after[seen]
    events = np.concatenate([(begins << _OWNER_BITS) | low, (ends << _OWNER_BITS) | low | _ENDS])
    return _states(np.sort(events), _Longest(begins, ends, low))


class _Longest:
    """Of several holders of a block, who keeps it longest of those who came so far: that one is shown."""

    def __init__(self, begins: Ints, ends: Ints, low: Ints) -> None:
        order = np.argsort(begins, kind="stable")
        self._begins = begins[order]
        self._latest = np.maximum.accumulate(((ends << _OWNER_BITS) | low)[order])  # of the block, as it comes first

    def __call__(self, place: Ints) -> Ints:
        """The owner at block | moment."""
        latest = self._latest[np.searchsorted(self._begins, place, side="right") - 1]
        found: Ints = latest & (_OWNER_MASK & ~(_ENDS | _FLASH))
        return found


def _intervals(stays: StayColumns, moments: Moments) -> Intervals:
    count = stays.num_blocks
    first = moments.first[stays.entry_steps()]
    after = np.repeat(moments.after[stays.until_step], count)
    return stays.blocks, first, after, np.repeat(stays.request_id + 1, count)


def _with_copies(
    stays: StayColumns, moments: Moments, block: Ints, first: Ints, after: Ints, low: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Before its copy a sample held the shared source; the copy flashes in the first moment that shows it."""
    number = np.array([number for number, _ in stays.copies])
    place = stays.first_entry[number] + np.array([copied.entry for _, copied in stays.copies])
    step = np.array([copied.step for _, copied in stays.copies])
    source = np.array([copied.source for _, copied in stays.copies])
    shown = moments.first[step]
    first[place] = shown
    return (
        np.concatenate([block, source, block[place]]),
        np.concatenate([first, moments.first[stays.start_step[number]], shown]),
        np.concatenate([after, moments.after[step], np.minimum(shown + 1, after[place])]),
        np.concatenate([low, low[place], low[place] | _FLASH]),
    )


def _states(events: Ints, longest: _Longest) -> Ints:
    """moment | block | new owner with flags, for every block that differs from the moment before; sorted.

    Args:
        events: by block, then moment: block | moment | owner | flags.
    """
    if not len(events):
        return events
    value = _HOLDER + ((events & _OWNER_MASK) & ~(_ENDS | _FLASH))
    if (events & _FLASH).any():
        value = np.where(events & _FLASH, _COPY, value)
    total = np.cumsum(np.where(events & _ENDS, -value, value))  # 0 after the last event of each block
    place = events >> _OWNER_BITS  # block | moment
    is_last = np.append(place[1:] != place[:-1], True)
    place, total = place[is_last], total[is_last]
    copies, rest = total >> 56, total & (_COPY - 1)
    holders, owner = rest >> 42, rest & (_HOLDER - 1)
    several = holders > 1
    owner[several] = longest(place[several]) + SHARED
    owner += COPIED * (copies > 0)
    changed = np.empty(len(owner), bool)
    changed[0] = owner[0] != 0
    changed[1:] = owner[1:] != owner[:-1]
    place, owner = place[changed], owner[changed]
    turned = ((place & _MOMENT_MASK) << _BLOCK_BITS) | (place >> _MOMENT_BITS)
    return np.sort((turned << _OWNER_BITS) | owner)


def _runs(states: Ints, num_moments: int) -> Changes:
    place, owner = states >> _OWNER_BITS, states & _OWNER_MASK
    opens = np.ones(len(states), bool)
    opens[1:] = (place[1:] != place[:-1] + 1) | (owner[1:] != owner[:-1])
    first = np.flatnonzero(opens)
    place = place[first]
    runs = np.empty((len(first), 3), np.uint32)
    runs[:, 0] = place & ((1 << _BLOCK_BITS) - 1)
    runs[:, 1] = np.diff(np.append(first, len(states)))
    runs[:, 2] = owner[first]
    offset = np.searchsorted(place, np.arange(num_moments + 1) << _BLOCK_BITS, side="left")
    return Changes(offset.astype(np.uint32), runs.ravel())


def segments(stays: StayColumns, moments: Moments, max_tokens: int) -> Changes:
    """Contiguous memory whole at each moment, by address; rows are start, reserved, used, owner."""
    first, after = moments.first[stays.start_step], moments.after[stays.end_step]
    count = np.maximum(after - first, 0)
    number = np.repeat(np.arange(len(count)), count)
    moment = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    order = np.lexsort((stays.segment[number, 0], moment))
    number, moment = number[order], moment[order]
    decode_step = np.where(stays.decode_step < 0, stays.end_step, stays.decode_step)[number]
    words = np.empty((len(number), 4), np.uint32)
    words[:, :2] = stays.segment[number]
    words[:, 2] = stays.segment[number, 1] - max_tokens + np.maximum(moments.steps[moment] - decode_step, 0)
    words[:, 3] = (stays.request_id[number] + 1) << _FLAG_BITS
    offset = np.searchsorted(moment, np.arange(len(moments) + 1), side="left")
    return Changes(offset.astype(np.uint32), words.ravel())
