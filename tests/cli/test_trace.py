from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from tests.cli.terminals import Cli, program
from tests.shared import shared_file

from kvlab.workloads.traces import TRACE_FORMATS, read_trace

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:47.6805900,396,109
2023-11-16 18:15:49.6805900,879,55
"""


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    file = tmp_path / "azure.csv"
    file.write_text(AZURE)
    return file


def test_describe_says_how_many_how_fast_and_how_long(cli: Cli, azure: Path) -> None:
    code, out, err = cli("trace", "describe", azure)
    assert (code, err) == (0, "")
    assert (
        out
        == f"""\
{azure} (azure): 3 requests in 3 s

arrivals  0.667 requests/s
gaps      CV 0.333, burstiness 9 (Poisson: 1)

tokens  mean  p50  p95  p99  max
prompt   550  396  879  879  879
output  69.3   55  109  109  109
"""
    )


def test_describe_as_json(cli: Cli, azure: Path) -> None:
    document = json.loads(cli("trace", "describe", azure, "--json").out)
    assert (document["format"], document["num_requests"], document["span_ns"]) == ("azure", 3, 3 * 10**9)
    assert document["output_tokens"] == {"mean": 69.333333, "p50": 55, "p95": 109, "p99": 109, "max": 109}


def test_describe_the_azure_trace(cli: Cli) -> None:
    out = cli("trace", "describe", shared_file("data/traces/azure_llm_2023_conv.csv")).out
    assert "19,366 requests" in out
    assert "5.53 requests/s, 507 in the busiest minute" in out
    assert "CV 1.09" in out
    assert "1,155" in out


def test_a_trace_of_one_instant(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n1,2,3\n1,2,3\n")
    assert "arrivals  all at once" in cli("trace", "describe", file).out


@pytest.mark.parametrize("to", TRACE_FORMATS)
def test_convert_to_every_format_and_back(cli: Cli, azure: Path, tmp_path: Path, to: str) -> None:
    other, again = tmp_path / "other", tmp_path / "again.csv"
    assert cli("trace", "convert", azure, other, "--to", to).err.startswith(f"3 requests written to {other} ({to})")
    assert f"({to})" in cli("trace", "describe", other).out
    assert cli("trace", "convert", other, again, "--to", "azure").code == 0
    # Times count from the first row and are whole seconds here, so that no format has to round them.
    assert [row[1:4] for row in read_trace(str(again))] == [row[1:4] for row in read_trace(str(azure))]


def test_convert_says_what_is_lost(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    rows = [{"timestamp": t, "input_length": 9, "output_length": 9, "hash_ids": [1]} for t in (0, 3)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "block ids of 2 prompts left out: csv has no place for them" in cli("trace", "convert", file, "-").err
    fine = tmp_path / "t.csv"
    fine.write_text("arrival_ns,prompt_tokens,output_tokens\n0,1,1\n1234567,1,1\n")
    code, out, err = cli("trace", "convert", fine, "-", "--to", "mooncake")
    assert code == 0
    assert "1 times rounded down to 1 ms" in err
    assert out.splitlines()[1] == '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1]}'


def test_convert_sorts_when_asked_to(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n9,1,1\n7,2,2\n8,3,3\n")
    assert "kvlab trace convert --sort" in cli.refuses("trace", "convert", file, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    out = cli("trace", "convert", file, "-", "--sort").out
    assert out == "arrival_ns,prompt_tokens,output_tokens\n0,2,2\n1000000000,3,3\n2000000000,1,1\n"


def test_convert_reads_mapped_columns(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("ts,in,out\n1,2,3\n2,3,4\n")
    out = cli("trace", "convert", file, "-", "--columns", "arrival=ts:ms, prompt=in, output=out").out
    assert out == "arrival_ns,prompt_tokens,output_tokens\n0,2,3\n1000000,3,4\n"


@pytest.mark.parametrize("args", [["convert"], ["cut"], ["scale", "--speed", "2"]], ids=str)
def test_no_trace_is_written_over_itself(cli: Cli, azure: Path, args: list[str]) -> None:
    link = azure.with_name("link.csv")
    link.symlink_to(azure)
    for out in (azure, link):
        assert f"{out} is the file that is read" in cli.refuses("trace", *args, azure, out)
    assert azure.read_text() == AZURE


def test_a_file_that_goes_is_said(cli: Cli, azure: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert cli("trace", "cut", azure, out).err == f"3 requests written to {out} (azure)\n"
    assert cli("trace", "cut", azure, out).err == f"3 requests written to {out} (azure), in place of what was there\n"


@pytest.mark.parametrize(
    ("name", "made", "cut"),
    [
        ("t", "csv", "azure"),
        ("t.v2", "csv", "azure"),
        ("t.csv.gz", "csv", "azure"),
        ("t.JSONL.gz", "jsonl", "jsonl"),
        ("t.json", "vllm-bench", "vllm-bench"),
        ("t.parquet", "parquet", "parquet"),
    ],
)
def test_the_name_says_the_format(cli: Cli, azure: Path, name: str, made: str, cut: str) -> None:
    out = azure.parent / name
    for args, format_name in ((["make"], made), (["convert", azure], made), (["cut", azure], cut)):
        assert f"({format_name})" in cli("trace", *args, out).err
        assert f"({format_name})" in cli("trace", "describe", out).out


def test_gz_is_packed_and_the_same_again(cli: Cli, azure: Path, tmp_path: Path) -> None:
    packed, again = tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"
    cli("trace", "cut", azure, packed)
    cli("trace", "cut", azure, again)
    assert packed.read_bytes() == again.read_bytes()
    assert gzip.decompress(packed.read_bytes()).startswith(b"TIMESTAMP")
    assert "3 requests" in cli("trace", "describe", packed).out


def test_cut_takes_a_window_or_a_number(cli: Cli, azure: Path) -> None:
    out = cli("trace", "cut", azure, "-", "--from", "1s", "--until", "2s").out
    assert out.splitlines()[1:] == ["2000-01-01 00:00:00.0000000,396,109"]
    assert len(cli("trace", "cut", azure, "-", "--num-requests", 2).out.splitlines()) == 3


def test_scale_by_a_factor_or_to_a_rate(cli: Cli, azure: Path) -> None:
    double = cli("trace", "scale", azure, "-", "--speed", 2, "--to", "burstgpt").out
    assert [line.split(",")[0] for line in double.splitlines()[1:]] == ["0", "0.5", "1.5"]
    to_rate = cli("trace", "scale", azure, "-", "--request-rate", 2, "--to", "csv").out
    assert [line.split(",")[0] for line in to_rate.splitlines()[1:]] == ["0", "333333333", "1000000000"]


def test_make_is_the_same_every_time_and_follows_its_options(cli: Cli) -> None:
    args = ("trace", "make", "-", "--num-requests", 3, "--seed", 5, "--prompt-tokens", 7, "--arrivals", "constant")
    first = cli(*args).out
    assert first == cli(*args).out
    assert [line.split(",")[:2] for line in first.splitlines()[1:]] == [
        ["0", "7"],
        ["250000000", "7"],
        ["500000000", "7"],
    ]


@pytest.mark.parametrize("to", TRACE_FORMATS)
def test_a_made_trace_runs_in_a_lab(cli: Cli, tmp_path: Path, to: str) -> None:
    file = tmp_path / "sample"
    cli("trace", "make", file, "--to", to, "--num-requests", 20)
    document = json.loads(cli("run", "preemption-lab", "--trace", file, "--json", "-q").out)
    assert document["metrics"]["arrived"] == 20


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["describe", "{}/missing.csv"], "missing.csv: can't be opened: No such file or directory"),
        (["describe", "{}"], "Is a directory"),
        (["describe", "{}/azure.csv", "--format", "asure"], 'unknown trace_format "asure": did you mean "azure"?'),
        (["describe", "{}/azure.csv", "--columns", "promt=x"], 'did you mean "prompt"?'),
        (["describe", "{}/azure.csv", "--from", "x"], '--from = "x": expected a number with a unit'),
        (["describe", "{}/azure.csv", "--from", "-1s"], "--from = -1000000000: must be at least 0"),
        (["describe", "{}/azure.csv", "--from", "2s", "--until", "1s"], "must be after --from 2 s"),
        (["describe", "{}/azure.csv", "--from", "1h"], "no request between --from and --until"),
        (["convert", "{}/azure.csv", "{}/x/y"], "can't be written: No such file or directory"),
        (["convert", "{}/azure.csv", "{}"], "a directory stands there"),
        (["convert", "{}/azure.csv", "-", "--to", "xml"], 'unknown --to "xml"'),
        (["convert", "{}/azure.csv", "-", "--to", "parquet"], "parquet is not text: name a file"),
        (["make", "{}/x.parquet.gz"], "x.parquet.gz: parquet is packed as it is; drop .gz"),
        (["make", "{}/x.gz", "--to", "parquet"], "drop .gz from the name"),
        (["make", "{}/x.csv.gz", "--to", "parquet"], "x.csv.gz ends in .csv; drop --to, or let it end in .parquet"),
        (["cut", "{}/azure.csv", "{}/x.parquet", "--to", "azure"], "or let it end in .csv"),
        (["cut", "{}/azure.csv", "-", "--num-requests", "0"], "--num-requests = 0: must be at least 1"),
        (["scale", "{}/azure.csv", "-"], "Give either --speed or --request-rate"),
        (["scale", "{}/azure.csv", "-", "--speed", "1", "--request-rate", "1"], "Give either"),
        (["scale", "{}/azure.csv", "-", "--speed", "0"], "--speed = 0: must be from 0.000001"),
        (["scale", "{}/azure.csv", "-", "--speed", "nan"], "--speed"),
        (["make", "-", "--num-requests", "-1"], "num_requests"),
        (["make", "-", "--arrivals", "gama"], 'did you mean "gamma"?'),
        (["make", "-", "--prompt-tokens", "uniform(3)"], "takes 2 values, 1 given"),
        (["descripe", "x"], "No such command 'descripe'"),
    ],
    ids=str,
)
def test_what_cannot_work_is_one_line(cli: Cli, azure: Path, args: list[str], message: str) -> None:
    assert message in cli.refuses("trace", *(arg.format(azure.parent) for arg in args))
    assert azure.read_text() == AZURE


def test_a_rate_of_one_instant_cannot_be_scaled(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n1,2,3\n")
    assert "there is no rate to scale" in cli.refuses("trace", "scale", file, "-", "--request-rate", 2)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk(cli: Cli, azure: Path) -> None:
    assert "No space left on device" in cli.refuses("trace", "convert", azure, "/dev/full")


def test_a_bad_row_leaves_no_half_written_file(cli: Cli, azure: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "t.csv"
    out.parent.mkdir()
    out.write_text("before")
    azure.write_text(AZURE + "2023-11-16 18:15:55.0000000,0,1\n")
    assert "line 5: ContextTokens" in cli.refuses("trace", "convert", azure, out)
    assert [file.name for file in out.parent.iterdir()] == ["t.csv"]
    assert out.read_text() == "before"


def test_a_trace_can_go_into_a_pipe() -> None:
    with program("trace", "make", "-", "--num-requests", 50) as make:
        out, _ = make.communicate(timeout=60)
    assert len(out.splitlines()) == 51
    assert make.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="there is no /dev/fd here")
def test_a_pipe_can_be_a_trace(cli: Cli) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, AZURE.encode())
    os.close(write_end)
    assert "3 requests" in cli("trace", "describe", f"/dev/fd/{read_end}").out
    os.close(read_end)
