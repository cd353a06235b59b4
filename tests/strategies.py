"""Random scenarios for the two labs: short, cramped, and full of ties, so that rare situations are common."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
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
        document = asdict(self) | {"lab": lab, "requests": [[r.arrival_ns, r.prompt_tokens, *r.output_tokens] for r in self.requests]}
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


_TIGHT = st.sampled_from([1, 2, 2, 3, 4, 8, 50])
_BLOCK_SIZES = st.sampled_from([1, 2, 3, 4, 4, 8, 16])


def _times(draw: st.DrawFn, coarse: bool, most_ms: int) -> st.SearchStrategy[int]:
    """Durations in ns. Coarse: few whole ms, so that many things happen at the same instant."""
    if coarse:
        return st.sampled_from([0, 0, 5, 5, 10]).map(lambda ms: ms * MS)
    return st.integers(0, most_ms * MS)


def _base_ns(draw: st.DrawFn, coarse: bool) -> int:
    if coarse:
        return draw(st.sampled_from([5, 10, 500])) * MS
    return draw(st.integers(1, 400 * MS))


def _arrivals(draw: st.DrawFn, count: int, coarse: bool, base_ns: int) -> list[int]:
    """In order, from all at once to far apart."""
    pace = draw(st.sampled_from(["at once", "crowded", "crowded", "steady", "sparse"]))
    if pace == "at once":
        gaps = st.just(0)
    elif coarse:
        most = {"crowded": 2, "steady": 8, "sparse": 60}[pace]
        gaps = st.integers(0, most).map(lambda n: n * 5 * MS)
    else:
        most = {"crowded": 1, "steady": 6, "sparse": 60}[pace]
        gaps = st.one_of(st.just(0), st.integers(0, most * base_ns), st.just(base_ns))
    now_ns = 0
    times = []
    for gap_ns in draw(st.lists(gaps, min_size=count, max_size=count)):
        now_ns += gap_ns
        times.append(now_ns)
    return times


def _extras(draw: st.DrawFn, count: int, base_ns: int) -> dict[str, Any]:
    """Closed loop, window and SLO of a case."""
    limits = st.none() | st.integers(1, 40 * base_ns)
    is_closed = draw(st.integers(0, 3)) == 0
    return {
        "users": draw(st.integers(1, count)) if is_closed else None,
        "think_ns": draw(st.sampled_from([0, 0, base_ns, 7 * base_ns])) if is_closed else 0,
        "window_ns": draw(st.none() | st.integers(0, 60).map(lambda n: n * base_ns)),
        "slo": draw(st.none() | st.builds(Slo, ttft_ns=limits, tpot_ns=limits, gap_ns=limits, e2e_ns=limits)),
    }


@st.composite
def preemption_cases(draw: st.DrawFn, *, coarse: bool) -> Case:
    block_size = draw(_BLOCK_SIZES)
    num_gpu_blocks = draw(st.integers(1, 12) | st.integers(8, 40))
    base_ns = _base_ns(draw, coarse)
    config = PreemptionLabConfig(
        num_gpu_blocks=num_gpu_blocks,
        num_cpu_blocks=draw(st.integers(0, 4) | st.integers(4, 40)),
        block_size=block_size,
        max_num_seqs=draw(_TIGHT),
        headroom_blocks=draw(st.sampled_from([0, 0, 0, 1, 2, num_gpu_blocks // 2, num_gpu_blocks, num_gpu_blocks + 3])),
        preemption_mode=draw(st.sampled_from(["recompute", "swap", "swap"])),
        prefill_budget_tokens=draw(st.sampled_from([1, 2, 3, 8, 16, 512])),
        base_ns=base_ns,
        per_seq_ns=draw(_times(draw, coarse, 5)),
        per_prefill_token_ns=draw(_times(draw, coarse, 5)),
        swap_per_token_ns=draw(_times(draw, coarse, 20)),
        swap_per_block_ns=draw(_times(draw, coarse, 20)),
    )
    capacity = num_gpu_blocks * block_size
    prompts, outputs = _lengths(draw, capacity)
    lengths = draw(st.lists(st.tuples(prompts, outputs), min_size=1, max_size=20))
    arrivals = _arrivals(draw, len(lengths), coarse, base_ns)
    rows = zip(arrivals, lengths, strict=True)
    requests = tuple(Request(i, t, prompt, (output,)) for i, (t, (prompt, output)) in enumerate(rows))
    return Case(config, requests, **_extras(draw, len(requests), base_ns))


def _lengths(draw: st.DrawFn, capacity: int) -> tuple[st.SearchStrategy[int], st.SearchStrategy[int]]:
    """Prompts and outputs: a fraction of the pool that several share, or most of it and beyond."""
    share = draw(st.sampled_from([2, 3, 4, 6, 12]))
    prompts = st.integers(1, max(1, capacity // share))
    outputs = st.integers(1, max(1, min(40, 2 * capacity // share)))
    if draw(st.integers(0, 3)) == 0:
        prompts |= st.integers(max(1, capacity - 3), capacity + 2)
        outputs |= st.just(1)
    return prompts, outputs


@st.composite
def block_table_cases(draw: st.DrawFn, *, coarse: bool) -> Case:
    block_size = draw(_BLOCK_SIZES)
    allocator = draw(st.sampled_from(["contiguous", "paged", "paged"]))
    capacity = draw(st.integers(1, 12) | st.integers(8, 120)) * block_size
    max_tokens = draw(st.integers(1, 4) | st.integers(4, 40))
    base_ns = _base_ns(draw, coarse)
    config = BlockTableLabConfig(
        allocator=allocator,
        kv_tokens=capacity + draw(st.integers(0, block_size - 1)),
        block_size=block_size,
        max_tokens=max_tokens,
        max_num_seqs=draw(_TIGHT),
        base_ns=base_ns,
        per_seq_ns=draw(_times(draw, coarse, 5)),
        per_context_token_ns=0 if coarse else draw(st.sampled_from([0, 7, 90, 12345])),
        per_prefill_token_ns=draw(_times(draw, coarse, 5)),
        paging_overhead_num=0 if coarse else draw(st.sampled_from([0, 6, 25])),
        paging_overhead_den=10,
    )
    most_samples = draw(st.sampled_from([1, 1, 2, 4, 5]))
    prompts, _ = _lengths(draw, capacity)
    outputs = st.lists(st.integers(1, max_tokens), min_size=1, max_size=most_samples).map(tuple)
    lengths = draw(st.lists(st.tuples(prompts, outputs), min_size=1, max_size=16))
    arrivals = _arrivals(draw, len(lengths), coarse, base_ns)
    rows = zip(arrivals, lengths, strict=True)
    requests = tuple(Request(i, t, prompt, outputs) for i, (t, (prompt, outputs)) in enumerate(rows))
    return Case(config, requests, **_extras(draw, len(requests), base_ns))
