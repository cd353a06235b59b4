"""The vLLM V1 rules: both engines on the same closed loops, long traffic like the labs', a real trace with prefixes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple

from benchmarks.measure import NS_PER_S, cpu_ns, side_by_side
from kvlab.core.config import VllmV1Config
from kvlab.core.engine import simulate
from kvlab.core.records import RunRecord, Totals
from kvlab.core.request import Content, OpenLoop, Request
from kvlab.core.step_time import DecodeLaw, LinearStepTime, MixedLaw, TwoLawStepTime
from kvlab.reference import vllm_v1 as reference
from kvlab.units import NS_PER_MS, NS_PER_US

RUNNING = (16, 64, 256, 1024)
TRACE = "data/traces/mooncake_conversation.jsonl"
_LINEAR = LinearStepTime(base_ns=25 * NS_PER_MS, per_running_ns=300 * NS_PER_US, per_prefill_token_ns=120 * NS_PER_US)
_TWO_LAWS = TwoLawStepTime(
    decode=DecodeLaw(base_ps=8_000_000_000, per_seq_ps=20_000_000, per_context_token_ps=5_000),
    mixed=MixedLaw(
        base_ps=8_000_000_000,
        per_decode_ps=20_000_000,
        per_decode_context_token_ps=5_000,
        per_prefill_token_ps=8_000_000,
        per_chunk_pair_ps=100,
    ),
)
"""Made up: it has every term, so that every term is computed."""


class Ratio(NamedTuple):
    """One pair of runs."""

    num_running: int
    caching: bool
    steps: int
    reference_step_us: float
    core_step_us: float


def ratio(num_running: int, repeats: int, *, caching: bool) -> Ratio:
    """Reference against core: `num_running` requests at once on a nearly full pool; equal books, or it stops."""
    config = VllmV1Config(
        num_gpu_blocks=30 * num_running + 1,
        block_size=16,
        max_num_seqs=num_running,
        max_num_batched_tokens=max(512, 8 * num_running),
        max_model_len=4096,
        enable_prefix_caching=caching,
        step_time=_TWO_LAWS,
    )
    random = Random(1)
    requests = []
    for number in range(2 * num_running):
        own = random.randint(50, 250)
        content = Content((("system prompt", 0, 128), (number, 0, own)))
        requests.append(Request(number, 0, 128 + own, (random.randint(20, 120),), content=content))
    core = simulate(config, OpenLoop(requests))
    slow = reference.run(config, OpenLoop(requests)).record
    assert core.totals == slow.totals, "a comparison of unequal work"
    times = side_by_side(
        {
            "reference": lambda: reference.run(config, OpenLoop(requests)),
            "core": lambda: simulate(config, OpenLoop(requests)),
        },
        repeats,
    )
    steps = core.totals.steps
    return Ratio(
        num_running, caching, steps, times["reference"].least / steps / 1000, times["core"].least / steps / 1000
    )


class Long(NamedTuple):
    """One long run."""

    name: str
    cpu_s: float
    totals: Totals

    @property
    def requests_per_s(self) -> float:
        return self.totals.arrived / self.cpu_s


def lab_like(num_requests: int) -> list[Long]:
    """Traffic of the golden 10_lab, longer: prompts of 200 to 1,500, answers of 250 on average, 5 requests/s."""
    random = Random(1)
    requests, arrival_ns = [], 0
    for number in range(num_requests):
        arrival_ns += int(random.expovariate(5) * NS_PER_S)
        answer = max(1, min(1500, round(random.expovariate(1 / 250))))
        requests.append(Request(number, arrival_ns, random.randint(200, 1500), (answer,)))
    config = VllmV1Config(
        num_gpu_blocks=2001,
        block_size=16,
        max_num_seqs=256,
        max_num_batched_tokens=512,
        max_model_len=4096,
        step_time=_LINEAR,
    )
    cached = replace(config, enable_prefix_caching=True)
    return [_long("without caching", config, requests), _long("with caching, no hits", cached, requests)]


def trace(path: str) -> list[Long]:
    """The Mooncake conversation trace with its prefixes, in a pool of 3.2 million tokens; reading it is not timed."""
    from kvlab.workloads.traces import reading

    with reading(path, "mooncake") as (_, rows):
        requests = [
            Request(number, row.arrival_ns, row.prompt_tokens, (row.output_tokens,), row.hash_ids)
            for number, row in enumerate(rows)
        ]
    found = []
    for block_size in (512, 64, 16):
        config = VllmV1Config(
            num_gpu_blocks=3_200_000 // block_size,
            block_size=block_size,
            max_num_seqs=256,
            max_num_batched_tokens=8192,
            max_model_len=200_000,
            enable_prefix_caching=True,
            step_time=_TWO_LAWS,
        )
        found.append(_long(f"blocks of {block_size} tokens", config, requests))
    return found


def _long(name: str, config: VllmV1Config, requests: list[Request]) -> Long:
    records: list[RunRecord] = []
    run = partial(simulate, config)
    took_ns = cpu_ns(lambda: records.append(run(OpenLoop(requests))))
    return Long(name, took_ns / NS_PER_S, records[0].totals)
