"""Cells of named columns from CSV, JSONL and Parquet, row by row.

Each reader yields (line, cells): one cell per name asked for, in that order.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final, NoReturn

from kvlab.errors import TraceError
from kvlab.workloads.traces.files import TraceFile

Cells = Iterator[tuple[int, Sequence[object]]]
Choose = Callable[[list[str]], Sequence[str]]
"""From the columns that there are to those wanted (at least two); raises TraceError."""

_BATCH_ROWS: Final = 8192


def csv_cells(file: TraceFile, choose: Choose) -> Cells:
    """The first line is the header. Blank lines are skipped.

    Raises:
        TraceError: a row with more or fewer values than the header.
    """
    reader = csv.reader(file.lines(), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        picked = itemgetter(*[header.index(name) for name in choose(header)])
        width = len(header)
        for row in reader:
            if len(row) == width:
                yield reader.line_num, picked(row)
            elif row and row != [""]:
                problem = f"{len(row)} values, but the header has {width} columns"
                raise TraceError(file.path, problem, line=reader.line_num)
    except csv.Error as error:
        raise TraceError(file.path, f"not CSV: {error}", line=reader.line_num) from None


def jsonl_cells(file: TraceFile, choose: Choose) -> Cells:
    """One JSON object per line; the first says which columns there are.

    Raises:
        TraceError: a line that is no JSON object, or lacks a key.
    """
    names: Sequence[str] = ()
    for line, text in enumerate(file.lines(), 1):
        if not text.strip():
            continue
        row = parse_json(file.path, text, line)
        if not isinstance(row, dict):
            raise TraceError(file.path, "expected a JSON object per line", line=line, field="row", value=text)
        names = names or choose(list(row))
        try:
            yield line, [row[name] for name in names]
        except KeyError as error:
            raise TraceError(file.path, f"no {error.args[0]!r} in this row", line=line) from None


def parquet_cells(file: TraceFile, choose: Choose) -> Cells:
    """Rows of a Parquet file, batch by batch; dates and times become text.

    Raises:
        TraceError: not Parquet, or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file.path) as table:
            schema = table.schema_arrow
            names = choose(schema.names)
            num_rows = 0
            for batch in table.iter_batches(_BATCH_ROWS, columns=list(dict.fromkeys(names))):
                columns = [_cells_of(batch.column(name), pa) for name in names]
                yield from enumerate(zip(*columns, strict=True), num_rows + 1)
                num_rows += batch.num_rows
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
        reason = str(error)
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
