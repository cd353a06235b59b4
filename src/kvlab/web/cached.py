"""Blocks that nobody holds and that can still be hit: read off the log of stays.

A block enters the prefix cache when it is full, and loses its entry when it is handed out as a new block. So one that
its last holder left full is cached until it is in a table again, by a hit or as a new block:

    block 7   |-- request 3 --|. . cached . .|-- request 9 --|

Of a table only the last block may not be full. It counts as full where its request finished with a full one; of
requests that were preempted it is left out, which misses one block of a preemption at most.
"""

from __future__ import annotations

import numpy as np

from kvlab.core.config import VllmV1Config
from kvlab.core.records import RunRecord
from kvlab.web.series import Moments
from kvlab.web.snapshots import CACHED, KEPT, Extra
from kvlab.web.stays import FINISHED, Ints, StayColumns


def unowned(record: RunRecord, config: VllmV1Config, stays: StayColumns, moments: Moments) -> Extra:
    """Cached blocks, and block 0, which the engine keeps for itself all the time."""
    block, first, after = np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, len(moments))
    if config.enable_prefix_caching and len(stays.blocks):
        cached, since, until = spans(record, stays, config.block_size)
        starts = np.append(moments.first, len(moments))
        block = np.append(block, cached)
        first = np.append(first, moments.after[since])
        after = np.append(after, starts[until])
    what = np.full(len(block), CACHED)
    what[0] = KEPT
    return Extra(block, first, after, what)


def spans(record: RunRecord, stays: StayColumns, block_size: int) -> tuple[Ints, Ints, Ints]:
    """(block, step that first finds it without a holder, step that takes it; one more than all steps for none)."""
    count = stays.num_blocks
    since, until = stays.entry_steps(), np.repeat(stays.until_step, count)
    order = np.lexsort((since, stays.blocks))
    block, since, until, is_full = (
        stays.blocks[order],
        since[order],
        until[order],
        _full(record, stays, block_size)[order],
    )
    is_last = np.append(block[1:] != block[:-1], True)
    # of the holders so far, the one that keeps it longest
    width = len(record.steps) + 2
    latest = np.maximum.accumulate((block * width + until) * 2 + is_full)
    left, was_full = latest // 2 - block * width, latest % 2 == 1
    taken = np.append(since[1:], 0)
    taken[is_last] = len(record.steps) + 1
    found = was_full & (taken > left)
    return block[found], left[found], taken[found]


def _full(record: RunRecord, stays: StayColumns, block_size: int) -> Ints:
    """1 for each block that is full when its stay ends."""
    count = stays.num_blocks
    place = np.arange(len(stays.blocks)) - np.repeat(stays.first_entry, count)
    place += np.repeat(stays.earlier_blocks, count)
    requests = [record.requests[number] for number in stays.request_id.tolist()]
    computed = np.array([request.prompt_tokens + request.output_tokens - 1 for request in requests], np.int64)
    ends_full = (stays.last_end == FINISHED) & (computed % block_size == 0)
    full: Ints = ((place < np.repeat(stays.table_blocks, count) - 1) | np.repeat(ends_full, count)).astype(np.int64)
    return full
