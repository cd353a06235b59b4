"""The life of every request as stretches of one state: queued, prefill, decode, paused, swapped, recomputing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvlab.core.memory import Stay
from kvlab.core.records import RequestRecord, RunRecord

STATES: Final = ("queued", "prefill", "decode", "paused", "swapped", "recomputing")
"""The place is the number in the payload. Paused: preempted, and waiting for its recompute."""
QUEUED, PREFILL, DECODE, PAUSED, SWAPPED, RECOMPUTING = range(len(STATES))
_NS_PER_MS: Final = 1_000_000


class Stretch(NamedTuple):
    """A time in which a request was in one state, in ns."""

    state: int
    start_ns: int
    end_ns: int


class Residency(NamedTuple):
    """A request's time on the GPU: the stays of its samples, which are admitted together."""

    start_step: int
    decode_step: int | None
    end_step: int
    end: str


def residencies(stays: Sequence[Stay]) -> dict[int, list[Residency]]:
    """Times on the GPU of each request, in order. Samples end one by one; the last of them ends the residency."""
    found: dict[int, list[Residency]] = {}
    on_gpu = sorted((stay for stay in stays if not stay.on_cpu), key=_by_request)
    for (request_id, start_step), group in groupby(on_gpu, key=_by_request):
        samples = list(group)
        last = max(samples, key=_by_end)
        found.setdefault(request_id, []).append(Residency(start_step, last.decode_step, last.end_step, last.end))
    return found


def _by_request(stay: Stay) -> tuple[int, int]:
    return stay.request_id, stay.start_step


def _by_end(stay: Stay) -> tuple[int, bool]:
    return stay.end_step, stay.end != "finished"


class Clock:
    """When steps start and end, as lists: one look-up costs less than a numpy scalar."""

    def __init__(self, record: RunRecord) -> None:
        self._ends = [step.t_ns for step in record.steps]
        self._durations = [step.dur_ns for step in record.steps]
        self._end_ns = record.totals.end_ns

    def start_ns(self, step: int) -> int:
        """Start of a step; the end of the run for the step after the last."""
        return self._ends[step] - self._durations[step] if step < len(self._ends) else self._end_ns

    def end_ns(self, step: int) -> int:
        """End of a step."""
        return self._ends[step]


def stretches(request: RequestRecord, stays: Sequence[Residency], clock: Clock, end_ns: int) -> Iterator[Stretch]:
    """A request's states from its arrival to its last token, without gaps; none for a rejected one.

    Args:
        stays: of this request, in order.
        end_ns: end of the run, for what a stopped run left open.
    """
    state, since_ns = QUEUED, request.arrival_ns
    computes, resumes_decoding = PREFILL, False
    for stay in stays:
        start_ns = clock.start_ns(stay.start_step)
        yield Stretch(state, since_ns, start_ns)
        is_open = stay.end == "open"
        finished = stay.end == "finished"
        until_ns = end_ns if is_open else clock.end_ns(stay.end_step - 1) if finished else clock.start_ns(stay.end_step)
        if resumes_decoding:
            decodes_ns = start_ns
        else:
            decodes_ns = until_ns if stay.decode_step is None else min(clock.end_ns(stay.decode_step), until_ns)
            yield Stretch(computes, start_ns, decodes_ns)
        if decodes_ns < until_ns:
            yield Stretch(DECODE, decodes_ns, until_ns)
        if finished or is_open:
            return
        since_ns = until_ns
        state = SWAPPED if stay.end == "swap" else PAUSED
        resumes_decoding = state == SWAPPED and stay.decode_step is not None
        computes = RECOMPUTING if state == PAUSED or computes == RECOMPUTING else PREFILL
    if not request.rejected:
        yield Stretch(state, since_ns, end_ns)


def lanes(record: RunRecord) -> npt.NDArray[np.uint32]:
    """(request id, state, start, end) of every stretch, times in ms, flat; by id, then start."""
    clock, end_ns = Clock(record), record.totals.end_ns
    on_gpu = residencies(record.stays)
    rows = [
        (request.id, state, start_ns // _NS_PER_MS, until_ns // _NS_PER_MS)
        for request in record.requests
        for state, start_ns, until_ns in stretches(request, on_gpu.get(request.id, ()), clock, end_ns)
        if start_ns < until_ns
    ]
    return np.array(rows, np.uint32).reshape(-1, 4).ravel()
