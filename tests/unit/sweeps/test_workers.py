"""A crew of processes is kept between calls, survives what happens to its workers, and never answers late."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, load
from kvlab.sweeps.outcome import Outcome, run_one
from kvlab.sweeps.workers import LIVES, Crew, Executor, at_work, local

PROC = Path("/proc/self/task")
needs_proc = pytest.mark.skipif(not PROC.exists(), reason="no /proc here")


def small(seed: int = 1) -> Scenario:
    return load("preemption-lab").replace(num_requests=5, seed=seed)


def endless() -> Scenario:
    """Runs for minutes."""
    return load("preemption-lab").replace(num_requests=200_000)


def children() -> set[int]:
    """Looks twice: those of a thread that is just ending are listed nowhere for a moment."""
    found = _listed()
    time.sleep(0.005)
    return found | _listed()


def _listed() -> set[int]:
    return {int(child) for task in PROC.iterdir() for child in _read(task / "children").split()}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the thread or process has just ended
        return ""


def outcomes(run: Executor, count: int = 6) -> list[Outcome]:
    found = dict(run(enumerate(small(seed) for seed in range(count))))
    return [found[number] for number in range(count)]


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("waited for 10 s")


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with local(2) as made:
        yield made


@pytest.fixture(scope="module")
def alone() -> list[Outcome]:
    return outcomes(local(1))


@needs_proc
def test_processes_are_kept_between_calls(crew: Crew, alone: list[Outcome]) -> None:
    before = children()
    assert outcomes(crew) == alone
    started = children() - before
    assert outcomes(crew) == alone
    assert children() - before == started
    assert len(started) <= 2


def test_no_tasks_no_outcomes(crew: Crew) -> None:
    assert list(crew([])) == []


@needs_proc
def test_a_worker_that_is_killed_between_calls_is_replaced(crew: Crew, alone: list[Outcome]) -> None:
    outcomes(crew)
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    assert outcomes(crew) == alone


def test_a_call_that_is_left_in_the_middle_answers_nothing_later(crew: Crew, alone: list[Outcome]) -> None:
    with contextlib.closing(crew(enumerate([small(77), endless()]))) as some:  # type: ignore[type-var]
        assert [number for number, _ in islice(some, 1)] == [0]
    assert outcomes(crew) == alone


def test_an_error_of_the_caller_leaves_the_crew_usable(crew: Crew, alone: list[Outcome]) -> None:
    try:
        for _ in crew(enumerate([small(77), endless()])):
            raise KeyboardInterrupt
    except KeyboardInterrupt:  # its traceback still holds the call
        assert outcomes(crew) == alone


def test_tasks_that_cannot_be_made_are_the_callers_error(crew: Crew, alone: list[Outcome]) -> None:
    def tasks() -> Iterator[tuple[int, Scenario]]:
        yield 0, small()
        raise ConfigError("seed", 1, "for this test")

    with pytest.raises(ConfigError, match="for this test"):
        list(crew(tasks()))
    assert outcomes(crew) == alone


def test_what_goes_wrong_while_a_task_is_made_ahead_is_no_death_of_a_worker(crew: Crew, alone: list[Outcome]) -> None:
    def tasks() -> Iterator[tuple[int, Scenario]]:
        yield from enumerate([small(0), small(1)])
        raise EOFError("for this test")

    with pytest.raises(EOFError, match="for this test"):
        list(crew(tasks()))
    assert outcomes(crew) == alone


def test_a_second_call_ends_the_first(crew: Crew, alone: list[Outcome]) -> None:
    first = crew(enumerate([small(77), endless()]))
    assert next(first)[0] == 0
    assert outcomes(crew) == alone
    with pytest.raises(RuntimeError, match="another call"):
        next(first)


def test_a_bug_is_raised_as_in_this_process(crew: Crew, alone: list[Outcome]) -> None:
    broken = "not a scenario"
    with pytest.raises(RuntimeError, match="AttributeError"):
        list(crew([(0, broken)]))  # type: ignore[list-item]
    assert outcomes(crew) == alone


@needs_proc
def test_a_scenario_that_kills_its_workers_is_given_up(alone: list[Outcome]) -> None:
    tried: set[int] = set()
    before = children()

    def kill() -> None:
        for _ in range(LIVES):
            until(lambda: bool(children() - before - tried))
            (pid,) = children() - before - tried
            tried.add(pid)
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    with local(2) as crew:
        call = crew([(0, endless())])
        killer.start()
        ((_, outcome),) = call
        killer.join()
        assert outcome.metrics is None
        assert f"{LIVES} workers died of it" in (outcome.error or "")
        assert outcomes(crew, 1) == alone[:1]


@needs_proc
def test_processes_end_with_their_crew() -> None:
    before = children()
    with local(2) as crew:
        outcomes(crew, 2)
        assert children() > before
    assert children() == before
    with pytest.raises(RuntimeError, match="closed"):
        next(crew([(0, small())]))
    crew = local(2)
    outcomes(crew, 1)
    assert children() > before
    del crew
    gc.collect()
    assert children() == before


@needs_proc
def test_workers_end_at_once_when_their_parent_is_killed() -> None:
    program = (
        "from kvlab.scenarios import load; from kvlab.sweeps.workers import local\n"
        "long = load('preemption-lab').replace(num_requests=200_000)\n"
        "list(local(2)(enumerate([long, long.replace(seed=2)])))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)

    def workers() -> list[int]:
        return [
            int(pid) for task in Path(f"/proc/{parent.pid}/task").iterdir() for pid in _read(task / "children").split()
        ]

    until(lambda: len(workers()) == 2)
    pids = workers()
    parent.kill()
    parent.wait()
    until(lambda: not any(_is_running(pid) for pid in pids))


def _is_running(pid: int) -> bool:
    state = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"


@needs_proc
def test_an_executor_made_by_default_is_closed() -> None:
    before = children()
    with at_work(None) as run:
        assert outcomes(run, 2) == [run_one(small(0)), run_one(small(1))]
    assert children() == before
    given = local(1)
    with at_work(given) as run:
        assert run is given
