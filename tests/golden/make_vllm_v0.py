"""Writes tests/golden/vllm_v0/*.json.gz: scenarios for the rules of docs/vllm-v0.md, as the reference plays them.

python tests/golden/make_vllm_v0.py     # only when these rules change: the files are there to notice when they don't
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from kvlab.goldens import read_golden, replay_reference

FOLDER = Path(__file__).parent / "vllm_v0"
MS = 1_000_000
ENGINE = {
    "num_gpu_blocks": 400,
    "num_cpu_blocks": 200,
    "block_size": 16,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 4096,
    "max_model_len": 4096,
    "watermark_blocks": 4,
    "preemption_mode": "auto",
}
"""The defaults of 0.6 but for the sizes; the watermark is int(0.01 x blocks)."""
COST_NS = {
    "base": 20 * MS,
    "per_running": MS // 10,
    "per_decode": MS // 5,
    "per_prefill_token": MS // 10,
    "swap_per_token": 25_000,
    "swap_per_block": 150_000,
}


def requests(
    seed: int, count: int, gap_ms: int, prompt: tuple[int, int], output: tuple[int, int], samples: int = 1
) -> list[list[Any]]:
    """Rows of a golden; gaps, lengths and numbers of samples are uniform."""
    random = Random(seed)
    rows = []
    arrival_ns = 0
    for _ in range(count):
        arrival_ns += random.randint(0, 2 * gap_ms) * MS
        outputs = [random.randint(*output) for _ in range(random.randint(1, samples))]
        rows.append([arrival_ns, random.randint(*prompt), outputs])
    return rows


def scenarios() -> Iterator[dict[str, Any]]:
    """What each of them exercises stands before it."""

    def scenario(name: str, rows: list[list[Any]], **engine: Any) -> dict[str, Any]:
        return {"lab": "vllm-v0", "name": name, "engine": ENGINE | engine, "cost_ns": COST_NS, "requests": rows}

    # room for all: prefills in steps of their own, decodes that pause
    yield scenario("01_ample", requests(1, 80, 100, (20, 900), (1, 200)), num_gpu_blocks=5000, watermark_blocks=50)
    # one sample each, tight: recompute, again and again; victims although their tables have room
    yield scenario("02_tight", requests(2, 80, 60, (20, 700), (1, 400)))
    # the same made to swap, with a swap space that is full at times: then it recomputes
    yield scenario("03_swap", requests(2, 80, 60, (20, 700), (1, 400)), preemption_mode="swap", num_cpu_blocks=30)
    # up to four samples: shared prompts, copies on write, groups that are swapped, the rest of them recomputed
    yield scenario("04_groups", requests(4, 60, 90, (20, 500), (1, 250), samples=4))
    # the same with small blocks and recompute for groups, too
    yield scenario(
        "05_groups_recomputed",
        requests(4, 60, 90, (20, 500), (1, 250), samples=4),
        block_size=4,
        num_gpu_blocks=1500,
        watermark_blocks=15,
        preemption_mode="recompute",
    )
    # a watermark of a fifth: admissions and swap-ins wait long before the pool is full
    yield scenario(
        "06_watermark",
        requests(6, 60, 60, (100, 900), (100, 800)),
        num_gpu_blocks=150,
        watermark_blocks=30,
        preemption_mode="swap",
    )
    # budget of one longest prompt per step, few sequences, answers cut at max_model_len
    yield scenario(
        "07_limits",
        requests(7, 80, 30, (100, 900), (1, 300), samples=2),
        max_num_seqs=12,
        max_model_len=1000,
        max_num_batched_tokens=1000,
        num_gpu_blocks=1000,
        watermark_blocks=10,
    )
    # prompts that never fit, prompts that are too long, more samples than can run; who fails when it comes back
    odd = requests(8, 40, 50, (1, 380), (1, 120), samples=3)
    odd[5][1] = 4096
    odd[9][1] = 399
    odd[13][2] = [9] * 9
    odd[17][1] = 395
    yield scenario("08_never", odd, block_size=1, num_gpu_blocks=400, max_num_seqs=8)
    # blocks of one token, a pool that barely holds one, all at once
    yield scenario(
        "09_edges",
        [[0, prompt, [output]] for prompt in (1, 2, 5, 8) for output in (1, 2, 3, 7)],
        block_size=1,
        num_gpu_blocks=14,
        watermark_blocks=0,
        num_cpu_blocks=3,
    )
    # who was swapped out needs more than the watermark leaves, and nobody passes him: the server stands still
    yield scenario(
        "10_stalled",
        [[0, 2, [12]], [0, 8, [30]], [900 * MS, 2, [3]]],
        block_size=1,
        num_gpu_blocks=20,
        watermark_blocks=10,
        preemption_mode="swap",
    )


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for scenario in scenarios():
        path = FOLDER / f"{scenario['name']}.json.gz"
        _write(path, {"scenario": scenario, "result": {}})
        _write(path, {"scenario": scenario, "result": replay_reference(read_golden(path)).result})


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    main()
