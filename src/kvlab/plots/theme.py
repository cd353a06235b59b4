"""Colours of the pictures: the Okabe-Ito set, which colour-blind readers tell apart, on light and on dark ground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """One meaning per colour, the same in every panel."""

    paper: str
    ink: str
    muted: str
    """Axes, secondary text."""
    grid: str
    used: str
    """Reserved tokens that hold KV."""
    hatch: str
    """Reserved, not used."""
    line: str
    """The outline of what is reserved; distributions."""
    running: str
    waiting: str
    recompute: str
    swap: str
    """Swapped-out requests and preemptions by swap."""


LIGHT: Final = Theme(
    paper="#ffffff",
    ink="#1a1d23",
    muted="#5a6270",
    grid="#e3e6ea",
    used="#8cc3e6",
    hatch="#8cc3e6",
    line="#0072b2",
    running="#00805f",
    waiting="#b26a00",
    recompute="#d03b00",
    swap="#a0448f",
)
DARK: Final = Theme(
    paper="#14171c",
    ink="#eceff3",
    muted="#a4adba",
    grid="#2b313a",
    used="#235a80",
    hatch="#3f7fa9",
    line="#56b4e9",
    running="#2fc19a",
    waiting="#e8a33d",
    recompute="#ff7a45",
    swap="#dd8fcd",
)
THEMES: Final[dict[str, Theme]] = {"light": LIGHT, "dark": DARK}
