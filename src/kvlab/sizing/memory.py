"""Where the memory of a GPU goes: weights, activations, what is outside PyTorch, CUDA graphs, and KV with the rest.

The engine measures this at start-up, by one step at its limits; here each part follows from the model's shape:

    usable      = total x gpu_memory_utilization
    weights     = layers of the stage / tensor parallel, embedding and head at 16 bits
    activations = max(MLP at its widest, logits of all sequences) + buffers of experts
    KV          = usable - weights - activations - non-torch [- CUDA graphs, since vLLM 0.21]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from kvlab.sizing.architectures import Architecture
from kvlab.sizing.dtypes import WEIGHT_DTYPES
from kvlab.sizing.engines import EngineRules
from kvlab.units import MIB, ceil_div

GRAPH_BYTES: Final = 21 * MIB
"""Of the graph of one batch size: 51 took 1.04 GiB on average (llm-d-planner), 16 took 0.36 (gpustack/runner#251)."""
_LOGIT_WIDTHS: Final = Fraction(5, 2)
"""Hidden states of the whole batch alive beside the logits, in widths of the model."""
_LARGEST_GRAPH: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The limits of a step, which the profiling run goes to."""

    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One pipeline stage: its place, and its layers."""

    index: int
    layers: int
    is_first: bool
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """Bytes on one GPU. `kv_bytes` is what is left for KV; not positive where nothing is."""

    total_bytes: int
    usable_bytes: int
    """total x utilisation, rounded down; where the KV memory is given, the sum of all parts."""
    weights_bytes: int
    activation_bytes: int
    non_torch_bytes: int
    graph_bytes: int
    graphs_counted: bool
    """Whether graphs are inside `usable_bytes`; beside it otherwise."""
    kv_bytes: int


def stages(architecture: Architecture, pipeline_parallel_size: int) -> tuple[Stage, ...]:
    """The stages as vLLM cuts them: equal, and what is left over goes to those before the last.

    >>> from kvlab.sizing.models import model
    >>> [stage.layers for stage in stages(model("Qwen/Qwen2.5-7B"), 3)]
    [9, 10, 9]
    """
    count = pipeline_parallel_size
    each, rest = divmod(architecture.layers, count)
    layers = [each + (count - 1 - rest <= i < count - 1) for i in range(count)]
    return tuple(Stage(index=i, layers=layers[i], is_first=i == 0, is_last=i == count - 1) for i in range(count))


def weights_bytes(architecture: Architecture, stage: Stage, weight_dtype: str, tensor_parallel_size: int) -> int:
    """Weights of a stage on one GPU, rounded up."""
    layers = architecture.layer_weight_bytes(weight_dtype) * stage.layers / architecture.layers
    edges = architecture.embedding_params if stage.is_first else 0
    if stage.is_last:  # a tied head needs the embedding, which only the first stage has
        tied = architecture.embedding_params if not stage.is_first else 0
        edges += architecture.head_params or tied
    share = (layers + architecture.edge_weight_bytes(edges, weight_dtype)) / tensor_parallel_size
    return -(-share.numerator // share.denominator)


def activation_bytes(
    architecture: Architecture,
    stage: Stage,
    batch: Batch,
    weight_dtype: str,
    tensor_parallel_size: int,
    rules: EngineRules,
) -> int:
    """The peak of the profiling run on one GPU. Logits are of the whole vocabulary on every GPU."""
    element = WEIGHT_DTYPES[weight_dtype].kept_bits // 8
    tokens, hidden = batch.max_num_batched_tokens, architecture.hidden_size
    alone = stage.is_first and stage.is_last
    widths = rules.residual_widths + (0 if alone else 2)  # one of several also keeps what it was sent
    mlp = 0 if architecture.experts else 3 * ceil_div(architecture.intermediate_size, tensor_parallel_size)
    peak = tokens * element * (mlp + widths * hidden)
    if stage.is_last:
        entries = batch.max_num_seqs * architecture.vocab_size
        logits = entries * (rules.logits_bytes + element - 2) + tokens * element * _LOGIT_WIDTHS * hidden
        peak = max(peak, logits)
    return int(peak) + _experts_bytes(architecture, tokens * element, tensor_parallel_size)


def _experts_bytes(architecture: Architecture, token_bytes: int, tensor_parallel_size: int) -> int:
    """Two buffers with a row per token and chosen expert, which stay allocated."""
    if not architecture.experts:
        return 0
    up = 2 * ceil_div(architecture.moe_intermediate_size, tensor_parallel_size)
    hidden = architecture.hidden_size
    return token_bytes * architecture.experts_per_token * (max(up // 2, hidden) + max(up, hidden))


def graph_count(max_num_seqs: int) -> int:
    """Batch sizes that vLLM captures: 1, 2, 4, every 8 to 256, every 16 to 512, up to twice max_num_seqs.

    >>> graph_count(256), graph_count(10)
    (51, 5)
    """
    sizes = [1, 2, 4, *range(8, 257, 8), *range(272, _LARGEST_GRAPH + 1, 16)]
    return sum(size <= 2 * max_num_seqs for size in sizes)


def waterfall(
    architecture: Architecture,
    stage: Stage,
    *,
    total_bytes: int,
    utilization: Fraction,
    batch: Batch,
    weight_dtype: str,
    tensor_parallel_size: int,
    pipeline_parallel_size: int,
    enforce_eager: bool,
    rules: EngineRules,
    given_weights_bytes: int | None = None,
) -> Waterfall:
    """The split of one GPU of a stage.

    Args:
        utilization: share of `total_bytes` that the engine may take; exact.
        given_weights_bytes: of one GPU, as a log has it, in place of the shape's.
    """
    weights = given_weights_bytes
    if weights is None:
        weights = weights_bytes(architecture, stage, weight_dtype, tensor_parallel_size)
    activations = activation_bytes(architecture, stage, batch, weight_dtype, tensor_parallel_size, rules)
    non_torch = rules.non_torch_bytes(tensor_parallel_size, pipeline_parallel_size)
    graphs = 0 if enforce_eager else graph_count(batch.max_num_seqs) * GRAPH_BYTES
    usable = int(utilization * total_bytes)
    return Waterfall(
        total_bytes=total_bytes,
        usable_bytes=usable,
        weights_bytes=weights,
        activation_bytes=activations,
        non_torch_bytes=non_torch,
        graph_bytes=graphs,
        graphs_counted=rules.graphs_counted,
        kv_bytes=usable - weights - activations - non_torch - (graphs if rules.graphs_counted else 0),
    )


def with_given_kv(split: Waterfall, kv_bytes: int) -> Waterfall:
    """The split where the KV memory is given: the engine takes that much, whatever its utilisation."""
    return replace(split, kv_bytes=kv_bytes, usable_bytes=split.usable_bytes - split.kv_bytes + kv_bytes)
