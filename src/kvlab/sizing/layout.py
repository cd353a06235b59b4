"""How an engine lays KV out: bytes of a token on one GPU, layers in groups, blocks of a request.

A block holds `block_size` tokens of one *group* of layers. Layers that keep every token form one group; where others
slide, the engine cuts the layers into groups of equal size, pads the last, and a request takes blocks in every group:

    10 full, 52 sliding -> groups of 10:  F | S S S S S+8 padding;  one block = 16 tokens of 10 layers

Source: vLLM, vllm/v1/core/kv_cache_utils.py and kv_cache_interface.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from kvlab.errors import ConfigError
from kvlab.sizing.architectures import Architecture
from kvlab.units import ceil_div

FULL: Final = "full"
SLIDING: Final = "sliding"
CHUNKED: Final = "chunked"
_ALIKE: Final = Fraction(3, 2)
"""Kinds of layers whose numbers differ by less than this become groups of the larger number."""


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share one block table."""

    kind: str
    window: int | None
    """Tokens; None for full attention."""

    def blocks(self, tokens: int, block_size: int, batched_tokens: int) -> int:
        """Most blocks that a sequence of `tokens` holds while it's computed in chunks of `batched_tokens`."""
        if self.window is None:
            return ceil_div(tokens, block_size)
        if self.kind == CHUNKED:
            return ceil_div(min(self.window + batched_tokens, tokens), block_size)
        # One more, as the engine counts: a window rarely begins where a block does.
        return ceil_div(min(self.window - 1 + batched_tokens, tokens), block_size) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLayout:
    """What is kept on one GPU of the stage that holds most layers."""

    layer_bytes_per_token: int
    """Of one layer on one GPU."""
    group_layers: int
    """Layers of a group, with padding."""
    groups: tuple[KvGroup, ...]
    padding_layers: int
    block_size: int
    """Tokens of one group in a block."""
    batched_tokens: int
    """Most tokens of one step (max_num_batched_tokens): a sliding layer keeps them beside its window."""

    @property
    def block_bytes(self) -> int:
        """Of one block on one GPU."""
        return self.layer_bytes_per_token * self.group_layers * self.block_size

    @property
    def bytes_per_token(self) -> int:
        """Of a token that every layer keeps, on one GPU, padding included."""
        return self.layer_bytes_per_token * self.group_layers * len(self.groups)

    @property
    def is_uniform(self) -> bool:
        """Whether all layers share one block table."""
        return len(self.groups) == 1

    def blocks_per_request(self, tokens: int) -> int:
        """Most blocks that a sequence of `tokens` holds, over all groups."""
        return sum(group.blocks(tokens, self.block_size, self.batched_tokens) for group in self.groups)

    def held_blocks(self, tokens: int) -> int:
        """Blocks that a sequence of `tokens` holds while it emits one token a step, over all groups."""
        return sum(group.blocks(tokens, self.block_size, 1) for group in self.groups)

    def longest(self, num_blocks: int, limit: int) -> int:
        """The longest sequence, up to `limit` tokens, that fits in the blocks; 0 if none does."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.blocks_per_request(middle) <= num_blocks else (low, middle - 1)
        return low


def kv_heads_per_gpu(architecture: Architecture, tensor_parallel_size: int) -> int:
    """KV heads of a layer on one GPU: an equal share, or one that several GPUs hold a copy of.

    Raises:
        ConfigError: heads can't be shared out equally.
    """
    tp, heads = tensor_parallel_size, architecture.kv_heads
    if architecture.query_heads % tp:
        remedy = f"{architecture.query_heads} attention heads can't be shared out equally; {_divisors(architecture)}"
        raise ConfigError("tensor_parallel_size", tp, remedy)
    if architecture.is_mla:
        return 1  # every GPU keeps the whole latent
    if (heads % tp if heads >= tp else tp % heads) != 0:
        remedy = f"{heads} KV heads can't be shared out or copied equally; {_divisors(architecture)}"
        raise ConfigError("tensor_parallel_size", tp, remedy)
    return max(1, heads // tp)


def layer_bytes_per_token(architecture: Architecture, tensor_parallel_size: int, element_bytes: int) -> int:
    """What one layer keeps of a token on one GPU; bytes.

    Raises:
        ConfigError: the layout isn't modelled, or heads can't be shared out.
    """
    if architecture.unsupported is not None:
        remedy = f"{architecture.unsupported}. Give --kv-bytes-per-token and --kv-cache-memory-bytes"
        raise ConfigError("model", architecture.name, remedy)
    on_gpu = kv_heads_per_gpu(architecture, tensor_parallel_size)
    return architecture.kv_elements_per_token_per_layer // architecture.kv_heads * on_gpu * element_bytes


def kv_layout(
    architecture: Architecture,
    *,
    stage_layers: int,
    layer_bytes: int,
    block_size: int,
    batched_tokens: int,
    hybrid_manager: bool,
) -> KvLayout:
    """The layout of one pipeline stage.

    Args:
        stage_layers: layers on the stage; all of them without pipeline parallelism.
        layer_bytes: of a token in one layer on one GPU.
        hybrid_manager: whether the engine frees what sliding layers no longer see. Without, they count as full.
    Raises:
        ConfigError: a hybrid model over several stages.
    """
    sliding, full = architecture.sliding_layers, architecture.full_attention_layers
    kind = CHUNKED if architecture.is_chunked else SLIDING
    window = architecture.sliding_window
    groups: tuple[KvGroup, ...]
    if not sliding or not hybrid_manager:
        groups, size, padding = (KvGroup(FULL, None),), stage_layers, 0
    elif not full:
        groups, size, padding = (KvGroup(kind, window),), stage_layers, 0
    else:
        if stage_layers != architecture.layers:
            remedy = f"{architecture.name} mixes full and {kind} layers; stages of such models are not modelled"
            raise ConfigError("pipeline_parallel_size", architecture.layers // stage_layers, remedy)
        least, most = sorted((full, sliding))
        size = most if most < least * _ALIKE else least
        fulls, slides = ceil_div(full, size), ceil_div(sliding, size)
        groups = (*(KvGroup(FULL, None),) * fulls, *(KvGroup(kind, window),) * slides)
        padding = (fulls + slides) * size - architecture.layers
    return KvLayout(
        layer_bytes_per_token=layer_bytes,
        group_layers=size,
        groups=groups,
        padding_layers=padding,
        block_size=block_size,
        batched_tokens=batched_tokens,
    )


def _divisors(architecture: Architecture) -> str:
    heads, kv = architecture.query_heads, architecture.kv_heads
    sizes = [n for n in range(1, heads + 1) if heads % n == 0 and (architecture.is_mla or kv % n == 0 or n % kv == 0)]
    return f"possible: {', '.join(map(str, sizes))}"
