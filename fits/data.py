"""Where the public measurements lie, and how they are read."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(os.environ.get("KVLAB_SHARED", Path(__file__).parents[2] / "shared")) / "data"
PROFILES = Path(__file__).parents[1] / "src" / "kvlab" / "step_time" / "profiles"


def need(*names: str) -> None:
    """Leaves, saying so, where a file of the data isn't there."""
    for name in names:
        if not (ROOT / name).exists():
            print(f"skipped: {name} is not here; KVLAB_SHARED names the folder above data/", file=sys.stderr)
            raise SystemExit(0)


def rows(name: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV file."""
    with (ROOT / name).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)
