"""What becomes of a victim: thrown away and computed again, or copied to the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PreemptionMode = Callable[[int, int], bool]
"""(CPU blocks that the computed tokens need, CPU blocks free) -> whether the victim is swapped out."""


def recompute(blocks: int, cpu_free: int) -> bool:
    """Never swaps."""
    return False


def swap(blocks: int, cpu_free: int) -> bool:
    """Swaps what is at least one block and fits; the rest is recomputed. Source: MODEL.md, "Preemption lab"."""
    return 1 <= blocks <= cpu_free


PREEMPTION_MODES: Final[dict[str, PreemptionMode]] = {"recompute": recompute, "swap": swap}

GroupPreemptionMode = Callable[[int, int, int], bool]
"""(samples that go on, blocks that they hold, CPU blocks free) -> whether the victim is swapped out."""


def _recompute_group(samples: int, blocks: int, cpu_free: int) -> bool:
    """Never swaps."""
    return False


def _swap_group(samples: int, blocks: int, cpu_free: int) -> bool:
    """Swaps what fits."""
    return blocks <= cpu_free


def _swap_several(samples: int, blocks: int, cpu_free: int) -> bool:
    """Recomputes one sample and swaps several, if they fit. Source: `Scheduler._preempt` of vLLM 0.6."""
    return samples > 1 and blocks <= cpu_free


GROUP_PREEMPTION_MODES: Final[dict[str, GroupPreemptionMode]] = {
    "auto": _swap_several,
    "recompute": _recompute_group,
    "swap": _swap_group,
}
