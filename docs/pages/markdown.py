"""Tables in Markdown, and where they stand in a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

DOCS = Path(__file__).parents[1]
NOTE = "<!-- made by docs/generate.py: change the code, then run it -->"
ARROWS = {"lower": "↓", "higher": "↑", None: ""}


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def with_tables(page: str, tables: Mapping[str, Callable[[], list[str]]]) -> str:
    """A page with its tables made anew, each between two comments."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, make in tables.items():
        begin, end = f"<!-- {name}: made by docs/generate.py -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = before + "\n".join([begin, "", *make(), "", ""]) + rest[rest.index(end) :]
    return text
