"""Traces as files, one writer per format. Bytes are the same on every machine."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import BinaryIO, Final

from kvlab.units import NS_PER_MS, NS_PER_S
from kvlab.workloads.traces.rows import TraceRow

Writer = Callable[[Iterable[TraceRow], BinaryIO], None]

MOONCAKE_BLOCK_TOKENS: Final = 512
_AZURE_START: Final = datetime(2000, 1, 1)
_ROWS: Final = 4096


def write_azure(rows: Iterable[TraceRow], stream: BinaryIO) -> None:
    """Times count from 2000-01-01 and are rounded down to 100 ns."""
    _write_lines(stream, "TIMESTAMP,ContextTokens,GeneratedTokens", (
        f"{_azure_time(row.arrival_ns)},{row.prompt_tokens},{row.output_tokens}" for row in rows
    ))  # fmt: skip


def write_burstgpt(rows: Iterable[TraceRow], stream: BinaryIO) -> None:
    """Exact seconds; the model and the log type are made up."""
    _write_lines(stream, "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", (
        f"{_seconds(row.arrival_ns)},ChatGPT,{row.prompt_tokens},{row.output_tokens},"
        f"{row.prompt_tokens + row.output_tokens},API log" for row in rows
    ))  # fmt: skip


def write_mooncake(rows: Iterable[TraceRow], stream: BinaryIO) -> None:
    """Times are rounded down to ms; rows without block ids get ids of their own: nothing shared."""
    _write_lines(stream, None, _mooncake_lines(rows))


def write_vllm_bench(rows: Iterable[TraceRow], stream: BinaryIO) -> None:
    """The lists of a detailed result that describe the requests; no measured times."""
    starts, prompts, outputs = (array("q") for _ in range(3))
    for row in rows:
        starts.append(row.arrival_ns)
        prompts.append(row.prompt_tokens)
        outputs.append(row.output_tokens)
    stream.write(f'{{"num_prompts": {len(prompts)}, "completed": {len(prompts)},\n "input_lens": ['.encode())
    _write_list(stream, map(str, prompts))
    stream.write(b'],\n "output_lens": [')
    _write_list(stream, map(str, outputs))
    stream.write(b'],\n "start_times": [')
    _write_list(stream, map(_seconds, starts))
    stream.write(b"]}\n")


def write_csv(rows: Iterable[TraceRow], stream: BinaryIO) -> None:
    """kvlab's own columns, exact to the ns."""
    _write_lines(stream, "arrival_ns,prompt_tokens,output_tokens", (
        f"{row.arrival_ns},{row.prompt_tokens},{row.output_tokens}" for row in rows
    ))  # fmt: skip


def write_jsonl(rows: Iterable[TraceRow], stream: BinaryIO) -> None:
    """kvlab's own keys, exact to the ns; with block ids where there are any."""
    _write_lines(stream, None, map(_json_line, rows))


def write_parquet(rows: Iterable[TraceRow], stream: BinaryIO) -> None:
    """kvlab's own columns, exact to the ns; a column of block ids if the first rows have any."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rest = iter(rows)
    batch = list(islice(rest, _ROWS))
    fields = [("arrival_ns", pa.int64()), ("prompt_tokens", pa.int64()), ("output_tokens", pa.int64())]
    if any(row.hash_ids for row in batch):
        fields.append(("hash_ids", pa.list_(pa.int64())))
    schema = pa.schema(fields)
    with pq.ParquetWriter(stream, schema) as writer:
        while batch:
            columns = list(zip(*batch, strict=True))[1 : 1 + len(fields)]
            arrays = [pa.array(column, field[1]) for column, field in zip(columns, fields, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            batch = list(islice(rest, _ROWS))


def _write_lines(stream: BinaryIO, header: str | None, lines: Iterator[str]) -> None:
    if header is not None:
        stream.write(f"{header}\n".encode())
    while block := list(islice(lines, _ROWS)):
        block.append("")
        stream.write("\n".join(block).encode())


def _write_list(stream: BinaryIO, values: Iterator[str]) -> None:
    separator = b""
    while block := list(islice(values, _ROWS)):
        stream.write(separator + ", ".join(block).encode())
        separator = b", "


def _azure_time(arrival_ns: int) -> str:
    seconds, ns = divmod(arrival_ns, NS_PER_S)
    return f"{_AZURE_START + timedelta(seconds=seconds)}.{ns // 100:07d}"


def _seconds(arrival_ns: int) -> str:
    """Exact, without zeros at the end: "5", "0.25"."""
    seconds, ns = divmod(arrival_ns, NS_PER_S)
    return f"{seconds}.{ns:09d}".rstrip("0").rstrip(".") if ns else str(seconds)


def _json_line(row: TraceRow) -> str:
    fields: dict[str, object] = {
        "arrival_ns": row.arrival_ns, "prompt_tokens": row.prompt_tokens, "output_tokens": row.output_tokens
    }  # fmt: skip
    if row.hash_ids:
        fields["hash_ids"] = row.hash_ids
    return json.dumps(fields)


def _mooncake_lines(rows: Iterable[TraceRow]) -> Iterator[str]:
    next_id = 0
    for row in rows:
        ids = row.hash_ids
        if not ids:
            end = next_id - (-row.prompt_tokens // MOONCAKE_BLOCK_TOKENS)
            ids, next_id = tuple(range(next_id, end)), end
        yield json.dumps({
            "timestamp": row.arrival_ns // NS_PER_MS, "input_length": row.prompt_tokens,
            "output_length": row.output_tokens, "hash_ids": ids,
        })  # fmt: skip
