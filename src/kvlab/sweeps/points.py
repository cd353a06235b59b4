"""An explicit list of points: from Python, or from a file of CSV or JSON.

max_num_seqs,watermark        {"max_num_seqs": 64, "watermark": 0}
64,0                          {"max_num_seqs": 48, "watermark": "2 %"}
48,2 %
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, Final

from kvlab.errors import ConfigError, InputError, KvlabError, UnknownNameError
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS, find_setting
from kvlab.settings import NAME, TEXT, Value
from kvlab.strict_json import unique_keys

_SPACE: Final = " \t\r\n"
_ONE_OBJECT: Final = 'expected an object such as {"max_num_seqs": 64}'


def points_of(given: Iterable[object], rules: str) -> list[dict[str, Value]]:
    """The points of `kvlab.sweep`: mappings of settings' names to values, all with the same names.

    Raises:
        ConfigError: names the point, the setting and the value.
    """
    points: list[dict[str, Value]] = []
    for number, point in enumerate(given):
        if not isinstance(point, Mapping):
            raise ConfigError(f"points[{number}]", point, "expected a mapping such as {'max_num_seqs': 64}")
        try:
            points.append(_parsed(point, rules))
            _check_same_names(points[0], points[-1])
        except _PointError as unfit:
            raise ConfigError(f"points[{number}].{unfit.name}", unfit.value, unfit.problem) from None
    if not points:
        raise ConfigError("points", "none", "a sweep needs at least one")
    return [_in_order(points[0], point) for point in points]


def read_points(path: Path, rules: str) -> list[dict[str, Value]]:
    """The points of a file: CSV with a header of settings' names, JSON lines, or one JSON array of objects.

    Values are written as everywhere in kvlab: "8 GiB", "92 %", "none".

    Raises:
        InputError: names the file, the line, the column and the value; in an array the item, counted from 0.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    points: list[dict[str, Value]] = []
    is_array = text.lstrip(_SPACE).startswith("[")
    for number, (line, row) in enumerate(_rows(str(path), text)):
        try:
            points.append(_parsed(row, rules))
            _check_same_names(points[0], points[-1])
        except _PointError as unfit:
            name = f"[{number}].{unfit.name}" if is_array else unfit.name
            raise InputError(str(path), unfit.problem, line=line, field=name, value=unfit.value) from None
    if not points:
        raise InputError(str(path), "holds no point: a header of settings' names, then a row for each point")
    return [_in_order(points[0], point) for point in points]


def check_names(scenario: Scenario, points: Iterable[Mapping[str, Value]]) -> None:
    """Whether there are such GPUs, models, profiles and so on: of each name once, before anything runs.

    Other settings may be what is wrong with a point; then its row says so.

    Raises:
        UnknownNameError: there is none of that name; gives the nearest.
    """
    seen = set()
    for point in points:
        for name, value in point.items():
            if (name, value) in seen or SETTINGS[name].kind not in (NAME, TEXT):
                continue
            seen.add((name, value))
            try:
                scenario.replace(**{name: value}).engine_config()
            except KvlabError as error:
                if isinstance(error, UnknownNameError) and error.value == value:
                    raise


class _PointError(Exception):
    """A value of a point that can't be used."""

    def __init__(self, name: str, value: object, problem: str) -> None:
        super().__init__(problem)
        self.name, self.value, self.problem = name, value, problem


def _parsed(row: Mapping[str, object], rules: str) -> dict[str, Value]:
    if not row:
        raise _PointError("point", "", "names no setting")
    point: dict[str, Value] = {}
    for given, value in row.items():
        name = str(given).strip().replace("-", "_")
        if name == "seed":
            raise _PointError(name, value, "is no setting of a point: give seeds apart, every point runs with each")
        if name in point:
            raise _PointError(name, value, "is there twice")
        try:
            point[name] = find_setting(name, rules, value).parse(value)
        except ConfigError as error:
            problem = str(error) if error.field == "setting" else error.remedy
            raise _PointError(name, value, problem) from None
    return point


def _check_same_names(first: Mapping[str, Value], point: Mapping[str, Value]) -> None:
    for name in first:
        if name not in point:
            raise _PointError(name, "", "is missing here, and the first point has it")
    for name, value in point.items():
        if name not in first:
            raise _PointError(name, value, "is not in the first point")


def _in_order(first: Mapping[str, Value], point: Mapping[str, Value]) -> dict[str, Value]:
    return {name: point[name] for name in first}


def _rows(path: str, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Each row with the number of its line."""
    start = text.lstrip(_SPACE)[:1]
    return _json_rows(path, text) if start in ("{", "[") else _csv_rows(path, text)


def _csv_rows(path: str, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    header: Sequence[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            line = reader.line_num
            if header is None:
                header = [cell.strip().replace("-", "_") for cell in cells]
                for name in header:
                    if header.count(name) > 1:
                        raise InputError(path, "is there twice", line=line, field="column", value=name)
                continue
            if len(cells) != len(header):
                problem = f"{len(cells)} values for {len(header)} columns; quote a value that has a comma"
                raise InputError(path, problem, line=line)
            yield line, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise InputError(path, f"not CSV: {error}", line=reader.line_num) from None


def _json_rows(path: str, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Objects one after the other; around them may be the brackets of an array, and commas between."""
    decoder = JSONDecoder(object_pairs_hook=unique_keys)
    try:
        if text.lstrip(_SPACE).startswith("["):
            json.loads(text)  # brackets and commas stand where they should
            gaps = _SPACE + "[,]"
        else:
            gaps = _SPACE
        place, line, number = 0, 1, 0
        while True:
            begin = place
            while place < len(text) and text[place] in gaps:
                place += 1
            if place == len(text):
                return
            line += text.count("\n", begin, place)
            field = f"[{number}]" if gaps != _SPACE else "point"
            found, end = _decoded(decoder, path, text, place, line, field)
            yield line, found
            number += 1
            line += text.count("\n", place, end)
            place = end
    except JSONDecodeError as error:
        raise InputError(path, f"not JSON: {error.msg}", line=error.lineno) from None


def _decoded(
    decoder: JSONDecoder, path: str, text: str, place: int, line: int, field: str
) -> tuple[dict[str, Any], int]:
    try:
        found, end = decoder.raw_decode(text, place)
    except JSONDecodeError:
        raise
    except ValueError as error:  # a key twice
        raise InputError(path, f"{field}: {error}", line=line) from None
    except RecursionError:
        raise InputError(path, _ONE_OBJECT, line=line) from None
    if not isinstance(found, dict):
        raise InputError(path, _ONE_OBJECT, line=line, field=field, value=found)
    return found, end
