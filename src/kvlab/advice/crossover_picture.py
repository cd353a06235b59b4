"""The crossover as a picture: both costs, and the bandwidth of break-even, against the context length."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from kvlab.advice.crossover import Crossover
from kvlab.advice.pictures import BLUE, GREEN, ORANGE, Curve, Panel, Picture
from kvlab.units import NS_PER_MS

_CONTEXT: Final = "context of the preempted sequence (tokens)"
_GB: Final = 10**9
_MOST_GB: Final = 1_000
"""No link is as fast."""


def picture(found: Crossover) -> Picture:
    """Two panels with the same x axis."""
    lengths = [point.context_tokens for point in found.points]
    crossing = found.break_even_tokens if found.verdict == "depends" else None
    mark_label = "" if crossing is None else f"swapping is cheaper from {crossing:,} tokens on"
    costs = Panel(
        title="What a preemption costs, up to the next token",
        x_label=_CONTEXT,
        y_label="time of steps (ms)",
        curves=(
            Curve(x=lengths, y=[float(p.swap_ns) / NS_PER_MS for p in found.points], label="swap", colour=BLUE),
            Curve(x=lengths, y=[p.recompute_ns / NS_PER_MS for p in found.points], label="recompute", colour=ORANGE),
        ),
        x_log=True,
        y_log=True,
        mark=crossing,
        mark_label=mark_label,
    )
    bandwidth = found.copies.bytes_per_s
    link = Panel(
        title="The bandwidth of break-even: with a faster link swapping is cheaper",
        x_label=_CONTEXT,
        y_label="link, one way (GB/s)",
        curves=(
            Curve(
                x=lengths,
                y=[_gigabytes(point.break_even_bytes_per_s) for point in found.points],
                label=f"break-even, up to {_MOST_GB:,} GB/s",
                colour=GREEN,
            ),
        ),
        x_log=True,
        y_log=True,
        limit=_gigabytes(bandwidth),
        limit_label="this link",
        mark=crossing,
        mark_label=mark_label,
    )
    return Picture(title=f"Swap or recompute: {found.scenario.name}", text=found.text, panels=(costs, link))


def _gigabytes(rate: Fraction | None) -> float | None:
    return None if rate is None or rate > _MOST_GB * _GB else float(rate / _GB)
