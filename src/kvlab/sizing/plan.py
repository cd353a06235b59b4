"""What was asked: every input of a capacity, parsed and bounded, with the defaults that an engine has."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from kvlab.errors import ConfigError
from kvlab.sizing.architectures import Architecture
from kvlab.sizing.dtypes import AUTO, weight_dtype_name
from kvlab.sizing.engines import EngineRules, engine_rules
from kvlab.sizing.figures import ASSUMED, DERIVED, GIVEN
from kvlab.sizing.gpus import Gpu
from kvlab.sizing.gpus import gpu as find_gpu
from kvlab.sizing.hf_config import read_config
from kvlab.sizing.memory import Batch
from kvlab.sizing.models import model as find_model
from kvlab.units import GIB, parse_bytes, parse_count, parse_ratio

DEFAULT_BLOCK: Final = 16
MLA_BLOCK: Final = 64
DEFAULT_LENGTH: Final = 8192
"""Assumed where neither the user nor a config.json says how long a request may be."""
_MAX_LENGTH: Final = 100_000_000
_MAX_PARALLEL: Final = 1024
_MAX_BYTES: Final = 2**50
_BIG_GPU_BYTES: Final = 70 * GIB
CHUNKED_ABOVE: Final = 32_768
"""Before V1, prompts were cut into chunks only for models of longer context than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The inputs of a capacity.

    Attributes:
        architecture: None where only bytes per token are given.
        memory_bytes: of one GPU; None where the KV memory is given instead.
        lengths_from: where `max_model_len` is from: given, derived (config.json) or assumed.
        batch_from: the same of `batch`: given or assumed.
        block_from: the same of `block_size`: given or assumed.
        kv_bytes_per_token: of one GPU, in place of the architecture's.
        weights_bytes: of one GPU, in place of the architecture's.
    """

    architecture: Architecture | None
    gpu: Gpu | None
    memory_bytes: int | None
    weight_dtype: str
    kv_cache_dtype: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    gpu_memory_utilization: Decimal
    max_model_len: int
    lengths_from: str
    block_size: int
    block_from: str
    batch: Batch
    batch_from: str
    enforce_eager: bool
    engine_version: str
    rules: EngineRules
    kv_bytes_per_token: int | None
    kv_cache_memory_bytes: int | None
    num_gpu_blocks_override: int | None
    weights_bytes: int | None

    def settings(self) -> dict[str, object]:
        """As an engine's flags would have them; ready for JSON."""
        return {
            "model": None if self.architecture is None else self.architecture.name,
            "gpu": None if self.gpu is None else self.gpu.name,
            "engine": f"vLLM {self.engine_version}",
            "tensor_parallel_size": self.tensor_parallel_size,
            "pipeline_parallel_size": self.pipeline_parallel_size,
            "gpu_memory_utilization": str(self.gpu_memory_utilization),
            "max_model_len": self.max_model_len,
            "max_num_batched_tokens": self.batch.max_num_batched_tokens,
            "max_num_seqs": self.batch.max_num_seqs,
            "block_size": self.block_size,
            "weight_dtype": self.weight_dtype,
            "kv_cache_dtype": self.kv_cache_dtype,
            "enforce_eager": self.enforce_eager,
        }


def make_plan(
    *,
    model: str | Path | Architecture | None,
    gpu: str | Gpu | None,
    gpu_memory: object,
    weight_dtype: str,
    kv_cache_dtype: str,
    tensor_parallel_size: object,
    pipeline_parallel_size: object,
    gpu_memory_utilization: object,
    max_model_len: object,
    block_size: object,
    max_num_batched_tokens: object,
    max_num_seqs: object,
    enforce_eager: bool,
    engine_version: str,
    kv_bytes_per_token: object,
    kv_cache_memory_bytes: object,
    num_gpu_blocks_override: object,
    weights_bytes: object,
) -> Plan:
    """The plan that these inputs mean; None where one isn't given.

    Raises:
        ConfigError: a value that can't work, inputs that contradict each other, or too few of them.
        UnknownNameError: no such model, GPU or dtype.
    """
    rules = engine_rules(engine_version)
    architecture = _architecture(model)
    per_token = _count("kv_bytes_per_token", kv_bytes_per_token, _MAX_BYTES)
    kv_memory = _size("kv_cache_memory_bytes", kv_cache_memory_bytes)
    override = _count("num_gpu_blocks_override", num_gpu_blocks_override, 2**40)
    if architecture is None and per_token is None:
        remedy = "give --model (a Hugging Face id or a config.json) or --kv-bytes-per-token"
        raise ConfigError("model", None, remedy)
    chosen = find_gpu(gpu) if isinstance(gpu, str) else gpu
    memory = _size("gpu_memory", gpu_memory)
    if memory is None and chosen is not None:
        memory = chosen.memory_bytes
    weights = _size("weights_bytes", weights_bytes)
    if memory is None and kv_memory is None and override is None:
        remedy = "give --gpu or --gpu-memory; or --kv-cache-memory-bytes or --num-gpu-blocks-override"
        raise ConfigError("gpu", None, remedy)
    if architecture is None and kv_memory is None and override is None:
        remedy = "without a model the weights aren't known: give --kv-cache-memory-bytes or --num-gpu-blocks-override"
        raise ConfigError("kv_cache_memory_bytes", None, remedy)
    length, length_from = _max_model_len(max_model_len, architecture)
    given_block = _count("block_size", block_size, 2**20)
    default_block = MLA_BLOCK if architecture is not None and architecture.is_mla else DEFAULT_BLOCK
    batch, batch_from = _batch(rules, memory, chosen, length, max_num_batched_tokens, max_num_seqs)
    return Plan(
        architecture=architecture,
        gpu=chosen,
        memory_bytes=memory,
        weight_dtype=_weight_dtype(weight_dtype, architecture),
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel_size=_count("tensor_parallel_size", tensor_parallel_size, _MAX_PARALLEL) or 1,
        pipeline_parallel_size=_stages(pipeline_parallel_size, architecture),
        gpu_memory_utilization=_utilization(gpu_memory_utilization, rules),
        max_model_len=length,
        lengths_from=length_from,
        block_size=given_block or default_block,
        block_from=GIVEN if given_block else ASSUMED,
        batch=batch,
        batch_from=batch_from,
        enforce_eager=enforce_eager,
        engine_version=str(engine_version).strip().removeprefix("v"),
        rules=rules,
        kv_bytes_per_token=per_token,
        kv_cache_memory_bytes=kv_memory,
        num_gpu_blocks_override=override,
        weights_bytes=weights,
    )


