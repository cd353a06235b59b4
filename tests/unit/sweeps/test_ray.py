"""A sweep on a real Ray of this machine gives the bytes that local processes give."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from pathlib import Path

import pytest

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, load
from kvlab.sweeps.axes import grid, parse_axis
from kvlab.sweeps.outcome import run_one
from kvlab.sweeps.ray import check_reachable, ray_executor, run_some
from kvlab.sweeps.sweep import run_sweep
from kvlab.sweeps.workers import LIVES, Executor, Task, local
from kvlab.version import __version__

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


def small(**changes: object) -> Scenario:
    return load("preemption-lab").replace(num_requests=8, **changes)


@needs_ray
def test_a_cluster_of_one_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All in one test: a Ray takes seconds to start, and other processes of pytest would start their own."""
    monkeypatch.chdir(tmp_path)
    with ray_executor("local", workers=2) as cluster:
        check_that_the_table_is_that_of_local_processes(cluster, tmp_path)
        check_that_an_error_of_the_user_is_an_outcome(cluster)
        check_that_what_long_tasks_give_back_is_run(cluster)
        check_that_a_call_may_be_left_in_the_middle(cluster)
        with pytest.raises(RuntimeError, match="AttributeError"):  # a bug is raised, as from this process
            list(cluster([(0, "not a scenario")]))  # type: ignore[list-item]
        check_that_what_kills_its_workers_is_given_up_and_its_neighbours_are_not(cluster, tmp_path)
        with ray_executor() as same:
            assert dict(same([(1, small())])) == {1: run_one(small())}
        assert dict(cluster([(1, small())])) == {1: run_one(small())}, "who did not start it does not end it"


def check_that_the_table_is_that_of_local_processes(cluster: Executor, folder: Path) -> None:
    points = list(grid([parse_axis("max_num_seqs=1:32:1", "preemption-lab")]))
    executors: dict[str, Executor] = {"here": local(1), "ray": cluster}
    for name, executor in executors.items():
        run_sweep(small(), points, seeds=(1, 2), executor=executor, folder=folder / name)
    for file in ("sweep.parquet", "sweep.csv"):
        assert (folder / "ray" / file).read_bytes() == (folder / "here" / file).read_bytes()


def check_that_an_error_of_the_user_is_an_outcome(cluster: Executor) -> None:
    Path("trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,10\n1,-5,10\n")
    wrong = small().replace(trace="trace.csv", num_requests=None)
    assert dict(cluster([(3, wrong), (4, small())])) == {3: run_one(wrong), 4: run_one(small())}
    assert "line 3" in (run_one(wrong).error or "")


def check_that_what_long_tasks_give_back_is_run(cluster: Executor) -> None:
    alone = [run_one(load("preemption-lab").replace(seed=seed)) for seed in (1, 2)]
    tasks = [(number, load("preemption-lab").replace(seed=1 + number % 2)) for number in range(40)]
    found = list(cluster(tasks))
    assert sorted(found, key=lambda one: one[0]) == [(number, alone[number % 2]) for number in range(40)]


def check_that_a_call_may_be_left_in_the_middle(cluster: Executor) -> None:
    call = cluster(enumerate([small(), load("preemption-lab").replace(num_requests=200_000)]))
    assert next(call) == (0, run_one(small()))
    call.close()  # type: ignore[attr-defined]
    assert dict(cluster([(9, small(seed=2))])) == {9: run_one(small(seed=2))}


class Deadly:
    """A scenario of which the worker dies that unpacks it, so many times."""

    def __init__(self, path: Path, times: int) -> None:
        count = f"open({str(path)!r}, 'a').write('x') and __import__('os').path.getsize({str(path)!r})"
        self._source = f"__import__('os')._exit(1) if ({count}) <= {times} else scenario"

    def __reduce__(self) -> tuple[object, ...]:
        return eval, (self._source, {"scenario": small()})


def check_that_what_kills_its_workers_is_given_up_and_its_neighbours_are_not(cluster: Executor, folder: Path) -> None:
    tasks: list[Task] = [(number, small(seed=number % 3)) for number in range(20)]
    tasks[0] = (0, Deadly(folder / "once", 1))  # type: ignore[assignment]
    tasks[15] = (15, Deadly(folder / "always", 99))  # type: ignore[assignment]
    found = dict(cluster(tasks))
    assert f"{LIVES} workers died of it" in (found.pop(15).error or "")
    assert (folder / "always").stat().st_size == LIVES
    assert found.pop(0) == run_one(small())
    alone = [run_one(small(seed=seed)) for seed in range(3)]
    assert found == {number: alone[number % 3] for number in range(1, 20) if number != 15}


def test_a_task_that_takes_long_gives_back_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios = [small(seed=seed) for seed in range(3)]
    message = pickle.dumps(scenarios)
    assert run_some(message, __version__, ".") == [run_one(scenario) for scenario in scenarios]
    monkeypatch.setattr("kvlab.sweeps.ray._LONG_ENOUGH_S", 0)
    assert run_some(message, __version__, ".") == [run_one(scenarios[0])]


def test_other_versions_are_refused() -> None:
    with pytest.raises(RuntimeError, match="a node has kvlab"):
        run_some(b"", "0.0.0", ".")


def test_ray_that_is_not_installed_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r'pip install "kvlab\[ray\]"'):
        ray_executor()


def test_workers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="workers"):
        ray_executor(workers=0)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("nonsense", "host:port"), ("host:port", "host:port"), ("host:70000", "host:port"),
        ("127.0.0.1:1", "nothing answers"), ("ray://127.0.0.1:1", "nothing answers"),
    ],
)  # fmt: skip
def test_an_address_where_nothing_answers_is_told_at_once(address: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        check_reachable(address)
    assert caught.value.field == "address"
