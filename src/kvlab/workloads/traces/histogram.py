"""How often each length occurs in one column of a file: what `empirical(FILE, COLUMN)` draws from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from kvlab.errors import TraceError
from kvlab.workloads.traces.columns import check_column
from kvlab.workloads.traces.files import TraceFile, open_trace
from kvlab.workloads.traces.formats import detect_format
from kvlab.workloads.traces.readers import bench_list, read_bench_document
from kvlab.workloads.traces.rows import read_tokens
from kvlab.workloads.traces.tables import csv_batches, jsonl_batches, parquet_batches


def histogram_of(path: str, column: str) -> tuple[tuple[int, int], ...]:
    """((tokens, count), ...) by rising length; 0 counts as 1. No arrival times are needed.

    Raises:
        TraceError: the file can't be used, has no such column, or a value there is no length.
    """
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return _count(path, column)  # opening it says what is wrong
    return _cached(path, column, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _cached(path: str, column: str, mtime_ns: int, size: int) -> tuple[tuple[int, int], ...]:
    return _count(path, column)


def _count(path: str, column: str) -> tuple[tuple[int, int], ...]:
    counts: Counter[int] = Counter()
    with open_trace(path) as file:
        for line, cell in _cells(file, column):
            try:
                counts[read_tokens(cell, 0) or 1] += 1
            except ValueError as error:
                raise TraceError(path, str(error), line=line, field=column, value=cell) from None
    if not counts:
        raise TraceError(path, "no rows: lengths are drawn from at least one")
    return tuple(sorted(counts.items()))


def _cells(file: TraceFile, column: str) -> Iterator[tuple[int, object]]:
    def choose(names: list[str]) -> Sequence[str]:
        check_column(file.path, column, names)
        return [column]

    name = detect_format(file, own_columns=False)
    if name == "vllm-bench":
        document = read_bench_document(file)
        check_column(file.path, column, [key for key, value in document.items() if isinstance(value, list)])
        yield from enumerate(bench_list(file.path, document, column), 1)
        return
    table = {"csv": csv_batches, "jsonl": jsonl_batches, "parquet": parquet_batches}[name]
    for lines, (cells,) in table(file, choose):
        yield from zip(lines, cells, strict=True)
