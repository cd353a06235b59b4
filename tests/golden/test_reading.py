"""A golden that can't be used says why; one that was changed says where."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlab.errors import GoldenError
from kvlab.goldens import Difference, first_difference, first_row_difference, read_golden, replay_reference

SMALL = Path(__file__).parent / "labs" / "edge-preempt-48.json.gz"
BLOCKS = Path(__file__).parent / "labs" / "edge-blocks-133.json.gz"


def document(path: Path = SMALL) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return loaded


def written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "golden.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return path


def test_plain_json_reads_like_gzipped(tmp_path: Path) -> None:
    plain = tmp_path / "golden.json"
    plain.write_bytes(gzip.decompress(SMALL.read_bytes()))
    assert read_golden(plain).requests == read_golden(SMALL).requests


def test_parallel_samples_are_read() -> None:
    assert read_golden(BLOCKS).requests[0].output_tokens == tuple(document(BLOCKS)["scenario"]["requests"][0][2])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not gzipped JSON"),
        (b"\x00\x01\x02", "not gzipped JSON"),
        (b"\x1f\x8bnot really gzip", "can't be read"),
        (SMALL.read_bytes()[:200], "can't be read"),
        (b"[" * 100_000, "not gzipped JSON"),
        (b"[1, 2]", "not a lab golden"),
        (b'{"scenario": {}}', "not a lab golden"),
        (b'{"scenario": 1, "result": 2}', "not a lab golden"),
        (b'{"scenario": {}, "result": {}}', 'the key in scenario "lab" is missing'),
        (b'{"scenario": {"lab": 1, "lab": 2}, "result": {}}', 'not gzipped JSON: "lab" is given twice'),
    ],
)
def test_a_file_that_is_no_golden_says_so(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json.gz"
    path.write_bytes(content)
    with pytest.raises(GoldenError, match=reason) as caught:
        read_golden(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match=r"nothing\.json\.gz: can't be read: No such file"):
        read_golden(tmp_path / "nothing.json.gz")
    with pytest.raises(GoldenError, match="can't be read: Is a directory"):
        read_golden(tmp_path)


def _set(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_set("lab", value="quantum"), "unknown lab 'quantum'. Known: preemption, block-tables"),
        (_set("engine", "preemption_mode", value="swop"), 'did you mean "swap"'),
        (_set("engine", "num_gpu_blocks", value=0), "num_gpu_blocks = 0: must be at least 1"),
        (_set("engine", "num_gpu_blocks", value=10**12), "at most 16,777,216 blocks"),
        (_set("engine", "block_size", value=2.5), "expected a whole number"),
        (_set("engine", "blok_size", value=2), 'unknown engine key "blok_size": did you mean "block_size"'),
        (_set("engine", "base_ns", value=2), 'unknown engine key "base_ns"'),
        (_set("engine", value=7), "expected an object in place of 7"),
        (_set("cost_ns", "bas", value=2), 'unknown key of cost_ns "bas": did you mean "base"'),
        (_set("cost_ns", value={"base": 1}), 'the key of cost_ns "per_seq" is missing'),
        (_set("request", value=[]), 'unknown key in scenario "request": did you mean "requests"'),
        (_set("cost_ns", "base", value=-1), "base_ns = -1: must be at least 1"),
        (_set("requests", value=7), "not iterable"),
        (_set("requests", 0, value=[0, 5]), "expected 3, got 2"),
        (_set("requests", 0, value=[0, 5, 0]), "request 0: .*lengths >= 1"),
        (_set("requests", 0, value=[0, 5.5, 1]), "request 0: .*whole numbers"),
        (_set("requests", 0, value=[0, 5, True]), "request 0: .*whole numbers"),
        (_set("requests", 0, value=[0, 5, []]), "request 0: .*lengths >= 1"),
        (_set("requests", 0, value=[0, 5, [1, 2]]), "request 0 has 2 samples"),
        (_set("requests", 1, value=[-1, 5, 1]), "request 1 arrives at -1 ns, before"),
    ],
)
def test_an_invalid_scenario_names_the_field(
    change: Callable[[dict[str, Any]], None], reason: str, tmp_path: Path
) -> None:
    changed = document()
    change(changed["scenario"])
    with pytest.raises(GoldenError, match=reason):
        read_golden(written(tmp_path, changed))


def test_an_output_over_max_tokens_is_invalid_input(tmp_path: Path) -> None:
    changed = document(BLOCKS)
    changed["scenario"]["requests"][3][2] = [1, 14]
    with pytest.raises(GoldenError, match="request 3: 14 output tokens, max_tokens is 13"):
        read_golden(written(tmp_path, changed))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (_set("first_steps", 12, "running", value=99), Difference(12, "running", 99, 4)),
        (_set("first_steps", 16, "tables", value=0), Difference(16, "tables", 0, 2262792722)),
        (_set("steps", value=223), Difference(None, "steps", 223, 224)),
        (_set("totals", "swap_ins", value=1.0), Difference(None, "totals.swap_ins", 1.0, 1)),
        (_set("totals", "swap_ins", value=True), Difference(None, "totals.swap_ins", True, 1)),
        (_set("rejected", 1, value=6), Difference(None, "rejected[1]", 6, 5)),
        (_set("per_request", 0, "finish", value=7), Difference(None, "per_request[0].finish", 7, 10_100_000_000)),
        (_set("surprise", value=1), Difference(None, "surprise", 1, "(no such field)")),
    ],
)
def test_a_changed_result_is_located(change: Callable[[dict[str, Any]], None], difference: Difference) -> None:
    golden = read_golden(SMALL)
    changed = copy.deepcopy(golden.result)
    change(changed)
    assert first_difference(changed, replay_reference(golden).result) == difference


def test_every_field_of_the_result_is_needed() -> None:
    golden = read_golden(SMALL)
    got = replay_reference(golden).result
    for field in golden.result:
        shorter = {name: value for name, value in golden.result.items() if name != field}
        difference = first_difference(shorter, got)
        assert difference is not None
        assert (difference.field, difference.expected) == (field, "(no such field)")


def test_rows_beyond_those_a_golden_shows_are_located_too() -> None:
    log = replay_reference(read_golden(SMALL)).step_log
    changed = copy.deepcopy(log)
    changed[100]["waiting"] += 1
    found = first_row_difference(log, changed)
    assert found == Difference(100, "waiting", log[100]["waiting"], log[100]["waiting"] + 1)
    assert str(found) == f"step 100, waiting: expected {log[100]['waiting']}, got {log[100]['waiting'] + 1}"
    assert first_row_difference(log, log) is None
