"""Both engines decide in every step what the real vLLM V1 scheduler decided."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kvlab.errors import GoldenError
from kvlab.vllm_goldens import ENGINES, SUFFIX, first_difference, read_golden, replay_core

GOLDENS = sorted((Path(__file__).parent / "vllm_v1").glob(f"*{SUFFIX}"))
SMALL = next(path for path in GOLDENS if path.name.startswith("09"))
CACHED = next(path for path in GOLDENS if path.name.startswith("07"))


def test_all_goldens_are_here() -> None:
    assert len(GOLDENS) == 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.name.removesuffix(SUFFIX))
def test_an_engine_decides_what_vllm_decided(path: Path, engine: str) -> None:
    golden = read_golden(path)
    assert first_difference(golden.lines, ENGINES[engine](golden)) is None


def changed(tmp_path: Path, path: Path, number: int, **values: Any) -> Path:
    """A golden with one line changed."""
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    lines[number] |= values
    copy = tmp_path / f"changed{SUFFIX}"
    copy.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    return copy


@pytest.mark.parametrize(
    ("number", "field", "value", "place"),
    [
        (5, "free_mid", 99, "step 4, free_mid"),
        (5, "tables", 1, "step 4, tables"),
        (5, "sched", {"r0006": 1, "r0002": 1, "r0003": 1}, "step 4, sched"),
        (-2, "outputs", 3, "request r0037.outputs"),
        (-1, "steps", 3, "end.steps"),
    ],
)
def test_the_first_difference_is_named(tmp_path: Path, number: int, field: str, value: object, place: str) -> None:
    golden = read_golden(changed(tmp_path, SMALL, number, **{field: value}))
    difference = first_difference(golden.lines, replay_core(golden))
    assert difference is not None
    assert str(difference).startswith(place)


@pytest.mark.parametrize("field", ["hits", "evicted", "cached"])
def test_the_prefix_cache_is_compared(tmp_path: Path, field: str) -> None:
    golden = read_golden(changed(tmp_path, CACHED, 9, **{field: {} if field != "hits" else {"r0000": 16}}))
    difference = first_difference(golden.lines, replay_core(golden))
    assert difference is not None
    assert field in difference.field


def test_a_missing_last_line_is_a_difference(tmp_path: Path) -> None:
    golden = read_golden(SMALL)
    assert first_difference(golden.lines[:-1], replay_core(golden)) is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected one JSON object a line"),
        ("[]", "expected one JSON object a line"),
        ("{", "not gzipped JSON lines"),
        ('{"kind": "header", "format": 2, "scenario": {}}', "expected a header of format 1"),
        ('{"kind": "header", "format": 1, "scenario": {}}', "'requests' is missing"),
        ('{"kind": "header", "format": 1, "scenario": {"requests": [{"arrival_step": 1}]}}', "give arrival_us"),
        ('{"kind": "header", "format": 1, "scenario": {"requests": [], "engine": {"blocks": 1}}}', "engine key"),
        (
            '{"kind": "header", "format": 1, "scenario": {"requests": [], "engine": {"num_gpu_blocks": 99999999}}}',
            "can be verified",
        ),
    ],
)
def test_a_file_that_is_no_golden_says_so(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / f"bad{SUFFIX}"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(GoldenError, match=reason):
        read_golden(path)
