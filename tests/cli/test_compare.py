"""`kvlab compare`: runs side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.terminals import Cli

from kvlab.cli.compare import _split

SHORT = ("-q", "--set", "duration_ns=20s")


def test_the_lever_is_seen_to_mend(cli: Cli) -> None:
    code, out, err = cli("compare", "preemption-lab", "preemption-lab:max_num_seqs=48", "-q")
    assert (code, err) == (0, "")
    lines = {line[:30].strip(): line.split() for line in out.splitlines()}
    assert out.startswith("A  preemption-lab-v1 · 449 arrived = 449 finished + 0 rejected\n")
    assert "B  preemption-lab-v1 · max_num_seqs 48 (preset: 64)" in out
    assert "The same requests in all: differences come from the server." in out
    assert lines["ITL max"][2:] == ["1.02", "s", "101", "ms", "-90.1", "%", "better"]
    assert lines["TTFT p50"][-3:] == ["+8.21", "%", "worse"]
    assert lines["Requests paused over 1 s"][-3:] == ["-0.223", "pp", "better"]
    assert lines["KV usage, peak"][-1] == "same"
    assert max(map(len, out.splitlines())) <= 80


def test_a_stored_result_is_one_side(cli: Cli, tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text(cli("run", "preemption-lab", "-q", "--seed", "2", "--json").out)
    out = cli("compare", stored, "preemption-lab:seed=2", "-q").out
    assert "A  preemption-lab-v1 · stored result · seed 2 (preset: 1)" in out
    assert "better" not in out
    assert "worse" not in out
    assert "can't be changed" in cli.refuses("compare", stored, "preemption-lab", "--set", "seed=2")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"preemptions": 67', '"preemptions": 1e400', "a damaged result: metric preemptions is inf"),
        ('"arrived": 449', '"arrived": 3', "a damaged result: arrived is 3"),
        ('"seed": 1', '"sed": 1', 'did you mean "seed"?'),
        ('"server": {', '"servers": {', "servers"),
    ],
)
def test_a_damaged_result_is_named(old: str, new: str, problem: str, cli: Cli, tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text(cli("run", "preemption-lab", "-q", "--json").out.replace(old, new))
    assert problem in cli.refuses("compare", stored, stored, "--all")


def test_scenario_files_and_changes_after_a_colon(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    assert cli("run", "block-table-lab", "-q", "--seed", "4", "--save-scenario", path).code == 0
    out = cli("compare", path, f"{path}:block_size=64", *SHORT).out
    assert out.count("seed 4 (preset: 1)") == 2
    assert "block_size 64 (preset: 16)" in out


def test_other_traffic_is_said(cli: Cli) -> None:
    lab = "block-table-lab"
    assert "The traffic differs in seed: " in cli("compare", lab, f"{lab}:seed=2", *SHORT).out
    assert "but for answers that max_tokens cuts" in cli("compare", lab, f"{lab}:max_tokens=300", *SHORT).out
    said = cli("compare", "preemption-lab", lab, *SHORT).out
    assert "The traffic differs in output_tokens, prompt_tokens, request_rate: " in said


def test_more_than_two_are_each_put_against_the_first(cli: Cli) -> None:
    sides = [f"preemption-lab:max_num_seqs={n}" for n in (4, 8, 16)]
    out = cli("compare", *sides, *SHORT).out
    heads = [line.split() for line in out.splitlines() if line.endswith("change")]
    assert heads == [["A", "B", "change"], ["A", "C", "change"]]
    everything = cli("compare", *sides, *SHORT, "--all").out
    assert "Prefill tokens" in everything
    assert "Prefill tokens" not in out


def test_json_holds_values_deltas_and_verdicts(cli: Cli) -> None:
    sides = ["preemption-lab", "preemption-lab:max_num_seqs=4"]
    document = json.loads(cli("compare", *sides, *SHORT, "--json").out)
    assert document["same_traffic"] is True
    assert document["metrics"]["peak_running"]["values"][1] == 4
    assert document["metrics"]["p95_ttft_ns"]["verdicts"] == ["worse"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a=1", ["a=1"]),
        ("a=1, b=2,", ["a=1", "b=2"]),
        ("a=exponential(250, max=9),b=2", ["a=exponential(250, max=9)", "b=2"]),
        ('a=empirical("x,y", c),b=2', ['a=empirical("x,y", c)', "b=2"]),
        ("a=),b=2", ["a=)", "b=2"]),
    ],
)
def test_changes_are_cut_outside_brackets_and_quotes(text: str, parts: list[str]) -> None:
    assert _split(text) == parts
