"""Made-up measurements with known coefficients: step logs, and results of `vllm bench serve` from a small loop."""

from __future__ import annotations

import itertools
import json
import random
import statistics
from pathlib import Path
from typing import Any

from kvlab.core.step_time import AnyStepTime, DecodeLaw, MixedLaw, StepLoad, TwoLawStepTime, chunk_pairs

TRUE = TwoLawStepTime(
    decode=DecodeLaw(base_ps=15_000_000_000, per_seq_ps=40_000_000, per_context_token_ps=150_000),
    mixed=MixedLaw(
        base_ps=18_000_000_000, per_decode_ps=90_000_000, per_decode_context_token_ps=300_000,
        per_prefill_ps=200_000_000, per_prefill_token_ps=85_000_000, per_prefill_context_token_ps=600_000,
        per_chunk_pair_ps=4_000,
    ),
)  # fmt: skip
BENCH = TwoLawStepTime(
    decode=TRUE.decode,
    mixed=MixedLaw(
        base_ps=15_000_000_000, per_decode_ps=40_000_000, per_decode_context_token_ps=150_000,
        per_prefill_token_ps=60_000_000,
    ),
)  # fmt: skip
"""A law of the kind that benchmark results can tell."""


def random_loads(count: int, seed: int = 1) -> list[StepLoad]:
    """Half of them decode only."""
    rng = random.Random(seed)
    loads = []
    for number in range(count):
        n = rng.randint(1, 64)
        context = n * rng.randint(50, 4000)
        if number % 2:
            loads.append(StepLoad(n, n, context, 0, 0, 0, 0))
            continue
        chunks = [(rng.randint(16, 600), rng.choice((0, rng.randint(1, 3000)))) for _ in range(rng.randint(1, 3))]
        tokens, before = (sum(part) for part in zip(*chunks, strict=True))
        pairs = sum(chunk_pairs(chunk, earlier) for chunk, earlier in chunks)
        loads.append(StepLoad(n + len(chunks), n, context, tokens, before, pairs, len(chunks)))
    return loads


def step_log(step_time: AnyStepTime, loads: list[StepLoad], noise: float = 0.0, seed: int = 2) -> str:
    """A CSV with all columns."""
    rng = random.Random(seed)
    lines = ["dur_us,num_decodes,decode_context,prefill_tokens,prefill_context,chunk_context,num_prefills"]
    for load in loads:
        us = step_time.mixed_ns(load) / 1000 * (1 + noise * rng.uniform(-1, 1))
        figures = (load.num_decodes, load.decode_context, load.prefill_tokens, load.prefill_context)
        lines.append(",".join(map(str, (f"{us:.3f}", *figures, load.chunk_context, load.num_prefills))))
    return "\n".join(lines) + "\n"


def bench_result(step_time: AnyStepTime, users: int, prompt: int, output: int, rounds: int = 6) -> dict[str, Any]:
    """What `vllm bench serve` would report of so many users who each wait for their answer before they ask again."""
    left, now = users * rounds, 0
    waiting = [0] * users  # when each was sent
    left -= users
    running: list[tuple[int, list[int]]] = []  # sent, times of tokens
    ttfts: list[float] = []
    tpots: list[float] = []
    gaps: list[float] = []
    while waiting or running:
        prefills = waiting[: max(1, 2048 // prompt)]
        del waiting[: len(prefills)]
        decodes = [times for _, times in running]
        context = sum(prompt + len(times) for times in decodes)
        pairs = len(prefills) * chunk_pairs(prompt, 0)
        load = StepLoad(
            len(running) + len(prefills), len(running), context, len(prefills) * prompt, 0, pairs, len(prefills)
        )
        now += step_time.mixed_ns(load)
        for times in decodes:
            times.append(now)
        running += [(sent, [now]) for sent in prefills]
        for sent, times in [seq for seq in running if len(seq[1]) == output]:
            ttfts.append((times[0] - sent) / 1e6)
            tpots.append((times[-1] - times[0]) / (output - 1) / 1e6)
            gaps += [(b - a) / 1e6 for a, b in itertools.pairwise(times)]
            if left:
                left -= 1
                waiting.append(now)
        running = [seq for seq in running if len(seq[1]) < output]
    return {
        "backend": "vllm", "num_prompts": users * rounds, "max_concurrency": users, "completed": users * rounds,
        "duration": now / 1e9, "total_input_tokens": users * rounds * prompt,
        "total_output_tokens": users * rounds * output, "mean_ttft_ms": statistics.fmean(ttfts),
        "mean_tpot_ms": statistics.fmean(tpots), "median_itl_ms": statistics.median(gaps),
    }  # fmt: skip


def write_bench(folder: Path, step_time: AnyStepTime, runs: list[tuple[int, int, int]]) -> list[str]:
    """One file per (users, prompt, output)."""
    paths = []
    for users, prompt, output in runs:
        path = folder / f"c{users}-{prompt}-{output}.json"
        path.write_text(json.dumps(bench_result(step_time, users, prompt, output)), encoding="utf-8")
        paths.append(str(path))
    return paths
