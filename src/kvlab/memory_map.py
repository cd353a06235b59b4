"""Who held which memory at one instant, rebuilt from the delta log of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvlab.columns import read_only
from kvlab.core.config import BlockTableLabConfig, EngineConfig, PreemptionLabConfig, VllmV0Config, VllmV1Config
from kvlab.core.memory import Stay, cpu_stays_at, gpu_stays_at
from kvlab.units import format_duration

Ints = npt.NDArray[np.int64]

FREE: Final = -1
NOT_USED: Final = -2
"""Block 0 under the vLLM rules: it is never handed out."""


class Segment(NamedTuple):
    """One reservation of a contiguous address space, in tokens."""

    start: int
    reserved: int
    used: int
    """Tokens from `start` on that hold KV when the step ends."""
    owner: int
    sample: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MemoryMap:
    """Memory after the admissions of one step, before its tokens. Arrays are read-only.

    A contiguous address space has no blocks: `owner`, `sample` and `holders` are empty there, `segments` is not.
    """

    step: int | None
    """None: no step ran then, so all memory was free."""
    t_ns: int
    """The instant asked for, or the start of the step asked for."""
    owner: Ints
    """Request id by GPU block; -1 where free, -2 for a block that is never handed out."""
    sample: Ints
    """Sample of that request, the first that holds the block; -1 where free."""
    holders: Ints
    """Sequences whose tables hold the block: 0 free, 2 or more shared."""
    cpu_owner: Ints
    """Request id by block of the CPU swap space; -1 where free."""
    segments: tuple[Segment, ...]
    """By address."""

    def __repr__(self) -> str:
        when = f"{'no step' if self.step is None else f'step {self.step:,}'} at {format_duration(self.t_ns)}"
        if not self.owner.size:
            return f"<MemoryMap {when}: {len(self.segments):,} segments>"
        swapped = int(np.count_nonzero(self.cpu_owner != FREE))
        return (
            f"<MemoryMap {when}: {self.num_free:,} of {self.owner.size:,} GPU blocks free, "
            f"{swapped:,} of {self.cpu_owner.size:,} CPU blocks taken>"
        )

    @property
    def shared(self) -> npt.NDArray[np.bool_]:
        """Blocks that more than one sequence holds."""
        return self.holders > 1

    @property
    def num_free(self) -> int:
        """Free GPU blocks."""
        return int(np.count_nonzero(self.owner == FREE))


def memory_map(config: EngineConfig, stays: Sequence[Stay], *, step: int | None, t_ns: int) -> MemoryMap:
    """The map of one step; of free memory when `step` is None."""
    num_blocks, num_cpu_blocks = _num_blocks(config)
    owner, sample, holders, cpu_owner = (
        _filled(num_blocks),
        _filled(num_blocks),
        _filled(num_blocks, 0),
        _filled(num_cpu_blocks),
    )
    if isinstance(config, VllmV1Config):
        owner[0] = NOT_USED
    segments: list[Segment] = []
    if step is not None:
        # from the last sample to the first, so that the first holder of a shared block is the one that is shown
        for stay in sorted(gpu_stays_at(stays, step), key=lambda stay: -stay.sample):
            if stay.segment is not None:
                segments.append(_segment(config, stay, step))
                continue
            table = list(stay.table_at(step))
            owner[table], sample[table] = stay.request_id, stay.sample
            holders[table] += 1
        for stay in cpu_stays_at(stays, step):
            cpu_owner[list(stay.table_at(step))] = stay.request_id
    return MemoryMap(
        step=step,
        t_ns=t_ns,
        owner=read_only(owner),
        sample=read_only(sample),
        holders=read_only(holders),
        cpu_owner=read_only(cpu_owner),
        segments=tuple(sorted(segments)),
    )


def _num_blocks(config: EngineConfig) -> tuple[int, int]:
    if isinstance(config, PreemptionLabConfig | VllmV0Config):
        return config.num_gpu_blocks, config.num_cpu_blocks
    if isinstance(config, VllmV1Config):
        return config.num_gpu_blocks, 0
    return (0 if config.allocator == "contiguous" else config.num_blocks), 0


def _segment(config: EngineConfig, stay: Stay, step: int) -> Segment:
    assert isinstance(config, BlockTableLabConfig), "only the block-table lab reserves segments"
    assert stay.segment is not None
    start, reserved = stay.segment
    prompt = reserved - config.max_tokens
    emitted = 0 if stay.decode_step is None else max(0, step - stay.decode_step)
    return Segment(start, reserved, prompt + emitted, stay.request_id, stay.sample)


def _filled(size: int, value: int = FREE) -> Ints:
    return np.full(size, value, dtype=np.int64)
