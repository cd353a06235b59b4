"""A sweep gives the same table whoever runs it and however often it is interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kvlab
from kvlab.errors import ConfigError, OutputError
from kvlab.scenarios import Scenario, load
from kvlab.settings import Value
from kvlab.sweeps.axes import grid, parse_axis
from kvlab.sweeps.outcome import Outcome, key_of, run_one
from kvlab.sweeps.store import Store
from kvlab.sweeps.sweep import medians, run_sweep
from kvlab.sweeps.workers import local

AXES = ("max_num_seqs=16,64", "request_rate=2,4")


def small() -> Scenario:
    return load("preemption-lab").replace(num_requests=60)


def points(*axes: str) -> list[dict[str, object]]:
    return [dict(point) for point in grid([parse_axis(axis, "preemption-lab") for axis in axes or AXES])]


def test_rows_are_runs_in_the_order_of_points_and_seeds() -> None:
    sweep = run_sweep(small(), points(), seeds=(5, 6), executor=local(1))  # type: ignore[arg-type]
    assert [(row.settings["max_num_seqs"], str(row.settings["request_rate"]), row.seed) for row in sweep.rows] == [
        (seqs, rate, seed) for seqs in (16, 64) for rate in ("2", "4") for seed in (5, 6)
    ]
    for row in sweep.rows:
        alone = kvlab.simulate(small().replace(**row.settings, seed=row.seed), record=kvlab.METRICS)
        assert row.outcome.metrics is not None
        assert row.outcome.metrics["max_gap_ns"] == alone.metrics.max_gap_ns
        assert row.outcome.metrics["steps"] == alone.metrics.steps


def test_the_table_does_not_depend_on_the_workers(tmp_path: Path) -> None:
    files = []
    for workers in (1, 3):
        folder = tmp_path / str(workers)
        with local(workers) as crew:
            run_sweep(small(), points(), seeds=(1, 2), executor=crew, folder=folder)  # type: ignore[arg-type]
        files.append([(folder / name).read_bytes() for name in ("sweep.parquet", "sweep.csv")])
    assert files[0] == files[1]


def test_what_was_finished_is_not_run_again(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    few = run_sweep(small(), points("max_num_seqs=16,64"), executor=local(1), folder=tmp_path)  # type: ignore[arg-type]
    assert few.reused == 0
    more = run_sweep(
        small(),
        points("max_num_seqs=16,32,64"),  # type: ignore[arg-type]
        executor=local(1),
        folder=tmp_path,
        progress=lambda *seen_now: seen.append(seen_now),
    )
    assert more.reused == 2
    assert seen == [(0, 3, 0), (1, 3, 1), (2, 3, 1), (3, 3, 2)]


def test_a_line_that_is_damaged_or_torn_counts_as_missing(tmp_path: Path) -> None:
    def again() -> int:
        found = run_sweep(small(), points("max_num_seqs=16,32,64"), executor=local(1), folder=tmp_path)  # type: ignore[arg-type]
        assert all(row.outcome.metrics is not None for row in found.rows)
        return found.reused

    assert again() == 0
    path = tmp_path / "results.jsonl"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second.replace(b'"format":1', b'"format":x') + third[:99])
    assert again() == 1
    path.write_bytes(first.replace(b"max_gap_ns", b"max_gap_nz") + second.replace(b":0,", b":1,", 1) + third)
    assert again() == 1, "readable, and not what was written"
    path.write_bytes(first + second + third[:99])
    assert again() == 2
    assert again() == 3, "what follows a torn line stands on one of its own"
    path.write_bytes(b"\xff\n\n{}\n")
    assert again() == 0


def test_two_sweeps_do_not_write_to_one_folder_at_a_time(tmp_path: Path) -> None:
    second: list[str] = []

    def meanwhile(done: int, total: int, free: int) -> None:
        with pytest.raises(ConfigError, match="another sweep is writing there now") as caught:
            run_sweep(small(), points("headroom_blocks=8"), executor=local(1), folder=tmp_path)  # type: ignore[arg-type]
        second.append(caught.value.field)

    run_sweep(small(), points("max_num_seqs=16"), executor=local(1), folder=tmp_path, progress=meanwhile)  # type: ignore[arg-type]
    assert second == ["folder"] * 2
    assert pq.read_table(tmp_path / "sweep.parquet")["max_num_seqs"].to_pylist() == [16]
    run_sweep(small(), points("max_num_seqs=16"), executor=local(1), folder=tmp_path)  # type: ignore[arg-type]


def test_a_point_that_is_there_twice_is_run_once() -> None:
    sweep = run_sweep(small(), [*points("max_num_seqs=16,8"), *points("max_num_seqs=16")], executor=local(1))  # type: ignore[list-item]
    assert [row.settings["max_num_seqs"] for row in sweep.rows] == [16, 8]
    assert sweep.num_points == 2
    assert repr(sweep) == "<Sweep preemption-lab-v1: 2 runs of 2 points along max_num_seqs>"


def test_a_trace_is_run_once_whatever_the_seeds(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,10\n1,20,10\n")
    replayed = load("preemption-lab").replace(trace=str(trace))
    speeds = points("trace_speed=1,2")
    for _ in range(2):  # goes on in its folder
        sweep = run_sweep(replayed, speeds, seeds=(7, 8), executor=local(1), folder=tmp_path / "out")  # type: ignore[arg-type]
        assert [(row.seed, row.outcome.error) for row in sweep.rows] == [(1, None)] * 2
    some: list[dict[str, Value]] = [{"trace": None}, {"trace": str(trace)}]
    mixed = run_sweep(load("preemption-lab"), some, seeds=(1, 2), executor=local(1))
    assert [row.seed for row in mixed.rows] == [1, 2, 1]
    assert len(list(medians(mixed, "max_gap_ns"))) == 2


def test_the_key_is_of_all_that_decides_a_run(tmp_path: Path) -> None:
    one = small()
    assert key_of(one) == key_of(one.replace(name="another name"))
    assert key_of(one) != key_of(one.replace(seed=2))
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,prompt,output\n0,10,10\n")
    first = key_of(one.replace(trace=str(trace), num_requests=None))
    trace.write_text("arrival,prompt,output\n0,10,11\n")
    os.utime(trace, ns=(1, 1))
    assert key_of(one.replace(trace=str(trace), num_requests=None)) != first


def test_points_that_cannot_be_are_told_in_their_rows() -> None:
    sweep = run_sweep(
        load("block-table-lab"), [{"kv_memory_bytes": 2**16}, {"kv_memory_bytes": 2**31}], executor=local(1)
    )
    assert sweep.rows[0].outcome.metrics is None
    assert "kv_memory_bytes" in (sweep.rows[0].outcome.error or "")
    assert sweep.rows[1].outcome.error is None
    assert sweep.table()["error"].to_pylist() == [sweep.rows[0].outcome.error, None]


def test_medians_over_seeds() -> None:
    sweep = run_sweep(small(), points("max_num_seqs=16,64"), seeds=(1, 2, 3), executor=local(1))  # type: ignore[arg-type]
    found = list(medians(sweep, "max_gap_ns"))
    assert [settings["max_num_seqs"] for settings, _ in found] == [16, 64]
    for number, (_, middle) in enumerate(found):
        values = [row.outcome.metrics["max_gap_ns"] for row in sweep.rows[3 * number : 3 * number + 3]]  # type: ignore[index]
        assert middle == sorted(values)[1]  # type: ignore[type-var]


def test_other_libraries_read_a_sweep_as_a_dataframe() -> None:
    import pyarrow.interchange as interchange

    sweep = kvlab.sweep("preemption-lab", num_requests=[20, 30], workers=1)
    assert interchange.from_dataframe(sweep)["num_requests"].to_pylist() == [20, 30]


@pytest.mark.parametrize("workers", [0, 1000])
def test_a_number_of_workers_that_makes_no_sense_is_refused(workers: int) -> None:
    with pytest.raises(ConfigError, match="workers"):
        local(workers)


def test_nothing_to_sweep_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        run_sweep(small(), [])
    with pytest.raises(ConfigError, match="at least one setting"):
        kvlab.sweep("preemption-lab")


def test_an_outcome_survives_its_file() -> None:
    outcome = run_one(small())
    assert Outcome.from_json(outcome.to_json()) == outcome


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        Store(tmp_path / "file" / "results.jsonl")


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        pytest.skip("no /proc here")
    found = []
    for task in tasks.iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one(done: int, total: int, free: int) -> None:
        if done == 2 and not killed:
            killed.extend(_children(os.getpid())[:1])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    plan = points("max_num_seqs=8:64:8")
    sweep = run_sweep(small(), plan, executor=local(2), folder=tmp_path / "a", progress=kill_one)  # type: ignore[arg-type]
    assert killed
    undisturbed = run_sweep(small(), plan, executor=local(1))  # type: ignore[arg-type]
    assert sweep.rows == undisturbed.rows


def test_a_sweep_whose_worker_and_then_itself_are_killed_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [
        sys.executable, "-m", "kvlab", "sweep", "preemption-lab", "--axis", "max_num_seqs=4:60:4", "--workers", "2",
        "--num-requests", "150", "--quiet", "--out", str(killed),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kept() -> int:
        path = killed / "results.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait_for(count: int) -> None:
        while process.poll() is None and kept() < count:
            time.sleep(0.01)

    wait_for(2)
    for pid in _children(process.pid)[:1]:
        os.kill(pid, signal.SIGKILL)
    wait_for(4)
    process.kill()
    process.wait()
    before = kept()
    assert before >= 4
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"{before} of them already there" in done.stdout
    base = load("preemption-lab").replace(num_requests=150)
    run_sweep(base, points("max_num_seqs=4:60:4"), executor=local(1)).write(whole)  # type: ignore[arg-type]
    for name in ("sweep.parquet", "sweep.csv"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert pq.read_table(whole / "sweep.parquet").num_rows == 15


def test_points_and_an_executor_from_python() -> None:
    given = [{"max_num_seqs": 32, "headroom_blocks": 16}, {"max_num_seqs": 64, "headroom_blocks": 0}]
    found = kvlab.sweep(small(), points=given, seeds=[4], executor=local(1))
    assert [(dict(row.settings), row.seed) for row in found.rows] == [(point, 4) for point in given]
    for arguments in ({"max_num_seqs": [1]}, {"sample": 2}):
        with pytest.raises(ConfigError, match="in place of axes"):
            kvlab.sweep(small(), points=given, workers=1, **arguments)
    with pytest.raises(ConfigError, match="either workers or an executor"):
        kvlab.sweep(small(), points=given, workers=1, executor=local(1))


def test_too_many_runs_are_refused_before_any_is_made() -> None:
    def endless() -> Iterator[dict[str, Value]]:
        while True:
            yield {"max_num_seqs": 8}

    with pytest.raises(ConfigError, match="at most 100,000 runs"):
        run_sweep(small(), endless())
    with pytest.raises(ConfigError, match="at most 100,000 runs"):
        run_sweep(small(), points("max_num_seqs=1:20000:1"), seeds=range(10))  # type: ignore[arg-type]
