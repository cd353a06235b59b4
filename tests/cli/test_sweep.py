"""`kvlab sweep` and `kvlab report`: what they say, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.terminals import Cli

FEW = ("--num-requests", "5", "--workers", "1")


def test_axes(cli: Cli, tmp_path: Path) -> None:
    out = str(tmp_path / "sweep")
    result = cli("sweep", "preemption-lab", "--axis", "max_num_seqs=8,16", "--seeds", "2", "--out", out, *FEW)
    assert result.code == 0
    assert result.out.splitlines() == ["4 runs of 2 points", f"wrote {out}/sweep.parquet", f"wrote {out}/sweep.csv"]
    assert pq.read_table(f"{out}/sweep.parquet")["max_num_seqs"].to_pylist() == [8, 8, 16, 16]
    again = cli("sweep", "preemption-lab", "--axis", "max_num_seqs=8,16", "--seeds", "2", "--out", out, *FEW)
    assert again.out.startswith("4 runs of 2 points, 4 of them already there\n")


def test_a_list_of_points(cli: Cli, tmp_path: Path) -> None:
    points, out = tmp_path / "points.csv", str(tmp_path / "sweep")
    points.write_text("max_num_seqs,headroom_blocks\n64,0\n48,16\n0,0\n")
    wrong = cli("sweep", "preemption-lab", "--list", str(points), "--out", out, *FEW)
    assert wrong.code == 2
    assert f"{points}, line 4: max_num_seqs" in wrong.err
    points.write_text("max_num_seqs,headroom_blocks\n64,0\n48,16\n")
    result = cli("sweep", "preemption-lab", "--list", str(points), "--out", out, *FEW)
    assert result.code == 0
    table = pq.read_table(f"{out}/sweep.parquet")
    assert table.column_names[:3] == ["max_num_seqs", "headroom_blocks", "seed"]
    assert table["headroom_blocks"].to_pylist() == [0, 16]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "--axis max_num_seqs=16,32,64, or --list FILE"),
        (("--list", "points.csv", "--axis", "max_num_seqs=8"), "leave out --axis"),
        (("--list", "points.csv", "--sample", "3"), "leave out --sample"),
        (("--axis", "max_num_seqs=1:1000000:1"), "at most 100,000 values"),
        (("--axis", "max_num_seqs=1:20000:1", "--seeds", "10"), "at most 100,000 runs"),
        (("--axis", "max_num_seqs=8", "--sample", "0"), "sample"),
        (("--axis", "max_num_seqs=8", "--max-num-seqs", "9"), "give it once"),
        (("--axis", "max_num_seqs=8", "--seeds", "0"), "from 1 to 10,000"),
        (("--axis", "max_num_seqs=8", "--out", ""), "out"),
        (("--axis", "max_num_seqs=8", "--address", "10.0.0.1:6379"), "--executor ray"),
        (("--axis", "max_num_seqs=8", "--executor", "ray", "--address", "10.0.0.1"), "host:port"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    out = () if "--out" in arguments else ("--out", str(tmp_path / "out"))
    result = cli("sweep", "preemption-lab", *out, *arguments, *FEW)
    assert result.code == 2
    assert problem in result.err


def test_what_is_run_once_is_said(cli: Cli, tmp_path: Path) -> None:
    axis = ("--axis", "max_num_seqs=8,16", "--sample", "5")
    result = cli("sweep", "preemption-lab", *axis, "--out", str(tmp_path / "sample"), *FEW)
    assert result.out.startswith("2 runs of 2 points (5 with repeats, which are run once)\n")
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,10\n")
    replay = ("--trace", str(trace), "--axis", "trace_speed=1", "--seeds", "2", "--workers", "1")
    result = cli("sweep", "preemption-lab", *replay, "--out", str(tmp_path / "trace"))
    assert result.out.startswith("1 run of 1 point; a trace is run once: it draws nothing, whatever the seed\n")


def test_where_nothing_could_be_run_the_sweep_fails_and_its_report_says_so(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    result = cli("sweep", "block-table-lab", "--axis", "kv_memory_bytes=64KiB,128KiB", "--out", str(out), *FEW)
    assert result.code == 1
    assert result.out.startswith("2 runs of 2 points; 2 failed\n")
    assert "the first that failed: kv_memory_bytes=65536: " in result.err
    assert cli("report", str(out)).code == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "All 2 runs were impossible" in page
    assert "Plotly.newPlot" not in page


def test_a_server_as_its_command_line_has_it(cli: Cli, tmp_path: Path) -> None:
    server = ("--vllm", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-seqs 64", "--gpu", "L40S-48GB")
    result = cli("sweep", *server, "--axis", "block_size=16,32", "--out", str(tmp_path / "sweep"), *FEW)
    assert result.code == 0
    about = json.loads((tmp_path / "sweep" / "sweep.json").read_text(encoding="utf-8"))
    assert (about["settings"]["max_num_seqs"], about["settings"]["gpu"]) == ("64", "L40S-48GB")


def test_another_sweep_in_the_folder_is_refused(cli: Cli, tmp_path: Path) -> None:
    out = str(tmp_path / "sweep")
    assert cli("sweep", "preemption-lab", "--axis", "max_num_seqs=8", "--out", out, *FEW).code == 0
    other = ("sweep", "preemption-lab", "--axis", "headroom_blocks=8", "--out", out, *FEW)
    refused = cli(*other)
    assert refused.code == 2
    assert "holds a sweep of max_num_seqs" in refused.err
    assert cli(*other, "--overwrite").code == 0


def test_a_report_needs_a_sweep(cli: Cli, tmp_path: Path) -> None:
    result = cli("report", str(tmp_path / "nowhere"))
    assert result.code == 2
    assert result.err == f"kvlab: error: {tmp_path}/nowhere: there is no such folder: make one with kvlab sweep ... --out DIR\n"  # fmt: skip # noqa: E501
