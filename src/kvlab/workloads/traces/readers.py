"""Rows from open trace files, one reader per format: strict, in order of arrival, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Final

from kvlab.errors import TraceError
from kvlab.workloads.lengths import MAX_TOKENS
from kvlab.workloads.traces.columns import Columns
from kvlab.workloads.traces.files import TraceFile
from kvlab.workloads.traces.rows import (
    TRACE_ROW,
    TraceRow,
    read_hash_ids,
    read_plain_numbers,
    read_time_ns,
    read_times_ns,
    read_tokens,
)
from kvlab.workloads.traces.tables import Batches, Choose, csv_batches, jsonl_batches, parquet_batches, parse_json

Reader = Callable[[TraceFile, Columns], Iterator[TraceRow]]
"""Rows in the order of the file. Formats with columns of their own don't look at those given."""

AZURE: Final = Columns(arrival="TIMESTAMP", prompt="ContextTokens", output="GeneratedTokens")
BURSTGPT: Final = Columns(arrival="Timestamp", arrival_unit="s", prompt="Request tokens", output="Response tokens")
MOONCAKE: Final = Columns(
    arrival="timestamp", arrival_unit="ms", prompt="input_length", output="output_length", hash_ids="hash_ids"
)
MAX_JSON_BYTES: Final = 2**28
"""A vLLM result file is one JSON value, so it is read whole."""


def read_azure(file: TraceFile, columns: Columns) -> Iterator[TraceRow]:
    """Azure 2023 and 2024: date and time with up to 7 digits, prompt, output."""
    return _rows(file, AZURE, csv_batches)


def read_burstgpt(file: TraceFile, columns: Columns) -> Iterator[TraceRow]:
    """BurstGPT: seconds, model, prompt, output, ...; failed requests have an output of 0, which counts as 1."""
    return _rows(file, BURSTGPT, csv_batches)


def read_mooncake(file: TraceFile, columns: Columns) -> Iterator[TraceRow]:
    """Mooncake: ms, prompt, output and the ids of the prompt's blocks."""
    return _rows(file, MOONCAKE, jsonl_batches)


def read_csv(file: TraceFile, columns: Columns) -> Iterator[TraceRow]:
    """Any CSV with a header."""
    return _rows(file, columns, csv_batches)


def read_jsonl(file: TraceFile, columns: Columns) -> Iterator[TraceRow]:
    """Any file with a JSON object per line."""
    return _rows(file, columns, jsonl_batches)


def read_parquet(file: TraceFile, columns: Columns) -> Iterator[TraceRow]:
    """Any Parquet table."""
    return _rows(file, columns, parquet_batches)


def read_vllm_bench(file: TraceFile, columns: Columns) -> Iterator[TraceRow]:
    """What `vllm bench serve --save-result --save-detailed` writes. Requests that failed are left out.

    Rows come in order of their start times, whatever their order in the file; `line` is the place in its lists.
    """
    document = read_bench_document(file)
    starts, prompts, outputs = (bench_list(file.path, document, key) for key in _BENCH_KEYS)
    errors = document.get("errors")
    rows = [
        _row(file.path, place, cells, _BENCH_KEYS, 10**9)
        for place, cells in enumerate(zip(starts, prompts, outputs, strict=True), 1)
        if not (isinstance(errors, list) and place <= len(errors) and errors[place - 1])
    ]
    return iter(sorted(rows, key=lambda row: row.arrival_ns))


_BENCH_KEYS: Final = ("start_times", "input_lens", "output_lens")


def read_bench_document(file: TraceFile) -> dict[str, object]:
    """The JSON object of a result file.

    Raises:
        TraceError: not a JSON object, or more than 256 MiB.
    """
    parts: list[bytes] = []
    size = 0
    for block in file.blocks():
        parts.append(block)
        size += len(block)
        if size > MAX_JSON_BYTES:
            problem = f"more than {MAX_JSON_BYTES // 2**20} MiB in one JSON value; write its rows as csv or jsonl"
            raise TraceError(file.path, problem)
    document = parse_json(file.path, b"".join(parts))
    if not isinstance(document, dict):
        raise TraceError(file.path, "expected one JSON object, as `vllm bench serve --save-result` writes it")
    return document


def bench_list(path: str, document: dict[str, object], key: str) -> list[object]:
    """One of the lists with a value per request.

    Raises:
        TraceError: it isn't there, or not as long as the list of prompts.
    """
    values, prompts = document.get(key), document.get("input_lens")
    if not isinstance(values, list):
        hint = "newer versions of vLLM write it; its lengths can be drawn by empirical(FILE, input_lens)"
        remedy = hint if key == "start_times" else "write it with --save-detailed"
        raise TraceError(path, f'no list "{key}": {remedy}')
    if isinstance(prompts, list) and len(values) != len(prompts):
        raise TraceError(
            path, f'"{key}" has {len(values)} values, "input_lens" has {len(prompts)}: the file is damaged'
        )
    return values


def _rows(file: TraceFile, columns: Columns, batches: Callable[[TraceFile, Choose], Batches]) -> Iterator[TraceRow]:
    names: tuple[str, ...] = ()
    unit_ns: int | None = None

    def choose(there: list[str]) -> Sequence[str]:
        nonlocal names, unit_ns
        found = columns.found_in(file.path, there)
        assert found.arrival is not None, "found_in() names it"
        names = (found.arrival, found.prompt, found.output, *([found.hash_ids] if found.hash_ids else []))
        unit_ns = found.unit_ns
        return names

    for lines, cells in batches(file, choose):
        try:
            yield from _quick_rows(lines, cells, unit_ns)
        except ValueError:  # something is unusual: row by row, to say what and where if it is wrong
            for line, row in zip(lines, zip(*cells, strict=True), strict=True):
                yield _row(file.path, line, row, names, unit_ns)


def _quick_rows(lines: Sequence[int], cells: Sequence[Sequence[object]], unit_ns: int | None) -> Iterator[TraceRow]:
    """The same as `_row` of each, column by column: twice as fast.

    Raises:
        ValueError: a cell isn't what it nearly always is.
    """
    prompts, outputs = read_plain_numbers(cells[1]), read_plain_numbers(cells[2])
    if not 1 <= min(prompts) <= max(prompts + outputs) <= MAX_TOKENS:
        raise ValueError("out of range")
    times = read_times_ns(cells[0], unit_ns)
    ids = map(read_hash_ids, cells[3]) if len(cells) > 3 else repeat(())
    return map(TRACE_ROW, zip(lines, times, prompts, [n or 1 for n in outputs], ids, strict=False))


def _row(path: str, line: int, cells: Sequence[object], names: Sequence[str], unit_ns: int | None) -> TraceRow:
    at = 0
    try:
        arrival_ns = read_time_ns(cells[0], unit_ns)
        at = 1
        prompt_tokens = read_tokens(cells[1], 1)
        at = 2
        output_tokens = read_tokens(cells[2], 0) or 1  # MODEL.md, "Traffic"
        at = 3
        hash_ids = read_hash_ids(cells[3]) if len(cells) > 3 else ()
    except ValueError as error:
        raise TraceError(path, str(error), line=line, field=names[at], value=cells[at]) from None
    return TraceRow(line, arrival_ns, prompt_tokens, output_tokens, hash_ids)
