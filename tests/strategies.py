"""Random scenarios for the two labs: short, cramped, and full of ties, so that rare situations are common."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from hypothesis import strategies as st

from kvlab.core.config import BlockTableLabConfig, LabConfig, PreemptionLabConfig, Slo
from kvlab.core.request import OpenLoop, Request, RequestSource

MS = 1_000_000


@dataclass(frozen=True)
class Case:
    """One scenario. Closed-loop: `users` wait for an answer and `think_ns` more, arrivals of `requests` are unused."""

    config: LabConfig
    requests: tuple[Request, ...]
    users: int | None = None
    think_ns: int = 0
    window_ns: int | None = None
    slo: Slo | None = None

    def source(self) -> RequestSource:
        if self.users is None:
            return OpenLoop(self.requests)
        return ClosedLoop(self.requests, self.users, self.think_ns)

    def to_json(self) -> str:
        lab = "preemption" if isinstance(self.config, PreemptionLabConfig) else "block-tables"
        document = asdict(self) | {
            "lab": lab,
            "requests": [[r.arrival_ns, r.prompt_tokens, *r.output_tokens] for r in self.requests],
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> Case:
        document = json.loads(text)
        config = PreemptionLabConfig if document.pop("lab") == "preemption" else BlockTableLabConfig
        rows = document.pop("requests")
        slo = document.pop("slo")
        return cls(
            config=config(**document.pop("config")),
            requests=tuple(Request(i, t, prompt, tuple(outputs)) for i, (t, prompt, *outputs) in enumerate(rows)),
            slo=None if slo is None else Slo(**slo),
            **document,
        )


class ClosedLoop:
    """`users` who send a request, wait until it ended, think, and send the next; ids in order of arrival."""

    def __init__(self, requests: tuple[Request, ...], users: int, think_ns: int) -> None:
        self._rest = list(requests)
        self._arrivals = [0] * min(users, len(requests))
        self._think_ns = think_ns
        self._next_id = 0

    def next_arrival_ns(self) -> int | None:
        return min(self._arrivals, default=None)

    def pop(self) -> Request:
        arrival_ns = min(self._arrivals)
        self._arrivals.remove(arrival_ns)
        request = self._rest[self._next_id]._replace(id=self._next_id, arrival_ns=arrival_ns)
        self._next_id += 1
        return request

    def ended(self, request: Request, t_ns: int) -> None:
        if self._next_id + len(self._arrivals) < len(self._rest):
            self._arrivals.append(t_ns + self._think_ns)


MOST_OUTPUT = 40
_BLOCK_SIZES = st.sampled_from([1, 2, 3, 4, 4, 8, 16])


@dataclass(frozen=True)
class _Crowd:
    """How the requests of a case relate to its pool."""

    count: int
    pace: str
    prompts: st.SearchStrategy[int]
    outputs: st.SearchStrategy[int]
    max_num_seqs: int


@st.composite
def _crowds(draw: st.DrawFn, capacity: int, block_size: int) -> _Crowd:
    """Most are cramped: the prompts of several fit, their answers don't; in lockstep, they lack blocks together."""
    kind = draw(st.sampled_from(["cramped", "cramped", "lockstep", "lockstep", "any", "huge"]))
    count = draw(st.sampled_from(range(1, 21)))
    pace = draw(st.sampled_from(["at once", "crowded", "steady", "sparse", "sparse"]))
    max_num_seqs = draw(st.sampled_from([1, 2, 3, 4, 8, 50]))
    if kind in ("cramped", "lockstep"):
        share = max(1, capacity // draw(st.sampled_from([4, 6, 10])))
        most = max(1, min(MOST_OUTPUT, 2 * share))
        outputs = st.sampled_from(range(max(1, most // 2), most + 1))
        prompts = st.just(block_size * max(1, share // block_size)) if kind == "lockstep" else st.integers(1, share)
        pace = draw(st.sampled_from(["at once", "crowded"]))
        return _Crowd(max(6, count), pace, prompts, outputs, draw(st.sampled_from([1, 4, 8, 50, 50, 50])))
    share = max(1, capacity // draw(st.sampled_from([2, 4, 12])))
    prompts = st.integers(1, share)
    outputs = st.integers(1, min(MOST_OUTPUT, 2 * share))
    if kind == "huge":  # needs barely the whole pool, or one token too many
        prompts |= st.integers(max(1, capacity - 3), capacity + 2)
        outputs |= st.just(1)
    return _Crowd(count, pace, prompts, outputs, max_num_seqs)


def _durations(coarse: bool, most_ms: int) -> st.SearchStrategy[int]:
    """Costs in ns. Coarse: few whole ms, so that many things happen at the same instant."""
    return st.sampled_from([0, 0, 5 * MS, 10 * MS]) if coarse else st.just(0) | st.integers(1, most_ms * MS)


def _base_durations(coarse: bool) -> st.SearchStrategy[int]:
    return st.sampled_from([5 * MS, 10 * MS, 500 * MS] if coarse else [1, 7, 25 * MS, 333_333_333, 444_444_444])


def _arrivals(draw: st.DrawFn, crowd: _Crowd, coarse: bool, base_ns: int) -> list[int]:
    """In order, from all at once to far apart."""
    if crowd.pace == "at once":
        gaps = st.just(0)
    elif coarse:
        gaps = st.integers(0, {"crowded": 2, "steady": 8, "sparse": 60}[crowd.pace]).map(lambda n: n * 5 * MS)
    else:
        most_ns = {"crowded": 1, "steady": 6, "sparse": 60}[crowd.pace] * base_ns
        gaps = st.one_of(st.just(0), st.integers(0, most_ns), st.just(base_ns))
    return list(accumulate(draw(st.lists(gaps, min_size=crowd.count, max_size=crowd.count))))


def _extras(draw: st.DrawFn, count: int, base_ns: int) -> dict[str, Any]:
    """Closed loop, window and SLO of a case."""
    limit_ns = base_ns * draw(st.sampled_from([1, 2, 5, 20]))
    slos = [
        None,
        Slo(ttft_ns=limit_ns),
        Slo(tpot_ns=base_ns, gap_ns=limit_ns),
        Slo(gap_ns=2 * base_ns, e2e_ns=limit_ns),
    ]
    is_closed = draw(st.sampled_from([False, False, False, True]))
    return {
        "users": draw(st.sampled_from(range(1, count + 1))) if is_closed else None,
        "think_ns": draw(st.sampled_from([0, 0, base_ns, 7 * base_ns])) if is_closed else 0,
        "window_ns": draw(st.sampled_from([None, 0, base_ns, 10 * base_ns, 30 * base_ns + 1])),
        "slo": draw(st.sampled_from(slos)),
    }


@st.composite
def preemption_cases(draw: st.DrawFn, *, coarse: bool) -> Case:
    block_size = draw(_BLOCK_SIZES)
    num_gpu_blocks = draw(st.sampled_from([*range(1, 12), *range(6, 40)]))
    crowd = draw(_crowds(num_gpu_blocks * block_size, block_size))
    base_ns = draw(_base_durations(coarse))
    headrooms = [0, 0, 0, 0, 1, 2, num_gpu_blocks // 2, num_gpu_blocks, num_gpu_blocks + 3]
    config = PreemptionLabConfig(
        num_gpu_blocks=num_gpu_blocks,
        num_cpu_blocks=draw(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 40])),
        block_size=block_size,
        max_num_seqs=crowd.max_num_seqs,
        headroom_blocks=draw(st.sampled_from(headrooms)),
        preemption_mode=draw(st.sampled_from(["recompute", "swap", "swap"])),
        prefill_budget_tokens=draw(st.sampled_from([1, 3, 8, 16, 64, 512])),
        base_ns=base_ns,
        per_seq_ns=draw(_durations(coarse, 5)),
        per_prefill_token_ns=draw(_durations(coarse, 5)),
        swap_per_token_ns=draw(_durations(coarse, 20)),
        swap_per_block_ns=draw(_durations(coarse, 20)),
    )
    arrivals = _arrivals(draw, crowd, coarse, base_ns)
    requests = tuple(Request(i, t, draw(crowd.prompts), (draw(crowd.outputs),)) for i, t in enumerate(arrivals))
    return Case(config, requests, **_extras(draw, len(requests), base_ns))


@st.composite
def block_table_cases(draw: st.DrawFn, *, coarse: bool) -> Case:
    block_size = draw(_BLOCK_SIZES)
    capacity = draw(st.sampled_from([*range(1, 12), *range(6, 60), 200])) * block_size
    most_samples = draw(st.sampled_from([1, 1, 2, 3, 5]))
    crowd = draw(_crowds(max(1, capacity // most_samples), block_size))
    base_ns = draw(_base_durations(coarse))
    outputs = st.lists(crowd.outputs, min_size=1, max_size=most_samples).map(tuple)
    arrivals = _arrivals(draw, crowd, coarse, base_ns)
    requests = tuple(Request(i, t, draw(crowd.prompts), draw(outputs)) for i, t in enumerate(arrivals))
    longest = max(max(request.output_tokens) for request in requests)
    config = BlockTableLabConfig(
        allocator=draw(st.sampled_from(["contiguous", "paged", "paged", "paged"])),
        kv_tokens=capacity + draw(st.sampled_from(range(block_size))),
        block_size=block_size,
        max_tokens=longest + draw(st.sampled_from([0, 0, 1, 7])),
        max_num_seqs=crowd.max_num_seqs * draw(st.sampled_from([1, most_samples])),
        base_ns=base_ns,
        per_seq_ns=draw(_durations(coarse, 5)),
        per_context_token_ns=0 if coarse else draw(st.sampled_from([0, 7, 90, 12345])),
        per_prefill_token_ns=draw(_durations(coarse, 5)),
        paging_overhead_num=0 if coarse else draw(st.sampled_from([0, 6, 25])),
        paging_overhead_den=10,
    )
    return Case(config, requests, **_extras(draw, len(requests), base_ns))
