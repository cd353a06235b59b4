"""Which changes keep the goals: single levers first, then pairs that are cheaper than any of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from heapq import nsmallest
from itertools import combinations, product
from math import ceil, floor
from typing import Final

from kvlab.advice.goals import Goal
from kvlab.advice.levers import in_force
from kvlab.advice.served import missed, turned_away
from kvlab.errors import KvlabError
from kvlab.prices import Price, cost_of
from kvlab.scenarios import Scenario
from kvlab.settings import Value
from kvlab.sweeps.outcome import Outcome, key_of
from kvlab.sweeps.workers import Executor

Change = tuple[tuple[str, Value], ...]
"""Settings and their new values, in the order of the table of settings."""
_AT_ONCE: Final = 64
_FEW: Final = 4
"""Values of one lever that are run at once: the first that suffices ends it."""
_FIRST_TRIED: Final = 100
"""Combinations of which most is to be expected."""
_MOST_KINDS: Final = 8
"""Fixes of one price, of different levers."""
_NOTICED: Final = 0.01
"""Share of a metric that is a change."""
_NUMBERS: Final = (int, Decimal)
_ZERO_IS_NO_LIMIT: Final = ("long_prefill_token_threshold",)


class Trial:
    """A change, what it costs, and what became of it with each seed that was tried so far."""

    def __init__(self, change: Change, price: int, scenario: Scenario) -> None:
        self.change = change
        self.price = price
        self.scenario = scenario
        self.outcomes: dict[int, Outcome] = {}

    @property
    def levers(self) -> tuple[str, ...]:
        """Names of the settings."""
        return tuple(name for name, _ in self.change)

    def keeps(self, goals: Sequence[Goal]) -> bool:
        """Whether all seeds tried keep all goals."""
        return all(
            outcome.metrics is not None and all(goal.met_by(outcome.metrics) for goal in goals)
            for outcome in self.outcomes.values()
        )

    def missed(self, goals: Sequence[Goal]) -> float:
        """By how much the goals are missed, the seeds added up."""
        return sum(missed(outcome.metrics, goals) for outcome in self.outcomes.values())

    def values(self, metric: str) -> list[float]:
        """A metric with every seed that has it."""
        found = [None if outcome.metrics is None else outcome.metrics[metric] for outcome in self.outcomes.values()]
        return [float(value) for value in found if value is not None]

    def distance(self, scenario: Scenario) -> float:
        """How far the change goes: the sum of relative moves of numbers; of a first limit, the less the lower it is."""
        settings = scenario.settings()
        return sum(_move(name, settings[name], value) for name, value in self.change)


def _first_metrics(trial: Trial) -> Mapping[str, int | float | None]:
    """With the first seed, which all trials have; none where it could not be run."""
    return next(iter(trial.outcomes.values())).metrics or {}


def _gain(now: int | float | None, then: int | float | None, goal: Goal) -> int:
    """1 better, -1 worse, 0 about the same."""
    if now is None or then is None:
        return (now is not None) - (then is not None)
    gain = then - now if goal.at_most else now - then
    return 0 if abs(gain) <= _NOTICED * abs(then) else 1 if gain > 0 else -1


def _move(name: str, now: object, value: object) -> float:
    if not isinstance(now, _NUMBERS) or not isinstance(value, _NUMBERS):
        return 0.0
    if not now and name in _ZERO_IS_NO_LIMIT:
        return 1 / float(value)
    return abs(float(value) - float(now)) / max(abs(float(now)), 1.0)


class Lab:
    """Runs trials, each at most once for a seed."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known: dict[str, Outcome] = {}
        self.runs = 0

    def run(self, trials: Iterable[Trial], seeds: Sequence[int]) -> None:
        """Every trial with every seed."""
        wanted = [(trial, seed, trial.scenario.replace(seed=seed)) for trial in trials for seed in seeds]
        keys = [key_of(scenario) for _, _, scenario in wanted]
        todo = {key: scenario for key, (_, _, scenario) in zip(keys, wanted, strict=True) if key not in self._known}
        names = list(todo)
        for number, outcome in self._executor(enumerate(todo.values())):
            self._known[names[number]] = outcome
        self.runs += len(todo)
        for key, (trial, seed, _) in zip(keys, wanted, strict=True):
            trial.outcomes[seed] = self._known[key]


