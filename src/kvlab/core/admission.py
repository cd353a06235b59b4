"""Admission rules: may a request that needs so many blocks come in now?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

AdmissionRule = Callable[[int, int, int, bool], bool]
"""(blocks needed, blocks free, reserve in blocks, whether nothing is running) -> admit?"""


def keep_reserve(need: int, free: int, reserve: int, nothing_runs: bool) -> bool:
    """Leaves at least `reserve` blocks free for those that run; while nothing runs, a fit is enough.

    Source: MODEL.md, "Preemption lab" 2 (headroom) and "Block-table lab" (watermark).
    """
    return free - need >= (0 if nothing_runs else reserve)


ADMISSION_RULES: Final[dict[str, AdmissionRule]] = {"keep-reserve": keep_reserve}
