"""Runs as files: result.json and one table per record that was kept, as Parquet or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from kvlab.columns import NOTHING, Columns
from kvlab.comparison import is_result
from kvlab.errors import UnknownNameError
from kvlab.files import Writer, new_directory, remove_file, write_files
from kvlab.results import Run

TABLES: Final = ("requests", "timeline", "preemptions")
"""The files of tables, without their endings."""


def write_run(run: Run, directory: Path, table_format: str) -> tuple[Path, ...]:
    """Write what `Run.write` promises; the paths in the order result.json, requests, timeline, preemptions.

    Raises:
        UnknownNameError: no such format.
        OutputError: see `kvlab.files`.
    """
    write_table = TABLE_FORMATS.get(table_format)
    if write_table is None:
        raise UnknownNameError("table format", table_format, TABLE_FORMATS)
    writers: dict[Path, Writer] = {directory / "result.json": lambda stream: _write_json(run, stream)}
    for name, columns in _tables(run):
        writers[directory / f"{name}.{table_format}"] = _bound(write_table, columns)
    had_result = _holds_result(directory)
    with new_directory(directory):
        write_files(writers)
    if had_result:
        _remove_others(directory, writers)
    return tuple(writers)


def _holds_result(directory: Path) -> bool:
    try:
        return is_result(json.loads((directory / "result.json").read_bytes()))
    except (OSError, ValueError, RecursionError):
        return False


def _remove_others(directory: Path, written: Collection[Path]) -> None:
    """Tables of the earlier run that this one has no new file for: they would pass for its own."""
    for path in (directory / f"{name}.{ending}" for name in TABLES for ending in TABLE_FORMATS):
        if path not in written and path.is_file():
            remove_file(path)


def _tables(run: Run) -> Iterator[tuple[str, Columns]]:
    if run.record.requests:
        yield "requests", run.requests
    if run.record.steps:
        yield "timeline", run.timeline
        yield "preemptions", run.preemptions


def _bound(write: Callable[[Columns, BinaryIO], None], columns: Columns) -> Writer:
    return lambda stream: write(columns, stream)


def _write_json(run: Run, stream: BinaryIO) -> None:
    stream.write((json.dumps(run.to_dict(), indent=2, ensure_ascii=False) + "\n").encode())


def _write_csv(columns: Columns, stream: BinaryIO) -> None:
    """A header and one line per row; an empty field is a missing value."""
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_csv_cells(column.tolist()) for column in columns.values()), strict=True))
    text.detach()


def _csv_cells(values: list[object]) -> list[object]:
    return ["" if value == NOTHING else _word(value) for value in values]


def _word(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _write_parquet(columns: Columns, stream: BinaryIO) -> None:
    """One column each, null where a value is missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = [
        pa.array(column, mask=column == NOTHING if column.dtype.kind == "i" else None) for column in columns.values()
    ]
    pq.write_table(pa.Table.from_arrays(arrays, names=list(columns)), stream)


TABLE_FORMATS: Final[dict[str, Callable[[Columns, BinaryIO], None]]] = {"parquet": _write_parquet, "csv": _write_csv}
"""Also the endings of the files."""
