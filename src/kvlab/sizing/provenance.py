"""Which figures an answer has, and where each is from."""

from __future__ import annotations

from fractions import Fraction

from kvlab.sizing.concurrency import LengthConcurrency
from kvlab.sizing.dtypes import WEIGHT_DTYPES
from kvlab.sizing.figures import ASSUMED, DERIVED, GIVEN, MEASURED, Figure
from kvlab.sizing.layout import KvLayout
from kvlab.sizing.memory import Stage, Waterfall
from kvlab.sizing.plan import Plan


def figures(
    plan: Plan,
    layout: KvLayout,
    split: Waterfall | None,
    kv_bytes: int,
    blocks: int,
    tokens: int,
    concurrency: Fraction,
    longest: int,
    by_lengths: LengthConcurrency | None,
) -> dict[str, Figure]:
    """Every number of an answer by its name, in the order of the page."""
    found = {
        "kv_bytes_per_token": _per_token(plan, layout),
        "block_size": Figure(layout.block_size, "tokens", plan.block_from, _block_source(plan)),
        "max_model_len": Figure(plan.max_model_len, "tokens", plan.lengths_from, _length_source(plan)),
    }
    if split is not None:
        found |= _memory(plan, split)
    found["kv_cache_bytes"] = _kv_bytes(plan, kv_bytes)
    by = "what was given" if plan.num_gpu_blocks_override is not None else "kv_cache_bytes // (kv bytes of a block)"
    came = GIVEN if plan.num_gpu_blocks_override is not None else DERIVED
    found["num_gpu_blocks"] = Figure(blocks, "blocks", came, by)
    how = "num_gpu_blocks x block_size"
    if not layout.is_uniform:
        by_groups = f"num_gpu_blocks // {len(layout.groups)} groups x block_size"
        how = "max_concurrency x max_model_len" if plan.rules.tokens_by_concurrency else by_groups
    found["kv_cache_tokens"] = Figure(tokens, "tokens", DERIVED, how)
    per = "blocks of a request of max_model_len" if plan.rules.chunked_prefill else "max_model_len, in tokens"
    found["max_concurrency"] = Figure(concurrency, "requests", DERIVED, f"num_gpu_blocks / {per}")
    found["longest_max_model_len"] = Figure(
        longest, "tokens", DERIVED, "the longest request whose blocks fit in the pool"
    )
    if by_lengths is not None:
        found |= _lengths(by_lengths)
    return found


def notes(plan: Plan, layout: KvLayout, stage: Stage | None, by_lengths: LengthConcurrency | None) -> tuple[str, ...]:
    """What a reader should know about this answer."""
    said = []
    architecture = plan.architecture
    if architecture is not None and not architecture.is_mla and plan.tensor_parallel_size > architecture.kv_heads:
        copies = plan.tensor_parallel_size // architecture.kv_heads
        said.append(
            f"{architecture.kv_heads} KV heads on {plan.tensor_parallel_size} GPUs: each is kept {copies} times, "
            f"so a GPU holds as much KV a token as one of {architecture.kv_heads} would."
        )
    if architecture is not None and architecture.is_mla and plan.tensor_parallel_size > 1:
        said.append("Every GPU of a tensor-parallel group keeps the whole latent of MLA.")
    if not layout.is_uniform:
        padding = f", {layout.padding_layers} of them padding" if layout.padding_layers else ""
        layers = layout.group_layers * len(layout.groups)
        said.append(f"{layers} layers in {len(layout.groups)} groups of {layout.group_layers}{padding}.")
    if stage is not None and plan.pipeline_parallel_size > 1:
        said.append(
            f"Stage {stage.index + 1} of {plan.pipeline_parallel_size}, with {stage.layers} layers, holds least and "
            "limits all."
        )
    if by_lengths is not None and by_lengths.p99_safe > plan.batch.max_num_seqs:
        said.append(
            f"The engine runs at most {plan.batch.max_num_seqs:,} sequences at once (max_num_seqs): for requests like "
            "yours that is the limit, not memory."
        )
    if by_lengths is not None and by_lengths.cut_ratio:
        share = round(float(by_lengths.cut_ratio * 100), 1)
        said.append(f"{share} % of the requests are longer than max_model_len, and count as that long.")
    return tuple(said)


