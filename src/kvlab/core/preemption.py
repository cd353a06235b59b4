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
