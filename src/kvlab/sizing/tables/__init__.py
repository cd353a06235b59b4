"""Public facts as CSV files; README.md beside them names the sources and licences."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a table, as text by column, in the order of the file."""
    with (_FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(csv.DictReader(stream))
