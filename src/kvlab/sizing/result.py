"""What fits: a frozen answer, each figure with its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kvlab.sizing.architectures import Architecture
from kvlab.sizing.concurrency import LengthConcurrency
from kvlab.sizing.figures import Figure
from kvlab.sizing.gpus import Gpu
from kvlab.sizing.layout import KvLayout
from kvlab.sizing.memory import Stage, Waterfall
from kvlab.sizing.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a server holds. Sizes are bytes on the GPU that holds least, which limits all.

    Attributes:
        plan: the inputs, with defaults.
        layout: KV on one GPU, by groups of layers.
        stage: the pipeline stage that limits; None where no model is given.
        waterfall: where its memory goes; None where the model or its GPU isn't given.
        num_gpu_blocks: blocks of the pool, with block 0, which the engine keeps for itself.
        kv_cache_bytes: what the pool may take; blocks are whole, so up to a block less is used.
        kv_cache_tokens: as the engine logs it.
        max_concurrency: requests of `max_model_len` at once, as the engine logs it; exact.
        longest_max_model_len: the largest `max_model_len` that starts, in tokens; 0 if none does.
        refusal: the engine's error text; None where it starts.
        by_lengths: requests of the user's own lengths at once; None where none are given.
        figures: name -> value, unit, provenance and source, of all numbers here.
        notes: what a reader should know about this answer, in sentences.
    """

    plan: Plan
    layout: KvLayout
    stage: Stage | None
    waterfall: Waterfall | None
    num_gpu_blocks: int
    kv_cache_bytes: int
    kv_cache_tokens: int
    max_concurrency: Fraction
    longest_max_model_len: int
    refusal: str | None
    by_lengths: LengthConcurrency | None
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    @property
    def architecture(self) -> Architecture | None:
        """The model's shape; None where only bytes per token are given."""
        return self.plan.architecture

    @property
    def gpu(self) -> Gpu | None:
        """None where its memory, or the KV memory, is given."""
        return self.plan.gpu

    @property
    def is_from_scratch(self) -> bool:
        """Whether the KV memory is what the waterfall leaves, rather than given."""
        plan = self.plan
        return plan.kv_cache_memory_bytes is None and plan.num_gpu_blocks_override is None

    @property
    def block_size(self) -> int:
        """Tokens of one group of layers in a block."""
        return self.layout.block_size

    @property
    def block_bytes(self) -> int:
        """Of one block, on one GPU."""
        return self.layout.block_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        """Of a token that every layer keeps, on one GPU; padding included."""
        return self.layout.bytes_per_token

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        lengths = self.by_lengths
        return {
            "starts": self.refusal is None,
            "refusal": self.refusal,
            "settings": self.plan.settings(),
            **{name: figure.to_dict() for name, figure in self.figures.items()},
            "lengths": None if lengths is None else lengths.lengths,
            "limiting_stage": None if self.stage is None else self.stage.index,
            "notes": list(self.notes),
        }
