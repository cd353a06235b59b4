"""Files as people have them: good ones, and every way of being broken that we thought of."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kvlab.errors import TraceError
from kvlab.workloads.traces import TraceRow, read_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROW_1 = "2023-11-16 18:15:46.6805900,374,44\n"
ROW_2 = "2023-11-16 18:15:50.9951690,396,109\n"
GOOD = HEADER + ROW_1 + ROW_2
ROWS = [TraceRow(2, 0, 374, 44), TraceRow(3, 4_314_579_000, 396, 109)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace"


def read(file: Path, content: str | bytes, **options: str) -> list[TraceRow]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_trace(str(file), **options))


def problem(file: Path, content: str | bytes, **options: str) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(file, content, **options)
    assert caught.value.path == str(file)
    return caught.value


def test_azure(file: Path) -> None:
    assert read(file, GOOD) == ROWS


def test_burstgpt_and_a_failed_request(file: Path) -> None:
    rows = read(
        file,
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45.25,ChatGPT,1087,0,1087,API log\n",
    )
    assert rows == [TraceRow(2, 0, 472, 18), TraceRow(3, 40_250_000_000, 1087, 1)]


def test_mooncake_keeps_block_ids(file: Path) -> None:
    rows = read(
        file,
        '{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [7, 8]}\n'
        '{"timestamp": 3000, "input_length": 5, "output_length": 0, "hash_ids": [7]}\n',
    )
    assert rows == [TraceRow(1, 0, 600, 3, (7, 8)), TraceRow(2, 3_000_000_000, 5, 1, (7,))]


BENCH = {"date": "x", "input_lens": [10, 20, 30], "output_lens": [1, 2, 0], "start_times": [7.5, 7.25, 9]}


def test_vllm_bench_comes_in_order_of_start_and_without_failures(file: Path) -> None:
    rows = read(file, json.dumps(BENCH | {"errors": ["", "", "timeout"], "itls": [[0.1], [], []]}))
    assert rows == [TraceRow(2, 0, 20, 2), TraceRow(1, 250_000_000, 10, 1)]
    assert len(read(file, json.dumps(BENCH, indent=1))) == 3


def test_csv_with_own_columns(file: Path) -> None:
    assert read(file, "arrival_ms,prompt_tokens,output_tokens,x\n5,10,2,a\n6.5,20,3,b\n") == [
        TraceRow(2, 0, 10, 2),
        TraceRow(3, 1_500_000, 20, 3),
    ]


def test_csv_with_a_mapping(file: Path) -> None:
    rows = read(
        file, 'id,"in, real",out,ts\nq,10,2,5\nr,20,3,7\n', columns='arrival=ts:s, prompt="in, real", output=out'
    )
    assert rows == [TraceRow(2, 0, 10, 2), TraceRow(3, 2_000_000_000, 20, 3)]


def test_a_mapping_goes_before_a_known_header(file: Path) -> None:
    rows = read(file, GOOD, columns="arrival=TIMESTAMP, prompt=GeneratedTokens, output=ContextTokens")
    assert [row[2:4] for row in rows] == [(44, 374), (109, 396)]


def test_csv_values_over_several_lines_keep_line_numbers(file: Path) -> None:
    text = 'arrival_s,prompt_tokens,output_tokens,text\n1,2,3,"a\nb, ""c"""\n4,5,6,d\n7,x,9,e\n'
    error = problem(file, text)
    assert (error.line, error.field, error.value) == (5, "prompt_tokens", "x")


def test_jsonl(file: Path) -> None:
    text = '{"arrival_s": 0.5, "prompt_tokens": 10, "output_tokens": 2, "hash_ids": [1]}\n\n'
    assert read(file, text + text.replace("0.5", "0.75")) == [
        TraceRow(1, 0, 10, 2, (1,)),
        TraceRow(3, 250_000_000, 10, 2, (1,)),
    ]


def test_parquet_with_times_of_any_unit_and_block_ids(file: Path) -> None:
    for unit, zone in (("s", None), ("us", None), ("ns", "UTC")):
        times = pa.array([1_700_000_000, 1_700_000_002], pa.int64()).cast(pa.timestamp("s", tz=zone))
        table = {
            "arrival_s": times.cast(pa.timestamp(unit, tz=zone)),
            "prompt_tokens": [10, 20],
            "output_tokens": [1, 0],
        }
        pq.write_table(pa.table(table | {"hash_ids": [[1, 2], []]}), file)
        assert list(read_trace(str(file))) == [TraceRow(1, 0, 10, 1, (1, 2)), TraceRow(2, 2 * 10**9, 20, 1)]


