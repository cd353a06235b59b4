from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from tests.runs import ONE_SAMPLE, PREEMPTION, preemption_run, run_of

from kvlab.comparison import Change, Comparison, Result, compare
from kvlab.errors import ConfigError, ScenarioError
from kvlab.metrics import METRICS


def result(name: str = "x", traffic: object = None, **metrics: float | None) -> Result:
    known: dict[str, float | None] = dict.fromkeys(METRICS)
    return Result(name=name, scenario={"traffic": traffic or {}}, interrupted=False, metrics=known | metrics)


def change(metric: str, first: float | None, value: float | None) -> Change:
    both = compare([result(finished=1, **{metric: first}), result(finished=1, **{metric: value})])
    return both.row(metric).changes[0]


@pytest.mark.parametrize(
    ("metric", "first", "value", "verdict"),
    [
        ("p99_gap_ns", 200, 100, "better"),
        ("p99_gap_ns", 100, 200, "worse"),
        ("requests_per_s", 1.5, 2.5, "better"),
        ("requests_per_s", 2.5, 1.5, "worse"),
        ("mean_kv_usage_ratio", 0.5, 0.75, "changed"),
        ("preemptions", 0, 0, "same"),
        ("p99_gap_ns", None, 100, "unknown"),
        ("p99_gap_ns", 100, None, "unknown"),
    ],
)
def test_each_metric_knows_which_way_is_better(
    metric: str, first: float | None, value: float | None, verdict: str
) -> None:
    assert change(metric, first, value).verdict == verdict


def test_a_change_is_exact_and_relative_to_the_first() -> None:
    assert change("p99_gap_ns", 200, 150) == Change(150, Fraction(-50), Fraction(-1, 4), "better")
    assert change("preemptions", 0, 3) == Change(3, Fraction(3), None, "worse")
    assert change("p99_gap_ns", None, 3) == Change(3, None, None, "unknown")


def test_all_are_compared_with_the_first() -> None:
    three = compare([result("a", steps=10), result("b", steps=12), result("c", steps=7)])
    row = three.row("steps")
    assert row.first == 10
    assert [c.delta for c in row.changes] == [2, -3]
    assert row.differs
    assert [r.name for r in three.results] == ["a", "b", "c"]


def test_a_metric_that_no_run_has_is_left_out() -> None:
    both = compare([result(steps=1), result(steps=1, p50_gap_ns=None)])
    assert [row.metric.name for row in both.rows] == ["steps"]
    assert not both.rows[0].differs


def test_equal_traffic_is_noticed() -> None:
    assert compare([result(traffic={"seed": 1}), result(traffic={"seed": 1})]).same_traffic
    assert not compare([result(traffic={"seed": 1}), result(traffic={"seed": 2})]).same_traffic
    assert compare([result(traffic={"seed": 1}), result(traffic={"seed": 1, "num_samples": 1})]).same_traffic
    assert not compare([result(traffic={"seed": 1}), result(traffic={"seed": 1, "num_samples": 2})]).same_traffic


def test_one_run_is_no_comparison() -> None:
    with pytest.raises(ConfigError, match="runs = 1: a comparison needs at least two"):
        compare([result()])


def test_a_run_equals_its_own_result_file(tmp_path: Path) -> None:
    run = preemption_run()
    run.write(tmp_path)
    both = compare([run, Result.read(tmp_path / "result.json", "file")])
    assert not any(row.differs for row in both.rows)
    assert both.same_traffic
    assert [r.name for r in both.results] == ["test", "file"]


def test_a_better_server_shows_in_a_real_comparison() -> None:
    roomy = run_of(replace(PREEMPTION, num_gpu_blocks=40), ONE_SAMPLE, name="roomy")
    both = compare([preemption_run(), roomy])
    assert both.row("preemptions").changes[0] == Change(0, Fraction(-3), Fraction(-1), "better")
    assert both.row("rejected").changes[0].verdict == "better"
    assert both.row("kv_capacity_tokens").changes[0].verdict == "better"


