"""How many tokens of KV fit on a server, and how many requests that is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from kvlab.errors import ConfigError
from kvlab.sizing.architectures import Architecture
from kvlab.sizing.concurrency import LengthConcurrency, concurrency, pairs_of_lengths, pairs_of_trace
from kvlab.sizing.dtypes import AUTO, kv_element_bytes
from kvlab.sizing.engines import LATEST
from kvlab.sizing.figures import ASSUMED
from kvlab.sizing.gpus import Gpu
from kvlab.sizing.layout import FULL, KvGroup, KvLayout, kv_heads_per_gpu, kv_layout, layer_bytes_per_token
from kvlab.sizing.memory import Stage, Waterfall, stages, waterfall, with_given_kv
from kvlab.sizing.plan import Plan, make_plan
from kvlab.sizing.provenance import figures, notes
from kvlab.sizing.refusal import refusal
from kvlab.sizing.result import Capacity

LONGEST: Final = 10_000_000
"""Where the search for the longest request ends, in tokens: sliding windows alone have no limit."""


def capacity(
    *,
    model: str | Path | Architecture | None = None,
    gpu: str | Gpu | None = None,
    gpu_memory: object = None,
    weight_dtype: str = AUTO,
    kv_cache_dtype: str = AUTO,
    tensor_parallel_size: object = 1,
    pipeline_parallel_size: object = 1,
    gpu_memory_utilization: object = None,
    max_model_len: object = None,
    block_size: object = None,
    max_num_batched_tokens: object = None,
    max_num_seqs: object = None,
    enforce_eager: bool = False,
    engine_version: str = LATEST,
    kv_bytes_per_token: object = None,
    kv_cache_memory_bytes: object = None,
    num_gpu_blocks_override: object = None,
    weights_bytes: object = None,
    prompt_tokens: object = None,
    output_tokens: object = None,
    trace: str | Path | None = None,
) -> Capacity:
    """How many KV tokens, blocks and requests fit, and where the memory goes.

    >>> fits = capacity(model="Qwen/Qwen2.5-7B-Instruct", kv_cache_memory_bytes="16 GiB", max_model_len=8192)
    >>> fits.num_gpu_blocks, fits.kv_cache_tokens, fits.kv_bytes_per_token
    (18724, 299584, 57344)

    Args:
        model: a Hugging Face id of the table, a config.json or its folder, or an `Architecture`.
        gpu: a name of the table, such as "A100-80GB", or a `Gpu`.
        gpu_memory: of one GPU, such as "80 GiB", in place of what the table has.
        weight_dtype: "auto" as the model's publisher stores it, or a key of `WEIGHT_DTYPES`.
        kv_cache_dtype: "auto" as activations, or a key of `KV_DTYPE_BYTES`.
        gpu_memory_utilization: 0.92 or "92 %"; the default is the engine's.
        max_model_len: tokens; by default a config.json's, else 8,192.
        block_size: tokens; by default 16, and 64 for MLA.
        max_num_batched_tokens, max_num_seqs: by default what the engine chooses for the GPU.
        engine_version: of vLLM; its rules changed at 0.9, 0.17 and 0.21.
        kv_bytes_per_token: on one GPU, in place of the model's.
        kv_cache_memory_bytes: on one GPU, in place of what the waterfall leaves.
        num_gpu_blocks_override: blocks, in place of what fits.
        weights_bytes: on one GPU, as a log has it, in place of the model's.
        prompt_tokens, output_tokens: lengths as in scenarios, for the concurrency of one's own requests.
        trace: a file of requests, for the same.
    Raises:
        ConfigError: a value that can't work, or a layout that isn't modelled; names field, value and remedy.
        UnknownNameError: no such model, GPU or dtype; names the nearest.
        TraceError: the trace can't be read.
    """
    plan = make_plan(
        model=model,
        gpu=gpu,
        gpu_memory=gpu_memory,
        weight_dtype=weight_dtype,
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel_size=tensor_parallel_size,
        pipeline_parallel_size=pipeline_parallel_size,
        gpu_memory_utilization=gpu_memory_utilization,
        max_model_len=max_model_len,
        block_size=block_size,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        enforce_eager=enforce_eager,
        engine_version=engine_version,
        kv_bytes_per_token=kv_bytes_per_token,
        kv_cache_memory_bytes=kv_cache_memory_bytes,
        num_gpu_blocks_override=num_gpu_blocks_override,
        weights_bytes=weights_bytes,
    )
    pool = min(_pools(plan), key=lambda pool: pool.num_blocks)
    return _answer(plan, pool, _by_lengths(plan, pool, prompt_tokens, output_tokens, trace))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """KV of one pipeline stage."""

    layout: KvLayout
    stage: Stage | None
    waterfall: Waterfall | None
    kv_bytes: int

    @property
    def num_blocks(self) -> int:
        return max(0, self.kv_bytes // self.layout.block_bytes)


def _pools(plan: Plan) -> list[_Pool]:
    """One per stage: the engine gives every stage as many blocks as the one with fewest has."""
    architecture = plan.architecture
    if architecture is None:
        return [_pool(plan, _layout_of_bytes(plan), None)]
    return [
        _pool(plan, _layout(plan, architecture, stage), stage)
        for stage in stages(architecture, plan.pipeline_parallel_size)
    ]


def _layout(plan: Plan, architecture: Architecture, stage: Stage) -> KvLayout:
    if plan.kv_bytes_per_token is not None:
        kv_heads_per_gpu(architecture, plan.tensor_parallel_size)
        return _layout_of_bytes(plan)
    element = kv_element_bytes(plan.kv_cache_dtype, plan.weight_dtype)
    return kv_layout(
        architecture,
        stage_layers=stage.layers,
        layer_bytes=layer_bytes_per_token(architecture, plan.tensor_parallel_size, element),
        block_size=plan.block_size,
        batched_tokens=plan.batch.max_num_batched_tokens,
        hybrid_manager=plan.rules.hybrid_manager,
    )


def _layout_of_bytes(plan: Plan) -> KvLayout:
    assert plan.kv_bytes_per_token is not None
    return KvLayout(
        layer_bytes_per_token=plan.kv_bytes_per_token,
        group_layers=1,
        groups=(KvGroup(FULL, None),),
        padding_layers=0,
        block_size=plan.block_size,
        batched_tokens=plan.batch.max_num_batched_tokens,
    )


def _pool(plan: Plan, layout: KvLayout, stage: Stage | None) -> _Pool:
    split = None
    if plan.architecture is not None and stage is not None and plan.memory_bytes is not None:
        split = waterfall(
            plan.architecture,
            stage,
            total_bytes=plan.memory_bytes,
            utilization=Fraction(plan.gpu_memory_utilization),
            batch=plan.batch,
            weight_dtype=plan.weight_dtype,
            tensor_parallel_size=plan.tensor_parallel_size,
            pipeline_parallel_size=plan.pipeline_parallel_size,
            enforce_eager=plan.enforce_eager,
            rules=plan.rules,
            given_weights_bytes=plan.weights_bytes,
        )
    if plan.num_gpu_blocks_override is not None:
        kv_bytes = plan.num_gpu_blocks_override * layout.block_bytes
    elif plan.kv_cache_memory_bytes is not None:
        kv_bytes = plan.kv_cache_memory_bytes
    else:
        assert split is not None, "a plan without KV memory has a model and a GPU"
        kv_bytes = split.kv_bytes
    if split is not None and split.kv_bytes != kv_bytes:
        split = with_given_kv(split, kv_bytes)
    return _Pool(layout=layout, stage=stage, waterfall=split, kv_bytes=kv_bytes)


def _by_lengths(
    plan: Plan, pool: _Pool, prompt_tokens: object, output_tokens: object, trace: str | Path | None
) -> LengthConcurrency | None:
    given = {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
    if trace is not None:
        for field, value in given.items():
            if value is not None:
                raise ConfigError(field, value, "the trace has its own lengths: give one or the other")
        pairs, called = pairs_of_trace(str(trace)), f"trace {trace}"
    elif prompt_tokens is None and output_tokens is None:
        return None
    else:
        for field, value in given.items():
            if value is None:
                other = next(name for name in given if name != field)
                raise ConfigError(field, None, f"is needed beside {other}: the KV of a request is of both")
        pairs = pairs_of_lengths(str(prompt_tokens), str(output_tokens))
        called = f"prompt {prompt_tokens}, output {output_tokens}"
    limit = None if plan.lengths_from == ASSUMED else plan.max_model_len
    return concurrency(pool.layout, pool.num_blocks, pairs, limit, called)


def _answer(plan: Plan, pool: _Pool, by_lengths: LengthConcurrency | None) -> Capacity:
    layout, blocks, length = pool.layout, pool.num_blocks, plan.max_model_len
    if plan.rules.chunked_prefill:
        most = Fraction(blocks, layout.blocks_per_request(length))
    else:
        most = Fraction(blocks * layout.block_size, length)
    if layout.is_uniform:
        tokens = blocks * layout.block_size
    elif plan.rules.tokens_by_concurrency:
        tokens = int(blocks / layout.blocks_per_request(length) * length)  # a float, as the engine has it
    else:
        tokens = blocks // len(layout.groups) * layout.block_size
    split = pool.waterfall
    longest = layout.longest(blocks, LONGEST)
    return Capacity(
        plan=plan,
        layout=layout,
        stage=pool.stage,
        waterfall=split,
        num_gpu_blocks=blocks,
        kv_cache_bytes=pool.kv_bytes,
        kv_cache_tokens=tokens,
        max_concurrency=most,
        longest_max_model_len=longest,
        refusal=refusal(layout, pool.kv_bytes, length, plan.rules, split),
        by_lengths=by_lengths,
        figures=figures(plan, layout, split, pool.kv_bytes, blocks, tokens, most, longest, by_lengths),
        notes=notes(plan, layout, pool.stage, by_lengths),
    )
