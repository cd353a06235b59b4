"""The servers in a user's units, and what the engine makes of them: whole blocks, whole nanoseconds.

Every field is a setting of `kvlab.setting_table`, which bounds it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kvlab.core.config import BlockTableLabConfig, PreemptionLabConfig, VllmV0Config, VllmV1Config
from kvlab.core.preemption import PREEMPTION_MODES
from kvlab.core.step_time import AnyStepTime, LinearStepTime
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB, SETTINGS, VLLM_V0, VLLM_V1
from kvlab.settings import exact_bytes, exact_decimal
from kvlab.units import MIB

if TYPE_CHECKING:
    from kvlab.sizing.result import Capacity
    from kvlab.step_time.profiles import Profile

MAX_BLOCKS: Final = 2**22
"""Most blocks of a pool: 4,194,304, sixteen times what eight of the largest GPUs hold at 16 tokens a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionLabServer:
    """MODEL.md, "Preemption lab"."""

    rules: ClassVar[str] = PREEMPTION_LAB

    preemption_mode: str
    gpu_memory_utilization: Decimal
    """Exact: the floor to whole blocks is taken on a fraction."""
    gpu_memory_bytes: int
    weights_bytes: int
    overhead_bytes: int
    kv_cache_dtype: str
    kv_bytes_per_token: int
    """At 16 bits; fp8 takes half of it."""
    swap_space_bytes: int
    block_size: int
    max_num_seqs: int
    headroom_blocks: int
    prefill_budget_tokens: int
    slow_pcie: Decimal
    base_ns: int
    per_seq_ns: int
    per_prefill_token_ns: int
    swap_per_token_ns: int
    swap_per_block_ns: int

    def __post_init__(self) -> None:
        _check(self)
        if self.preemption_mode not in PREEMPTION_MODES:
            raise UnknownNameError("preemption_mode", self.preemption_mode, PREEMPTION_MODES)
        if self.kv_cache_dtype == "fp8" and self.kv_bytes_per_token % 2:
            raise ConfigError("kv_bytes_per_token", self.kv_bytes_per_token, "fp8 halves it: it must be even")

    def idle(self) -> dict[str, str]:
        """Settings that do nothing here: none."""
        return {}

    @property
    def stored_bytes_per_token(self) -> int:
        """What a token takes in the KV cache as it is stored."""
        return self.kv_bytes_per_token // 2 if self.kv_cache_dtype == "fp8" else self.kv_bytes_per_token

    @property
    def block_bytes(self) -> int:
        """What a block takes, on the GPU and in the swap space."""
        return self.stored_bytes_per_token * self.block_size

    def num_gpu_blocks(self) -> int:
        """Whole KV blocks that fit beside weights and overhead, rounded down.

        Raises:
            ConfigError: not even one block fits, or more than `MAX_BLOCKS` do.
        Source: MODEL.md, "Preemption lab".
        """
        usable = Fraction(self.gpu_memory_utilization) * self.gpu_memory_bytes
        taken = self.weights_bytes + self.overhead_bytes
        blocks = (usable - taken) // self.block_bytes
        if blocks < 1:
            raise self._no_room(taken + self.block_bytes)
        return _bounded("gpu_memory_bytes", self.gpu_memory_bytes, blocks)

    def _no_room(self, needed_bytes: int) -> ConfigError:
        """Names the setting that can mend it: the share of the GPU, or the GPU where all of it is too small."""
        problem = (
            f"leaves no room for one KV block of {exact_bytes(self.block_bytes)} beside weights and overhead "
            f"({exact_bytes(self.weights_bytes + self.overhead_bytes)})"
        )
        share = Fraction(needed_bytes, self.gpu_memory_bytes)
        if share <= 1:
            percent = -(-share * 100 // 1)
            remedy = f"{problem} in {exact_bytes(self.gpu_memory_bytes)}. Use at least {Decimal(percent) / 100}"
            return ConfigError("gpu_memory_utilization", exact_decimal(self.gpu_memory_utilization), remedy)
        whole = -(-needed_bytes // (Fraction(self.gpu_memory_utilization) * MIB)) * MIB
        remedy = (
            f"{problem} at a utilization of {exact_decimal(self.gpu_memory_utilization)}. Take a GPU with "
            f"more memory, at least {exact_bytes(whole)}; or lower weights_bytes, overhead_bytes or block_size"
        )
        return ConfigError("gpu_memory_bytes", exact_bytes(self.gpu_memory_bytes), remedy)

    def engine_config(self) -> PreemptionLabConfig:
        """The same in blocks and nanoseconds; swap costs times `slow_pcie`, rounded down.

        Raises:
            ConfigError: the pool holds no block, or too many.
        """
        slow = Fraction(self.slow_pcie)
        cpu_blocks = _bounded("swap_space_bytes", self.swap_space_bytes, self.swap_space_bytes // self.block_bytes)
        return PreemptionLabConfig(
            num_gpu_blocks=self.num_gpu_blocks(),
            num_cpu_blocks=cpu_blocks,
            block_size=self.block_size,
            max_num_seqs=self.max_num_seqs,
            headroom_blocks=self.headroom_blocks,
            preemption_mode=self.preemption_mode,
            prefill_budget_tokens=self.prefill_budget_tokens,
            base_ns=self.base_ns,
            per_seq_ns=self.per_seq_ns,
            per_prefill_token_ns=self.per_prefill_token_ns,
            swap_per_token_ns=int(self.swap_per_token_ns * slow),
            swap_per_block_ns=int(self.swap_per_block_ns * slow),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTableLabServer:
    """MODEL.md, "Block-table lab"."""

    rules: ClassVar[str] = BLOCK_TABLE_LAB

    allocator: str
    block_size: int
    kv_memory_bytes: int
    kv_bytes_per_token: int
    max_tokens: int
    """Caps every answer that is drawn; a trace row over it is an error."""
    max_num_seqs: int
    """Counted in samples."""
    base_ns: int
    per_seq_ns: int
    per_context_token_ns: int
    per_prefill_token_ns: int
    paging_overhead_num: int
    paging_overhead_den: int

    def __post_init__(self) -> None:
        _check(self)

    def idle(self) -> dict[str, str]:
        """Settings that do nothing here: none."""
        return {}

    @property
    def stored_bytes_per_token(self) -> int:
        """What a token takes in the KV cache as it is stored."""
        return self.kv_bytes_per_token

    def engine_config(self) -> BlockTableLabConfig:
        """The same in tokens and nanoseconds.

        Raises:
            ConfigError: the KV memory holds no token, no block, or too many blocks.
        """
        kv_tokens = self.kv_memory_bytes // self.kv_bytes_per_token
        if kv_tokens < 1:
            remedy = f"holds not even one token of {exact_bytes(self.kv_bytes_per_token)}"
            raise ConfigError("kv_memory_bytes", exact_bytes(self.kv_memory_bytes), remedy)
        if self.allocator == "paged":
            _bounded("kv_memory_bytes", self.kv_memory_bytes, kv_tokens // self.block_size)
        return BlockTableLabConfig(
            allocator=self.allocator,
            kv_tokens=kv_tokens,
            block_size=self.block_size,
            max_tokens=self.max_tokens,
            max_num_seqs=self.max_num_seqs,
            base_ns=self.base_ns,
            per_seq_ns=self.per_seq_ns,
            per_context_token_ns=self.per_context_token_ns,
            per_prefill_token_ns=self.per_prefill_token_ns,
            paging_overhead_num=self.paging_overhead_num,
            paging_overhead_den=self.paging_overhead_den,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmServer:
    """What vLLM has in all versions: the memory of docs/capacity.md and the step times of docs/step-time.md."""

    model: str
    gpu: str
    engine_version: str
    weight_dtype: str
    tensor_parallel_size: int
    gpu_memory_utilization: Decimal
    num_gpu_blocks_override: int | None
    kv_cache_dtype: str
    enforce_eager: bool
    block_size: int
    max_model_len: int | None
    max_num_batched_tokens: int | None
    watermark: Decimal
    step_time: str
    max_num_seqs: int
    base_ns: int
    per_seq_ns: int
    per_prefill_token_ns: int

    def idle(self) -> dict[str, str]:
        """Settings that do nothing here -> what to do about it."""
        found: dict[str, str] = {}
        if self.step_time != LINEAR:
            remedy = f"does nothing while step_time is {self.step_time}: set step_time={LINEAR}"
            found |= dict.fromkeys(("base_ns", "per_seq_ns", "per_prefill_token_ns"), remedy)
        if self.num_gpu_blocks_override is not None:
            found["gpu_memory_utilization"] = "does nothing beside num_gpu_blocks_override: give one of them"
        return found

    def capacity(self, **instead: Any) -> Capacity:
        """What fits, and why.

        Args:
            instead: inputs of `kvlab.capacity` in place of this server's.
        Raises:
            ConfigError, UnknownNameError: as `kvlab.capacity`.
        """
        from kvlab.sizing.compute import capacity

        return capacity(**{name: getattr(self, name) for name in SIZING_INPUTS if hasattr(self, name)} | instead)

    @property
    def stored_bytes_per_token(self) -> int:
        """What a token takes in the KV cache of all GPUs together, as it is stored."""
        fits = self.capacity()
        return fits.kv_bytes_per_token * self.tensor_parallel_size

    def profile(self) -> Profile | None:
        """Where the durations of steps are from; None: from the linear law of the settings.

        Raises:
            ConfigError, UnknownNameError: no such profile, file, model or GPU.
        """
        from kvlab.step_time.planning import chosen_profile

        if self.step_time == LINEAR:
            return None
        return chosen_profile(
            self.step_time,
            gpu=self.gpu,
            model=self.model,
            tp=self.tensor_parallel_size,
            weight_dtype=self.weight_dtype,
            kv_cache_dtype=self.kv_cache_dtype,
        )

    def started(self) -> Capacity:
        """What fits, where the engine starts and its scheduler is simulated.

        Raises:
            ConfigError: the engine would not start: with its own words; or the pool has too many blocks.
            UnknownNameError: no such model, GPU or dtype.
        """
        fits = self.capacity()
        if fits.refusal is not None:
            raise ConfigError("max_model_len", fits.plan.max_model_len, f"vLLM would not start: {fits.refusal}")
        if len(fits.layout.groups) > 1:
            remedy = "mixes layers of several kinds; the scheduler of such pools is not simulated"
            raise ConfigError("model", self.model, remedy)
        if fits.num_gpu_blocks > MAX_BLOCKS:
            remedy = f"makes {fits.num_gpu_blocks:,} blocks, more than {MAX_BLOCKS:,}: raise block_size"
            raise ConfigError("block_size", self.block_size, remedy)
        return fits

    def watermark_blocks(self, num_gpu_blocks: int) -> int:
        """The share of a pool that admissions leave: in binary floating point, as the engine computes it."""
        return int(float(self.watermark) * num_gpu_blocks)

    def step_time_law(self) -> AnyStepTime:
        """How long steps last.

        Raises:
            ConfigError, UnknownNameError: as `profile`.
        """
        profile = self.profile()
        if profile is not None:
            return profile.step_time
        return LinearStepTime(
            base_ns=self.base_ns, per_running_ns=self.per_seq_ns, per_prefill_token_ns=self.per_prefill_token_ns
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmV1Server(VllmServer):
    """docs/vllm-v1.md."""

    rules: ClassVar[str] = VLLM_V1

    pipeline_parallel_size: int
    kv_cache_memory_bytes: int | None
    enable_chunked_prefill: bool
    long_prefill_token_threshold: int
    enable_prefix_caching: bool
    scheduling_policy: str
    scheduler_reserve_full_isl: bool

    def __post_init__(self) -> None:
        _check(self)

    def idle(self) -> dict[str, str]:
        """Settings that do nothing here -> what to do about it."""
        found = VllmServer.idle(self)
        if self.num_gpu_blocks_override is not None:
            found["kv_cache_memory_bytes"] = "does nothing beside num_gpu_blocks_override: give one of them"
        elif self.kv_cache_memory_bytes is not None:
            found["gpu_memory_utilization"] = "does nothing beside kv_cache_memory_bytes: give one of them"
        return found

    def engine_config(self) -> VllmV1Config:
        """The same in blocks and nanoseconds.

        Raises:
            ConfigError: the engine would not start: with its own words; or the pool has too many blocks.
            UnknownNameError: no such model, GPU, dtype or profile.
        """
        fits = self.started()
        return VllmV1Config(
            num_gpu_blocks=fits.num_gpu_blocks,
            block_size=self.block_size,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self._budget(fits),
            max_model_len=fits.plan.max_model_len,
            enable_chunked_prefill=self.enable_chunked_prefill,
            long_prefill_token_threshold=self.long_prefill_token_threshold,
            enable_prefix_caching=self.enable_prefix_caching,
            policy=self.scheduling_policy,
            watermark_blocks=self.watermark_blocks(fits.num_gpu_blocks),
            reserve_full_prompt=self.scheduler_reserve_full_isl,
            step_time=self.step_time_law(),
        )

    def _budget(self, fits: Capacity) -> int:
        """Tokens of a step. The engine's own default is larger without chunked prefill.

        Raises:
            ConfigError: vLLM would refuse it. Source: `SchedulerConfig` in vllm/config/scheduler.py.
        """
        tokens, longest = fits.plan.batch.max_num_batched_tokens, fits.plan.max_model_len
        if not self.enable_chunked_prefill and tokens < longest:
            if self.max_num_batched_tokens is None:
                tokens = longest
            else:
                remedy = (
                    f"vLLM would not start: without chunked prefill it must be at least max_model_len ({longest:,})"
                )
                raise ConfigError("max_num_batched_tokens", tokens, remedy)
        if tokens < self.max_num_seqs:
            remedy = f"vLLM would not start: it must be at least max_num_seqs ({self.max_num_seqs:,})"
            raise ConfigError("max_num_batched_tokens", tokens, remedy)
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmV0Server(VllmServer):
    """docs/vllm-v0.md."""

    rules: ClassVar[str] = VLLM_V0

    preemption_mode: str
    swap_space_bytes: int
    """On each GPU's host side, as `--swap-space` has it."""
    swap_per_token_ns: int
    swap_per_block_ns: int

    def __post_init__(self) -> None:
        _check(self)

    def engine_config(self) -> VllmV0Config:
        """The same in blocks and nanoseconds.

        Raises:
            ConfigError: the engine would not start: with its own words; another engine; or a pool has too many blocks.
            UnknownNameError: no such model, GPU, dtype or profile.
        """
        fits = self.started()
        if fits.plan.rules.chunked_prefill:
            remedy = f"{VLLM_V0} has the rules of 0.6 (before 0.9); for later versions take {VLLM_V1}"
            raise ConfigError("engine_version", self.engine_version, remedy)
        cpu_blocks = self.swap_space_bytes // fits.layout.block_bytes
        return VllmV0Config(
            num_gpu_blocks=fits.num_gpu_blocks,
            num_cpu_blocks=_bounded("swap_space_bytes", self.swap_space_bytes, cpu_blocks),
            block_size=self.block_size,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=fits.plan.batch.max_num_batched_tokens,
            max_model_len=fits.plan.max_model_len,
            watermark_blocks=self.watermark_blocks(fits.num_gpu_blocks),
            preemption_mode=self.preemption_mode,
            step_time=self.step_time_law(),
            swap_per_token_ns=self.swap_per_token_ns,
            swap_per_block_ns=self.swap_per_block_ns,
        )


SIZING_INPUTS: Final = (
    "model",
    "gpu",
    "engine_version",
    "weight_dtype",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "num_gpu_blocks_override",
    "kv_cache_dtype",
    "enforce_eager",
    "block_size",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
)
"""Settings that `kvlab.capacity` has by the same names."""
LINEAR: Final = "linear"
"""The step time whose coefficients are settings."""

Server = PreemptionLabServer | BlockTableLabServer | VllmV1Server | VllmV0Server
SERVERS: Final[dict[str, type[Server]]] = {
    server.rules: server for server in (PreemptionLabServer, BlockTableLabServer, VllmV1Server, VllmV0Server)
}


def _check(server: Server) -> None:
    for field in fields(server):
        SETTINGS[field.name].check(getattr(server, field.name))


def _bounded(field: str, size_bytes: int, blocks: int) -> int:
    if blocks > MAX_BLOCKS:
        remedy = f"makes {blocks:,} blocks, more than {MAX_BLOCKS:,}: raise block_size or lower the memory"
        raise ConfigError(field, exact_bytes(size_bytes), remedy)
    return blocks