class Search:
    """Trials of one scenario against one set of goals.

    Args:
        base: the scenario as it is, run with all seeds.
        ladders: setting -> the values to try.
        steps: of those that are numbers, the smallest difference worth telling; the others keep to their ladders.
    """

    def __init__(
        self,
        lab: Lab,
        base: Trial,
        goals: Sequence[Goal],
        seeds: Sequence[int],
        prices: Mapping[str, Price],
        ladders: Mapping[str, Sequence[Value]],
        steps: Mapping[str, int | Decimal],
    ) -> None:
        self._lab = lab
        self._base = base
        self._scenario = base.scenario
        self._now = in_force(base.scenario)
        self._goals = goals
        self._seeds = seeds
        self._prices = prices
        self._ladders = ladders
        self._steps = steps
        self._alone: dict[tuple[str, Value], Mapping[str, int | float | None]] = {}
        """What became of insufficient values, with the first seed."""

    def alone(self, name: str) -> list[Trial]:
        """One lever at each of its values: the cheapest first, of equal price the nearest to what is set."""
        made = (self._trial(((name, value),)) for value in self._ladders[name])
        return sorted(
            (trial for trial in made if trial is not None),
            key=lambda trial: (trial.price, trial.distance(self._scenario)),
        )

    def first_sufficient(self, trials: Sequence[Trial]) -> Trial | None:
        """The first that keeps the goals with every seed."""
        for begin in range(0, len(trials), _FEW):
            good = self._sufficient(trials[begin : begin + _FEW])
            if good:
                return good[0]
        return None

    def refined(self, good: Trial) -> Trial:
        """The least move that suffices: of each lever in turn, the others where they are."""
        for name, _ in good.change:
            if name in self._steps:
                good = self._nearest(good, name, self._ladders[name], Decimal(self._steps[name]))
        return good

    def _nearest(self, good: Trial, name: str, values: Sequence[Value], width: Decimal) -> Trial:
        """By bisection, between what is good and the value before it, or that in force: not every pair was tried."""
        moves = dict(good.change)
        now, value = self._now[name], moves[name]
        if not isinstance(now, _NUMBERS) or not isinstance(value, _NUMBERS):
            return good
        before = [Decimal(each) for each in values if isinstance(each, _NUMBERS)]
        end = Decimal(value)
        start = 2 * max(before) if name in _ZERO_IS_NO_LIMIT and not now else Decimal(now)
        way = 1 if end > start else -1
        tried = before if len(moves) == 1 else []
        passed = [each for each in tried if 0 < (each - start) * way < (end - start) * way]
        near = floor(max(passed, key=lambda each: each * way, default=start) / width * way)
        far = ceil(end / width * way)
        while far - near > 1:
            middle = (far + near) // 2
            there = middle * width * way
            trial = self._trial(tuple((moves | {name: int(there) if isinstance(now, int) else there}).items()))
            if trial is not None and self._sufficient([trial]):
                far, good = middle, trial
            else:
                near = middle
        return good

    def insufficient(self, tried: Iterable[Trial]) -> list[Value]:
        """Of one lever's values those that were run, and do not suffice."""
        found = []
        for trial in tried:
            if trial.outcomes and _first_metrics(trial) and not self._will_do(trial):
                found.append(trial.change[0][1])
                self._alone[trial.change[0]] = _first_metrics(trial)
        return found

    def combined(self, levers: Mapping[str, Sequence[Value]], *, below: int | None, most_runs: int) -> Iterator[Trial]:
        """Pairs that suffice, refined; if there is none, three levers at once, which are a last resort.

        First those of which most is to be expected: then a fix is found soon, and what would be cheaper is looked for
        among all others. Last those of which a part alone makes what is asked for only worse.

        Args:
            levers: of each the values that are insufficient alone.
            below: only what is cheaper than that is of interest; None: all.
            most_runs: stop looking after that many.
        """
        hopeful = {name: self._promising(name, values) for name, values in levers.items()}
        begun = self._lab.runs
        for some, count, most in (
            (hopeful, 2, _FIRST_TRIED),
            (hopeful, 3, _FIRST_TRIED),
            (hopeful, 2, None),
            (levers, 2, None),
            (hopeful, 3, None),
        ):
            left = most_runs - (self._lab.runs - begun)
            if left <= 0 or (count == 3 and below is not None):
                continue
            found = self._cheapest(self._together(some, count, most), below=below, most_runs=left)
            for trial in map(self.refined, found[:_MOST_KINDS]):
                below = trial.price if below is None else min(below, trial.price)
                yield trial

    def _promising(self, name: str, values: Iterable[Value]) -> list[Value]:
        """Those that don't make what is asked for only worse.

        A limit that does nothing alone, as another one binds, is among them: it may bind next.
        """
        before = _first_metrics(self._base)
        found = []
        for value in values:
            after = self._alone[name, value]
            gains = [_gain(after[goal.metric], before[goal.metric], goal) for goal in self._goals]
            if max(gains) > 0 or min(gains) == 0:
                found.append(value)
        return found

    def _together(self, levers: Mapping[str, Sequence[Value]], count: int, most: int | None = None) -> Iterator[Trial]:
        """`count` levers together, the cheapest first.

        Args:
            most: only so many, of which most is to be expected; None: every combination of these.
        """
        changes = [
            tuple(zip(names, values, strict=True))
            for names in combinations(levers, count)
            for values in product(*(levers[name] for name in names))
        ]
        if most is not None:
            changes = nsmallest(most, changes, key=self._expected)
        for change in sorted(changes, key=self._price):
            trial = self._trial(change)
            if trial is not None:
                yield trial

    def _cheapest(self, candidates: Iterable[Trial], *, below: int | None, most_runs: int) -> list[Trial]:
        """Of candidates in rising price, those of the first price at which one keeps the goals, one of each kind.

        Args:
            below: only what is cheaper than that is of interest; None: all.
            most_runs: stop looking after that many.
        """
        begun = self._lab.runs
        found: list[Trial] = []
        batch: list[Trial] = []
        for trial in candidates:
            too_dear = below is not None and trial.price >= below
            if too_dear or (found and trial.price > found[0].price) or self._lab.runs - begun >= most_runs:
                break
            if batch and (trial.price > batch[0].price or len(batch) == _AT_ONCE):
                found += self._sufficient(batch)
                batch = []
                if found and trial.price > found[0].price:
                    break
            batch.append(trial)
        if batch and not (found and batch[0].price > found[0].price):
            found += self._sufficient(batch)
        nearest: dict[tuple[str, ...], Trial] = {}
        for trial in sorted(found, key=lambda trial: trial.distance(self._scenario)):
            nearest.setdefault(trial.levers, trial)
        return list(nearest.values())

    def _sufficient(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those that keep the goals with every seed. The first seed alone rules most of them out."""
        self._lab.run(trials, self._seeds[:1])
        left = [trial for trial in trials if self._will_do(trial)]
        self._lab.run(left, self._seeds[1:])
        return [trial for trial in left if self._will_do(trial)]

    def _will_do(self, trial: Trial) -> bool:
        """All goals hold with every seed tried, and nobody is turned away who was not before."""
        return trial.keeps(self._goals) and all(
            turned_away(outcome.metrics or {}) <= turned_away(self._base.outcomes[seed].metrics or {})
            for seed, outcome in trial.outcomes.items()
        )

    def _expected(self, change: Change) -> float:
        """By how much the goals would be missed, if each lever changed a metric by the factor that it has alone."""
        before = _first_metrics(self._base)
        amount = 0.0
        for goal in self._goals:
            value = then = before[goal.metric]
            for move in change:
                now = self._alone[move][goal.metric]
                value = now if value is None or now is None or not then else value * now / then
            amount += float(goal.missed_by({goal.metric: value}))
        return amount

    def _trial(self, change: Change) -> Trial | None:
        try:
            changed = self._scenario.replace(**dict(change))
        except KvlabError:
            return None
        return Trial(change, self._price(change), changed)

    def _price(self, change: Change) -> int:
        return cost_of(self._scenario.settings(), dict(change), self._prices)
