"""The delta log of memory: who held which blocks, from which step to which.

A sequence's table only grows while it stays (one block each time its tokens fill the last one), so one record per
*stay* says where every block was at any step:

    step        10   11   ...  14   ...  30   ...  38
    table      [7 8]           +3        +5        freed
                start_step     growth_step         end_step

Snapshots show the moment after admission of a step, before its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Copied(NamedTuple):
    """One copy on write: from `step` on, table entry `entry` is no longer the shared block `source`."""

    step: int
    entry: int
    source: int


class Stay(NamedTuple):
    """One sequence's residency on the GPU, or in the CPU swap space."""

    request_id: int
    sample: int
    order: int
    """Admission order among GPU stays. CPU stays come back in the order of this number, then of arrival and id."""
    arrival_ns: int
    on_cpu: bool
    start_step: int
    end_step: int
    """The first step whose snapshot does not show it any more."""
    decode_step: int | None
    """The step at whose end this stay emitted its first token; one more at the end of each later step. None: none."""
    initial_blocks: int
    growth_step: int
    """The step that adds block number `initial_blocks`; a further one comes every `block_size` steps."""
    block_size: int
    blocks: tuple[int, ...]
    """The table at the end of the stay, in order. Contiguous: empty."""
    copied: Copied | None
    segment: tuple[int, int] | None
    """Contiguous: (first token, length in tokens)."""
    end: str
    """finished, recompute, swap, resumed (the end of a CPU stay), failed (it can never come back) or open (the run was
    stopped); or the stay goes on in another record: grown (by more than one block), paused (others prefill)."""

    def table_at(self, step: int) -> tuple[int, ...]:
        """Block table as it was in `step`, for start_step <= step < end_step."""
        grown = 0 if step < self.growth_step else 1 + (step - self.growth_step) // self.block_size
        table = self.blocks[: self.initial_blocks + grown]
        if self.copied is not None and step < self.copied.step:
            entry, source = self.copied.entry, self.copied.source
            return (*table[:entry], source, *table[entry + 1 :])
        return table


def gpu_stays_at(stays: Iterable[Stay], step: int) -> list[Stay]:
    """Stays on the GPU in `step`, in admission order."""
    found = [stay for stay in stays if not stay.on_cpu and stay.start_step <= step < stay.end_step]
    return sorted(found, key=lambda stay: stay.order)


def cpu_stays_at(stays: Iterable[Stay], step: int) -> list[Stay]:
    """Stays in the swap space in `step`, in the order in which they would be swapped in."""
    found = [stay for stay in stays if stay.on_cpu and stay.start_step <= step < stay.end_step]
    return sorted(found, key=lambda stay: (stay.order, stay.arrival_ns, stay.request_id))
