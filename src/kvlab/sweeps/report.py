"""A sweep as pictures: curves with the spread of the seeds, heatmaps, the Pareto front. HTML, PNG or SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kvlab.errors import ConfigError, InputError, UnknownNameError
from kvlab.files import write_file
from kvlab.metrics import METRICS
from kvlab.setting_table import SETTINGS
from kvlab.sweeps.folder import ABOUT, TABLE
from kvlab.units import NS_PER_S

USUAL: Final = ("p95_ttft_ns", "p99_gap_ns", "throughput_tokens_per_s", "preemptions_per_1000")
"""Metrics that are drawn unless others are asked for."""
FRONT: Final = ("throughput_tokens_per_s", "p95_ttft_ns")
"""What the Pareto front weighs: the first is to be high, the second low."""
FILE_TYPES: Final = (".html", ".png", ".svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination of settings: a value of each metric per seed that has one."""

    settings: tuple[Any, ...]
    values: dict[str, list[float]]

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
    num_failed: int
    """Runs that were impossible: they are in no picture."""

    def axis(self, name: str) -> list[Any]:
        """The values of a setting, in order."""
        place = self.names.index(name)
        values = dict.fromkeys(point.settings[place] for point in self.points)
        numbers = all(isinstance(value, int | float) for value in values)
        return sorted(values) if numbers else list(values)

    def where(self, wanted: dict[str, Any]) -> list[Point]:
        """Points with these settings."""
        places = [(self.names.index(name), value) for name, value in wanted.items()]
        return [point for point in self.points if all(point.settings[place] == value for place, value in places)]


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
    grouped: dict[tuple[Any, ...], Point] = {}
    for row in rows:
        settings = tuple(row[name] for name in names)
        point = grouped.setdefault(settings, Point(settings=settings, values={name: [] for name in METRICS}))
        for name in METRICS:
            if row[name] is not None:
                point.values[name].append(_scaled(name, row[name]))
    return Points(
        names=names,
        points=tuple(grouped.values()),
        num_seeds=len({row["seed"] for row in rows}),
        num_failed=sum(row["error"] is not None for row in rows),
    )


def _scaled(metric: str, value: float) -> float:
    """In the unit that is drawn: seconds, per cent."""
    unit = METRICS[metric].unit
    return value / NS_PER_S if unit == "ns" else value * 100 if unit == "ratio" else float(value)


def label(metric: str) -> str:
    """Name and unit, as axes show them."""
    unit = {"ns": "s", "ratio": "%"}.get(METRICS[metric].unit, METRICS[metric].unit)
    return f"{METRICS[metric].label} ({unit})"


def setting_label(name: str) -> str:
    """The same of a setting."""
    unit = SETTINGS[name].unit
    return f"{name} ({unit})" if unit else name


def middle_of(some: Iterable[Point], metric: str) -> float | None:
    """Median over points and seeds: over settings that are on no axis, too; None without any value."""
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


def checked(metrics: Sequence[str]) -> tuple[str, ...]:
    """The metrics to draw.

    Raises:
        UnknownNameError: no such metric; names the nearest.
    """
    for metric in metrics:
        if metric not in METRICS:
            raise UnknownNameError("metric", metric, METRICS)
    return tuple(metrics) or USUAL


def write_report(folder: Path, path: Path, metrics: Sequence[str] = ()) -> Path:
    """Draws a sweep's table into a file.

    Raises:
        InputError: the folder holds no sweep.
        ConfigError: a file type that isn't known.
        UnknownNameError: no such metric.
        OutputError: the file can't be written.
    """
    kind = path.suffix.lower()
    if kind not in FILE_TYPES:
        raise ConfigError("out", str(path), f"expected a file name that ends in {', '.join(FILE_TYPES)}")
    drawn, points = checked(metrics), read_points(folder)
    if kind == ".html":
        from kvlab.sweeps import report_html

        page = report_html.page(points, drawn, escape(folder.name)).encode()
        return write_file(path, lambda stream: stream.write(page))
    from kvlab.sweeps import report_static

    figure = report_static.draw(points, drawn)
    return write_file(path, lambda stream: report_static.write(figure, stream, kind[1:]))
