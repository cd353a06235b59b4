"""A sweep: scenarios along axes, run by many workers, kept on disk, put together in the order they were asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from statistics import median
from threading import Lock
from typing import TYPE_CHECKING, Final

from kvlab.errors import ConfigError, KvlabError
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.settings import Value
from kvlab.sweeps.axes import MAX_RUNS
from kvlab.sweeps.folder import claim
from kvlab.sweeps.outcome import Outcome, key_of
from kvlab.sweeps.points import check_names
from kvlab.sweeps.store import Store
from kvlab.sweeps.workers import Executor, at_work
from kvlab.tabular import Tabular
from kvlab.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, int], None]
"""(finished, all, those of the finished that needed no run). Calls come from several threads, one at a time."""
RESULTS: Final = "results.jsonl"
"""The file of outcomes in a sweep's folder."""
_DECIDE_WHETHER_IT_DRAWS: Final = ("trace", "long_report_users")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scenario of a sweep."""

    settings: Mapping[str, Value]
    """Those that the sweep varies."""
    seed: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sweep(Tabular):
    """The results, in the order of the points and, for each, of the seeds."""

    scenario: Scenario
    """What the points are changes of."""
    names: tuple[str, ...]
    """Settings that vary."""
    rows: tuple[Row, ...]
    reused: int
    """Outcomes that were there already."""

    def __repr__(self) -> str:
        points, failed = self.num_points, self.num_failed
        return (
            f"<Sweep {self.scenario.name}: {counted(len(self.rows), 'run')} of {counted(points, 'point')} along "
            f"{', '.join(self.names)}{f'; {failed:,} failed' if failed else ''}>"
        )

    @property
    def num_points(self) -> int:
        """Distinct combinations of settings."""
        return sum(1 for _ in _by_point(self.rows))

    @property
    def num_failed(self) -> int:
        """Runs that were impossible."""
        return sum(row.outcome.error is not None for row in self.rows)

    def table(self) -> pa.Table:
        """One row per run: varied settings, seed, every metric, error. Settings are as `kvlab` writes them."""
        from kvlab.sweeps.table import table

        return table(self)

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
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Runs every point with every seed, except what is in the folder already.

    A point that is there twice is run once; so is one whose seed decides nothing, such as a trace, with the scenario's
    own seed.

    Args:
        points: changes of the scenario's settings; all with the same names.
        seeds: of the traffic; by default the scenario's own.
        executor: who runs them; by default a process per processor.
        folder: keeps outcomes and lets an interrupted sweep go on, and gets the tables; None keeps all in memory only.
        overwrite: whether another sweep in that folder may be replaced. Outcomes of it that fit are still used.
    Raises:
        ConfigError: no points, too many, points with different settings, or another sweep in the folder.
        UnknownNameError: a point names a GPU, a model or the like that there isn't.
        OutputError: an outcome can't be kept; those before it are.
    """
    points = list(islice(points, MAX_RUNS + 1))
    seeds = tuple(seeds) or (scenario.traffic.seed,)
    names = _names(points)
    if len(points) * len(seeds) > MAX_RUNS:
        shown = f"{len(points):,} x {len(seeds):,}"
        raise ConfigError("points x seeds", shown, f"at most {MAX_RUNS:,} runs: take fewer values or seeds")
    points = list({tuple(point.items()): point for point in points}.values())
    check_names(scenario, points)
    runs = _runs(scenario, points, seeds)
    with ExitStack() as stack:
        store = None
        if folder is not None:
            store = stack.enter_context(Store(folder / RESULTS))
            claim(folder, scenario, names, runs, overwrite=overwrite)
        book = _Book(scenario, runs, store, progress)
        book.tell()
        run = stack.enter_context(at_work(executor))
        for number, outcome in run(book.missing()):
            book.enter(number, outcome)
        sweep = Sweep(scenario=scenario, names=names, rows=tuple(book.rows()), reused=book.reused)
        if folder is not None:
            sweep.write(folder)  # while the folder is still this sweep's own
    return sweep


def _runs(
    scenario: Scenario, points: Sequence[Mapping[str, Value]], seeds: Sequence[int]
) -> list[tuple[Mapping[str, Value], int]]:
    """Points in their order, seeds innermost; of a point that draws nothing, the scenario's own seed alone."""
    own = (scenario.traffic.seed,)
    if not any(name in _DECIDE_WHETHER_IT_DRAWS for name in points[0]):
        tried = seeds if _draws(scenario, {}) else own
        return [(point, seed) for point in points for seed in tried]
    return [(point, seed) for point in points for seed in (seeds if _draws(scenario, point) else own)]


def _draws(scenario: Scenario, point: Mapping[str, Value]) -> bool:
    """Whether the seed decides anything there."""
    try:
        return "seed" not in scenario.replace(**point).traffic.idle()
    except KvlabError:  # its row says why
        return True


class _Book:
    """Which runs there are, and what is known of each. Scenarios are made when they are run, and not kept."""

    def __init__(
        self,
        scenario: Scenario,
        runs: Sequence[tuple[Mapping[str, Value], int]],
        store: Store | None,
        progress: Progress | None,
    ) -> None:
        self._scenario = scenario
        self._runs = runs
        self._store = store
        self._progress = progress
        self._keys: list[str] = []
        self._outcomes: dict[str, Outcome | None] = {}
        """None: is being run."""
        self._done = self._free = 0
        self._lock = Lock()
        self.reused = 0

    def missing(self) -> Iterator[tuple[int, Scenario]]:
        """Runs whose outcome is not known yet, with their numbers. Other threads than the caller's may ask."""
        for number, (point, seed) in enumerate(self._runs):
            made, key, problem = _planned(self._scenario, point, seed)
            self._keys.append(key)
            is_new = key not in self._outcomes
            if is_new:
                kept = None if self._store is None or made is None else self._store.get(key)
                self.reused += kept is not None
                found = problem if kept is None else kept
                self._outcomes[key] = None if found is None else _slim(found)
                if found is None:
                    assert made is not None
                    yield number, made
                    continue
            self._count(free=True)

    def enter(self, number: int, outcome: Outcome) -> None:
        """What became of a run."""
        key = self._keys[number]
        if self._store is not None:
            self._store.put(key, outcome)
        self._outcomes[key] = _slim(outcome)
        self._count(free=False)

    def rows(self) -> Iterator[Row]:
        """All runs in their order."""
        for key, (point, seed) in zip(self._keys, self._runs, strict=True):
            outcome = self._outcomes[key]
            assert outcome is not None, f"no outcome of {point} with seed {seed}"
            yield Row(settings=point, seed=seed, outcome=outcome)

    def tell(self) -> None:
        """How far it is."""
        if self._progress is not None:
            with self._lock:
                self._progress(self._done, len(self._runs), self._free)

    def _count(self, *, free: bool) -> None:
        with self._lock:
            self._done += 1
            self._free += free
        self.tell()


def _slim(outcome: Outcome) -> Outcome:
    """The same, its metrics' names shared with all others."""
    if outcome.metrics is None:
        return outcome
    return replace(outcome, metrics={sys.intern(name): value for name, value in outcome.metrics.items()})


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
    for settings, rows in _by_point(sweep.rows):
        values = [None if row.outcome.metrics is None else row.outcome.metrics[metric] for row in rows]
        present = [value for value in values if value is not None]
        yield settings, float(median(present)) if len(present) == len(values) else None


def _by_point(rows: Iterable[Row]) -> Iterator[tuple[Mapping[str, Value], list[Row]]]:
    for _, some in groupby(rows, key=lambda row: tuple(row.settings.values())):
        found = list(some)
        yield found[0].settings, found
