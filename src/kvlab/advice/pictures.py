"""Curves with bands, limits and marks: described once, drawn as PNG, SVG or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvlab.errors import ConfigError
from kvlab.files import write_file

FILE_TYPES: Final = (".html", ".png", ".svg")
BLUE: Final = "#0072b2"
ORANGE: Final = "#d03b00"
GREEN: Final = "#00805f"
INK: Final = "#1a1d23"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values over x; None leaves a gap."""

    x: Sequence[float]
    y: Sequence[float | None]
    label: str
    colour: str = BLUE
    low: Sequence[float | None] | None = None
    """With `high`: a band around the curve."""
    high: Sequence[float | None] | None = None
    with_dots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_log: bool = False
    y_log: bool = False
    limit: float | None = None
    """A horizontal line, dashed."""
    limit_label: str = ""
    mark: float | None = None
    """A vertical line."""
    mark_label: str = ""
    span: tuple[float, float] | None = None
    """A part of the x axis, shaded."""
    span_label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Panels below each other."""

    title: str
    text: str
    panels: tuple[Panel, ...]


def check_path(path: str | Path) -> Path:
    """The file of a picture.

    Raises:
        ConfigError: its name says no kind of picture.
    """
    if Path(path).suffix.lower() not in FILE_TYPES:
        raise ConfigError("plot", str(path), f"expected a file name that ends in {', '.join(FILE_TYPES)}")
    return Path(path)


def save(picture: Picture, path: Path) -> Path:
    """Draws it; the ending of the name says how. The same bytes for the same picture.

    Raises:
        ConfigError: another ending.
        OutputError: the file can't be written.
    """
    kind = check_path(path).suffix.lower()
    if kind == ".html":
        from kvlab.advice import pictures_html

        page = pictures_html.page(picture).encode()
        return write_file(path, lambda stream: stream.write(page))
    from kvlab.advice import pictures_static

    figure = pictures_static.draw(picture)
    return write_file(path, lambda stream: pictures_static.write(figure, stream, kind[1:]))
