"""`kvlab verify`: what it prints, and its exit status."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvlab import goldens
from kvlab.cli.verify import verify

LABS = Path(__file__).parents[1] / "golden" / "labs"


def run(*files: object) -> Result:
    return CliRunner().invoke(verify, [str(file) for file in files])


def test_goldens_that_agree_pass() -> None:
    paths = [LABS / "edge-preempt-1.json.gz", LABS / "edge-blocks-1.json.gz"]
    result = run(*paths)
    assert result.stdout == f"ok    {paths[0]}\nok    {paths[1]}\n2 passed, 0 failed\n"
    assert result.exit_code == 0


def test_folders_and_patterns_are_expanded(tmp_path: Path) -> None:
    for name in ("edge-preempt-1", "edge-preempt-2", "edge-blocks-1"):
        shutil.copy(LABS / f"{name}.json.gz", tmp_path)
    assert run(tmp_path).stdout.endswith("3 passed, 0 failed\n")
    assert run(f"{tmp_path}/edge-preempt-*.json.gz").stdout.endswith("2 passed, 0 failed\n")


def test_a_changed_result_fails_with_the_step_and_the_field(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((LABS / "edge-preempt-1.json.gz").read_bytes()))
    document["result"]["first_steps"][3]["dur"] += 1
    dur = document["result"]["first_steps"][3]["dur"]
    path = tmp_path / "changed.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    result = run(path)
    assert result.exit_code == 1
    assert result.stdout == (
        f"FAIL  {path}\n"
        f"      reference: step 3, dur: expected {dur}, got {dur - 1}\n"
        f"      core: step 3, dur: expected {dur}, got {dur - 1}\n"
        "0 passed, 1 failed\n"
    )


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08 cut off", b"{}", b"\xff\xfe"])
def test_an_unreadable_file_fails_and_the_others_are_still_verified(content: bytes, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json.gz"
    bad.write_bytes(content)
    result = run(bad, LABS / "edge-blocks-2.json.gz")
    assert result.exit_code == 1
    assert f"FAIL  {bad}\n" in result.stdout
    assert result.stdout.endswith("1 passed, 1 failed\n")
    assert result.stderr == ""


def test_a_missing_file_an_empty_folder_and_an_unmatched_pattern_fail(tmp_path: Path) -> None:
    result = run(tmp_path / "missing.json.gz", tmp_path, f"{tmp_path}/*.json.gz")
    assert result.exit_code == 1
    assert "No such file" in result.stdout
    assert "a folder without any *.json.gz" in result.stdout
    assert result.stdout.endswith("0 passed, 3 failed\n")


def test_no_file_at_all_is_a_usage_error() -> None:
    result = run()
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr


def test_a_row_that_the_golden_only_hashes_is_located_by_the_engine_that_agrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = LABS / "edge-preempt-48.json.gz"
    good = goldens.replay_reference(goldens.read_golden(path))
    log = [dict(row) for row in good.step_log]
    log[100]["waiting"] += 5
    bad = goldens.Replay(good.result | {"step_log_sha256": "0" * 64}, log)
    monkeypatch.setitem(goldens.ENGINES, "core", lambda golden: bad)
    waiting = good.step_log[100]["waiting"]
    assert f"core: step 100, waiting: expected {waiting}, got {waiting + 5}\n" in run(path).stdout


def test_an_engine_that_breaks_off_fails_the_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(golden: goldens.Golden) -> goldens.Replay:
        raise AssertionError("3 free of 2")

    monkeypatch.setitem(goldens.ENGINES, "core", broken)
    result = run(LABS / "edge-preempt-1.json.gz")
    assert "core: stopped with AssertionError: 3 free of 2\n" in result.stdout
    assert result.exit_code == 1
