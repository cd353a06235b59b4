"""The Python API in three calls: a scenario, its simulation, a comparison of runs."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.core.config import EVERYTHING, Recording
from kvlab.core.engine import Monitor
from kvlab.core.engine import simulate as run_engine
from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kvlab.advice.answer import Advice
    from kvlab.advice.plan import Plan
    from kvlab.comparison import Comparison
    from kvlab.prices import Price
    from kvlab.results import Run
    from kvlab.settings import Value
    from kvlab.sweeps.sweep import Sweep
    from kvlab.sweeps.workers import Executor


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


def sweep(
    scenario: Scenario | str | Path,
    *,
    points: Iterable[Mapping[str, object]] | None = None,
    seeds: int | Iterable[int] = 1,
    sample: int | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    folder: str | Path | None = None,
    overwrite: bool = False,
    **axes: object,
) -> Sweep:
    """Simulates every combination of the axes' values, or the points of a list, and returns one frozen table.

    >>> few = sweep("preemption-lab", max_num_seqs=[32, 64], num_requests=[50], workers=1)
    >>> [(row.settings["max_num_seqs"], row.outcome.metrics["peak_running"]) for row in few.rows]
    [(32, 32), (64, 35)]

    Args:
        points: settings of each point, in place of axes: [{"max_num_seqs": 64, "block_size": 16}, ...].
        seeds: runs of every point: so many from the scenario's seed on, or these.
        sample: a Latin hypercube of so many points in place of the whole grid.
        workers: processes; by default one per processor.
        executor: who runs them in place of local processes, such as `kvlab.sweeps.ray.ray_executor(address)`.
        folder: keeps what is finished, so that an interrupted sweep goes on, and gets the tables; None keeps all in
            memory only.
        overwrite: whether another sweep in that folder may be replaced.
        axes: setting -> values, or a text such as "16,32", "2:8:0.5" or "log(8, 256, 6)".
    Raises:
        ConfigError: a value that can't work, no axis, no seeds, too many runs, or another sweep in the folder.
        UnknownNameError: no such setting, GPU, model or the like.
        OutputError: the folder can't be written.
    """
    from kvlab.sweeps.axes import axis_of, grid, hypercube
    from kvlab.sweeps.points import points_of
    from kvlab.sweeps.seeds import seeds_of
    from kvlab.sweeps.sweep import run_sweep
    from kvlab.sweeps.workers import local

    base = scenario if isinstance(scenario, Scenario) else _load(scenario)
    if folder is not None and not str(folder).strip():
        raise ConfigError("folder", folder, "name one; the current one is .")
    first = base.traffic.seed
    tried = seeds_of(seeds, first)
    if points is not None:
        if axes or sample is not None:
            raise ConfigError("points", ", ".join(axes) or f"sample={sample}", "are in place of axes: give either")
        wanted: Iterable[Mapping[str, Value]] = points_of(points, base.rules)
    else:
        parsed = [axis_of(name, given, base.rules) for name, given in axes.items()]
        if not parsed:
            raise ConfigError("axes", "none", "give at least one setting with values, such as max_num_seqs=[32, 64]")
        wanted = grid(parsed) if sample is None else hypercube(parsed, sample, first)
    if executor is not None and workers is not None:
        raise ConfigError("workers", workers, "give either workers or an executor")
    with nullcontext(executor) if executor is not None else local(workers) as run:
        return run_sweep(
            base,
            wanted,
            seeds=tried,
            executor=run,
            folder=None if folder is None else Path(folder),
            overwrite=overwrite,
        )


def advise(
    scenario: Scenario | str | Path,
    goals: str,
    *,
    seeds: int | Iterable[int] = 3,
    workers: int | None = None,
    prices: Mapping[str, Price] | None = None,
    levers: Iterable[str] | None = None,
) -> Advice:
    """The cheapest changes of settings that keep a service level, with every seed.

    >>> few = scenario("preemption-lab", num_requests=150)
    >>> advice = advise(few, "gap_max<=150ms", seeds=1, workers=1)
    >>> advice.verdict, advice.fixes[0].text, advice.fixes[0].price
    ('fix', 'headroom_blocks=62', 1)

    Args:
        goals: limits on metrics of a run, such as "gap_p99<=150ms, ttft_p95<=2s, throughput>=700".
        seeds: so many from the scenario's seed on, or these.
        workers: processes; by default one per processor.
        prices: in place of `kvlab.prices.PRICES`; `kvlab.price_file.read_prices` reads a file.
        levers: only these settings may change, such as ["max_num_seqs", "watermark"].
    Raises:
        ConfigError: goals that can't be read, no seeds, or a scenario that can't run.
        UnknownNameError: no such metric, or no such lever of this scenario; names the nearest.
    """
    from kvlab.advice.advise import find_fixes
    from kvlab.advice.goals import parse_goals
    from kvlab.price_file import for_levers
    from kvlab.prices import PRICES
    from kvlab.sweeps.seeds import seeds_of
    from kvlab.sweeps.workers import local

    base = scenario if isinstance(scenario, Scenario) else _load(scenario)
    limits = parse_goals(_checked_goals(goals))
    tried = seeds_of(seeds, base.traffic.seed)
    table = PRICES if prices is None else prices
    if levers is not None:
        table = for_levers(table, levers, base)
    with local(workers) as run:
        return find_fixes(base, limits, seeds=tried, executor=run, prices=table)


def plan(
    scenario: Scenario | str | Path,
    goals: str,
    *,
    largest: str | None = None,
    least: str | None = None,
    step: object = None,
    seeds: int | Iterable[int] = 5,
    workers: int | None = None,
    every_seed: bool = False,
) -> Plan:
    """How far a setting can go within a service level: the largest load, or another setting's largest or least value.

    >>> found = plan("preemption-lab", "ttft_p95<=2s", seeds=1, workers=1)
    >>> found.answer, found.interval
    (Decimal('3.0'), (Decimal('3.0'), Decimal('3.0')))

    Args:
        goals: limits on metrics of a run, such as "gap_p99<=150ms, ttft_p95<=2s".
        largest, least: the setting; by default the largest request_rate, of a trace trace_speed, and of a closed loop
            max_concurrency.
        step: the answer is a multiple of it.
        seeds: so many from the scenario's seed on, or these; each has a limit of its own.
        workers: processes; by default one per processor.
        every_seed: tries every seed at all values around the limits, for a drawing of the knee.
    Raises:
        ConfigError: both largest and least, a setting that can't be planned, goodput without limits, or no seeds.
        UnknownNameError: no such setting or metric.
    """
    from kvlab.advice.goals import parse_goals
    from kvlab.advice.plan import default_field, find_limit
    from kvlab.sweeps.seeds import seeds_of
    from kvlab.sweeps.workers import local

    if largest is not None and least is not None:
        raise ConfigError("least", least, "give either largest or least")
    base = scenario if isinstance(scenario, Scenario) else _load(scenario)
    limits = parse_goals(_checked_goals(goals))
    tried = seeds_of(seeds, base.traffic.seed)
    with local(workers) as run:
        return find_limit(
            base,
            least or largest or default_field(base),
            limits,
            largest=least is None,
            seeds=tried,
            step=step,
            executor=run,
            every_seed=every_seed,
        )


def _load(name_or_path: object) -> Scenario:
    if not isinstance(name_or_path, str | Path):
        raise ConfigError("scenario", name_or_path, "expected kvlab.scenario(...), a preset's name or a file")
    return load(str(name_or_path))


def _checked_goals(goals: object) -> str:
    if not isinstance(goals, str):
        raise ConfigError("goals", goals, 'expected limits as a text, such as "gap_p99<=150ms, ttft_p95<=2s"')
    return goals


def compare(*runs: Run) -> Comparison:
    """Every metric of each run against the first's: value, change, and whether that is better or worse.

    Raises:
        ConfigError: fewer than two runs.
    """
    from kvlab.comparison import compare as compare_results

    return compare_results(runs)
