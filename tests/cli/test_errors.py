"""Whatever is asked for: a result, or one clear line and exit code 2. Never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminals import Cli, program

from kvlab.cli import program as command_line

HOSTILE = ["0", "-1", "1e400", "nan", "inf", "abc", "", " ", "٣", "99999999999999999999999", "1;2"]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    ("lab", "flag", "field"),
    [
        ("preemption-lab", "--max-num-seqs", "max_num_seqs"),
        ("preemption-lab", "--gpu-memory-utilization", "gpu_memory_utilization"),
        ("preemption-lab", "--request-rate", "request_rate"),
        ("preemption-lab", "--base-ns", "base_ns"),
        ("preemption-lab", "--duration", "duration_ns"),
        ("block-table-lab", "--kv-memory", "kv_memory_bytes"),
        ("block-table-lab", "--block-size", "block_size"),
        ("block-table-lab", "--set=num_samples", "num_samples"),
    ],
)
def test_a_hostile_value_names_its_field(lab: str, flag: str, field: str, value: str, cli: Cli) -> None:
    assert field in cli.refuses("run", lab, "-q", f"{flag}={value}")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["runn"], 'unknown command "runn": did you mean "run"?'),
        (["run"], "which scenario? Give a preset or a file, or --vllm COMMAND or --vllm-log FILE"),
        (["run", "preemption-labb"], 'unknown preset or file "preemption-labb": did you mean "preemption-lab"?'),
        (["run", ""], 'unknown preset or file ""'),
        (["run", "/nonexistent/x.json"], "can't read /nonexistent/x.json: No such file or directory"),
        (["run", "."], "can't read .: Is a directory"),
        (["run", "preemption-lab", "--max-num-seq", "3"], "--max-num-seqs"),
        (["run", "preemption-lab", "--set", "max_num_seq=3"], 'did you mean "max_num_seqs"?'),
        (["run", "preemption-lab", "--set", "max_num_seqs"], "expected FIELD=VALUE"),
        (["run", "preemption-lab", "--set", "=3"], "expected FIELD=VALUE"),
        (["run", "preemption-lab", "--set", "seed=3", "--set", "seed=4"], 'seed = "4": is given twice'),
        (["run", "preemption-lab", "--set", "seed=3", "--seed", "4"], "is given twice, as a flag and by --set"),
        (["run", "preemption-lab", "--allocator", "paged"], 'allocator = "paged": a setting of the block-table-lab'),
        (["run", "preemption-lab", "--burst", "x"], "unexpected extra argument (x)"),
        (["run", "preemption-lab", "--slo", "speed<=1s"], "Known: ttft, tpot, gap, e2e"),
        (["run", "preemption-lab", "--from", "3s"], "there is no trace"),
        (["run", "preemption-lab", "--trace", "/nonexistent"], "/nonexistent: can't be opened"),
        (["run", "preemption-lab", "--trace", "/"], "Is a directory"),
        (["run", "preemption-lab", "--plot", "x.gif"], ".html, .png, .svg"),
        (["run", "preemption-lab", "--format", "xls"], "Known: parquet, csv"),
        (["run", "preemption-lab", "--gpu-memory-bytes", "8GiB"], "Take a GPU with more memory"),
        (["run", "preemption-lab", "--format", "csv"], '--format = "csv": there are no tables without --out DIR'),
        (["run", "preemption-lab", "--seed", "1", "--seed=2"], "given twice, as --seed 1 and as --seed 2"),
        (["run", "preemption-lab", "--duration=1s", "--duration-ns", "2s"], "as --duration 1s and as --duration-ns 2s"),
        (["run", "preemption-lab", "--burst", "--burst", "3"], "given twice, as --burst 2.5 and as --burst 3"),
        (["run", "preemption-lab", "--out", "a", "--out", "b"], 'out = "b": is given twice, as --out a and as --out b'),
        (
            ["run", "preemption-lab", "--long-report-users", "--no-long-report-users"],
            "is given twice, as --long-report-users and as --no-long-report-users",
        ),
        (["run", "preemption-lab", "--prompt-tokens", "uniform(9, 1)"], "prompt_tokens"),
        (["compare", "preemption-lab"], "give 2 to 26 runs"),
        (["compare", "preemption-lab", "preemption-lab:seed"], "expected FIELD=VALUE"),
        (["compare", "preemption-lab", "preemption-lab:sed=3"], 'did you mean "seed"?'),
        (["explain", "ttff"], 'unknown metric or setting "ttff"'),
        (["explain", "\x1b[31mred"], 'unknown metric or setting "\\x1b[31mred"'),
        (["trace", "describe", "/nonexistent"], "/nonexistent"),
        (["verify"], "Missing argument"),
    ],
)
def test_a_mistake_gets_one_line_that_helps(args: list[str], message: str, cli: Cli) -> None:
    assert message in cli.refuses(*args)


def test_a_scenario_file_with_a_mistake_is_named(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"version": 1,')
    assert cli.refuses("run", path).startswith(f"{path}: not JSON")
    path.write_text('{"version": 1, "rules": "preemption-lab", "name": "\\u001b[31mred"}')
    assert "printable" in cli.refuses("run", path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_text("{}")
    path.chmod(0)
    assert "Permission denied" in cli.refuses("run", path)


@pytest.mark.parametrize("flag", ["--out", "--plot", "--save-scenario"])
def test_a_place_that_cannot_be_written_is_named(flag: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "below.svg"
    assert str(target) in cli.refuses("run", "preemption-lab", "-q", "--duration", "5s", flag, target)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["run", "preemption-lab", "-q"], ["explain"], ["--help"], ["--version"]])
def test_a_full_disk_is_one_line(args: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "kvlab", *args], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 2
    assert result.stderr == "kvlab: error: can't write to standard output: No space left on device\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_a_closed_stdout_is_one_line() -> None:
    command = f"{sys.executable} -m kvlab explain >&-"
    result = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "kvlab: error: standard output is closed: there is nowhere to write results\n"


@pytest.mark.skipif(os.name == "nt", reason="needs pipes that break")
@pytest.mark.parametrize("args", [["run", "preemption-lab", "-q", "--duration", "20s"], ["explain"]])
def test_a_reader_that_goes_away_is_no_error(args: list[str]) -> None:
    process = program(*args)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == command_line.PIPE_CLOSED


def test_a_bug_is_one_line_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("kvlab.api.simulate", broken)
    code, out, err = cli("run", "preemption-lab")
    assert (code, out) == (command_line.BUG, "")
    assert err.startswith("kvlab: error: this is a bug in kvlab: ZeroDivisionError: of all things.")
    assert err.count("\n") == 1
    monkeypatch.setenv("KVLAB_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        cli("run", "preemption-lab")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [(MemoryError(), 2, "out of memory"), (KeyboardInterrupt(), 130, "interrupted, without results")],
)
def test_what_the_machine_says_no_to(
    error: BaseException, code: int, message: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr("kvlab.api.simulate", broken)
    outcome = cli("run", "preemption-lab")
    assert outcome.code == code
    assert message in outcome.err
