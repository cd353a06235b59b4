"""What the terminal can show: its width, colours and characters; and text laid out for it.

Piped output has no colours and a width of 80, whatever the machine, so that it is byte-identical everywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

PLAIN_WIDTH: Final = 80
MIN_WIDTH: Final = 60
MAX_WIDTH: Final = 120
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34",
                 "magenta": "35", "cyan": "36"}  # fmt: skip
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_PROBE: Final = "⣿█·–×→"
_ASCII: Final = str.maketrans(
    {"·": "-", "–": "-", "µ": "u", "×": "x", "→": "->", "≤": "<=", "▁": ".", "▂": ".", "▃": ":", "▄": "-", "▅": "=",
     "▆": "+", "▇": "*", "█": "#", "┤": "|", "┼": "+", "─": "-", "┬": "+", "│": "|", "▲": "^", "▼": "v", "…": "..."}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where results go."""

    width: int = PLAIN_WIDTH
    colour: bool = False
    unicode: bool = True

    def style(self, text: str, *names: str) -> str:
        """The text in colours, if there are any."""
        if not self.colour or not names or not text:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"

    def render(self, lines: Iterable[str]) -> str:
        """The lines as one text that this terminal can show, without spaces at their ends."""
        text = "".join(line.rstrip() + "\n" for line in lines)
        return text if self.unicode else to_ascii(text)


def terminal_for(stream: TextIO) -> Terminal:
    """What a stream can show. `NO_COLOR` and `TERM=dumb` turn colours off."""
    tty = stream.isatty()
    dumb = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns if tty else PLAIN_WIDTH
    return Terminal(
        width=min(max(width, MIN_WIDTH), MAX_WIDTH), colour=tty and not dumb, unicode=_can_encode(stream.encoding)
    )


def stdout_terminal() -> Terminal:
    """What standard output can show."""
    return terminal_for(sys.stdout)


def to_ascii(text: str) -> str:
    """The text in ASCII: a braille cell becomes a mark by how full it is."""
    text = text.translate(_ASCII)
    return "".join(_ascii_char(char) for char in text)


def _ascii_char(char: str) -> str:
    if char.isascii():
        return char
    dots = (ord(char) - 0x2800).bit_count() if 0x2800 <= ord(char) < 0x2900 else None
    return "?" if dots is None else " " if dots == 0 else "." if dots < 4 else "#"


def _can_encode(encoding: str | None) -> bool:
    try:
        _PROBE.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def visible_length(text: str) -> int:
    """Columns that the text takes; every character used here is one column wide."""
    return len(_ANSI.sub("", text))


def pad(text: str, width: int, align: str = "<") -> str:
    """The text filled up with spaces to a width that colours do not count in."""
    space = " " * max(0, width - visible_length(text))
    return space + text if align == ">" else text + space


def columns(rows: Sequence[Sequence[str]], aligns: str, gap: int = 2) -> list[str]:
    """Rows as lines with aligned columns; `aligns` has one "<" or ">" per column."""
    widths = [max(visible_length(row[i]) for row in rows) for i in range(len(aligns))]
    return [
        (" " * gap).join(pad(cell, width, align) for cell, width, align in zip(row, widths, aligns, strict=True))
        for row in rows
    ]


def flow(parts: Sequence[str], width: int, indent: int, separator: str = " · ") -> list[str]:
    """Parts joined on as few lines as the width allows; later lines are indented."""
    lines: list[str] = []
    line = ""
    for part in parts:
        joined = f"{line}{separator}{part}" if line else part
        if line and visible_length(joined) > width - indent:
            lines.append(line)
            joined = part
        line = joined
    return [text if i == 0 else " " * indent + text for i, text in enumerate([*lines, line])]
