"""The step time of a GPU and a model by their rows in the tables of `kvlab.sizing`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from kvlab.sizing.architectures import Architecture
from kvlab.sizing.dtypes import AUTO, kv_element_bytes
from kvlab.sizing.gpus import Gpu
from kvlab.sizing.gpus import gpu as find_gpu
from kvlab.sizing.hf_config import read_config
from kvlab.sizing.models import model as find_model
from kvlab.step_time.profiles import Profile, find_profile, profile, profiles, read_profile
from kvlab.step_time.roofline import ModelFigures, assumed_profile

_MEASURED_DTYPES: Final = ("bf16", "fp16")
"""Weights of every fitted profile."""
_EIGHT_BITS: Final = "fp8"
_SHAPE: Final = (
    "attention",
    "layers",
    "full_attention_layers",
    "hidden_size",
    "query_heads",
    "kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "experts",
)
"""What a step's time depends on."""


def step_profile(
    gpu: Gpu,
    architecture: Architecture,
    tp: int = 1,
    *,
    weight_dtype: str = AUTO,
    kv_cache_dtype: str = AUTO,
    measured: bool = True,
) -> Profile:
    """The measured profile of these or of a model of the same shape, or an assumed roofline; each says which it is.

    A profile is measured with 16-bit weights and KV; with others the roofline takes its place.

    Args:
        tp: GPUs that share each layer.
        weight_dtype: a key of `WEIGHT_DTYPES`, or "auto" for the model's own.
        kv_cache_dtype: as vLLM names it.
        measured: False takes the roofline even where there is a measured profile.
    """
    dtype = architecture.weight_dtype if weight_dtype == AUTO else weight_dtype
    element_bytes = kv_element_bytes(kv_cache_dtype, dtype)
    flops = gpu.bf16_flops_per_s
    if dtype == _EIGHT_BITS and gpu.fp8_flops_per_s is not None:
        flops = gpu.fp8_flops_per_s
    figures = model_figures(architecture, dtype, element_bytes)
    if measured and dtype in _MEASURED_DTYPES and element_bytes == 2:
        known = find_profile(gpu.name, architecture.name, tp) or _of_same_shape(gpu, architecture, tp)
        if known is not None:
            return known
    found = assumed_profile(
        gpu.name, architecture.name, tp, figures, peak_flops=flops, peak_bytes_per_s=gpu.memory_bandwidth_bytes_per_s
    )
    if dtype not in _MEASURED_DTYPES:
        words = f"{found.provenance.fitted_on}; measured with 16-bit weights, assumed to hold for {dtype}"
        found = replace(found, provenance=replace(found.provenance, fitted_on=words))
    return found


def chosen_profile(
    choice: str, *, gpu: str, model: str, tp: int, weight_dtype: str = AUTO, kv_cache_dtype: str = AUTO
) -> Profile:
    """The profile that a user's choice means.

    Args:
        choice: "auto" for the measured profile of GPU and model, else an assumed roofline; "roofline" for that in
            any case; the name of a profile; or the file of one, with a slash in it or ending in .json.
        gpu: a name of the table.
        model: a name of the table, or a config.json.
    Raises:
        UnknownNameError: no such GPU, model or profile.
        ConfigError: a file that is no profile.
    """
    if choice.endswith(".json") or "/" in choice:
        return read_profile(choice)
    if choice not in (AUTO, "roofline"):
        return profile(choice)
    architecture = read_config(model) if model.endswith(".json") or Path(model).exists() else find_model(model)
    return step_profile(
        find_gpu(gpu),
        architecture,
        tp,
        weight_dtype=weight_dtype,
        kv_cache_dtype=kv_cache_dtype,
        measured=choice == AUTO,
    )


def _of_same_shape(gpu: Gpu, architecture: Architecture, tp: int) -> Profile | None:
    """The latest profile of another model whose matrices are as large, such as a fine-tuned one; says whose it is."""
    alike = [
        found
        for found in profiles().values()
        if (found.gpu, found.tp) == (gpu.name, tp) and _shape(find_model(found.model)) == _shape(architecture)
    ]
    if not alike:
        return None
    found = max(alike, key=lambda item: item.measured_in)
    words = f"{found.provenance.measured}; with {found.model}, which has the same shape"
    return replace(found, model=architecture.name, provenance=replace(found.provenance, measured=words))


def _shape(architecture: Architecture) -> tuple[object, ...]:
    return tuple(getattr(architecture, name) for name in _SHAPE)


def model_figures(architecture: Architecture, weight_dtype: str, kv_bytes: int) -> ModelFigures:
    """What a roofline needs to know of a model.

    All experts are read in each step, as they are once a batch is large; sliding windows count as if unbounded.

    Args:
        kv_bytes: of an element of KV.
    """
    layers_with_kv = architecture.layers - architecture.linear_layers
    width = architecture.query_heads * architecture.head_dim * layers_with_kv // architecture.layers
    return ModelFigures(
        layers=architecture.layers,
        hidden_size=architecture.hidden_size,
        attention_width=width,
        layer_params=architecture.active_params - architecture.embedding_params - architecture.head_params,
        head_params=architecture.embedding_params,
        kv_bytes_per_token=layers_with_kv * architecture.kv_elements_per_token_per_layer * kv_bytes,
        layer_weight_bytes=int(architecture.layer_weight_bytes(weight_dtype)),
        head_weight_bytes=architecture.edge_weight_bytes(architecture.embedding_params, weight_dtype),
    )
