"""The Python API in three calls: a scenario, its simulation, a comparison of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.core.config import EVERYTHING, Recording
from kvlab.core.engine import Monitor
from kvlab.core.engine import simulate as run_engine
from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, load

if TYPE_CHECKING:
    from kvlab.comparison import Comparison
    from kvlab.results import Run


def scenario(name_or_path: str | Path = "preemption-lab", /, **settings: object) -> Scenario:
    """A preset (preemption-lab, block-table-lab) or a scenario file, with settings changed.

    Values are numbers, or text with units: `kv_memory_bytes="8 GiB"`, `gpu_memory_utilization="92 %"`.

    >>> scenario("preemption-lab", max_num_seqs=48).changes()
    {'max_num_seqs': 48}

    Raises:
        UnknownNameError: no such preset, file or setting; names the nearest.
        ScenarioError: the file can't be read.
        ConfigError: a value that can't work.
    """
    return _load(name_or_path).replace(**settings)


def simulate(scenario: Scenario | str | Path, *, record: Recording = EVERYTHING, monitor: Monitor | None = None) -> Run:
    """Runs the scenario to its end and returns its frozen results.

    Args:
        scenario: as it is, or what `kvlab.scenario` takes: a preset's name or a file.
        record: what to keep besides metrics. `kvlab.METRICS` keeps nothing else, so that memory is bounded by what
            runs and not by the length of the traffic.
        monitor: asked every few thousand steps with (clock in ns, requests ended so far); True stops the run.
    Raises:
        ConfigError: the server can't work (its pool holds no block), or this is no scenario.
        UnknownNameError, ScenarioError: as from `kvlab.scenario`.
        TraceError: the trace can't be read, or has a row that can't be used.
    """
    from kvlab.results import Run

    if not isinstance(scenario, Scenario):
        scenario = _load(scenario)
    config = scenario.engine_config()
    window_ns = scenario.window_ns
    result = run_engine(
        config,
        scenario.source(),
        recording=record,
        window_ns=window_ns,
        slo=scenario.slo,
        monitor=monitor,
    )
    return Run(
        scenario=scenario,
        record=result,
        config=config,
        window_ns=window_ns,
        kv_bytes_per_token=scenario.kv_bytes_per_token,
    )


def _load(name_or_path: object) -> Scenario:
    if not isinstance(name_or_path, str | Path):
        raise ConfigError("scenario", name_or_path, "expected kvlab.scenario(...), a preset's name or a file")
    return load(str(name_or_path))


def compare(*runs: Run) -> Comparison:
    """Every metric of each run against the first's: value, change, and whether that is better or worse.

    Raises:
        ConfigError: fewer than two runs.
    """
    from kvlab.comparison import compare as compare_results

    return compare_results(runs)
