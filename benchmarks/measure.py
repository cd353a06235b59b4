"""CPU time of calls, taken side by side; peak memory of processes of their own; a yardstick of the machine."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


class Spread(NamedTuple):
    """CPU time of several calls of one function, in ns."""

    least: int
    median: int


def cpu_ns(call: Callable[[], object]) -> int:
    """CPU time of this process for one call: other processes hardly count."""
    gc.collect()
    begun = time.process_time_ns()
    call()
    return time.process_time_ns() - begun


def side_by_side(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Spread]:
    """Each call once per round, `repeats` rounds, so that a machine that slows down slows all of them."""
    times: dict[str, list[int]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(cpu_ns(call))
    return {name: Spread(min(values), round(median(values))) for name, values in times.items()}


def yardstick_ms() -> float:
    """CPU time of a million integer additions in a plain loop, in ms: to compare machines by."""

    def loop() -> int:
        total = 0
        for number in range(1_000_000):
            total += number
        return total

    return side_by_side({"loop": loop}, 5)["loop"].least / NS_PER_MS


def peak_mib() -> float:
    """Most memory that this process held at once, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the parent's memory from before this program was loaded
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    import resource  # not there on Windows

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def in_a_process(case: str, **arguments: object) -> dict[str, Any]:
    """What a case of `benchmarks.cases` measures in a fresh interpreter, so that memory is only its own."""
    command = [sys.executable, "-m", "benchmarks.cases", case, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"benchmarks: {case} {arguments} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
