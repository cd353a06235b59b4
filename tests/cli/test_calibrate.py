"""`kvlab calibrate`: what it prints, what it writes, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.terminals import Cli
from tests.measurements import BENCH, TRUE, random_loads, step_log, write_bench

from kvlab.step_time.profiles import read_profile


def log_in(folder: Path) -> str:
    path = folder / "steps.csv"
    path.write_text(step_log(TRUE, random_loads(600), noise=0.02), encoding="utf-8")
    return str(path)


def test_coefficients_have_units_and_the_error_is_shown(cli: Cli, tmp_path: Path) -> None:
    result = cli("calibrate", log_in(tmp_path))
    assert result.code == 0
    assert "fitted to 300 decode-only and 300 mixed steps" in result.out
    assert "per 1,000 tokens of context" in result.out
    assert "Held-out error, decode steps: " in result.out
    assert "decode_context " in result.out
    assert "Warning" not in result.out


def test_out_writes_a_profile_that_reads_back(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    result = cli("calibrate", log_in(tmp_path), "--out", str(out), "--gpu", "L40S-48GB", "--tp", "2")
    assert result.code == 0
    profile = read_profile(out)
    assert (profile.name, profile.gpu, profile.tp, profile.assumed) == ("steps", "L40S-48GB", 2, False)
    assert str(out) in result.err


def test_json_is_the_profile(cli: Cli, tmp_path: Path) -> None:
    result = cli("calibrate", log_in(tmp_path), "--json", "--kind", "knee")
    assert json.loads(result.out)["step_time"]["kind"] == "knee"
    again = cli("calibrate", log_in(tmp_path), "--json", "--kind", "knee")
    assert again.out == result.out


def test_benchmark_results_say_what_they_cant(cli: Cli, tmp_path: Path) -> None:
    result = cli("calibrate", *write_bench(tmp_path, BENCH, [(1, 500, 200), (8, 500, 200), (32, 500, 200)]))
    assert result.code == 0
    assert "Warning: all runs have prompts and answers of one length" in result.out
    assert "Assumed: each run is in a steady state" in result.out


def test_errors_name_file_and_line(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("dur_ms,num_decodes,decode_context\n1,1,1\n2,two,2\n", encoding="utf-8")
    result = cli("calibrate", str(path))
    assert result.code == 2
    assert f'{path}, line 3: num_decodes = "two": expected a number' in result.err
    result = cli("calibrate", str(tmp_path / "none.csv"))
    assert result.code == 2
    assert "none.csv: can't be read: No such file" in result.err
