"""Cases that people reported in public, as scenarios of the vllm-v1 rules: what they ran, what they saw, and where.

A case has settings that all its variants share, and variants that differ in what the report varied. Settings are texts
as links hold them. What a report does not say is ours, and stands in `assumed`; pools whose step times nobody knows
have linear ones, fitted to a figure that the report does give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kvlab.errors import UnknownNameError
from kvlab.scenarios import Scenario, preset
from kvlab.setting_table import VLLM_V1

_REFERENCE: Final = re.compile(r"([\w.-]+/[\w.-]+)#([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One of the servers of a case."""

    name: str
    """What tells it from the others, in a few words."""
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One report."""

    id: str
    title: str
    """What somebody saw."""
    story: str
    """Two sentences: what happens, and what to try."""
    source: str
    """Where it was reported."""
    settings: Mapping[str, str]
    """Of all variants; what differs from the preset vllm-v1."""
    variants: tuple[Variant, ...]
    """The first is the trouble."""
    assumed: str
    """What the report does not say and we chose."""
    on_page: bool = True
    """Whether the page has it as an example."""

    @property
    def url(self) -> str | None:
        """The thread; None where the source has no reference of that kind. GitHub redirects it to a pull request."""
        found = _REFERENCE.search(self.source)
        return None if found is None else f"https://github.com/{found[1]}/issues/{found[2]}"

    def settings_of(self, variant: str) -> dict[str, str]:
        """All settings of one variant, by its name.

        Raises:
            UnknownNameError: no such variant.
        """
        for each in self.variants:
            if each.name == variant:
                return {**self.settings, **each.settings}
        raise UnknownNameError("variant", variant, [each.name for each in self.variants])

    def scenario(self, variant: str) -> Scenario:
        """One variant as a scenario.

        Raises:
            UnknownNameError: no such variant.
        """
        return preset(VLLM_V1).replace(**self.settings_of(variant))


def _variants(setting: str, names: Mapping[str, str]) -> tuple[Variant, ...]:
    """Variants that differ in one setting: value -> name."""
    return tuple(Variant(name=name, settings={setting: value}) for value, name in names.items())


_CLOSED: Final = {"arrivals": "closed-loop", "enable_prefix_caching": "off"}

CASES: Final = (
    Case(
        id="U01",
        title="A thousand preemptions, or two per cent of headroom",
        story="128 users ask for answers of 5,000 tokens, and a pool of 299,584 tokens can't hold them all to the end: "
        "requests are let in as long as there is any room, and thrown out again in mid-stream. Keep two to five per "
        "cent of the pool free when admitting, and see what it costs.",
        source="vllm-project/vllm#44594 (merged PR, 2026-06)",
        settings={
            **_CLOSED,
            "model": "Qwen/Qwen2.5-7B-Instruct",
            "gpu": "GB200-192GB",
            "kv_cache_memory_bytes": "16 GiB",
            "max_model_len": "8192",
            "max_concurrency": "128",
            "num_requests": "450",
            "prompt_tokens": "uniform(800, 1200)",
            "output_tokens": "uniform(4000, 6000)",
        },
        variants=_variants(
            "watermark",
            {"0": "no watermark", "0.02": "2 %", "0.05": "5 %", "0.1": "10 %", "0.15": "15 %"},
        ),
        assumed="Step times are a roofline of the GB200, not measured.",
    ),
    Case(
        id="U03",
        title="Two prompts of 120,000 tokens, and room for one and a half",
        story="Both prompts are let in chunk by chunk, and the second is thrown out and starts again whenever the "
        "first needs a block. Ask for room for the whole prompt before letting it in: one after the other is faster.",
        source="vllm-project/vllm#21793 (PR, 2025-07) and #25538 (issue)",
        settings={
            **_CLOSED,
            "num_gpu_blocks_override": "11875",
            "max_model_len": "131072",
            "max_num_batched_tokens": "2048",
            "max_concurrency": "2",
            "num_requests": "2",
            "prompt_tokens": "120000",
            "output_tokens": "1000",
        },
        variants=_variants("scheduler_reserve_full_isl", {"off": "chunk by chunk", "on": "whole prompt first"}),
        assumed="The pool of 190,000 tokens is our estimate for an L40S; step times are a roofline.",
        on_page=False,
    ),
    Case(
        id="U05",
        title="7 users stream well, the 8th makes all of them four times slower",
        story="Each user's 32,768 tokens of prompt and 1,024 of answer take 13 % of the pool: seven fit, and the "
        "eighth is let in chunk by chunk and thrown out again and again, while all wait for its prefill. Cap the "
        "running sequences at seven, or ask for room for whole prompts.",
        source="vllm-project/vllm-ascend#5859 (issue, 2026-01)",
        settings={
            **_CLOSED,
            "model": "Qwen/Qwen3-235B-A22B",
            "gpu": "A100-SXM-80GB",
            "weight_dtype": "int8",
            "tensor_parallel_size": "8",
            "block_size": "128",
            "num_gpu_blocks_override": "2000",
            "max_model_len": "40960",
            "max_num_batched_tokens": "2048",
            "scheduler_reserve_full_isl": "off",
            "step_time": "linear",
            "base_ns": "71 ms",
            "per_seq_ns": "600 us",
            "per_prefill_token_ns": "200 us",
            "num_requests": "60",
            "prompt_tokens": "32768",
            "output_tokens": "1024",
        },
        variants=(
            Variant(name="8 users", settings={"max_concurrency": "8"}),
            Variant(name="6 users", settings={"max_concurrency": "6"}),
            Variant(name="7 users", settings={"max_concurrency": "7"}),
            Variant(name="12 users", settings={"max_concurrency": "12"}),
            Variant(name="8 users, 7 run", settings={"max_concurrency": "8", "max_num_seqs": "7"}),
            Variant(
                name="8 users, whole prompts",
                settings={"max_concurrency": "8", "scheduler_reserve_full_isl": "on"},
            ),
        ),
        assumed="256,000 tokens follow from 13.2 % per request; blocks of 128 are that engine's default. Model and GPU "
        "stand in for GLM-4.7 on eight NPUs and "
        "decide nothing here; step times are a line through the report's 107 ms at 6 users and 114 ms at 7, and a step "
        "takes 2,048 tokens.",
    ),
    Case(
        id="U06",
        title="256 clients at a pool that holds 72",
        story="The server runs about 72 requests whatever the clients do; the others wait a minute for their first "
        "token, and one request in ten is thrown out in mid-stream. Lower the clients' concurrency to 64: the same "
        "throughput, and no preemption.",
        source="Tandemn-Labs/tandemn-system#11 (issue, 2026-03)",
        settings={
            **_CLOSED,
            "model": "Qwen/Qwen2.5-7B-Instruct",
            "gpu": "A10G-24GB",
            "num_gpu_blocks_override": "4818",
            "max_model_len": "8192",
            "num_requests": "1500",
            "prompt_tokens": "uniform(700, 1100)",
            "output_tokens": "exponential(170, max=1000)",
        },
        variants=_variants(
            "max_concurrency", {"256": "256 clients", "80": "80 clients", "72": "72 clients", "64": "64 clients"}
        ),
        assumed="Lengths spread around 900 and 170 tokens, as 77,088 tokens / 72 = 1,071; 1,500 requests in place of "
        "5,000; step times are a roofline of the A10G.",
    ),
    Case(
        id="U08",
        title="Mean latency is fine, a few streams freeze, the GPU looks healthy",
        story="Nobody set max_num_seqs, so far more sequences run than the pool can hold to their end: a few streams "
        "stop for a second or more in mid-sentence, while the mean hardly shows it. Size max_num_seqs from pool and "
        "lengths, and the freezes become a longer queue.",
        source="dev.to/ji_ai, \"vLLM preemption: why 1 in 50 requests restarts\" (blog)",
        settings={
            "enable_prefix_caching": "off",
            "request_rate": "6.5",
            "prompt_tokens": "lognormal(p50=600, p95=3000, max=14000)",
            "output_tokens": "lognormal(p50=300, p95=1500, max=2300)",
        },
        variants=_variants("max_num_seqs", {"256": "default, 256", "120": "120", "96": "96"}),
        assumed="An L40S stands for \"one 48 GB card\"; 6.5 requests a second, as the report has no rate; step times "
        "are a roofline.",
    ),
    Case(
        id="U12",
        title="\"Maximum concurrency for 8,192 tokens per request: 4.61x\"",
        story="The log's figure is for requests of max_model_len: of 8,064 tokens in and 128 out four run at once. "
        "Requests of 800 tokens share the same pool by the dozens, and the others wait.",
        source="vllm-project/vllm#8031 (issue, 2024-25)",
        settings={
            **_CLOSED,
            "gpu": "A10G-24GB",
            "num_gpu_blocks_override": "2360",
            "max_model_len": "8192",
            "max_concurrency": "64",
        },
        variants=(
            Variant(
                name="8,192 tokens each",
                settings={"num_requests": "128", "prompt_tokens": "8064", "output_tokens": "128"},
            ),
            Variant(
                name="800 tokens each", settings={"num_requests": "640", "prompt_tokens": "700", "output_tokens": "100"}
            ),
        ),
        assumed="Model, GPU and the split into prompt and answer; step times are a roofline.",
        on_page=False,
    ),
    Case(
        id="U31",
        title="An FP8 cache doubles the pool, and nothing gets faster",
        story="Eight users take a third of the pool at most: twice the room is of no use to anybody, and only reading "
        "half the bytes shows a little. Look at the highest use of the cache before buying more of it.",
        source="vllm-project/vllm#42058 (issue, 2026-08)",
        settings={
            **_CLOSED,
            "model": "Qwen/Qwen3-8B",
            "gpu": "A100-SXM-80GB",
            "max_model_len": "40960",
            "max_concurrency": "8",
            "num_requests": "64",
            "output_tokens": "256",
        },
        variants=tuple(
            Variant(name=f"{dtype}, {tokens:,} in", settings={"kv_cache_dtype": value, "prompt_tokens": str(tokens)})
            for tokens in (16384, 1024, 4096, 8192)
            for value, dtype in (("auto", "16 bits"), ("fp8", "FP8"))
        ),
        assumed="The pool is computed (403,312 tokens; the report's log has 389,872). Step times are a roofline, which "
        "has attention gain from fewer bytes more than the report's kernels did.",
    ),
    Case(
        id="U38",
        title="One prompt of 60,000 tokens makes short requests wait 18 s",
        story="The long prompt takes every token of every step, so 19 short requests that came with it wait until it "
        "is through. Let no request have more than half of a step: they start after a second or two, and the long one "
        "loses six per cent.",
        source="noonghunna/club-3090#712 (PR, 2026-07)",
        settings={
            "enable_prefix_caching": "off",
            "model": "Qwen/Qwen3-30B-A3B",
            "gpu": "RTX-3090-24GB",
            "weight_dtype": "int4",
            "tensor_parallel_size": "2",
            "num_gpu_blocks_override": "6000",
            "max_model_len": "65536",
            "max_num_batched_tokens": "4096",
            "step_time": "linear",
            "base_ns": "30 ms",
            "per_seq_ns": "200 us",
            "per_prefill_token_ns": "290 us",
            "arrivals": "all-at-once",
            "num_requests": "20",
            "seed": "4",
            "prompt_tokens": "histogram(200:19, 60000:1)",
            "output_tokens": "50",
        },
        variants=_variants("long_prefill_token_threshold", {"0": "no threshold", "2048": "2,048 tokens"}),
        assumed="Model and pool stand in for gemma-4-26b-a4b; step times are a line through the report's 3,333 tokens "
        "of prefill a second; 19 short requests in place of one, all at the same time. With seed 4 the long one is "
        "first in the queue.",
    ),
)  # fmt: skip
"""In the order of their numbers."""


def case(case_id: str) -> Case:
    """The case of that id.

    Raises:
        UnknownNameError: no such case; names the nearest.
    """
    for each in CASES:
        if each.id == case_id:
            return each
    raise UnknownNameError("case", case_id, [each.id for each in CASES])
