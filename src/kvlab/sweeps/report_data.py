"""A sweep's table as its report needs it: points with a value of each metric per seed, and how things are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kvlab.errors import InputError
from kvlab.metrics import METRICS
from kvlab.setting_table import SETTINGS
from kvlab.settings import DURATION, SIZE
from kvlab.sweeps.folder import ABOUT, TABLE
from kvlab.units import NS_PER_S

FRONT: Final = ("throughput_tokens_per_s", "p95_ttft_ns")
"""What the Pareto front weighs: the first is to be high, the second low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination of settings: a value of each metric per seed that has one."""

    settings: tuple[Any, ...]
    values: dict[str, list[float]]
    errors: tuple[str, ...] = ()
    """Of runs that were impossible."""

    def middle(self, metric: str) -> float | None:
        """Median over the seeds; None without any."""
        return median(self.values[metric]) if self.values[metric] else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A sweep's table, seeds put together."""

    names: tuple[str, ...]
    """Settings that vary."""
    points: tuple[Point, ...]
    num_seeds: int

    @property
    def num_failed(self) -> int:
        """Runs that were impossible: they are in no picture."""
        return sum(len(point.errors) for point in self.points)

    @property
    def is_empty(self) -> bool:
        """Whether no run was possible, so that there is nothing to draw."""
        return not any(values for point in self.points for values in point.values.values())

    def axis(self, name: str) -> list[Any]:
        """The values of a setting, in order."""
        place = self.names.index(name)
        values = dict.fromkeys(point.settings[place] for point in self.points)
        return sorted(values) if are_numbers(values) else list(values)

    def where(self, wanted: Mapping[str, Any]) -> list[Point]:
        """Points with these settings."""
        places = [(self.names.index(name), value) for name, value in wanted.items()]
        return [point for point in self.points if all(point.settings[place] == value for place, value in places)]

    def along(self, names: Sequence[str]) -> dict[tuple[Any, ...], list[Point]]:
        """Points by their values of some settings."""
        places = [self.names.index(name) for name in names]
        found: dict[tuple[Any, ...], list[Point]] = {}
        for point in self.points:
            found.setdefault(tuple(point.settings[place] for place in places), []).append(point)
        return found

    def has(self, metric: str) -> bool:
        """Whether any run has a value of it."""
        return any(point.values[metric] for point in self.points)


def read_points(folder: Path) -> Points:
    """The table of a sweep's folder.

    Raises:
        InputError: there is none, or it isn't one.
    """
    path = folder / TABLE if folder.is_dir() else folder
    if not path.exists():
        raise InputError(str(folder), _absent(folder))
    try:
        table = pq.read_table(path)
        names = tuple(table.column_names[: table.column_names.index("seed")])
        return _points(table, names)
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        raise InputError(str(path), f"not the table of a sweep ({error}): make one with kvlab sweep") from None


def _absent(folder: Path) -> str:
    if not folder.is_dir():
        return "there is no such folder: make one with kvlab sweep ... --out DIR"
    if (folder / ABOUT).exists():
        return f"has no {TABLE} yet, its sweep was interrupted: the same kvlab sweep again finishes it"
    return f"has no {TABLE}: give the folder that kvlab sweep wrote, its --out"


def _points(table: pa.Table, names: tuple[str, ...]) -> Points:
    rows = table.to_pylist()
    values: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    errors: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        settings = tuple(row[name] for name in names)
        of_point = values.setdefault(settings, {name: [] for name in METRICS})
        for name in METRICS:
            if row[name] is not None:
                of_point[name].append(_scaled(name, row[name]))
        if row["error"] is not None:
            errors.setdefault(settings, []).append(row["error"])
    return Points(
        names=names,
        points=tuple(
            Point(settings=settings, values=found, errors=tuple(errors.get(settings, ())))
            for settings, found in values.items()
        ),
        num_seeds=len({row["seed"] for row in rows}),
    )


def _scaled(metric: str, value: float) -> float:
    """In the unit that is drawn: seconds, per cent."""
    unit = METRICS[metric].unit
    return value / NS_PER_S if unit == "ns" else value * 100 if unit == "ratio" else float(value)


def label(metric: str) -> str:
    """Name and unit, as axes show them; the unit only where the name doesn't say it."""
    text, unit = METRICS[metric].label, {"ns": "s", "ratio": "%"}.get(METRICS[metric].unit, METRICS[metric].unit)
    return text if unit in text.lower().split() else f"{text} ({unit})"


def setting_label(name: str) -> str:
    """The same of a setting."""
    unit = SETTINGS[name].unit
    return f"{name} ({unit})" if unit else name


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether they have places on a scale of numbers; else they stand side by side."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def shown(name: str, value: Any) -> str:
    """A value of a setting, as ticks and titles show it."""
    if value is None:
        return "none"
    if isinstance(value, int) and SETTINGS[name].kind in (DURATION, SIZE):
        return SETTINGS[name].show(value)
    return str(value)


def middle_of(some: Iterable[Point], metric: str) -> float | None:
    """Median over the seeds of these points; None without any value."""
    values = [value for point in some for value in point.values[metric]]
    return median(values) if values else None


def front(points: Iterable[Point], more: str, less: str) -> list[Point]:
    """Points that no other beats in both: the most of one metric for each amount of the other, cheapest first."""
    known = [point for point in points if point.values[more] and point.values[less]]
    best: list[Point] = []
    for point in sorted(known, key=lambda one: (one.middle(less), -(one.middle(more) or 0.0))):
        if not best or (point.middle(more) or 0.0) > (best[-1].middle(more) or 0.0):
            best.append(point)
    return best
