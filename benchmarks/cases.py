"""What is measured. Cases that measure memory run in a process of their own: `benchmarks.measure.in_a_process`."""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import naive, sweeps
from benchmarks.measure import NS_PER_MS, NS_PER_S, Spread, cpu_ns, peak_mib, side_by_side
from kvlab.core.config import EVERYTHING, METRICS, EngineConfig, PreemptionLabConfig, Recording
from kvlab.core.engine import simulate
from kvlab.core.records import RunRecord
from kvlab.core.request import OpenLoop, Request
from kvlab.scenarios import Scenario, load

LABS = ("preemption-lab", "block-table-lab")
RECORDINGS = {
    "metrics only": METRICS,
    "and block identities": Recording(memory=True),
    "everything recorded": EVERYTHING,
}
LONG_RUNS: dict[str, dict[str, object]] = {
    "open loop, 3.1 requests/s": {"request_rate": "3.1"},
    "closed loop, 47 users": {"arrivals": "closed-loop", "max_concurrency": 47},
}
"""Settings of the preemption lab that keep its pool about 90 % full for as long as one likes."""
AZURE = "data/traces/azure_llm_2023_conv.csv"


def drawn(scenario: Scenario) -> list[Request]:
    """All requests of an open loop, drawn beforehand."""
    source = scenario.source()
    requests = []
    while source.next_arrival_ns() is not None:
        requests.append(source.pop())
    return requests


class LabRun(NamedTuple):
    lab: str
    num_requests: int
    num_steps: int
    cpu: dict[str, Spread]
    """By what is recorded."""


def lab_run(lab: str, repeats: int) -> LabRun:
    """One preset, two minutes of arrivals: the engine alone, the requests drawn beforehand."""
    scenario = load(lab)
    config, requests = scenario.engine_config(), drawn(scenario)
    calls: dict[str, Callable[[], object]] = {
        name: partial(_run, config, requests, recording) for name, recording in RECORDINGS.items()
    }
    steps = _run(config, requests, METRICS).totals.steps
    return LabRun(lab, len(requests), steps, side_by_side(calls, repeats))


def _run(config: EngineConfig, requests: list[Request], recording: Recording) -> RunRecord:
    return simulate(config, OpenLoop(requests), recording=recording)


class Ratio(NamedTuple):
    lengths: str
    num_seqs: int
    usage_ratio: float
    mean_running: float
    num_steps: int
    preemptions: int
    naive_step_us: float
    fast_step_us: float

    @property
    def ratio(self) -> float:
        return self.naive_step_us / self.fast_step_us


POOL_BLOCKS = {"the lab's lengths": 68, "long answers": 80}
"""Blocks of the pool for each user: about 90 % of them are taken on average."""
RATIO_LENGTHS: dict[str, dict[str, object]] = {
    "the lab's lengths": {},
    "long answers": {"prompt_tokens": "uniform(100, 300)", "output_tokens": "uniform(1500, 2500)"},
}
"""Traffic of the comparison: with long answers, fewer requests come and go per step."""


