"""How near the figures come to what engines logged: every fact of the table against this code, as it is now."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

from kvlab.errors import ConfigError
from kvlab.sizing.architectures import Architecture
from kvlab.sizing.compute import capacity
from kvlab.sizing.engines import engine_rules
from kvlab.sizing.memory import Batch, activation_bytes, stages
from kvlab.sizing.models import model
from kvlab.sizing.result import Capacity
from kvlab.sizing.tables import rows
from kvlab.units import GIB

_UNSTATED: Final = "0.11"
"""The version taken for facts of 2025 that name none: V1, before 0.17."""
_OTHER_NAMES: Final = {"Qwen3.6-27B autoround int4 (Qwen3.5-27B architecture)": "Qwen/Qwen3.6-27B"}
_LAID_OUT_OTHERWISE: Final = {
    "deepseek-ai/DeepSeek-R1 (or V3)": "the engine expanded MLA to full heads (MLA off), and the settings aren't stated"
}
_OF_ANOTHER_GPU: Final = {
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": "the GiB are of another GPU than the one that limits the tokens"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One fact against what this code says.

    Attributes:
        logged, computed: tokens, or KV bytes of one GPU where the log has no tokens; None where it's refused.
        unit: tokens or bytes.
        error: (computed - logged) / logged.
        rounding: error that the rounded GiB of the log alone can make; 0 from scratch.
        why: why it isn't compared; None where it is.
        fitted: whether a constant was fitted to this very fact.
    """

    model: str
    gpu: str
    version: str
    logged: int | None = None
    computed: int | None = None
    unit: str = "tokens"
    rounding: Fraction = Fraction(0)
    why: str | None = None
    fitted: bool = False

    @property
    def error(self) -> Fraction | None:
        """None where there is nothing to compare."""
        if self.logged is None or self.computed is None:
            return None
        return Fraction(self.computed - self.logged, self.logged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Absolute errors of the facts that can be compared, as shares."""

    count: int
    median: Fraction
    four_fifths: Fraction
    """Four of five facts are within this."""
    worst: Fraction
    above: int
    """How many are computed higher than was logged."""


_FITTED: Final = (
    ("meta-llama/Llama-3.1-8B-Instruct", "vllm 0.19.0"),
    ("Qwen/Qwen2.5-7B-Instruct", "vllm 0.19.0"),
    ("google/gemma-3-27b-it", "vllm 0.19.0"),
    ("Qwen/Qwen1.5-MoE-A2.7B", "vllm 0.19.0"),
    ("Qwen/Qwen3-14B", "vllm 0.16.0"),
    ("openai/gpt-oss-20b", "vllm (2025, version not stated)"),
    ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "vllm (2025, version not stated)"),
    ("meta-llama/Llama-3.1-8B-Instruct", "vllm 0.6.x (Dec 2024)"),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "vllm 0.7.x (Feb 2025)"),
)
"""Facts whose logged memory gave a constant of `kvlab.sizing.engines`."""


@cache
def given_kv() -> tuple[Check, ...]:
    """Facts that log both the KV GiB and the tokens: the tokens that follow from those GiB."""
    return tuple(_given(row) for row in rows("kv_capacity_facts") if row["kv_gib_per_gpu"] and row["kv_cache_tokens"])


@cache
def from_scratch() -> tuple[Check, ...]:
    """Every fact: tokens (or KV bytes) from model, GPU and settings alone."""
    return tuple(_scratch(row) for row in rows("kv_capacity_facts"))


@cache
def activations() -> tuple[tuple[str, int, int], ...]:
    """(model, logged bytes, computed bytes) of the peaks that vLLM 0.19 logged on one H100."""
    found = []
    rules, batch = engine_rules("0.19"), Batch(max_num_batched_tokens=8192, max_num_seqs=1024)
    for row in rows("activation_facts"):
        shape = model(row["model"])
        computed = activation_bytes(shape, stages(shape, 1)[0], batch, "bf16", 1, rules)
        found.append((row["model"], int(Fraction(row["activation_gib"]) * GIB), computed))
    return tuple(found)


def band(checks: Sequence[Check]) -> Band:
    """How the absolute errors lie; at least one check must have one."""
    errors = sorted(abs(check.error) for check in checks if check.error is not None)
    middle = len(errors) // 2
    median = errors[middle] if len(errors) % 2 else (errors[middle - 1] + errors[middle]) / 2
    within = errors[-(-len(errors) * 4 // 5) - 1]
    above = sum(check.error > 0 for check in checks if check.error is not None)
    return Band(count=len(errors), median=median, four_fifths=within, worst=errors[-1], above=above)


def _given(row: Mapping[str, str]) -> Check:
    kv_gib = Fraction(row["kv_gib_per_gpu"])
    start = Check(model=row["model"], gpu=row["gpu"], version=row["engine_version"])
    if row["model"] in _OF_ANOTHER_GPU:
        return _why(start, _OF_ANOTHER_GPU[row["model"]])
    try:
        found = _capacity(row, kv_cache_memory_bytes=int(kv_gib * GIB))
    except ConfigError as error:
        return _why(start, f"refused, {error.remedy.split('. ')[0]}")
    return Check(
        model=start.model,
        gpu=start.gpu,
        version=start.version,
        logged=int(row["kv_cache_tokens"]),
        computed=found.kv_cache_tokens,
        rounding=Fraction(1, 200) / kv_gib,
    )


def _scratch(row: Mapping[str, str]) -> Check:
    start = Check(model=row["model"], gpu=row["gpu"], version=row["engine_version"])
    if row["model"] in _LAID_OUT_OTHERWISE:
        return _why(start, _LAID_OUT_OTHERWISE[row["model"]])
    try:
        found = _capacity(row, gpu=row["gpu"], gpu_memory=_seen_bytes(row))
    except ConfigError as error:
        return _why(start, f"refused, {error.remedy.split('. ')[0]}")
    in_tokens = bool(row["kv_cache_tokens"])
    return Check(
        model=start.model,
        gpu=start.gpu,
        version=start.version,
        logged=int(row["kv_cache_tokens"]) if in_tokens else int(Fraction(row["kv_gib_per_gpu"]) * GIB),
        computed=found.kv_cache_tokens if in_tokens else found.kv_cache_bytes,
        unit="tokens" if in_tokens else "bytes",
        fitted=(row["model"], row["engine_version"]) in _FITTED,
    )


def _why(check: Check, reason: str) -> Check:
    return Check(model=check.model, gpu=check.gpu, version=check.version, why=reason)


def _capacity(row: Mapping[str, str], **memory: object) -> Capacity:
    shape = _model(row)
    match = re.search(r"\b0\.\d+", row["engine_version"])
    logged = {"weight_dtype": row["weight_dtype"], "block_size": row["block_size"] or None}
    if shape.weight_dtype not in ("bf16", "fp16"):
        logged["weight_dtype"] = "auto"  # the file's own, which the log abbreviates
    return capacity(
        model=shape,
        tensor_parallel_size=row["num_gpus_tp"],
        gpu_memory_utilization=row["gpu_memory_utilization"] or "0.9",
        max_model_len=row["max_model_len"] or None,
        kv_cache_dtype=row["kv_cache_dtype"],
        max_num_batched_tokens=_noted(row, "max_num_batched_tokens"),
        max_num_seqs=_noted(row, "max_num_seqs"),
        engine_version=match[0] if match else _UNSTATED,
        weight_dtype=logged["weight_dtype"] or "auto",
        block_size=logged["block_size"],
        **memory,  # type: ignore[arg-type]
    )


def _model(row: Mapping[str, str]) -> Architecture:
    return model(_OTHER_NAMES.get(row["model"], row["model"]))


def _seen_bytes(row: Mapping[str, str]) -> int | None:
    return int(Fraction(row["gpu_mem_gib"]) * GIB) if row["gpu_mem_gib"] else None


def _noted(row: Mapping[str, str], setting: str) -> str | None:
    match = re.search(rf"{setting} (\d+)", row["notes"])
    return match[1] if match else None
