"""Another sweep does not take a folder unseen; the same one, or more of it, goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, load
from kvlab.settings import Value
from kvlab.sweeps.sweep import Sweep, run_sweep
from kvlab.sweeps.workers import local


def small(**changes: object) -> Scenario:
    return load("preemption-lab").replace(num_requests=5, **changes)


def points(*values: int, name: str = "max_num_seqs") -> list[dict[str, Value]]:
    return [{name: value} for value in values]


def sweep(
    folder: Path, scenario: Scenario, some: list[dict[str, Value]], *, seeds: int = 1, overwrite: bool = False
) -> Sweep:
    return run_sweep(scenario, some, seeds=range(1, 1 + seeds), executor=local(1), folder=folder, overwrite=overwrite)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    sweep(tmp_path, small(), points(8, 16), seeds=2)
    return tmp_path


def test_the_same_and_more_values_and_seeds_go_on(there: Path) -> None:
    assert sweep(there, small(), points(8, 16), seeds=2).reused == 4
    assert sweep(there, small(), points(4, 8, 16, 32), seeds=3).reused == 4
    assert sweep(there, small(max_num_seqs=99), points(4, 8, 16, 32), seeds=3).reused == 12, "varies anyway"


@pytest.mark.parametrize(
    ("changes", "some", "seeds", "problem"),
    [
        ({}, points(1, 2, name="headroom_blocks"), 2, "holds a sweep of max_num_seqs"),
        ({"headroom_blocks": 4}, points(8, 16), 2, r"headroom_blocks = 0 there and 4 here"),
        ({}, points(8), 2, "a table with 2 runs that this sweep hasn't"),
        ({}, points(8, 16), 1, "a table with 2 runs that this sweep hasn't"),
    ],
)
def test_another_sweep_is_refused_unless_it_may_overwrite(
    there: Path, changes: dict[str, object], some: list[dict[str, Value]], seeds: int, problem: str
) -> None:
    before = {path: path.read_bytes() for path in there.iterdir() if path.is_file()}
    with pytest.raises(ConfigError, match=problem) as caught:
        sweep(there, small(**changes), some, seeds=seeds)
    assert "--overwrite" in str(caught.value)
    assert {path: path.read_bytes() for path in there.iterdir() if path.is_file()} == before
    done = sweep(there, small(**changes), some, seeds=seeds, overwrite=True)
    assert len(done.rows) == len(some) * seeds
    assert sweep(there, small(**changes), some, seeds=seeds).reused == len(done.rows)


def test_other_rules_are_refused(there: Path) -> None:
    with pytest.raises(ConfigError, match="a sweep of the preemption-lab"):
        sweep(there, load("vllm-v1").replace(num_requests=5), points(8, 16), seeds=2)


@pytest.mark.parametrize("text", ["", "[]", '{"varies": 1}', json.dumps({"format": 1})])
def test_what_cannot_be_read_is_no_hindrance(there: Path, text: str) -> None:
    (there / "sweep.json").write_text(text)
    (there / "sweep.parquet").write_text(text)
    assert sweep(there, small(), points(8)).reused == 1
