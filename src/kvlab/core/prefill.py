"""Prefill rules: how many of the tokens that wait to be computed are computed in this step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PrefillRule = Callable[[int, int], int]
"""(tokens a sequence still has to compute, tokens left in the step's budget) -> tokens it computes now."""


def chunked(todo: int, budget: int) -> int:
    """As many as the budget allows. Source: MODEL.md, "Preemption lab" 4."""
    return min(todo, budget)


def whole_prompt(todo: int, budget: int) -> int:
    """All of them, whatever the budget. Source: MODEL.md, "Block-table lab"."""
    return todo


PREFILL_RULES: Final[dict[str, PrefillRule]] = {"chunked": chunked, "whole-prompt": whole_prompt}
