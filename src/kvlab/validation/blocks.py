"""A page as a list of blocks, written as Markdown and as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kvlab.plots.theme import DARK, LIGHT

NOTE: Final = "<!-- made by kvlab validate -->"


@dataclass(frozen=True, slots=True)
class Heading:
    """A title; level 1 is the page's."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `code`, **bold** and [links](to) are understood."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """Paragraphs with dots."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A file beside the page, and what it shows."""

    path: str
    shows: str


Block = Heading | Text | Bullets | Table | Picture

_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_BOLD: Final = re.compile(r"\*\*([^*]+)\*\*")
_NUMBER: Final = re.compile(r"[+-]?[\d,.]+( %| ms| s| GiB)?")
_CODE: Final = re.compile(r"`([^`]+)`")


def as_markdown(blocks: Iterable[Block]) -> str:
    """The page's text."""
    parts = [NOTE]
    for block in blocks:
        match block:
            case Heading(level, text):
                parts.append(f"{'#' * level} {text}")
            case Text(text):
                parts.append(text)
            case Bullets(items):
                parts.append("\n".join(f"- {item}" for item in items))
            case Table(heads, rows):
                lines = [heads, ["---"] * len(heads), *rows]
                parts.append(
                    "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
                )
            case Picture(path, shows):
                parts.append(f"![{shows}]({path})")
    return "\n\n".join(parts) + "\n"


def as_html(blocks: Iterable[Block]) -> str:
    """One page, without scripts and without anything from elsewhere; links to .md pages stay as they are."""
    parts = []
    title = ""
    for block in blocks:
        match block:
            case Heading(level, text):
                title = title or text
                anchor = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
                parts.append(f'<h{level} id="{anchor}">{_inline(text)}</h{level}>')
            case Text(text):
                parts.append(f"<p>{_inline(text)}</p>")
            case Bullets(items):
                parts.append("<ul>\n" + "\n".join(f"<li>{_inline(item)}</li>" for item in items) + "\n</ul>")
            case Table(heads, rows):
                parts.append(_table(heads, rows))
            case Picture(path, shows):
                alt = html.escape(shows, quote=True)
                parts.append(f'<p><img src="{html.escape(path, quote=True)}" alt="{alt}"></p>')
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n{NOTE}\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)} - kvlab</title>\n"
        f"<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ['<div class="wide">', "<table>", "<thead><tr>"]
    lines += [f'<th scope="col">{_inline(head)}</th>' for head in heads]
    lines += ["</tr></thead>", "<tbody>"]
    for row in rows:
        cells = [f"<td{' class=number' if _NUMBER.fullmatch(cell) else ''}>{_inline(cell)}</td>" for cell in row]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def _inline(text: str) -> str:
    text = html.escape(text, quote=False)
    text = _CODE.sub(r"<code>\1</code>", text)
    text = _BOLD.sub(r"<strong>\1</strong>", text)
    return _LINK.sub(r'<a href="\2">\1</a>', text)


_STYLE: Final = f"""\
:root {{ color-scheme: light dark; --paper: {LIGHT.paper}; --ink: {LIGHT.ink}; --muted: {LIGHT.muted}; --grid: {LIGHT.grid}; --link: {LIGHT.line}; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --paper: {DARK.paper}; --ink: {DARK.ink}; --muted: {DARK.muted}; --grid: {DARK.grid}; --link: {DARK.line}; }}
}}
body {{ overflow-wrap: anywhere; margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }}
main {{ max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }}
h2 {{ margin-top: 2.5rem; }}
a {{ color: var(--link); }}
code {{ font-size: 0.9em; }}
img {{ max-width: 100%; height: auto; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; vertical-align: top; padding: 0.3rem 0.7rem 0.3rem 0; border-bottom: 1px solid var(--grid); }}
th, td {{ overflow-wrap: break-word; min-width: 3rem; }}
td.number {{ white-space: nowrap; }}
th {{ color: var(--muted); font-weight: 600; }}
"""  # noqa: E501 - one line per rule