def _per_token(plan: Plan, layout: KvLayout) -> Figure:
    if plan.kv_bytes_per_token is not None:
        return Figure(layout.bytes_per_token, "bytes", GIVEN, "of one GPU")
    architecture = plan.architecture
    assert architecture is not None, "a plan has a model or bytes per token"
    layers = layout.group_layers * len(layout.groups)
    kept = (
        f"({architecture.mla_kv_lora_rank} latent + {architecture.mla_rope_dim} position)"
        if architecture.is_mla
        else f"2 x KV heads of one GPU x {architecture.head_dim}"
    )
    source = f"{layers} layers x {kept} x bytes of an element; {architecture.source}"
    return Figure(layout.bytes_per_token, "bytes", DERIVED, source)


def _block_source(plan: Plan) -> str:
    return "as given" if plan.block_from == GIVEN else "the engine's default, if its attention kernel takes it"


def _length_source(plan: Plan) -> str:
    sources = {GIVEN: "as given", DERIVED: "max_position_embeddings of the config", ASSUMED: "no --max-model-len given"}
    return sources[plan.lengths_from]


def _memory(plan: Plan, split: Waterfall) -> dict[str, Figure]:
    rules, gpu = plan.rules, plan.gpu
    if gpu is not None and split.total_bytes == gpu.memory_bytes:
        total = Figure(split.total_bytes, "bytes", gpu.memory_provenance, f"{gpu.name}: {gpu.source}")
    else:
        total = Figure(split.total_bytes, "bytes", GIVEN, "as given")
    by = f"{plan.batch.max_num_batched_tokens:,} tokens and {plan.batch.max_num_seqs:,} sequences a step"
    weights = Figure(split.weights_bytes, "bytes", DERIVED, f"parameters x {WEIGHT_DTYPES[plan.weight_dtype].note}")
    if plan.weights_bytes is not None:
        weights = Figure(split.weights_bytes, "bytes", MEASURED, "as given")
    given_kv = plan.kv_cache_memory_bytes is not None or plan.num_gpu_blocks_override is not None
    taken = "the sum of all parts" if given_kv else f"memory x {plan.gpu_memory_utilization}"
    inside = "taken off before KV" if split.graphs_counted else "beside the utilisation, not taken off KV"
    return {
        "gpu_memory_bytes": total,
        "usable_bytes": Figure(split.usable_bytes, "bytes", DERIVED, taken),
        "weights_bytes": weights,
        "activation_bytes": Figure(
            split.activation_bytes, "bytes", ASSUMED, f"a formula that fits {rules.fitted_to}, for {by}"
        ),
        "non_torch_bytes": Figure(split.non_torch_bytes, "bytes", ASSUMED, f"as in {rules.fitted_to}"),
        "graph_bytes": Figure(split.graph_bytes, "bytes", ASSUMED, f"21 MiB a captured batch size; {inside}"),
    }


def _kv_bytes(plan: Plan, kv_bytes: int) -> Figure:
    if plan.num_gpu_blocks_override is not None:
        return Figure(kv_bytes, "bytes", DERIVED, "num_gpu_blocks x bytes of a block")
    if plan.kv_cache_memory_bytes is not None:
        return Figure(kv_bytes, "bytes", GIVEN, "as given")
    graphs = " - graphs" if plan.rules.graphs_counted else ""
    return Figure(kv_bytes, "bytes", DERIVED, f"usable - weights - activation - non_torch{graphs}")


def _lengths(by: LengthConcurrency) -> dict[str, Figure]:
    running = "pool / blocks of a running request, on average over its life"
    full = "pool / mean blocks of prompt + output"
    safe = "most n whose prompts and outputs together fit in the pool in 99 % of the cases"
    return {
        "expected_concurrency": Figure(by.expected, "requests", DERIVED, running),
        "full_length_concurrency": Figure(by.at_full_length, "requests", DERIVED, full),
        "p99_safe_concurrency": Figure(by.p99_safe, "requests", DERIVED, safe),
    }
