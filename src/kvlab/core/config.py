"""The settings of one run of an engine, in the engine's own units: blocks, tokens, nanoseconds.

Frozen values without behaviour. A scenario (GiB, per cent, presets) becomes one of these; goldens are one already.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvlab.core.step_time import StepTime
from kvlab.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionLabConfig:
    """MODEL.md, "Preemption lab"."""

    num_gpu_blocks: int
    num_cpu_blocks: int
    block_size: int
    """Tokens per block."""
    max_num_seqs: int
    headroom_blocks: int
    """Free blocks that an admission or a swap-in must leave, unless nothing is running."""
    preemption_mode: str
    """A key of `kvlab.core.preemption.PREEMPTION_MODES`: recompute or swap."""
    prefill_budget_tokens: int
    """Most prefill tokens in one step; decodes do not count."""
    base_ns: int
    per_seq_ns: int
    per_prefill_token_ns: int
    swap_per_token_ns: int
    swap_per_block_ns: int

    def __post_init__(self) -> None:
        _at_least(self, 1, "num_gpu_blocks", "block_size", "max_num_seqs", "prefill_budget_tokens")
        _at_least(self, 0, "num_cpu_blocks", "headroom_blocks", "per_seq_ns", "per_prefill_token_ns")
        _at_least(self, 0, "swap_per_token_ns", "swap_per_block_ns")
        _at_least(self, 1, "base_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTableLabConfig:
    """MODEL.md, "Block-table lab"."""

    allocator: str
    """contiguous or paged."""
    kv_tokens: int
    """KV memory in tokens."""
    block_size: int
    """Tokens per block (paged)."""
    max_tokens: int
    """Longest output of a sample; contiguous reserves it."""
    max_num_seqs: int
    """Most running samples."""
    base_ns: int
    per_seq_ns: int
    per_context_token_ns: int
    per_prefill_token_ns: int
    paging_overhead_num: int
    """Paged steps last 1 + num / (den x block_size) times as long, prefill apart."""
    paging_overhead_den: int

    def __post_init__(self) -> None:
        _at_least(self, 1, "kv_tokens", "block_size", "max_tokens", "max_num_seqs", "base_ns", "paging_overhead_den")
        _at_least(self, 0, "per_seq_ns", "per_context_token_ns", "per_prefill_token_ns", "paging_overhead_num")
        if self.allocator == "paged" and self.kv_tokens < self.block_size:
            raise ConfigError("block_size", self.block_size, f"the KV memory holds only {self.kv_tokens} tokens")

    @property
    def num_blocks(self) -> int:
        """Whole blocks of the pool (paged); a remainder of the KV tokens is never counted."""
        return self.kv_tokens // self.block_size

    @property
    def watermark_blocks(self) -> int:
        """Free blocks that must remain after an admission while something runs: one in a hundred, rounded up."""
        return -(-self.num_blocks // 100)


LabConfig = PreemptionLabConfig | BlockTableLabConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmV1Config:
    """docs/vllm-v1.md: the scheduler of vLLM's V1 engine."""

    num_gpu_blocks: int
    """Blocks of the pool. Block 0 is never handed out: one less can be used."""
    block_size: int
    """Tokens per block."""
    max_num_seqs: int
    """Most requests in the running list."""
    max_num_batched_tokens: int
    """Token budget of one step, decodes included."""
    max_model_len: int
    """Most tokens of a prompt and its answer; a prompt of so many is turned away."""
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    """Most tokens of one request in one step; 0 is no limit."""
    enable_prefix_caching: bool = False
    policy: str = "fcfs"
    """A key of `kvlab.core.queues.WAITING_ORDERS`: fcfs or priority."""
    watermark_blocks: int = 0
    """Free blocks that an admission must leave, unless nothing is running."""
    reserve_full_prompt: bool = True
    """Whether an admission needs room for all known tokens, not just for its first chunk."""
    step_time: StepTime

    def __post_init__(self) -> None:
        _at_least(self, 2, "num_gpu_blocks")
        _at_least(self, 1, "block_size", "max_num_seqs", "max_num_batched_tokens")
        _at_least(self, 2, "max_model_len")
        _at_least(self, 0, "long_prefill_token_threshold", "watermark_blocks")

    @property
    def usable_blocks(self) -> int:
        """All blocks but block 0."""
        return self.num_gpu_blocks - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmV0Config:
    """docs/vllm-v0.md: the scheduler of vLLM 0.6, before the V1 engine."""

    num_gpu_blocks: int
    num_cpu_blocks: int
    block_size: int
    """Tokens per block."""
    max_num_seqs: int
    """Most samples of the running list."""
    max_num_batched_tokens: int
    """Prompt tokens of one step."""
    max_model_len: int
    """Most tokens of a prompt and its answer; a prompt of so many is turned away."""
    watermark_blocks: int = 0
    """Free blocks that an admission or a swap-in must leave, always."""
    preemption_mode: str = "auto"
    """recompute, swap, or auto: swap where a request has several samples that go on."""
    step_time: StepTime
    swap_per_token_ns: int = 0
    swap_per_block_ns: int = 0

    def __post_init__(self) -> None:
        _at_least(self, 1, "num_gpu_blocks", "block_size", "max_num_seqs")
        _at_least(self, 2, "max_model_len")
        _at_least(self, 0, "num_cpu_blocks", "watermark_blocks", "swap_per_token_ns", "swap_per_block_ns")
        _at_least(self, 1, "max_num_batched_tokens")
        for name in ("max_model_len", "max_num_seqs"):
            if self.max_num_batched_tokens < getattr(self, name):
                remedy = f"must be at least {name} ({getattr(self, name):,}): a prompt is computed in one step"
                raise ConfigError("max_num_batched_tokens", self.max_num_batched_tokens, remedy)


EngineConfig = LabConfig | VllmV1Config | VllmV0Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """Limits that a good request meets, all of them; None is no limit."""

    ttft_ns: int | None = None
    tpot_ns: int | None = None
    gap_ns: int | None = None
    """On the longest gap of the request."""
    e2e_ns: int | None = None

    def __post_init__(self) -> None:
        for name in ("ttft_ns", "tpot_ns", "gap_ns", "e2e_ns"):
            if getattr(self, name) is not None:
                _at_least(self, 1, name)

    def met(self, ttft_ns: int, tpot_ns: int, gap_ns: int, e2e_ns: int) -> bool:
        """Whether a request with these times is a good one."""
        return (
            (self.ttft_ns is None or ttft_ns <= self.ttft_ns)
            and (self.tpot_ns is None or tpot_ns <= self.tpot_ns)
            and (self.gap_ns is None or gap_ns <= self.gap_ns)
            and (self.e2e_ns is None or e2e_ns <= self.e2e_ns)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a run keeps besides its totals and distributions. Nothing of it changes a decision."""

    requests: bool = False
    """One `RequestRecord` per request."""
    steps: bool = False
    """One `StepRecord` per step."""
    memory: bool = False
    """One `Stay` per residency of a sequence: the delta log of the memory map."""


METRICS = Recording()
EVERYTHING = Recording(requests=True, steps=True, memory=True)


def _at_least(config: object, limit: int, *fields: str) -> None:
    for field in fields:
        value = getattr(config, field)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(field, value, "expected a whole number")
        if value < limit:
            raise ConfigError(field, value, f"must be at least {limit}")