def test_the_json_names_runs_values_deltas_and_verdicts() -> None:
    document = json.loads(json.dumps(compare([result("a", steps=4, finished=2), result("b", steps=5)]).to_dict()))
    assert document["runs"] == [{"name": "a", "interrupted": False}, {"name": "b", "interrupted": False}]
    assert document["metrics"]["steps"] == {"values": [4, 5], "deltas": [1.0], "verdicts": ["changed"]}
    assert document["metrics"]["finished"] == {"values": [2, None], "deltas": [None], "verdicts": ["unknown"]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not JSON"),
        (b"\x00\xff\x80", "not JSON"),
        (b'{"kvlab_result": 1, "scenario"', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1, 2]", "not a result: make one with"),
        (b'{"version": 1}', "not a result: make one with"),
        (b'{"kvlab_result": 99}', "a result of version 99; this kvlab reads version 1"),
        (b'{"kvlab_result": 1}', "a damaged result"),
        (b'{"kvlab_result": 1, "scenario": {"name": "x"}, "interrupted": false}', "a damaged result"),
        (
            b'{"kvlab_result": 1, "scenario": {"name": "x", "traffic": {}}, "interrupted": false, "metrics": []}',
            "a damaged result: metrics is no object",
        ),
        (
            b'{"kvlab_result": 1, "scenario": {"name": "x", "traffic": {}}, "interrupted": false, '
            b'"metrics": {"steps": "many"}}',
            "a damaged result: metric steps is 'many', expected a number",
        ),
        (
            b'{"kvlab_result": 1, "scenario": {"name": "x"}, "interrupted": false, "metrics": {"steps": NaN}}',
            "not JSON: NaN is no number",
        ),
    ],
)
def test_a_file_that_is_no_result_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        Result.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)


def edited(tmp_path: Path, old: str, new: str) -> Path:
    """A result as a person may have edited it."""
    path = tmp_path / "r.json"
    text = json.dumps(preemption_run().to_dict())
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"preemptions": 3', '"preemptions": 1e400', "metric preemptions is inf, expected 0 to 1e+30"),
        ('"preemptions": 3', f'"preemptions": {10**400}', "metric preemptions is 1"),
        ('"preemptions": 3', '"preemptions": -3', "metric preemptions is -3"),
        ('"preemptions": 3', '"preemptions": true', "metric preemptions is True, expected a number"),
        ('"preemptions": 3, ', "", "metric preemptions is missing"),
        ('"preemptions": 3', '"preemptions": 3, "preemptions": 4', '"preemptions" is given twice'),
        ('"arrived": 7', '"arrived": 3', "arrived is 3, but finished + rejected + unfinished is 6 + 1 + 0"),
        ('"arrived": 7', '"arrived": null', "arrived is None, but"),
        ('"rejected": 1', '"rejected": 1.0', "arrived is 7, but finished + rejected + unfinished is 6 + 1.0 + 0"),
        ('"interrupted": false', '"interrupted": "no"', "interrupted is 'no', expected true or false"),
        ('"interrupted": false, ', "", "'interrupted' is missing"),
        ('"scenario": {', '"scenario": [], "other": {', "scenario is"),
    ],
)
def test_an_edited_result_is_damaged(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = edited(tmp_path, old, new)
    with pytest.raises(ScenarioError) as caught:
        Result.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)


def test_a_missing_file_a_directory_and_a_huge_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="can't be read: No such file"):
        Result.read(tmp_path / "none.json")
    with pytest.raises(ScenarioError, match="can't be read: Is a directory"):
        Result.read(tmp_path)
    huge = tmp_path / "huge.json"
    with huge.open("wb") as stream:
        stream.truncate(2**30)
    with pytest.raises(ScenarioError, match="too big for a result: 1,073,741,824 bytes"):
        Result.read(huge)


def test_a_comparison_is_a_value() -> None:
    assert compare([result(steps=1), result(steps=2)]) == compare([result(steps=1), result(steps=2)])
    assert isinstance(compare([result(), result()]), Comparison)
