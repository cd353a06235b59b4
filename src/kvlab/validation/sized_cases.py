"""Public cases that are arithmetic: what fits, what a log means, how long copies take; and those out of reach."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from kvlab.core.config import VllmV1Config
from kvlab.core.engine import simulate
from kvlab.core.request import OpenLoop, Request
from kvlab.core.step_time import LinearStepTime
from kvlab.sizing.compute import capacity
from kvlab.step_time.fit import fit_relative
from kvlab.units import GIB
from kvlab.validation.checks import near, true, within
from kvlab.validation.numbers import CaseNumbers


def u14() -> CaseNumbers:
    """The largest max_model_len that starts."""
    cases = (("9.97", 24_576, 16, 1_048_576, 435_600, 0.05), ("0.71", 131_072, 256, 131_072, 5_632, 0.0))
    checks = []
    for gib, per_token, block, asked, expected, percent in cases:
        found = capacity(
            kv_cache_memory_bytes=int(Fraction(gib) * GIB), kv_bytes_per_token=per_token, block_size=block,
            max_model_len=asked,
        )  # fmt: skip
        checks.append(near(f"longest in {gib} GiB", expected, found.longest_max_model_len, percent, "tokens"))
        answer = "starts" if found.refusal is None else "refused"
        checks.append(true(f"{asked:,} tokens in {gib} GiB", "refused", answer, answer == "refused"))
    return CaseNumbers(
        id="U14", title="\"KV cache is needed, larger than available\": which max_model_len fits?",
        source="vllm-project/vllm#16118 and #16168; vllm-project/tpu-inference#223",
        how="`kvlab.capacity` with the logged memory and bytes per token. The block of 256 is an inference.",
        checks=tuple(checks), why="",
    )  # fmt: skip


def u18() -> CaseNumbers:
    """49 users on an A100."""
    lengths: dict[str, Any] = {"prompt_tokens": "8000", "output_tokens": "2000", "max_model_len": 10_000}
    bare = capacity(kv_cache_memory_bytes=64_000_000_000, kv_bytes_per_token=131_072, **lengths)
    whole = capacity(model="meta-llama/Llama-3.1-8B", gpu="A100-80GB", gpu_memory_utilization="0.9", **lengths)
    assert bare.by_lengths is not None, "no lengths"
    assert whole.by_lengths is not None, "no lengths"
    return CaseNumbers(
        id="U18", title="A rule of thumb gives 49 users on an A100-80",
        source="doubleword.ai / titanml docs, \"How many users can my GPU serve?\" (2025-06)",
        how="`kvlab.capacity`, first with 64 GB for KV as the rule has it, then with the memory of the GPU at 0.9.",
        checks=(
            near("all at 10,000 tokens in 64 GB", 48.8, float(bare.by_lengths.at_full_length), 1),
            near("running, at 9,000 tokens on average, in 64 GB", 54, float(bare.by_lengths.expected), 2),
            near("all at 10,000 tokens at 0.9, activations taken off", 42, float(whole.by_lengths.at_full_length), 5),
        ),
        why="41 to 43 leaves 5 to 7 GB for activations; what vLLM takes for them here is under 1 GiB.",
    )  # fmt: skip


def u22() -> CaseNumbers:
    """Log and metrics disagree."""
    cases = ((302_945, 262_144, 1.156), (123_433, 262_144, 0.4709), (290_864, 32_768, 8.88))
    checks = [
        near(
            f"{tokens:,} tokens over {length:,}", expected,
            float(capacity(kv_bytes_per_token=1, num_gpu_blocks_override=tokens, block_size=1,
                           max_model_len=length).max_concurrency), 0.1,
        )
        for tokens, length, expected in cases
    ]  # fmt: skip
    checks.append(near("reported over computed, hybrid model", 3.72, 33.04 / (290_864 / 32_768), 0.1))
    checks.append(true("a warning where a log and /metrics differ", "a warning", "none", False))
    return CaseNumbers(
        id="U22", title="Log and /metrics disagree on the number of requests at once",
        source="vllm-project/vllm#50456 and #40691 (issues, 2026)", how="`kvlab.capacity` with one token a block.",
        checks=tuple(checks), why="kvlab does not compare a server's log with its metrics.",
    )  # fmt: skip


def u25() -> CaseNumbers:
    """Copies of blocks."""
    sizes, entries = np.array([4_096, 8_192, 32_768, 131_072, 524_288]), np.array([4_096] * 4 + [512])
    measured_ns = np.array([22.4, 22.4, 40.7, 50.5, 11.2]) * 1e6
    overhead_ns, per_byte_ns = fit_relative(np.column_stack([entries, sizes * entries]).astype(float), measured_ns)
    rates = sizes * entries / measured_ns
    checks = [
        within(f"blocks of {size // 1024:,} KiB", expected, float(rate), 0.06 * expected, "GB/s")
        for size, expected, rate in zip(sizes, (0.76, 1.5, 3.3, 10.6, 24), rates, strict=True)
    ]
    checks.append(near("overhead of a copy, fitted", 5.4, overhead_ns / 1000, 10, "us"))
    low = 1 / per_byte_ns
    checks.append(
        true("bandwidth beyond it, fitted", "24 GB/s or a little more", f"{low:.1f} GB/s", bool(21 <= low <= 32))
    )
    return CaseNumbers(
        id="U25", title="Small blocks are slow to copy",
        source="vllm-project/vllm#40549 (PR, MI300X, 2026-05); #38460 (H100)",
        how="Bytes over time, and a line (overhead per copy, time per byte) of least relative squares through five "
        "points.",
        checks=tuple(checks), why="",
    )  # fmt: skip


def u40() -> CaseNumbers:
    """Limits on partial prefills."""
    config = VllmV1Config(
        num_gpu_blocks=30_000, block_size=16, max_num_seqs=256, max_num_batched_tokens=4_096, max_model_len=500_000,
        step_time=LinearStepTime(base_ns=1_000_000),
    )  # fmt: skip
    steps = simulate(config, OpenLoop([Request(0, 0, 458_000, (1,))])).totals.steps
    return CaseNumbers(
        id="U40", title="Limits on partial prefills: the mean gets better, p99 worse",
        source="vllm-project/vllm#41399 (PR, L4, 2026-04); sgl-project/sglang#34623",
        how="Simulated: one prompt of 458,000 tokens, 4,096 a step.",
        checks=(
            near("rounds of the prompt", 112, steps, 0),
            true("mean and p99 of max_num_partial_prefills", "ranked differently", "not simulated", False),
        ),
        why="max_num_partial_prefills does nothing in the scheduler that is simulated (vLLM V1); a pull request adds "
        "it.",
    )  # fmt: skip


def u48() -> CaseNumbers:
    """Autoscaling."""
    return CaseNumbers(
        id="U48", title="A knee at 2 requests a second, and replicas that come too late",
        source="llm-d/llm-d-autoscaling#1249, #1118 (PRs, 2026)",
        how="Nothing.",
        checks=(true("backlog and p99 with 1 to 4 replicas", "over 1,000 waiting; minutes", "not simulated", False),),
        why="kvlab simulates one server: no router, no replicas that start and stop.",
    )  # fmt: skip


SIZED: Final[tuple[Callable[[], CaseNumbers], ...]] = (u14, u18, u22, u25, u40, u48)
"""One function per case."""