def _architecture(model: str | Path | Architecture | None) -> Architecture | None:
    if model is None or isinstance(model, Architecture):
        return model
    if isinstance(model, Path) or model.endswith(".json") or Path(model).exists():
        return read_config(model)
    return find_model(model)


def _weight_dtype(given: str, architecture: Architecture | None) -> str:
    if given.strip().lower() != AUTO:
        return weight_dtype_name(given)
    return "bf16" if architecture is None else architecture.weight_dtype


def _max_model_len(given: object, architecture: Architecture | None) -> tuple[int, str]:
    length = _count("max_model_len", given, _MAX_LENGTH)
    if length is not None:
        return length, GIVEN
    if architecture is not None and architecture.max_position_embeddings is not None:
        return architecture.max_position_embeddings, DERIVED
    return DEFAULT_LENGTH, ASSUMED


def _batch(
    rules: EngineRules, memory: int | None, gpu: Gpu | None, max_model_len: int, tokens: object, seqs: object
) -> tuple[Batch, str]:
    """The limits of a step; the defaults of `vllm serve` by the size of the GPU.

    Source: `get_batch_defaults` in vllm/engine/arg_utils.py.
    """
    given_tokens = _count("max_num_batched_tokens", tokens, _MAX_LENGTH)
    given_seqs = _count("max_num_seqs", seqs, 10**6)
    big = memory is not None and memory >= _BIG_GPU_BYTES and not (gpu is not None and gpu.name.startswith("A100"))
    default_tokens, default_seqs = (8192, 1024) if big else (2048, 256)
    if not rules.chunked_prefill:
        default_tokens, default_seqs = (max_model_len if max_model_len <= CHUNKED_ABOVE else 0), 256
        default_tokens = max(default_tokens, 2048)
    batch = Batch(max_num_batched_tokens=given_tokens or default_tokens, max_num_seqs=given_seqs or default_seqs)
    return batch, GIVEN if given_tokens and given_seqs else ASSUMED


def _stages(given: object, architecture: Architecture | None) -> int:
    stages = _count("pipeline_parallel_size", given, _MAX_PARALLEL) or 1
    if architecture is not None and stages > architecture.layers:
        raise ConfigError("pipeline_parallel_size", stages, f"{architecture.name} has {architecture.layers} layers")
    return stages


def _utilization(given: object, rules: EngineRules) -> Decimal:
    if given is None:
        return rules.gpu_memory_utilization
    ratio = parse_ratio(given, "gpu_memory_utilization")
    if not 0 < ratio <= 1:
        hint = f" ({ratio} % is {ratio / 100})" if 1 < ratio <= 100 else ""
        raise ConfigError("gpu_memory_utilization", str(ratio), f"must be more than 0 and at most 1{hint}")
    return ratio


def _count(field: str, given: object, most: int) -> int | None:
    if given is None:
        return None
    value = parse_count(given, field)
    if not 1 <= value <= most:
        raise ConfigError(field, value, f"must be from 1 to {most:,}")
    return value


def _size(field: str, given: object) -> int | None:
    if given is None:
        return None
    value = parse_bytes(given, field)
    if not 1 <= value <= _MAX_BYTES:
        raise ConfigError(field, value, "must be from 1 byte to 1,024 TiB")
    return value
