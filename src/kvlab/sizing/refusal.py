"""What the engine says when it won't start, in its own words."""

from __future__ import annotations

from typing import Final

from kvlab.sizing.engines import EngineRules
from kvlab.sizing.layout import KvLayout
from kvlab.sizing.memory import Waterfall
from kvlab.units import GIB

_GUIDE: Final = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."


def refusal(
    layout: KvLayout,
    kv_bytes: int,
    max_model_len: int,
    rules: EngineRules,
    split: Waterfall | None,
) -> str | None:
    """The text of the error that ends the start-up; None where the engine starts.

    Args:
        kv_bytes: left for KV on one GPU; not positive where nothing is.
        split: of one GPU; None where only the KV memory is known.
    Source: `_check_enough_kv_cache_memory` in vllm/v1/core/kv_cache_utils.py; vllm/worker/worker.py before 0.9.
    """
    if split is not None and split.weights_bytes > split.total_bytes:
        return _out_of_memory("the weights load", split.weights_bytes, split)
    if split is not None and split.usable_bytes > split.total_bytes:
        return _out_of_memory("the KV cache is allocated", split.usable_bytes, split)
    num_blocks = max(0, kv_bytes // layout.block_bytes)
    if not rules.chunked_prefill:
        return _before_v1(num_blocks * layout.block_size, max_model_len)
    if kv_bytes <= 0:
        return _nothing_left(rules)
    needed = layout.blocks_per_request(max_model_len) * layout.block_bytes
    if needed <= kv_bytes:
        return None
    return _too_long(max_model_len, needed, kv_bytes, layout.longest(num_blocks, max_model_len), rules)


def _out_of_memory(moment: str, needed_bytes: int, split: Waterfall) -> str:
    sizes = f"{_gib(needed_bytes)} GiB for a GPU of {_gib(split.total_bytes)} GiB"
    return f"torch.OutOfMemoryError: CUDA out of memory, while {moment}: {sizes}."


def _nothing_left(rules: EngineRules) -> str:
    more = "Try increasing `gpu_memory_utilization` when initializing the engine"
    if rules.graphs_counted:
        more += " (this flag also controls CPU memory reservation on the CPU backend, despite its name)"
    return f"No available memory for the cache blocks. {more}." + (f" {_GUIDE}" if rules.graphs_counted else "")


def _too_long(max_model_len: int, needed: int, kv_bytes: int, longest: int, rules: EngineRules) -> str:
    """The estimate is what the engine's binary search finds; it's left out where nothing fits."""
    models, note, guide = ("models's", "", "")
    if rules.graphs_counted:
        models, note, guide = ("model's", " (which also controls CPU memory on the CPU backend)", f" {_GUIDE}")
    estimate = f"Based on the available memory, the estimated maximum model length is {longest}. " if longest else ""
    remedy = (
        f"Try increasing `gpu_memory_utilization`{note} or decreasing `max_model_len` when initializing the engine."
    )
    return (
        f"To serve at least one request with the {models} max seq len ({max_model_len}), ({_gib(needed)} GiB KV cache "
        f"is needed, which is larger than the available KV cache memory ({_gib(kv_bytes)} GiB). {estimate}"
        f"{remedy}{guide}"
    )


def _before_v1(slots: int, max_model_len: int) -> str | None:
    remedy = "when initializing the engine."
    if slots == 0:
        return f"No available memory for the cache blocks. Try increasing `gpu_memory_utilization` {remedy}"
    if max_model_len <= slots:
        return None
    return (
        f"The model's max seq len ({max_model_len}) is larger than the maximum number of tokens that can be stored in "
        f"KV cache ({slots}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` {remedy}"
    )


def _gib(count: int) -> str:
    """Two digits after the point, as the engine rounds.

    >>> _gib(3 * 2**29)
    '1.50'
    """
    return f"{count / GIB:.2f}"
