"""Random scenarios for the vLLM V1 rules: tiny pools, tiny budgets, shared content, ties."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from kvlab.core.block_keys import HASHED_TOKENS
from kvlab.core.config import Slo, VllmV1Config
from kvlab.core.request import Content, OpenLoop, Request, RequestSource
from kvlab.core.step_time import (
    AnyStepTime,
    DecodeLaw,
    LinearStepTime,
    MixedLaw,
    TwoLawStepTime,
)
from tests.strategies import MS, ClosedLoop

PS_PER_NS = 1_000


@dataclass(frozen=True)
class VllmCase:
    """One scenario. Closed-loop: `users` wait for an answer and send the next request at once."""

    config: VllmV1Config
    requests: tuple[Request, ...]
    users: int | None = None
    window_ns: int | None = None
    slo: Slo | None = None

    def source(self) -> RequestSource:
        return OpenLoop(self.requests) if self.users is None else ClosedLoop(self.requests, self.users, think_ns=0)


@st.composite
def step_times(draw: st.DrawFn, unit_ns: int) -> AnyStepTime:
    def some(most: int) -> int:
        return draw(st.integers(0, most)) * unit_ns

    if draw(st.booleans()):
        return LinearStepTime(
            base_ns=unit_ns + some(4), per_running_ns=some(2), per_decode_ns=some(2), per_prefill_token_ns=some(2)
        )
    return TwoLawStepTime(
        decode=DecodeLaw(
            base_ps=(unit_ns + some(4)) * PS_PER_NS,
            per_seq_ps=some(3) * PS_PER_NS,
            per_context_token_ps=draw(st.sampled_from([0, 0, 1, 300])) * unit_ns,
        ),
        mixed=MixedLaw(
            base_ps=(unit_ns + some(4)) * PS_PER_NS,
            per_decode_ps=some(3) * PS_PER_NS,
            per_decode_context_token_ps=some(400),
            per_prefill_ps=some(9) * PS_PER_NS,
            per_prefill_token_ps=some(3_000),
            per_prefill_context_token_ps=some(1_000),
            per_chunk_pair_ps=some(300),
        ),
    )


@st.composite
def _configs(draw: st.DrawFn, unit_ns: int) -> VllmV1Config:
    num_gpu_blocks = draw(st.one_of(st.integers(2, 8), st.integers(6, 40), st.integers(30, 150)))
    return VllmV1Config(
        num_gpu_blocks=num_gpu_blocks,
        block_size=draw(st.sampled_from([1, 2, 3, 4, 4, 8, 16])),
        max_num_seqs=draw(st.sampled_from([1, 2, 3, 5, 9, 50, 50])),
        max_num_batched_tokens=draw(st.one_of(st.integers(1, 8), st.integers(4, 64), st.just(256))),
        max_model_len=draw(st.sampled_from([2, 9, 40, 150, 400, 2_000])),
        enable_chunked_prefill=draw(st.sampled_from([True, True, True, False])),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 0, 1, 3, 16])),
        enable_prefix_caching=draw(st.booleans()),
        policy=draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
        watermark_blocks=draw(st.sampled_from([0, 0, num_gpu_blocks // 20, num_gpu_blocks // 5])),
        reserve_full_prompt=draw(st.sampled_from([True, True, False])),
        step_time=draw(step_times(unit_ns)),
    )


@st.composite
def vllm_cases(draw: st.DrawFn, *, coarse: bool) -> VllmCase:
    """Scenarios whose pool holds a few requests. Coarse: times in whole ms, so that many things coincide."""
    unit_ns = MS if coarse else 1
    config = draw(_configs(unit_ns))
    kind = draw(st.sampled_from(["any", "any", "any", "endless", "cramped"]))
    if kind == "endless":  # who needs more than the pool is let in again and again
        few = draw(st.integers(2, 8))
        config = replace(config, num_gpu_blocks=few, reserve_full_prompt=False, max_model_len=2_000, watermark_blocks=0)
    elif kind == "cramped":  # many grow together, and who comes back finds what it left in the cache
        config = replace(
            config,
            num_gpu_blocks=draw(st.integers(20, 60)),
            block_size=draw(st.sampled_from([1, 2, 4])),
            enable_prefix_caching=True,
            max_num_seqs=50,
            max_num_batched_tokens=256,
            max_model_len=2_000,
            watermark_blocks=0,
        )
    capacity = config.usable_blocks * config.block_size
    share = max(1, min(capacity // draw(st.sampled_from([1, 3, 6, 10])), 150))
    prompts = st.integers(1, share) | st.just(max(1, capacity - 1) if capacity < 150 else share)
    outputs = st.integers(1, draw(st.sampled_from([2, 12, 40] if kind == "any" else [40])))
    if config.enable_prefix_caching:
        style = draw(st.sampled_from(["segments", "segments", "hash ids", "own"]))
    else:
        style = draw(st.sampled_from(["own", "own", "empty prompts"]))
    gaps = st.integers(0, draw(st.sampled_from([0, 2, 12, 80]))).map(lambda n: n * unit_ns)
    users = draw(st.sampled_from([None, None, None, 1, 4, 12]))
    requests: list[Request] = []
    arrival_ns = 0
    for number in range(draw(st.integers(1, 24))):
        arrival_ns += draw(gaps)
        request = Request(
            id=number,
            arrival_ns=arrival_ns,
            prompt_tokens=draw(prompts),
            output_tokens=(draw(outputs),),
            priority=draw(st.sampled_from([0, 0, 1, 2])),
            rank=draw(st.sampled_from([0, number, 99 - number])),
        )
        if style == "segments":
            request = draw(_with_content(request, requests, share))
        elif style == "hash ids":
            request = draw(_with_hash_ids(request, requests))
        elif style == "empty prompts" and draw(st.integers(0, 5)) == 0:
            request = request._replace(prompt_tokens=0)
        requests.append(request)
    window_ns = draw(st.sampled_from([None, arrival_ns + unit_ns * 20]))
    slo = draw(st.sampled_from([None, Slo(ttft_ns=40 * unit_ns), Slo(gap_ns=9 * unit_ns, e2e_ns=200 * unit_ns)]))
    return VllmCase(config=config, requests=tuple(requests), users=users, window_ns=window_ns, slo=slo)


@st.composite
def _with_content(draw: st.DrawFn, request: Request, earlier: list[Request], share: int) -> Request:
    """A system prompt with something of its own, or the next turn of an earlier conversation."""
    turns = [one for one in earlier if one.content is not None and one.content.output is not None]
    own = (f"u{request.id}", 0, draw(st.integers(1, max(1, share // 2))))
    again = draw(st.booleans())
    if turns and again:
        turn = draw(st.sampled_from(turns))
        assert turn.content is not None
        answer = (turn.content.output, 0, draw(st.integers(1, turn.output_tokens[0])))
        pieces = (*turn.content.prompt, answer, own)
    else:
        system = (f"s{draw(st.integers(0, 2))}", draw(st.sampled_from([0, 0, 0, 5])), draw(st.integers(1, share)))
        pieces = (system, own) if draw(st.integers(0, 1)) else (system,)
    output = draw(st.sampled_from([None, f"a{request.id}", f"a{request.id}"]))
    tokens = sum(piece[2] for piece in pieces)
    return request._replace(prompt_tokens=tokens, content=Content(pieces, output))


@st.composite
def _with_hash_ids(draw: st.DrawFn, request: Request, earlier: list[Request]) -> Request:
    """A prompt that begins like an earlier one. An id stands for a prefix: it has one predecessor only."""
    tokens = draw(st.integers(1, 3 * HASHED_TOKENS))
    count = -(-tokens // HASHED_TOKENS)
    path: tuple[int, ...] = ()
    again = draw(st.booleans())
    if earlier and again:
        path = draw(st.sampled_from(earlier)).hash_ids
        path = path[: draw(st.integers(0, min(count, len(path))))]
    fresh = [100 * request.id + place for place in range(count - len(path))]
    return request._replace(prompt_tokens=tokens, hash_ids=(*path, *fresh))
