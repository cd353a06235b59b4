"""The life of every request as stretches of one state: queued, prefill, decode, paused, swapped, recomputing."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvlab.columns import Columns
from kvlab.core.records import RunRecord
from kvlab.web.stays import FINISHED, GROWN, NEVER, RECOMPUTE, SWAP, Ints, StayColumns

STATES: Final = ("queued", "prefill", "decode", "paused", "swapped", "recomputing")
"""The place is the number in the payload. Paused: preempted, and waiting for its recompute."""
QUEUED, PREFILL, DECODE, PAUSED, SWAPPED, RECOMPUTING = range(len(STATES))
_NS_PER_MS: Final = 1_000_000


class Lanes(NamedTuple):
    """One entry per stretch, by request, then time; times in ns. No gaps, and nothing of length 0."""

    request_id: Ints
    state: Ints
    start_ns: Ints
    end_ns: Ints

    def to_words(self) -> npt.NDArray[np.uint32]:
        """(request id, state, start, end) flat, times in whole ms."""
        words = np.empty((len(self.state), 4), np.uint32)
        words[:, 0], words[:, 1] = self.request_id, self.state
        words[:, 2], words[:, 3] = self.start_ns // _NS_PER_MS, self.end_ns // _NS_PER_MS
        return words.ravel()


def lanes(record: RunRecord, stays: StayColumns, timeline: Columns) -> Lanes:
    """From arrival to last token, for each request that was admitted.

    A request's *residency* is its time on the GPU: the stays of its samples, which are admitted together and end one
    by one, or stays that go on in one another. Each brings three stretches: how it waited for it, its prefill, its
    decoding.

    Args:
        stays: those on the GPU.
    """
    if not len(stays.end):
        return Lanes(*(np.zeros(0, np.int64) for _ in Lanes._fields))
    request_id, start_step, end_step, decode_step, reason = _residencies(stays)
    is_first = np.append(True, request_id[1:] != request_id[:-1])

    starts = np.append(timeline["start_ns"], record.totals.end_ns)
    start_ns = starts[start_step]
    until_ns = np.where(reason == FINISHED, timeline["t_ns"][end_step - 1], starts[end_step])
    decodes_ns = np.where(decode_step < 0, until_ns, np.minimum(timeline["t_ns"][decode_step], until_ns))

    before = _shifted(reason, is_first, _ARRIVED)
    since_ns = _shifted(until_ns, is_first, 0)
    since_ns[is_first] = [record.requests[number].arrival_ns for number in request_id[is_first].tolist()]
    # who was decoding when it was swapped out does so at once when it comes back
    resumes = (before == SWAP) & (_shifted(decode_step, is_first, -1) >= 0)
    decodes_ns[resumes] = start_ns[resumes]
    waits = np.select([before == _ARRIVED, before == SWAP], [QUEUED, SWAPPED], PAUSED)
    computes = np.where(_earlier(reason == RECOMPUTE, is_first), RECOMPUTING, PREFILL)

    state = np.column_stack([waits, computes, np.full(len(waits), DECODE)]).ravel()
    edges = np.column_stack([since_ns, start_ns, decodes_ns, until_ns])
    begin, end = edges[:, :3].ravel(), edges[:, 1:].ravel()
    kept = begin < end
    return Lanes(np.repeat(request_id, 3)[kept], state[kept], begin[kept], end[kept])


def _residencies(stays: StayColumns) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """(request id, first step, step after, step of the first token or NEVER, why it ended), by request, then time."""
    # the last of its samples to end is the last of a residency; one that was preempted rather than one that finished
    order = np.lexsort((stays.end, stays.end_step, stays.start_step, stays.request_id))
    request_id, start_step, end = stays.request_id[order], stays.start_step[order], stays.end[order]
    is_same = (request_id[1:] == request_id[:-1]) & ((start_step[1:] == start_step[:-1]) | (end[:-1] == GROWN))
    first = np.flatnonzero(np.append(True, ~is_same))
    last = np.append(first[1:], len(order)) - 1
    decode_step = stays.decode_step[order]
    decode_step[decode_step < 0] = _LATE
    decode_step = np.minimum.reduceat(decode_step, first)
    decode_step[decode_step == _LATE] = NEVER
    return request_id[first], start_step[first], stays.end_step[order[last]], decode_step, end[last]


_LATE: Final = np.iinfo(np.int64).max
_ARRIVED: Final = -1
"""In place of the end of an earlier stay."""


def _shifted(values: Ints, is_first: npt.NDArray[np.bool_], first: int) -> Ints:
    """The value of the residency before, of the same request; `first` where there is none."""
    before: Ints = np.append(0, values[:-1])
    before[is_first] = first
    return before


def _earlier(flags: npt.NDArray[np.bool_], is_first: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether any earlier residency of the same request has the flag."""
    before: Ints = np.cumsum(flags) - flags
    at_first = np.maximum.accumulate(np.where(is_first, before, 0))
    return before > at_first
