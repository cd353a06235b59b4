"""The watermark table of case U01: a report's preemptions against those of the simulator, over a few seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvlab.validation.checks import outcome
from kvlab.validation.numbers import Watermark, WatermarkRow

SEEDS: Final = tuple(range(1, 11))
STEP_TIME: Final = {"step_time": "linear", "base_ns": "4.2 ms", "per_seq_ns": "24 us", "per_prefill_token_ns": "6.5 us"}
"""Made so that throughput at 2 % is near the report's; preemptions do not depend on it."""
REPORTED: Final = (
    ("no watermark", 0.0, 1065, 11_582.0),
    ("2 %", 2.0, 400, 12_134.0),
    ("5 %", 5.0, 187, 12_167.0),
    ("10 %", 10.0, 168, 11_835.0),
    ("15 %", 15.0, 168, 11_635.0),
)
"""Variant of U01, watermark in per cent, preemptions and output tokens/s of the report."""
NEAR_PERCENT: Final = 15.0
"""How far a reported count may lie outside the range over seeds."""
_HOW: Final = (
    "450 prompts from 128 clients in a closed loop, uniform(800, 1,200) tokens in and uniform(4,000, 6,000) out, "
    "299,584 tokens of KV in blocks of 16, max_num_seqs 256, max_num_batched_tokens 8,192, no prefix caching. A step "
    "takes 4.2 ms, 24 us per sequence and 6.5 us per prefill token: a plausible line for Qwen2.5-7B on a GB200, set so "
    "that throughput at 2 % is near the report's. All clients start at once and lengths are counted in tokens, so "
    "preemptions follow from lengths and rules alone; another step time gives the same."
)


def watermark_table(seeds: Sequence[int] = SEEDS) -> Watermark:
    """The table: one run for each watermark and seed."""
    rows = []
    for variant, percent, preemptions, tokens_per_s in REPORTED:
        runs = [outcome("U01", variant, seed=seed, **STEP_TIME) for seed in seeds]
        rows.append(
            WatermarkRow(
                percent=percent,
                reported_preemptions=preemptions,
                reported_tokens_per_s=tokens_per_s,
                preemptions=tuple(run.preemptions for run in runs),
                tokens_per_s=tuple(round(run.tokens_per_s) for run in runs),
                ttft_p50_s=tuple(round(run.seconds("p50_ttft_ns"), 2) for run in runs),
                gap_p99_ms=tuple(round(1000 * run.seconds("p99_gap_ns"), 1) for run in runs),
            )
        )
    return Watermark(how=_HOW, seeds=tuple(seeds), rows=tuple(rows))


def holds(row: WatermarkRow) -> bool:
    """Whether the reported count lies within the range over seeds, or near it."""
    low, high = min(row.preemptions), max(row.preemptions)
    share = NEAR_PERCENT / 100
    return low * (1 - share) <= row.reported_preemptions <= high * (1 + share)
