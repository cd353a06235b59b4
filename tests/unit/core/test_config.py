from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kvlab.core.config import EVERYTHING, METRICS, BlockTableLabConfig, PreemptionLabConfig, Recording, Slo
from kvlab.errors import ConfigError

PREEMPTION: dict[str, Any] = {
    "num_gpu_blocks": 10,
    "num_cpu_blocks": 4,
    "block_size": 16,
    "max_num_seqs": 8,
    "headroom_blocks": 1,
    "preemption_mode": "swap",
    "prefill_budget_tokens": 512,
    "base_ns": 25_000_000,
    "per_seq_ns": 300_000,
    "per_prefill_token_ns": 120_000,
    "swap_per_token_ns": 25_000,
    "swap_per_block_ns": 150_000,
}
BLOCK_TABLES: dict[str, Any] = {
    "allocator": "paged",
    "kv_tokens": 8_192,
    "block_size": 16,
    "max_tokens": 1_024,
    "max_num_seqs": 64,
    "base_ns": 9_000_000,
    "per_seq_ns": 150_000,
    "per_context_token_ns": 90,
    "per_prefill_token_ns": 60_000,
    "paging_overhead_num": 6,
    "paging_overhead_den": 10,
}
MAY_BE_ZERO = {
    "num_cpu_blocks", "headroom_blocks", "per_seq_ns", "per_prefill_token_ns", "per_context_token_ns",
    "swap_per_token_ns", "swap_per_block_ns", "paging_overhead_num",
}  # fmt: skip
NUMBERS = [
    (kind, values, field)
    for kind, values in ((PreemptionLabConfig, PREEMPTION), (BlockTableLabConfig, BLOCK_TABLES))
    for field, value in values.items()
    if isinstance(value, int)
]


@pytest.mark.parametrize(("kind", "values", "field"), NUMBERS)
def test_every_number_has_a_lower_limit(kind: Any, values: dict[str, Any], field: str) -> None:
    limit = 0 if field in MAY_BE_ZERO else 1
    with pytest.raises(ConfigError, match=f"{field} = {limit - 1}: must be at least {limit}") as caught:
        kind(**values | {field: limit - 1})
    assert (caught.value.field, caught.value.value) == (field, limit - 1)
    accepted = values | {field: limit} | ({"block_size": 1} if field == "kv_tokens" else {})
    assert getattr(kind(**accepted), field) == limit


@pytest.mark.parametrize(("kind", "values", "field"), NUMBERS)
@pytest.mark.parametrize("value", [1.0, True, "3", None, float("nan")])
def test_only_whole_numbers_are_accepted(kind: Any, values: dict[str, Any], field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{field} = .*: expected a whole number"):
        kind(**values | {field: value})


def test_configs_are_frozen_values() -> None:
    config = PreemptionLabConfig(**PREEMPTION)
    assert config == PreemptionLabConfig(**PREEMPTION)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.block_size = 8  # type: ignore[misc]


def test_the_remainder_of_the_kv_tokens_is_no_block() -> None:
    config = BlockTableLabConfig(**BLOCK_TABLES | {"kv_tokens": 65, "block_size": 4})
    assert config.num_blocks == 16


@pytest.mark.parametrize(("blocks", "watermark"), [(1, 1), (100, 1), (101, 2), (2_048, 21)])
def test_one_block_in_a_hundred_is_kept_rounded_up(blocks: int, watermark: int) -> None:
    config = BlockTableLabConfig(**BLOCK_TABLES | {"kv_tokens": blocks, "block_size": 1})
    assert config.watermark_blocks == watermark


def test_a_paged_pool_needs_room_for_one_block() -> None:
    tiny = BLOCK_TABLES | {"kv_tokens": 15}
    with pytest.raises(ConfigError, match="block_size = 16: the KV memory holds only 15 tokens"):
        BlockTableLabConfig(**tiny)
    assert BlockTableLabConfig(**tiny | {"allocator": "contiguous"}).kv_tokens == 15


LIMITS = ["ttft_ns", "tpot_ns", "gap_ns", "e2e_ns"]


@pytest.mark.parametrize("limit", LIMITS)
def test_an_slo_is_met_up_to_and_including_each_limit(limit: str) -> None:
    slo = Slo(**{limit: 100})
    times = dict.fromkeys(LIMITS, 10**12)
    assert slo.met(**times | {limit: 100})
    assert not slo.met(**times | {limit: 101})


def test_all_limits_must_be_met() -> None:
    slo = Slo(ttft_ns=10, gap_ns=5)
    assert slo.met(ttft_ns=10, tpot_ns=99, gap_ns=5, e2e_ns=99)
    assert not slo.met(ttft_ns=10, tpot_ns=0, gap_ns=6, e2e_ns=0)


def test_no_limits_are_always_met() -> None:
    assert Slo().met(ttft_ns=10**18, tpot_ns=10**18, gap_ns=10**18, e2e_ns=10**18)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_of_zero_cannot_be_met(limit: str) -> None:
    with pytest.raises(ConfigError, match=f"{limit} = 0: must be at least 1"):
        Slo(**{limit: 0})


def test_what_is_recorded_is_asked_for() -> None:
    assert Recording() == METRICS
    assert Recording(requests=True, steps=True, memory=True) == EVERYTHING
