"""Random scenarios for the rules of vLLM 0.6: tiny pools and swap spaces, samples, ties."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from kvlab.core.config import Slo, VllmV0Config
from kvlab.core.request import OpenLoop, Request, RequestSource
from tests.strategies import MS, ClosedLoop
from tests.vllm_strategies import step_times


@dataclass(frozen=True)
class V0Case:
    """One scenario. Closed-loop: `users` wait for an answer and `think_ns` more."""

    config: VllmV0Config
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
        return repr(self)


@st.composite
def v0_cases(draw: st.DrawFn, *, coarse: bool) -> V0Case:
    """Most are cramped. Coarse: times in whole ms, so that many things coincide."""
    unit_ns = MS if coarse else 1
    block_size = draw(st.sampled_from([1, 2, 3, 4, 4, 8, 16]))
    num_gpu_blocks = draw(st.one_of(st.integers(1, 9), st.integers(6, 40), st.integers(20, 120)))
    capacity = num_gpu_blocks * block_size
    most_samples = draw(st.sampled_from([1, 1, 2, 3, 5]))
    share = max(1, min(150, capacity // draw(st.sampled_from([1, 3, 6, 10]))))
    max_num_seqs = draw(st.sampled_from([1, 2, 3, 5, 9, 50, 50, 50]))
    max_model_len = draw(st.sampled_from([2, 9, 40, 150, 400, 400, 400]))
    config = VllmV0Config(
        num_gpu_blocks=num_gpu_blocks,
        num_cpu_blocks=draw(st.sampled_from([0, 2, 6, 20, 200])),
        block_size=block_size,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max(max_model_len, max_num_seqs) + draw(st.sampled_from([0, 0, 5, 60, 1_000])),
        max_model_len=max_model_len,
        watermark_blocks=draw(st.sampled_from([0, 0, 0, 1, num_gpu_blocks // 10, num_gpu_blocks // 2])),
        preemption_mode=draw(st.sampled_from(["auto", "auto", "recompute", "swap"])),
        step_time=draw(step_times(unit_ns)),
        swap_per_token_ns=draw(st.integers(0, 2)) * unit_ns,
        swap_per_block_ns=draw(st.integers(0, 2)) * unit_ns,
    )
    usual = st.integers(1, share)
    prompts = st.one_of(usual, usual, usual, usual, st.sampled_from([0, max(1, capacity - 1), capacity, block_size]))
    outputs = st.lists(st.integers(1, draw(st.sampled_from([2, 12, 40]))), min_size=1, max_size=most_samples)
    gaps = st.integers(0, draw(st.sampled_from([0, 2, 12, 80]))).map(lambda n: n * unit_ns)
    if draw(st.integers(0, 9)) == 0:  # who is swapped out may never come back, and yet fits into the pool
        half = num_gpu_blocks // 2
        config = replace(config, num_cpu_blocks=200, watermark_blocks=half, preemption_mode="swap")
        config = replace(config, max_model_len=400, max_num_batched_tokens=1_000)
        prompts = st.integers(1, max(1, min(100, capacity // 3)))
        outputs = st.lists(st.integers(20, 40), min_size=1, max_size=most_samples)
    requests: list[Request] = []
    arrival_ns = 0
    for number in range(draw(st.integers(1, 24))):
        arrival_ns += draw(gaps)
        requests.append(Request(number, arrival_ns, draw(prompts), tuple(draw(outputs))))
    return V0Case(
        config=config,
        requests=tuple(requests),
        users=draw(st.sampled_from([None, None, None, 1, 4, 12])),
        think_ns=draw(st.sampled_from([0, 7])) * unit_ns,
        window_ns=draw(st.sampled_from([None, arrival_ns + unit_ns * 20])),
        slo=draw(st.sampled_from([None, Slo(ttft_ns=40 * unit_ns), Slo(gap_ns=9 * unit_ns, e2e_ns=200 * unit_ns)])),
    )
