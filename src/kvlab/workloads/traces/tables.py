"""Columns of cells from CSV, JSONL and Parquet, a few thousand rows at a time.

Each reader yields (lines, columns): where each row stands, and one list of cells per name asked for, in that order.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final, NoReturn

from kvlab.errors import TraceError
from kvlab.workloads.traces.files import TraceFile

Batches = Iterator[tuple[Sequence[int], list[Sequence[object]]]]
Choose = Callable[[list[str]], Sequence[str]]
"""From the columns that there are to those wanted; raises TraceError."""

_BATCH_ROWS: Final = 512  # few enough to stay in a processor's cache


def csv_batches(file: TraceFile, choose: Choose) -> Batches:
    """The first line is the header. Blank lines are skipped.

    Raises:
        TraceError: a row with more or fewer values than the header.
    """
    reader = csv.reader(file.lines(), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        picked = [header.index(name) for name in choose(header)]
        while batch := [(reader.line_num, row) for row in islice(reader, _BATCH_ROWS)]:
            if all(len(row) == len(header) for _, row in batch):
                yield [line for line, _ in batch], [[row[i] for _, row in batch] for i in picked]
                continue
            for line, row in batch:
                if len(row) == len(header):
                    yield [line], [[row[i]] for i in picked]
                elif row and row != [""]:
                    problem = f"{len(row)} values, but the header has {len(header)} columns"
                    raise TraceError(file.path, problem, line=line)
    except csv.Error as error:
        raise TraceError(file.path, f"not CSV: {error}", line=reader.line_num) from None


def jsonl_batches(file: TraceFile, choose: Choose) -> Batches:
    """One JSON object per line; the first says which columns there are.

    Raises:
        TraceError: a line that is no JSON object, or lacks a key.
    """
    names: Sequence[str] = ()
    numbered = ((line, text) for line, text in enumerate(file.lines(), 1) if text.strip())
    while batch := list(islice(numbered, _BATCH_ROWS)):
        lines: list[int] = []
        columns: list[list[object]] = [[] for _ in names]
        for line, text in batch:
            row = parse_json(file.path, text, line)
            if not isinstance(row, dict):
                raise TraceError(file.path, "expected a JSON object per line", line=line, field="row", value=text)
            if not names:
                names = choose(list(row))
                columns = [[] for _ in names]
            for name, column in zip(names, columns, strict=True):
                if name not in row:
                    raise TraceError(file.path, f'no "{name}" in this row', line=line)
                column.append(row[name])
            lines.append(line)
        yield lines, [*columns]


def parquet_batches(file: TraceFile, choose: Choose) -> Batches:
    """Rows of a Parquet file; dates and times become text.

    Raises:
        TraceError: not Parquet, or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file.path) as table:
            names = choose(table.schema_arrow.names)
            num_rows = 0
            for batch in table.iter_batches(_BATCH_ROWS, columns=list(dict.fromkeys(names))):
                lines = range(num_rows + 1, num_rows + batch.num_rows + 1)
                num_rows += batch.num_rows
                yield lines, [_cells_of(batch.column(name), pa) for name in names]
    except (pa.ArrowException, OSError) as error:
        raise TraceError(file.path, f"damaged Parquet file ({str(error).splitlines()[0]}): copy it again") from None


def parse_json(path: str, text: str | bytes, line: int | None = None) -> object:
    """A JSON document with exact decimals.

    Raises:
        TraceError: not JSON, or with NaN or Infinity in it.
    """
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        # a line has its place in the file; where JSON breaks off inside it would look like another one
        reason = error.msg if isinstance(error, json.JSONDecodeError) and line is not None else str(error)
        if isinstance(error, RecursionError):
            reason = "nested too deeply"
        elif reason.startswith("Exceeds the limit"):
            reason = "a number with thousands of digits"
        raise TraceError(path, f"not JSON: {reason}", line=line) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _cells_of(column: Any, pa: Any) -> list[object]:
    cells: list[object] = (column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return cells
