"""One clear picture of a run: preemptions, KV usage, requests, latencies. Files, or a figure for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.files import write_file
from kvlab.plots.theme import THEMES, Theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kvlab.results import Run

FILE_TYPES: Final = (".html", ".png", ".svg")

__all__ = ["FILE_TYPES", "THEMES", "figure", "save"]


def figure(run: Run, *, theme: str = "light") -> go.Figure:
    """An interactive plotly figure.

    Raises:
        UnknownNameError: no such theme.
        ConfigError: the run didn't record its steps.
    """
    from kvlab.plots import interactive

    return interactive.draw(run, _theme(theme))


def save(run: Run, path: Path, *, theme: str = "light") -> Path:
    """Write the picture; the ending of the name says what: .html, .png or .svg.

    Raises:
        UnknownNameError: no such theme.
        ConfigError: another ending, or the run didn't record its steps.
        OutputError: the file can't be written.
    """
    kind, colours = path.suffix.lower(), _theme(theme)
    if kind not in FILE_TYPES:
        raise ConfigError("plot", str(path), f"expected a file name that ends in {', '.join(FILE_TYPES)}")
    if kind == ".html":
        from kvlab.plots import interactive

        page = interactive.page(run, colours).encode()
        return write_file(path, lambda stream: stream.write(page))
    from kvlab.plots import static

    drawing = static.draw(run, colours)
    return write_file(path, lambda stream: static.write(drawing, stream, kind[1:]))


def _theme(name: str) -> Theme:
    if name not in THEMES:
        raise UnknownNameError("theme", name, THEMES)
    return THEMES[name]
