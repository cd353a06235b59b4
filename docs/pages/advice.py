"""What was advised on public cases."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from docs.pages.markdown import table, with_tables
from kvlab.advice.levers import FINEST, LADDERS
from kvlab.setting_table import SETTINGS
from kvlab.units import GIB
from kvlab.validation.advised import QUESTIONS, committed

FROM: dict[str, Any] = {
    "preemption_mode": "recompute",
    "allocator": "contiguous",
    "block_size": 16,
    "max_num_seqs": 256,
    "headroom_blocks": 0,
    "watermark": Decimal(0),
    "gpu_memory_utilization": Decimal("0.8"),
    "kv_memory_bytes": 4 * GIB,
    "kv_cache_memory_bytes": 8 * GIB,
    "swap_space_bytes": 4 * GIB,
    "kv_cache_dtype": "auto",
    "max_tokens": 2048,
    "max_num_batched_tokens": 2048,
    "prefill_budget_tokens": 512,
    "long_prefill_token_threshold": 0,
    "scheduler_reserve_full_isl": False,
    "enable_prefix_caching": False,
    "tensor_parallel_size": 1,
    "request_rate": Decimal(10),
    "trace_speed": Decimal(1),
    "max_concurrency": 64,
}
"""A value of each lever to show its ladder from."""


def advice_page() -> str:
    """The page of advice, with what it said of public cases."""
    return with_tables("advice.md", {"levers": levers_table, "cases": advised_table})


def levers_table() -> list[str]:
    """What is tried of each lever, from a value that it may have."""
    rows = []
    for name, ladder in LADDERS.items():
        setting = SETTINGS[name]
        now = FROM[name]
        tried = ", ".join(setting.show(value) for value in dict.fromkeys(ladder(now)) if value != now)
        finest = FINEST.get(name)
        rows.append([f"`{name}`", setting.show(now), tried, "" if finest is None else setting.show(finest)])
    return table(["lever", "from", "tried, the nearest first", "then in steps of"], rows)


def advised_table() -> list[str]:
    """Each case: what was asked, what resolved it, and what was advised."""
    rows = []
    for question, said in zip(QUESTIONS, committed(), strict=True):
        fixes = "<br>".join(f"{place}. `{text}` ({price})" for place, (text, price) in enumerate(said.fixes, 1))
        cache = "full" if said.kv_is_bottleneck else f"not the bottleneck: {said.peak_kv_percent:g} % at most"
        place = "" if question.is_it is None else "not advised" if said.place is None else str(said.place)
        rows.append([said.id, f"`{said.slo}`", question.resolved, fixes or said.verdict, place, cache, question.why])
    return table(["case", "asked", "what resolved it", "advised (points)", "place", "KV cache", ""], rows)
