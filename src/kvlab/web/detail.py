"""One request of a run: its block tables at a moment, and its life in events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kvlab.core.memory import Stay, cpu_stays_at, gpu_stays_at
from kvlab.core.records import RequestRecord
from kvlab.results import Run
from kvlab.units import NS_PER_S, format_duration
from kvlab.web.lanes import PAUSED, RECOMPUTING, STATES, SWAPPED, lanes
from kvlab.web.stays import stay_columns


def detail(run: Run, request_id: int, t_ns: int) -> dict[str, Any] | None:
    """What `GET /api/request` gives, ready for JSON; None when there is no such request."""
    if not 0 <= request_id < len(run.record.requests):
        return None
    request = run.record.requests[request_id]
    stays = [stay for stay in run.record.stays if stay.request_id == request_id]
    life = _life(run, request_id)
    memory = run.memory_at(t_ns=t_ns)
    on_gpu = [] if memory.step is None else gpu_stays_at(stays, memory.step)
    on_cpu = [] if memory.step is None else cpu_stays_at(stays, memory.step)
    segments = {(segment.owner, segment.sample): segment for segment in memory.segments}
    tables = []
    for stay in sorted(on_gpu, key=lambda stay: stay.sample):
        assert memory.step is not None
        blocks = list(stay.table_at(memory.step))
        table: dict[str, Any] = {
            "sample": stay.sample,
            "blocks": blocks,
            "shared": [bool(shared) for shared in memory.shared[blocks]],
        }
        if stay.segment is not None:
            segment = segments[request_id, stay.sample]
            table["segment"] = {"start": segment.start, "reserved": segment.reserved, "used": segment.used}
        tables.append(table)
    return {
        "id": request_id,
        "arrival_s": request.arrival_ns / NS_PER_S,
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": request.output_tokens,
        "state": _state_at(request, life, t_ns),
        "tables": tables,
        "cpu_blocks": [block for stay in on_cpu for block in stay.table_at(memory.step or 0)],
        "events": [{"t": at_ns / NS_PER_S, "text": text} for at_ns, text in _events(request, life, stays)],
    }


class _Stretch(NamedTuple):
    state: int
    start_ns: int
    end_ns: int


def _life(run: Run, request_id: int) -> list[_Stretch]:
    on_gpu = stay_columns([stay for stay in run.record.stays if not stay.on_cpu])
    every = lanes(run.record, on_gpu, run.timeline)
    own = every.request_id == request_id
    columns = (every.state[own].tolist(), every.start_ns[own].tolist(), every.end_ns[own].tolist())
    return [_Stretch(*row) for row in zip(*columns, strict=True)]


def _state_at(request: RequestRecord, life: Sequence[_Stretch], t_ns: int) -> str:
    if t_ns < request.arrival_ns:
        return "not arrived"
    if request.rejected:
        return "rejected"
    last = "finished" if request.finish_ns is not None else "waiting, and never served again"
    return next((STATES[part.state] for part in life if part.start_ns <= t_ns < part.end_ns), last)


def _events(request: RequestRecord, life: Sequence[_Stretch], stays: Sequence[Stay]) -> Iterator[tuple[int, str]]:
    samples = f", {request.num_samples} answers wanted" if request.num_samples > 1 else ""
    yield request.arrival_ns, f"arrives with a prompt of {request.prompt_tokens:,} tokens{samples}"
    if request.rejected:
        yield request.arrival_ns, "rejected: it could never fit into this memory"
        return
    if request.admitted_ns is not None:
        waited = format_duration(request.admitted_ns - request.arrival_ns)
        cached = f"; {request.cached_tokens:,} of its tokens are in the cache" if request.cached_tokens else ""
        yield request.admitted_ns, f"admitted after {waited} in the queue{cached}"
    if request.first_token_ns is not None:
        yield (
            request.first_token_ns,
            f"first token, {format_duration(request.first_token_ns - request.arrival_ns)} after the request came",
        )
    for part in life:
        frozen = format_duration(part.end_ns - part.start_ns)
        if part.state == PAUSED:
            yield part.start_ns, "preempted: its memory goes to others, its tokens must be computed again"
            yield part.end_ns, f"admitted again after {frozen}"
        elif part.state == SWAPPED:
            yield part.start_ns, f"preempted: {_num_copied(stays):,} blocks are copied to the CPU"
            yield part.end_ns, f"copied back after {frozen}"
        elif part.state == RECOMPUTING:
            yield part.end_ns, f"computed again in {frozen}, goes on"
    if request.finish_ns is not None:
        yield request.finish_ns, f"last of {request.output_tokens:,} tokens"
    else:
        end_ns = max([request.arrival_ns, *(part.end_ns for part in life)])
        yield end_ns, "from here on nothing moves: it never gets its last token"


def _num_copied(stays: Sequence[Stay]) -> int:
    return max((len(stay.blocks) for stay in stays if stay.on_cpu), default=0)