def test_parquet_with_floats_and_a_gap(file: Path) -> None:
    pq.write_table(pa.table({"t": [0.5, 0.8], "p": [10.0, None], "o": [1, 2]}), file)
    with pytest.raises(TraceError, match=r"line 2: p = None: expected a whole number"):
        list(read_trace(str(file), columns="arrival=t:s, prompt=p, output=o"))


@pytest.mark.parametrize(
    "content",
    [
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        GOOD[:-1],
        GOOD.replace(ROW_2, "\n\n" + ROW_2 + "\n"),
        gzip.compress(GOOD.encode()),
        gzip.compress(HEADER.encode()) + gzip.compress((ROW_1 + ROW_2).encode()),
        GOOD.replace(",", " , ").replace("TIMESTAMP ", "TIMESTAMP"),
    ],
    ids=["crlf", "byte order mark", "no last line end", "blank lines", "gzip", "two gzip members", "spaces"],
)
def test_harmless_differences(file: Path, content: str | bytes) -> None:
    assert [row[1:] for row in read(file, content)] == [row[1:] for row in ROWS]


@pytest.mark.parametrize(
    ("content", "line", "field", "text"),
    [
        ("", None, None, "the file is empty"),
        (HEADER, None, None, "no rows"),
        (HEADER + "2023-11-16 18:15", 2, None, "1 values, but the header has 3 columns"),
        (HEADER + ROW_1 + "2023-11-16 18:15:50.9951690,396", 3, None, "2 values"),
        (HEADER + ROW_1 + "2023-11-16 18:15:50.9951690,396,1,1\n", 3, None, "4 values"),
        (HEADER + ROW_2 + ROW_1, 3, None, "sort the file first: kvlab trace convert --sort"),
        (HEADER + ROW_1 + ROW_2.replace("396", "NaN"), 3, "ContextTokens", '"NaN": expected a whole number'),
        (HEADER + ROW_1 + ROW_2.replace("396", "-396"), 3, "ContextTokens", "negative"),
        (HEADER + ROW_1 + ROW_2.replace("396", "0"), 3, "ContextTokens", "at least one token"),
        (HEADER + ROW_1 + ROW_2.replace("109", "9" * 40), 3, "GeneratedTokens", "at most 10,000,000"),
        (HEADER + ROW_1 + ROW_2.replace("109", ""), 3, "GeneratedTokens", "there is no value"),
        (HEADER + ROW_1.replace("11-16", "13-16"), 2, "TIMESTAMP", "month"),
        (HEADER.replace("Context", "Contxt") + ROW_1, 1, None, 'did you mean "ContxtTokens"?'),
        (HEADER.replace("GeneratedTokens", "Answer") + ROW_1, 1, None, 'no column "GeneratedTokens": There are: TIME'),
        ("arrival_s,output_tokens\n1,2\n", 1, None, 'no column "prompt_tokens": There are: arrival_s'),
        ("arrival_s,prompt_tokens,prompt_tokens,output_tokens\n1,2,3,4\n", 1, None, "there 2 times"),
        ("ts,prompt_tokens,output_tokens\n1,2,3\n", 1, None, 'no column "arrival_s"'),
        ("arrival_s;prompt_tokens;output_tokens\n1;2;3\n", 1, None, "parted by commas"),
        (HEADER + ROW_1 + '"2023-11-16 18:15:50.9951690"x,396,109\n', 3, None, "not CSV"),
        (HEADER + ROW_1 + '"2023-11-16 18:15:50.9951690,396,109\n', 3, None, "not CSV"),
        (GOOD.replace("\n", "\r"), 1, None, "not CSV"),
        (GOOD.encode("utf-16"), None, None, "no trace of a known format"),
        (bytes(range(256)) * 9, None, None, "no trace of a known format"),
        (GOOD.encode() + b"\xff\xfe,1,2\n", 4, None, "not UTF-8 text"),
        (GOOD.encode() + b"2023\x00,1,2\n", 4, None, "binary data"),
        (gzip.compress(Random(1).randbytes(9000).hex().encode())[:3000], None, None, "ends too early"),
        (gzip.compress(GOOD.encode())[:-8] + b"\0" * 8, None, None, "damaged gzip"),
        (gzip.compress(GOOD.encode())[:10] + b"\xff" * 90, None, None, "damaged gzip"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 3, "hash_ids": [1]}\n{"timest', 2, None, "starting at"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 3, "hash_ids": [1]}\n[1]\n', 2, "row", "JSON object"),
        ('{"timestamp": 0, "input_length": NaN, "output_length": 3, "hash_ids": [1]}\n', 1, None, "NaN is not"),
        ('{"timestamp": 0, "input_length": true, "output_length": 3, "hash_ids": [1]}\n', 1, "input_length", "True"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 3, "hash_ids": 1}\n', 1, "hash_ids", "list of whole"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 3}\n', 1, None, 'no column "hash_ids"'),
        ('{"timestamp": 0, "input_len": 1, "output_length": 3, "hash_ids": []}\n', 1, None, 'mean "input_len"'),
        ('{"a":' * 100_000, None, None, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}\n", None, None, "thousands of digits"),
        (json.dumps(BENCH | {"output_lens": [1]}), None, None, '"output_lens" has 1 values, "input_lens" has 3'),
        (json.dumps(BENCH | {"output_lens": [1, "x", 2]}), 2, "output_lens", "whole number"),
        (json.dumps({k: v for k, v in BENCH.items() if k != "start_times"}), None, None, 'no list "start_times"'),
        (b"PAR1" + bytes(100), None, None, "damaged Parquet file"),
        (HEADER + "x" * 9_000_000, 2, None, "more than 8 MiB"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_line_field_and_value(
    file: Path, content: str | bytes, line: int | None, field: str | None, text: str
) -> None:
    error = problem(file, content)
    assert (error.line, error.field) == (line, field)
    assert text in str(error)


def test_a_bad_row_far_down_is_found_at_its_line(file: Path) -> None:
    rows = [f"{i},{i + 1},5\n" for i in range(5000)]
    rows[4321] = "4321,x,5\n"
    error = problem(file, "arrival_s,prompt_tokens,output_tokens\n" + "".join(rows))
    assert (error.line, error.field, error.value) == (4323, "prompt_tokens", "x")


def test_rows_before_a_bad_one_are_delivered(file: Path) -> None:
    file.write_text("arrival_s,prompt_tokens,output_tokens\n1,2,3\n2,2,3\n3,0,3\n")
    rows = read_trace(str(file))
    assert [next(rows)[1], next(rows)[1]] == [0, 10**9]
    with pytest.raises(TraceError, match="line 4"):
        next(rows)


def test_columns_without_a_unit_need_one(file: Path) -> None:
    error = problem(file, "ts,prompt_tokens,output_tokens\n1,2,3\n", columns="arrival=ts")
    assert (error.line, error.field, error.value) == (2, "ts", "1")
    assert "arrival=COLUMN:ms" in str(error)


def test_a_format_can_be_forced(file: Path) -> None:
    assert "not JSON" in str(problem(file, GOOD, format_name="mooncake"))
    assert "damaged Parquet" in str(problem(file, GOOD, format_name="parquet"))
    assert "one JSON object" in str(problem(file, "[1]", format_name="vllm-bench"))


def test_an_unsorted_file_can_be_read_to_sort_it(file: Path) -> None:
    file.write_text(HEADER + ROW_2 + ROW_1)
    rows = list(read_trace(str(file), in_order=False))
    assert [row.arrival_ns for row in rows] == [0, -4_314_579_000]


@pytest.mark.parametrize("name", ["", ".", "missing", "nul\0byte"])
def test_what_cannot_be_opened(name: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="can't be opened"):
        list(read_trace(f"{tmp_path}/{name}"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read anything")
def test_no_permission(file: Path) -> None:
    file.write_text(GOOD)
    file.chmod(0)
    with pytest.raises(TraceError, match="Permission denied"):
        list(read_trace(str(file)))


def test_memory_does_not_grow_with_the_file(file: Path) -> None:
    """The peak of a file four times as long is the same, to within one batch."""

    def peak(num_rows: int) -> int:
        with file.open("w") as stream:
            stream.write(HEADER)
            for _ in range(num_rows // 100):
                stream.write(ROW_1 * 100)
        tracemalloc.start()
        assert sum(1 for _ in read_trace(str(file))) == num_rows
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(40_000) < peak(20_000) + 300_000
