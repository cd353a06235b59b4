"""A sweep: scenarios along axes, run by many workers, kept on disk, put together in the order they were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvlab.errors import ConfigError, KvlabError
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.settings import Value
from kvlab.sweeps.outcome import Outcome, key_of
from kvlab.sweeps.store import Store
from kvlab.sweeps.workers import Executor, at_work

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int], None]
"""(finished, all)."""
RESULTS: Final = "results"
"""The folder of outcomes inside a sweep's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scenario of a sweep."""

    settings: Mapping[str, Value]
    """Those that the sweep varies."""
    seed: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The results, in the order of the points and, for each, of the seeds."""

    scenario: Scenario
    """What the points are changes of."""
    names: tuple[str, ...]
    """Settings that vary."""
    rows: tuple[Row, ...]
    reused: int
    """Outcomes that were there already."""

    def table(self) -> pa.Table:
        """One row per run: varied settings, seed, every metric, error. Settings are as `kvlab` writes them."""
        from kvlab.sweeps.table import table

        return table(self)

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """The dataframe interchange protocol: pandas, polars and others read a sweep directly."""
        return self.table().__dataframe__(nan_as_null=nan_as_null, allow_copy=allow_copy)

    def write(self, folder: str | Path) -> tuple[Path, ...]:
        """Writes sweep.parquet and sweep.csv.

        Raises:
            OutputError: the files can't be written.
        """
        from kvlab.sweeps.table import write

        return write(self, Path(folder))


def run_sweep(
    scenario: Scenario,
    points: Iterable[Mapping[str, Value]],
    *,
    seeds: Sequence[int] = (),
    executor: Executor | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Runs every point with every seed, except what is in the folder already.

    Args:
        points: changes of the scenario's settings; all with the same names.
        seeds: of the traffic; by default the scenario's own.
        executor: who runs them; by default a process per processor.
        folder: keeps outcomes and lets an interrupted sweep go on; None keeps them in memory only.
    Raises:
        ConfigError: no points, or points with different settings.
        OutputError: an outcome can't be kept; those before it are.
    """
    points = list(points)
    seeds = tuple(seeds) or (scenario.traffic.seed,)
    names = _names(points)
    store = None if folder is None else Store(folder / RESULTS)
    plan = [_planned(scenario, point, seed) for point in points for seed in seeds]
    outcomes: dict[str, Outcome] = {}
    reused = 0
    for _, key, problem in plan:
        kept = None if store is None or problem is not None else store.get(key)
        reused += kept is not None
        if kept is not None or problem is not None:
            outcomes[key] = kept or problem  # type: ignore[assignment] # one of them is there
    known = len(outcomes)
    todo = {key: made for made, key, _ in plan if made is not None and key not in outcomes}
    keys = list(todo)
    if progress is not None:
        progress(len(outcomes), len(outcomes) + len(todo))
    with at_work(executor) as run:
        for number, outcome in run(enumerate(todo.values())):
            if store is not None:
                store.put(keys[number], outcome)
            outcomes[keys[number]] = outcome
            if progress is not None:
                progress(len(outcomes), known + len(todo))
    pairs = ((point, seed) for point in points for seed in seeds)
    rows = [
        Row(settings=point, seed=seed, outcome=outcomes[key])
        for (point, seed), (_, key, _) in zip(pairs, plan, strict=True)
    ]
    return Sweep(scenario=scenario, names=names, rows=tuple(rows), reused=reused)


def _planned(scenario: Scenario, point: Mapping[str, Value], seed: int) -> tuple[Scenario | None, str, Outcome | None]:
    """A point's scenario and key; or why there can be no such scenario."""
    try:
        made = scenario.replace(**point, seed=seed)
    except KvlabError as error:
        key = f"invalid: {sorted((name, SETTINGS[name].show(value)) for name, value in point.items())}"
        return None, key, Outcome(metrics=None, error=str(error))
    return made, key_of(made), None


def _names(points: Sequence[Mapping[str, Value]]) -> tuple[str, ...]:
    if not points:
        raise ConfigError("points", "none", "a sweep needs at least one")
    names = tuple(points[0])
    for point in points:
        if tuple(point) != names:
            raise ConfigError("points", ", ".join(point), f"expected {', '.join(names)}, as in the first one")
    if "seed" in names:
        raise ConfigError("seed", "an axis", "give seeds apart from the axes")
    return names


def medians(sweep: Sweep, metric: str) -> Iterator[tuple[Mapping[str, Value], float | None]]:
    """A metric's median over the seeds of each point; None where a run has none."""
    from statistics import median

    width = len({row.seed for row in sweep.rows})
    for first in range(0, len(sweep.rows), width):
        rows = sweep.rows[first : first + width]
        values = [None if row.outcome.metrics is None else row.outcome.metrics[metric] for row in rows]
        present = [value for value in values if value is not None]
        yield rows[0].settings, float(median(present)) if len(present) == len(values) else None
