"""What a sweep's folder says of itself, so that another sweep does not take its place unseen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kvlab.errors import ConfigError
from kvlab.files import write_file
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.settings import Value
from kvlab.units import counted

ABOUT: Final = "sweep.json"
TABLE: Final = "sweep.parquet"
_FORMAT: Final = 1
_NAMED: Final = 3
"""Differences that a message spells out."""
_OR: Final = "name another folder, or overwrite it (--overwrite)"


def claim(
    folder: Path,
    scenario: Scenario,
    names: Sequence[str],
    runs: Sequence[tuple[Mapping[str, Value], int]],
    *,
    overwrite: bool = False,
) -> None:
    """Writes down whose folder it is. A sweep goes on in its own folder, and may get further values and seeds.

    Raises:
        ConfigError: there is another sweep, or a table with runs that this one hasn't; unless it may be overwritten.
        OutputError: the folder can't be written.
    """
    about = _about(scenario, names)
    if not overwrite:
        problem = _other(folder, about, names) or _lost(folder, names, runs)
        if problem is not None:
            raise ConfigError("folder", str(folder), f"{problem}: {_OR}")
    text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    write_file(folder / ABOUT, lambda stream: stream.write(text.encode()))


def _about(scenario: Scenario, names: Sequence[str]) -> dict[str, Any]:
    settings = {
        name: SETTINGS[name].show(value)
        for name, value in scenario.settings().items()
        if name not in names and name != "seed"
    }
    return {"format": _FORMAT, "varies": list(names), "rules": scenario.rules, "settings": settings}


def _other(folder: Path, about: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """How the sweep that is there differs; None where there is none, or nobody can tell."""
    try:
        there = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        varies, rules, settings = list(there["varies"]), there["rules"], dict(there["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if sorted(varies) != sorted(names):
        return f"holds a sweep of {', '.join(varies)}"
    if rules != about["rules"]:
        return f"holds a sweep of the {rules}"
    different = [
        f"{name} = {settings.get(name)} there and {about['settings'].get(name)} here"
        for name in {**settings, **about["settings"]}
        if settings.get(name) != about["settings"].get(name)
    ]
    more = f" and {len(different) - _NAMED} more" if len(different) > _NAMED else ""
    return f"holds a sweep of another scenario ({', '.join(different[:_NAMED])}{more})" if different else None


def _lost(folder: Path, names: Sequence[str], runs: Sequence[tuple[Mapping[str, Value], int]]) -> str | None:
    """Whether the table that is there has runs that the new one would not have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kvlab.sweeps.table import settings_column

    try:
        there = pq.read_table(folder / TABLE, columns=[*names, "seed"]).to_pydict()
        rows = list(zip(*(there[name] for name in (*names, "seed")), strict=True))
    except (OSError, pa.ArrowException, ValueError, KeyError):
        return None
    columns = [settings_column(name, [point[name] for point, _ in runs]).to_pylist() for name in names]
    new = set(zip(*columns, (seed for _, seed in runs), strict=True))
    lost = sum(row not in new for row in rows)
    return f"holds a table with {counted(lost, 'run')} that this sweep hasn't" if lost else None