def naive_ratio(num_seqs: int, lengths: str, repeats: int) -> Ratio:
    """Both simulators on one closed loop of `num_seqs` users, the pool nearly full: the same books, or it stops.

    The prefill budget grows with the users, or they would all queue for it.
    """
    per_user = max(4, 1024 // num_seqs) if lengths == "the lab's lengths" else max(2, 128 // num_seqs)
    scenario = load("preemption-lab").replace(
        arrivals="closed-loop",
        max_concurrency=num_seqs,
        num_requests=num_seqs * per_user,
        max_num_seqs=num_seqs,
        prefill_budget_tokens=max(512, 8 * num_seqs),
        **RATIO_LENGTHS[lengths],
    )
    shape = scenario.engine_config()
    assert isinstance(shape, PreemptionLabConfig)
    pool = PreemptionLabConfig(
        **{name: getattr(shape, name) for name in shape.__slots__} | {"num_gpu_blocks": POOL_BLOCKS[lengths] * num_seqs}
    )
    fast, plain = simulate(pool, scenario.source()), naive.simulate(pool, scenario.source())
    assert_same_books(fast, plain)
    times = side_by_side(
        {
            "naive": lambda: naive.simulate(pool, scenario.source()),
            "fast": lambda: simulate(pool, scenario.source()),
        },
        repeats,
    )
    steps = fast.totals.steps
    return Ratio(
        lengths=lengths,
        num_seqs=num_seqs,
        usage_ratio=fast.totals.reserved_token_ns / (fast.capacity_tokens * fast.totals.busy_ns),
        mean_running=fast.totals.running_ns / fast.totals.busy_ns,
        num_steps=steps,
        preemptions=fast.totals.preemptions,
        naive_step_us=times["naive"].least / steps / 1000,
        fast_step_us=times["fast"].least / steps / 1000,
    )


def assert_same_books(fast: RunRecord, plain: naive.NaiveRun) -> None:
    for name in plain._fields[:11]:
        assert getattr(fast.totals, name) == getattr(plain, name), f"{name} differs: a comparison of unequal work"
    assert fast.gap.items() == sorted(plain.gap.items()), "gaps differ"
    assert fast.ttft.items() == sorted(plain.ttft.items()), "times to first token differ"


def start() -> dict[str, Any]:
    """Memory of the interpreter with all that a run loads, before any request."""
    import kvlab.api  # all that a run loads

    for lab in LABS:
        kvlab.api.simulate(load(lab).replace(num_requests=1), record=METRICS)
    return {"peak_mib": peak_mib()}


def long_run(settings: dict[str, object], num_requests: int) -> dict[str, Any]:
    """The preemption lab for a long time; only metrics are kept. The requests are drawn as they come."""
    return _measured(load("preemption-lab").replace(**settings, num_requests=num_requests))


def trace_run(path: str, settings: dict[str, object]) -> dict[str, Any]:
    """The preemption lab on a recorded trace, read as it goes."""
    return _measured(load("preemption-lab").replace(trace=path, **settings))


def _measured(scenario: Scenario) -> dict[str, Any]:
    import kvlab.api

    begun_ns = time.process_time_ns()
    run = kvlab.api.simulate(scenario, record=METRICS)
    metrics = run.metrics
    took_s = (time.process_time_ns() - begun_ns) / NS_PER_S
    assert metrics.arrived == metrics.finished + metrics.rejected, "a request was lost"
    return {
        "cpu_s": took_s,
        "peak_mib": peak_mib(),
        "requests": metrics.arrived,
        "steps": metrics.steps,
        "usage_percent": float(100 * (metrics.mean_kv_usage_ratio or 0)),
        "preemptions_per_1000": float(metrics.preemptions_per_1000 or 0),
        "mean_running": float(metrics.mean_running or 0),
        "peak_waiting": metrics.peak_waiting,
    }


def traffic_us(num_requests: int) -> float:
    """CPU time to draw one request, in µs: part of a long run."""
    scenario = load("preemption-lab").replace(num_requests=num_requests)
    return cpu_ns(lambda: drawn(scenario)) / num_requests / 1000


class Line(NamedTuple):
    percent: float
    calls: int
    function: str


def profile(lab: str, recording: Recording, runs: int, lines: int) -> list[Line]:
    """The functions that a lab run spends most time in, without those they call.

    A profiler slows calls down more than what is between them: read it as an order, not as a measurement.
    """
    scenario = load(lab)
    config, requests = scenario.engine_config(), drawn(scenario)
    profiler = cProfile.Profile(time.process_time)
    for _ in range(runs):
        profiler.runcall(_run, config, requests, recording)
    stats: Any = pstats.Stats(profiler)
    rows = sorted(stats.stats.items(), key=lambda item: -item[1][2])
    total = sum(row[2] for _, row in rows)
    return [
        Line(100 * own_s / total, calls // runs, _function(*place)) for place, (_, calls, own_s, *_) in rows[:lines]
    ]


def _function(path: str, line: int, name: str) -> str:
    if path.startswith("~"):
        return name.strip("<>").removeprefix("built-in method ").removeprefix("method ")
    package = Path(path).parts
    inside = package[package.index("kvlab") + 1 :] if "kvlab" in package else package[-1:]
    return f"{name} ({'/'.join(inside)}:{line})"


def start_up_ms(arguments: list[str], repeats: int) -> float:
    """Median wall time of a kvlab command in a new process, in ms."""
    times = []
    for _ in range(repeats):
        begun_ns = time.perf_counter_ns()
        subprocess.run([sys.executable, "-m", "kvlab", *arguments], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter_ns() - begun_ns)
    return median(times) / NS_PER_MS


def shared(name: str) -> Path | None:
    """A file of real data beside this repository or in KVLAB_SHARED; None where it's absent."""
    path = Path(os.environ.get("KVLAB_SHARED", Path(__file__).parents[2] / "shared")) / name
    return path if path.exists() else None


IN_A_PROCESS: dict[str, Callable[..., dict[str, Any]]] = {
    "start": start,
    "long_run": long_run,
    "trace_run": trace_run,
    "sweep_memory": sweeps.memory,
}

if __name__ == "__main__":
    print(json.dumps(IN_A_PROCESS[sys.argv[1]](**json.loads(sys.argv[2]))))
