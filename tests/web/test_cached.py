"""Cached blocks are read off the log of stays: they are those that the engine's own pool has."""

from __future__ import annotations

import random

import pytest

from kvlab.core import engine
from kvlab.core.config import EVERYTHING, VllmV1Config
from kvlab.core.engine import Engine
from kvlab.core.prefix_pool import PrefixPool
from kvlab.core.request import OpenLoop, Request
from kvlab.core.schedulers.vllm_v1 import VllmV1
from kvlab.core.step_time import LinearStepTime
from kvlab.web.cached import spans
from kvlab.web.stays import stay_columns


def crowd(rng: random.Random, block_size: int) -> tuple[Request, ...]:
    """Requests of whom a few fit at a time; some begin alike."""
    arrivals = sorted(rng.randint(0, 60_000) for _ in range(60))
    return tuple(
        Request(number, t_ns, rng.randint(1, 15 * block_size), (rng.randint(1, 4 * block_size),))
        for number, t_ns in enumerate(arrivals)
    )


@pytest.mark.parametrize("seed", range(25))
def test_cached_blocks_are_those_of_the_pool(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    block_size = rng.choice([1, 4, 16])
    config = VllmV1Config(
        num_gpu_blocks=rng.randint(30, 60), block_size=block_size, max_num_seqs=8,
        max_num_batched_tokens=rng.choice([8, 32, 64]), max_model_len=20 * block_size, enable_prefix_caching=True,
        reserve_full_prompt=rng.random() < 0.5,
        step_time=LinearStepTime(base_ns=1000, per_running_ns=10, per_prefill_token_ns=1),
    )  # fmt: skip
    stops = seed % 2 == 1
    monkeypatch.setattr(engine, "MONITOR_STEPS", rng.randint(5, 60))
    running = Engine(config, OpenLoop(crowd(rng, block_size)), recording=EVERYTHING)
    record = running.run(lambda _t_ns, _ended: stops, check=False)
    assert record.interrupted == stops
    assert isinstance(running.scheduler, VllmV1)
    pool = running.scheduler.pool
    assert isinstance(pool, PrefixPool)
    free = pool.free_blocks()
    cached = set(free[len(free) - len(pool.free_keys()) :])
    held = {block for job in running.scheduler.running.values() for seq in job.live for block in seq.table}
    block, since, until = spans(record, stay_columns(record.stays), block_size)
    end = len(record.steps)
    at_the_end = {
        number
        for number, first, after in zip(block.tolist(), since.tolist(), until.tolist(), strict=True)
        if after == end + 1 and first <= end
    }
    assert at_the_end - held == cached
    assert all(first < after for first, after in zip(since.tolist(), until.tolist(), strict=True))
