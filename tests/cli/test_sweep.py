"""`kvlab sweep` and `kvlab report`: what they say, write and refuse."""

from __future__ import annotations

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
        (("--axis", "max_num_seqs=8", "--address", "10.0.0.1:6379"), "--executor ray"),
        (("--axis", "max_num_seqs=8", "--executor", "ray", "--address", "10.0.0.1"), "host:port"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    result = cli("sweep", "preemption-lab", "--out", str(tmp_path / "out"), *arguments, *FEW)
    assert result.code == 2
    assert problem in result.err


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
