"""What moves cost, and how the table says it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import kvlab
from kvlab.errors import UnknownNameError
from kvlab.prices import PRICES, Price, To, cost_of, price_of
from kvlab.setting_table import RULES, SETTINGS
from kvlab.units import GIB


@pytest.mark.parametrize(
    ("field", "before", "after", "points"),
    [
        ("preemption_mode", "recompute", "swap", 1),
        ("preemption_mode", "swap", "recompute", 1),
        ("block_size", 1024, 16, 1),
        ("block_size", 1, 32, 1),
        ("block_size", 16, 64, 2),
        ("block_size", 16, 1, 2),
        ("headroom_blocks", 0, 1, 1),
        ("headroom_blocks", 0, 128, 1),
        ("headroom_blocks", 0, 129, 2),
        ("headroom_blocks", 500, 0, 0),
        ("swap_space_bytes", GIB // 2, 4 * GIB, 1),
        ("swap_space_bytes", 4 * GIB, 9 * GIB, 2),
        ("swap_space_bytes", 4 * GIB, 0, 0),
        ("max_num_seqs", 256, 255, 2),
        ("max_num_seqs", 256, 1, 2),
        ("max_num_seqs", 64, 256, 1),
        ("max_tokens", 4096, 1024, 2),
        ("max_tokens", 1024, 4096, 1),
        ("allocator", "contiguous", "paged", 3),
        ("gpu_memory_utilization", Decimal("0.8"), Decimal("0.86"), 6),
        ("gpu_memory_utilization", Decimal("0.9"), Decimal("0.901"), 1),
        ("gpu_memory_utilization", Decimal("0.9"), Decimal("0.5"), 0),
        ("kv_memory_bytes", 3 * GIB, 4 * GIB, 2),
        ("kv_memory_bytes", 3 * GIB, 3 * GIB + 1, 1),
        ("kv_memory_bytes", 3 * GIB, 1 * GIB, 0),
        ("kv_cache_dtype", "auto", "fp8", 8),
        ("kv_cache_dtype", "fp8", "auto", 0),
        ("request_rate", Decimal("2.5"), Decimal("2"), 10),
        ("request_rate", Decimal("2.5"), Decimal("1.9"), 20),
        ("request_rate", Decimal("2.5"), Decimal("4"), 0),
    ],
)
def test_prices(field: str, before: Any, after: Any, points: int) -> None:
    assert price_of(field, before, after) == points


@pytest.mark.parametrize("field", PRICES)
def test_staying_costs_nothing(field: str) -> None:
    values = {name: value for rules in RULES for name, value in kvlab.scenario(rules).settings().items()}
    value: Any = values[field]
    assert price_of(field, value, value) == 0


@pytest.mark.parametrize("field", PRICES)
def test_every_row_is_of_a_setting_and_says_its_price(field: str) -> None:
    assert field in SETTINGS
    text = PRICES[field].text(field)
    assert "point" in text
    assert text.endswith(".")


def test_the_words_of_the_table() -> None:
    assert {field: price.text(field).split(". ")[0] for field, price in PRICES.items()} == {
        "preemption_mode": "Change it: 1 point",
        "block_size": "To 8, 16 or 32: 1 point; otherwise: 2 points",
        "headroom_blocks": "Raise it: 1 point per started 128 blocks; lower it: free",
        "swap_space_bytes": "Raise it: 1 point per started 4 GiB; lower it: free",
        "max_num_seqs": "Raise it: 1 point; lower it: 2 points",
        "max_tokens": "Raise it: 1 point; lower it: 2 points",
        "allocator": "Change it: 3 points",
        "gpu_memory_utilization": "Raise it: 1 point per started 1 %; lower it: free",
        "kv_memory_bytes": "Raise it: 1 point per started 512 MiB; lower it: free",
        "kv_cache_memory_bytes": "Raise it: 1 point per started 512 MiB; lower it: free",
        "kv_cache_dtype": "To fp8: 8 points; otherwise: free",
        "watermark": "Raise it: 1 point per started 5 %; lower it: free",
        "max_num_batched_tokens": "Change it: 1 point",
        "prefill_budget_tokens": "Change it: 1 point",
        "long_prefill_token_threshold": "Change it: 1 point",
        "scheduler_reserve_full_isl": "Change it: 1 point",
        "enable_prefix_caching": "Change it: 1 point",
        "tensor_parallel_size": "Raise it: 40 points; lower it: free",
        "request_rate": "Raise it: free; lower it: 10 points per started 0.5 requests/s",
        "trace_speed": "Raise it: free; lower it: 10 points per started 0.1",
        "max_concurrency": "Raise it: free; lower it: 10 points per started 8 users",
    }


def test_the_order_that_an_operator_would_give() -> None:
    flag = price_of("preemption_mode", "recompute", "swap")
    queueing = price_of("max_num_seqs", 64, 40)
    memory = price_of("gpu_memory_utilization", Decimal("0.9"), Decimal("0.95"))
    quality = price_of("kv_cache_dtype", "auto", "fp8")
    users = price_of("request_rate", Decimal(4), Decimal("3.9"))
    assert 0 < flag < queueing < memory < quality < users


def test_a_cost_adds_up_the_moves() -> None:
    before = kvlab.scenario("preemption-lab")
    after = before.replace(max_num_seqs=40, kv_cache_dtype="fp8", gpu_memory_utilization="0.8")
    assert cost_of(before.settings(), after.settings()) == 2 + 8
    assert cost_of(before.settings(), before.settings()) == 0


def test_the_table_is_yours_to_edit() -> None:
    mine = {**PRICES, "kv_cache_dtype": Price(rule=To(values=(), price=3, others=3), reason="Evaluated last year.")}
    assert price_of("kv_cache_dtype", "auto", "fp8", mine) == 3
    assert price_of("kv_cache_dtype", "auto", "fp8") == 8


def test_a_setting_without_a_price_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r'unknown priced setting "max_num_seq": did you mean "max_num_seqs"'):
        price_of("max_num_seq", 1, 2)
    before = kvlab.scenario("preemption-lab")
    with pytest.raises(UnknownNameError, match='"seed"'):
        cost_of(before.settings(), before.replace(seed=2).settings())
