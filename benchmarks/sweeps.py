"""Sweeps against the engine alone: what handing out, keeping and putting together costs, here, in processes, on Ray.

Counted is the CPU time of everything that works for a sweep: this process, its workers, a Ray with its servers. Needs
/proc.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from benchmarks.measure import NS_PER_S, peak_mib
from kvlab.core.engine import simulate
from kvlab.metrics import summarize
from kvlab.scenarios import Scenario, load
from kvlab.sweeps.ray import ray_executor
from kvlab.sweeps.sweep import run_sweep
from kvlab.sweeps.workers import Crew, Executor, local

ALONE = {1: "engine alone", 2: "engine alone, two at once"}
"""By the number of processes: two that share a memory, or the halves of a core, are each slower than one."""
_PROC = Path("/proc")
_EVERY_S = 0.1


class Pace(NamedTuple):
    """One way to run scenarios."""

    name: str
    cpu_s: float
    """Per scenario, of all processes."""
    wall_s: float
    """Of one worker, per scenario."""
    overhead_ratio: float
    """CPU time beyond that of the engine alone in as many processes, over that."""


def paces(lab: str, rounds: int, seeds: int, *, on_ray: bool) -> list[Pace]:
    """Every way in turn on the same scenarios, four loads with so many seeds; each in the best of `rounds` rounds.

    The engine alone is measured beside each kind of workers, in one process and in two at once.
    """
    ways: dict[str, tuple[int, Callable[[], Crew]]] = {
        "local, 1 worker": (1, lambda: local(1)),
        "local, 2 workers": (2, lambda: local(2)),
    }
    if on_ray:
        ways = {
            "Ray, 2 workers": (2, lambda: ray_executor("local", 2)),
            "Ray, 1 worker": (1, lambda: ray_executor(workers=1)),  # of the same Ray
        }
    scenario = load(lab)
    times: dict[str, list[tuple[float, float]]] = {}
    with ExitStack() as stack:
        runs = {name: _bound(scenario, stack.enter_context(crew()), seeds) for name, (_, crew) in ways.items()}
        pair = stack.enter_context(ProcessPoolExecutor(2, get_context("spawn")))
        for run in runs.values():
            run()  # processes are started, and have loaded what they need
        _two_at_once(pair, lab, seeds)
        for _ in range(rounds):
            times.setdefault(ALONE[1], []).append(_timed(lambda: _alone(scenario, seeds), time.process_time))
            times.setdefault(ALONE[2], []).append(_two_at_once(pair, lab, seeds))
            for name, run in runs.items():
                times.setdefault(name, []).append(_timed(run, _tree_cpu_s))
    count = len(_LOADS) * seeds
    least_s = {name: min(cpu_s for cpu_s, _ in found) for name, found in times.items()}
    return [
        Pace(
            name=name,
            cpu_s=least_s[name] / count,
            wall_s=min(wall_s for _, wall_s in found) / count * ways.get(name, (1,))[0],
            overhead_ratio=least_s[name] / least_s[_beside(name, ways)] - 1,
        )
        for name, found in times.items()
    ]


_LOADS = [{"max_num_seqs": count} for count in (32, 48, 64, 96)]


def _beside(name: str, ways: Mapping[str, tuple[int, Callable[[], Crew]]]) -> str:
    """What a way is measured against: as many processes."""
    return ALONE[ways[name][0]] if name in ways else name


def _two_at_once(pair: ProcessPoolExecutor, lab: str, seeds: int) -> tuple[float, float]:
    """CPU and wall time of the engine alone, the same scenarios in each of two processes; halved, so for as many."""
    found = [done.result() for done in [pair.submit(_in_a_process, lab, seeds) for _ in range(2)]]
    return sum(cpu_s for cpu_s, _ in found) / 2, sum(wall_s for _, wall_s in found) / 2


def _in_a_process(lab: str, seeds: int) -> tuple[float, float]:
    return _timed(lambda: _alone(load(lab), seeds), time.process_time)


def _alone(scenario: Scenario, seeds: int) -> None:
    """The least that could be done: no keys, no checks of changes, nothing kept."""
    for scenario in [scenario.replace(**point, seed=seed) for point in _LOADS for seed in range(1, seeds + 1)]:
        window_ns = scenario.window_ns
        record = simulate(scenario.engine_config(), scenario.source(), window_ns=window_ns, slo=scenario.slo)
        summarize(record, window_ns=window_ns, kv_bytes_per_token=scenario.kv_bytes_per_token)


def _sweep(scenario: Scenario, executor: Executor, seeds: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kvlab-benchmark-"))
    try:
        sweep = run_sweep(scenario, _LOADS, seeds=range(1, seeds + 1), executor=executor, folder=folder)
        assert all(row.outcome.error is None for row in sweep.rows), "a scenario failed"
    finally:
        shutil.rmtree(folder)


def _bound(scenario: Scenario, executor: Executor, seeds: int) -> Callable[[], None]:
    return lambda: _sweep(scenario, executor, seeds)


def _timed(run: Callable[[], object], clock: Callable[[], float]) -> tuple[float, float]:
    """CPU time by that clock, and wall time, in s."""
    cpu_s, wall_s = clock(), time.perf_counter()
    run()
    return clock() - cpu_s, time.perf_counter() - wall_s


def tree() -> list[int]:
    """This process and all below it."""
    found = [os.getpid()]
    for pid in found:
        for children in (_PROC / str(pid) / "task").glob("*/children"):
            found += [int(child) for child in _read(children).split()]
    return found


def _tree_cpu_s() -> float:
    """Of this process, and of all threads below it that still are."""
    below = [path for pid in tree()[1:] for path in (_PROC / str(pid) / "task").glob("*/schedstat")]
    return time.process_time() + sum(int((_read(path).split() or ["0"])[0]) for path in below) / NS_PER_S


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has just ended
        return ""


def memory(points: int, seeds: int, workers: int) -> dict[str, Any]:
    """Peak memory of a sweep of small scenarios, outcomes kept and table written. Call it in a fresh process."""
    scenario = load("preemption-lab").replace(num_requests=2)
    peak, over = [0], Event()

    def watch() -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not over.wait(_EVERY_S):
            pages = (_read(_PROC / str(pid) / "statm").split()[1:2] for pid in tree())
            peak[0] = max(peak[0], page * sum(int(count[0]) for count in pages if count))

    watcher = Thread(target=watch)
    watcher.start()
    folder = Path(tempfile.mkdtemp(prefix="kvlab-benchmark-"))
    begun = time.perf_counter()
    try:
        with local(workers) as run:
            sweep = run_sweep(
                scenario,
                [{"max_num_seqs": 1 + number} for number in range(points)],
                seeds=range(seeds),
                executor=run,
                folder=folder,
            )
            sweep.write(folder)
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    finally:
        over.set()
        watcher.join()
        shutil.rmtree(folder)
    return {
        "runs": len(sweep.rows),
        "wall_s": time.perf_counter() - begun,
        "parent_mib": peak_mib(),
        "tree_mib": peak[0] / 2**20,
        "kept_mib": size / 2**20,
    }
