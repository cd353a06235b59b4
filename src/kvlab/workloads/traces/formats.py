"""The formats of traces, and which one a file is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Final

from kvlab.errors import ConfigError, TraceError, UnknownNameError
from kvlab.workloads.traces.columns import Columns, parse_columns
from kvlab.workloads.traces.files import TraceFile, open_trace
from kvlab.workloads.traces.readers import (
    AZURE,
    BURSTGPT,
    MOONCAKE,
    Reader,
    read_azure,
    read_burstgpt,
    read_csv,
    read_jsonl,
    read_mooncake,
    read_parquet,
    read_vllm_bench,
)
from kvlab.workloads.traces.rows import TRACE_ROW, TraceRow
from kvlab.workloads.traces.writers import (
    Writer,
    write_azure,
    write_burstgpt,
    write_csv,
    write_jsonl,
    write_mooncake,
    write_parquet,
    write_vllm_bench,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """An entry of `TRACE_FORMATS`."""

    summary: str
    suffix: str
    """Of files that kvlab writes."""
    read: Reader
    write: Writer
    own_columns: bool = False
    """Whether its columns are given, so that naming others makes no sense."""
    resolution_ns: int = 1
    """What arrival times are rounded down to when they are written."""
    has_hash_ids: bool = False
    """Whether block ids of prompts are kept."""


TRACE_FORMATS: Final[dict[str, TraceFormat]] = {
    "azure": TraceFormat(
        summary="Azure LLM inference traces 2023 and 2024 (CSV)",
        suffix=".csv", read=read_azure, write=write_azure, own_columns=True, resolution_ns=100,
    ),
    "burstgpt": TraceFormat(
        summary="BurstGPT (CSV)",
        suffix=".csv", read=read_burstgpt, write=write_burstgpt, own_columns=True,
    ),
    "mooncake": TraceFormat(
        summary="Mooncake, with block ids of prompts (JSONL)",
        suffix=".jsonl", read=read_mooncake, write=write_mooncake, own_columns=True, resolution_ns=1_000_000,
        has_hash_ids=True,
    ),
    "vllm-bench": TraceFormat(
        summary="result of `vllm bench serve --save-detailed` (JSON)",
        suffix=".json", read=read_vllm_bench, write=write_vllm_bench, own_columns=True,
    ),
    "csv": TraceFormat(summary="any CSV with a header", suffix=".csv", read=read_csv, write=write_csv),
    "jsonl": TraceFormat(
        summary="any file with a JSON object per line", suffix=".jsonl", read=read_jsonl, write=write_jsonl,
        has_hash_ids=True,
    ),
    "parquet": TraceFormat(
        summary="any Parquet table", suffix=".parquet", read=read_parquet, write=write_parquet, has_hash_ids=True
    ),
}  # fmt: skip
"""Name of a trace format, as in scenarios -> how it is read and written."""


def trace_format(name: str, field: str = "trace_format") -> TraceFormat:
    """The format of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in TRACE_FORMATS:
        raise UnknownNameError(field, name, TRACE_FORMATS)
    return TRACE_FORMATS[name]


def check_reading(name: str | None, columns: str | None) -> None:
    """Whether a format and a column mapping go together.

    Raises:
        ConfigError: no such format, a mapping that can't be read, or one for a format with columns of its own.
    """
    chosen = None if name is None else trace_format(name)
    if columns is not None:
        parse_columns(columns, "trace_columns")
        if chosen is not None and chosen.own_columns:
            raise ConfigError("trace_columns", columns, f"{name} has columns of its own; take csv, jsonl or parquet")


def read_trace(
    path: str, format_name: str | None = None, columns: str | None = None, *, in_order: bool = True
) -> Iterator[TraceRow]:
    """Rows of a trace, one by one; arrivals count from the first row.

    Args:
        format_name: a key of `TRACE_FORMATS`; None detects it.
        columns: a mapping for csv, jsonl and parquet, see `parse_columns`.
        in_order: whether a row that arrives before the one above it is an error.
    Raises:
        TraceError: the file can't be used, or a row: names the line, the field and the value.
        ConfigError: see `check_reading`.
    """
    with reading(path, format_name, columns, in_order=in_order) as (_, rows):
        yield from rows


@contextmanager
def reading(
    path: str, format_name: str | None = None, columns: str | None = None, *, in_order: bool = True
) -> Iterator[tuple[str, Iterator[TraceRow]]]:
    """The name of the format, and the rows, while the file is open; see `read_trace`."""
    check_reading(format_name, columns)
    wanted = Columns() if columns is None else parse_columns(columns, "trace_columns")
    with open_trace(path) as file:
        name = format_name or detect_format(file, own_columns=columns is None)
        yield name, _shifted(path, TRACE_FORMATS[name].read(file, wanted), in_order)


def detect_format(file: TraceFile, *, own_columns: bool = True) -> str:
    """The format of an open file, from its first bytes.

    Args:
        own_columns: False where the user named columns: then only csv, jsonl and parquet are meant.
    Raises:
        TraceError: none of the formats.
    """
    head = file.head
    if head.startswith(b"PAR1"):
        return "parquet"
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    first, _, more = text.partition("\n")
    if first.startswith("{"):
        keys = _keys(first)
        if keys is None:  # an object over several lines, or a very long one
            return "jsonl" if more.startswith("{") else "vllm-bench"
        if "input_lens" in keys:
            return "vllm-bench"
        return "mooncake" if own_columns and _most_are_there(MOONCAKE, keys) else "jsonl"
    if "\0" in first or "\ufffd" in first or (not more and "," not in first):
        known = ", ".join(TRACE_FORMATS)
        raise TraceError(file.path, f"no trace of a known format ({known}); name its format if it is one")
    header = {name.strip() for name in first.split(",")}
    for name, columns in (("azure", AZURE), ("burstgpt", BURSTGPT)):
        if own_columns and _most_are_there(columns, header):
            return name
    return "csv"


def _most_are_there(columns: Columns, names: set[str]) -> bool:
    """Two of three will do: then a misspelt third is named as what it is."""
    return len(names & {columns.arrival, columns.prompt, columns.output}) >= 2


def _keys(line: str) -> set[str] | None:
    """The keys of a JSON object; None if the line is no whole one."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return set(row) if isinstance(row, dict) else None


def _shifted(path: str, rows: Iterator[TraceRow], in_order: bool) -> Iterator[TraceRow]:
    """Arrivals from the first row on."""
    first = next(rows, None)
    if first is None:
        raise TraceError(path, "no rows: a trace has at least one request")
    start_ns = before_ns = first.arrival_ns
    for row in chain([first], rows):
        line, arrival_ns, prompt_tokens, output_tokens, hash_ids = row
        if arrival_ns < before_ns and in_order:
            problem = "arrives before the row above it; sort the file first: kvlab trace convert --sort"
            raise TraceError(path, problem, line=line)
        before_ns = arrival_ns
        yield TRACE_ROW((line, arrival_ns - start_ns, prompt_tokens, output_tokens, hash_ids))
