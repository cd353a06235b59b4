"""A scenario's server as flags of vLLM: what a finished run prints back, and what the page shares."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from kvlab.core.config import PreemptionLabConfig
from kvlab.scenarios import Scenario
from kvlab.servers import VllmServer, VllmV0Server, VllmV1Server
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB, SETTINGS
from kvlab.settings import SIZE
from kvlab.sizing.plan import CHUNKED_ABOVE
from kvlab.units import GIB

_LAB_FLAGS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    PREEMPTION_LAB: (
        ("gpu_memory_utilization", "--gpu-memory-utilization"),
        ("kv_cache_dtype", "--kv-cache-dtype"),
        ("max_num_seqs", "--max-num-seqs"),
        ("block_size", "--block-size"),
    ),
    BLOCK_TABLE_LAB: (
        ("kv_memory_bytes", "--kv-cache-memory-bytes"),
        ("max_num_seqs", "--max-num-seqs"),
        ("block_size", "--block-size"),
    ),
}
_UNLESS: Final = {
    "tensor_parallel_size": "1",
    "pipeline_parallel_size": "1",
    "kv_cache_dtype": "auto",
    "long_prefill_token_threshold": "0",
    "scheduling_policy": "fcfs",
}
"""Setting -> the engine's default, which needs no flag."""
_ON: Final = ("enable_prefix_caching", "enable_chunked_prefill", "scheduler_reserve_full_isl")
"""Switches that are on by default."""
_WEIGHTS: Final = {
    "fp8": "--quantization fp8",
    "awq": "--quantization awq",
    "gptq": "--quantization gptq",
    "fp32": "--dtype float32",
    "bf16": "--dtype bfloat16",
    "fp16": "--dtype float16",
}
"""Weight dtype -> flag; others are what the files of the model hold."""


def vllm_flags(scenario: Scenario) -> str:
    """What `vllm serve` takes for the same server, as far as a lab's has it; of a vLLM server the whole command."""
    if isinstance(scenario.server, VllmServer):
        return serve_command(scenario.server)
    return " ".join(_lab_words(scenario))


def changed_flags(before: Scenario, after: Scenario) -> str:
    """What of the flags differs: those that are new or have another value, and those to be left out.

    A switch that is on by default is spelled out when it is turned back on. Empty where the change is none of flags.
    """
    old, new = (_by_flag(scenario) for scenario in (before, after))
    words = [f"{flag} {value}".rstrip() for flag, value in new.items() if old.get(flag) != value]
    for flag in old:
        if flag not in new:
            words.append(f"--{flag[5:]}" if flag.startswith("--no-") else f"(without {flag})")
    return " ".join(words)


def _by_flag(scenario: Scenario) -> dict[str, str]:
    """Flag -> its value, in the order of the command."""
    server = scenario.server
    words = serve_words(server)[1:] if isinstance(server, VllmServer) else _lab_words(scenario)
    pairs = (word.partition(" ") for word in words)
    return {flag: value for flag, _, value in pairs}


def serve_command(server: VllmServer) -> str:
    """The command line that starts this server; limits that were left to the engine are spelled out.

    Raises:
        ConfigError, UnknownNameError: as `VllmServer.capacity`.
    """
    return " ".join(serve_words(server))


def serve_words(server: VllmServer) -> list[str]:
    """The same, one word for the program and the model, then one per flag with its value."""
    plan = server.capacity().plan
    words = [f"vllm serve {shlex.quote(server.model)}"]
    words += [f"{SETTINGS[name].flag} {_show(server, name)}" for name in _memory(server)]
    words.append(f"--max-model-len {plan.max_model_len}")
    words.append(f"--max-num-seqs {server.max_num_seqs}")
    tokens = plan.batch.max_num_batched_tokens
    if server.max_num_batched_tokens is None and not getattr(server, "enable_chunked_prefill", True):
        tokens = max(tokens, plan.max_model_len)  # the engine's default without chunks
    words.append(f"--max-num-batched-tokens {tokens}")
    words.append(f"--block-size {server.block_size}")
    if server.weight_dtype in _WEIGHTS:
        words.append(_WEIGHTS[server.weight_dtype])
    has = [name for name in _UNLESS if hasattr(server, name)]
    words += [f"{SETTINGS[name].flag} {_show(server, name)}" for name in has if _show(server, name) != _UNLESS[name]]
    words += [f"--no-{SETTINGS[name].flag[2:]}" for name in _ON if not getattr(server, name, True)]
    if server.enforce_eager:
        words.append("--enforce-eager")
    if isinstance(server, VllmV1Server) and server.watermark:
        words.append(f"--watermark {_show(server, 'watermark')}")
    if isinstance(server, VllmV0Server):
        words += _before_v1(server, plan.max_model_len)
    return words


def _before_v1(server: VllmV0Server, max_model_len: int) -> list[str]:
    """What the engine before V1 takes besides; its watermark is no flag."""
    words = [f"--swap-space {server.swap_space_bytes / GIB:g}"]
    if server.preemption_mode != "auto":
        words.append(f"--preemption-mode {server.preemption_mode}")
    if max_model_len > CHUNKED_ABOVE:
        words.append("--enable-chunked-prefill=False")
    return words


def _memory(server: VllmServer) -> tuple[str, ...]:
    """The one setting that decides how many blocks there are."""
    for name in ("num_gpu_blocks_override", "kv_cache_memory_bytes"):
        if getattr(server, name, None) is not None:
            return (name,)
    return ("gpu_memory_utilization",)


def _show(server: VllmServer, name: str) -> str:
    value = getattr(server, name)
    return str(value) if name.endswith("_bytes") and value is not None else SETTINGS[name].show(value)


def _lab_words(scenario: Scenario) -> list[str]:
    """One per flag with its value. Swap is of vLLM before V1, a watermark of 0.24 and later."""
    settings: Mapping[str, Any] = scenario.settings()
    words = [f"{flag} {_plain(name, settings[name])}" for name, flag in _LAB_FLAGS[scenario.rules]]
    config = scenario.engine_config()
    if isinstance(config, PreemptionLabConfig) and config.headroom_blocks:
        words.append(f"--watermark {_watermark(config.headroom_blocks, config.num_gpu_blocks)}")
    if settings.get("preemption_mode") == "swap":
        words += ["--preemption-mode swap", f"--swap-space {float(settings['swap_space_bytes']) / 2**30:g}"]
    return words


def _watermark(blocks: int, pool: int) -> str:
    """The shortest ratio of which vLLM makes that many blocks: int(ratio x pool)."""
    for digits in range(1, 20):
        ratio = -(-blocks * 10**digits // pool)
        if ratio * pool // 10**digits == blocks:
            break
    return f"{Decimal(ratio).scaleb(-digits):f}"


def _plain(name: str, value: object) -> str:
    return str(value) if SETTINGS[name].kind is SIZE else SETTINGS[name].show(value)
