"""Which changes keep the goals: single levers first, then pairs that are cheaper than any of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Final

from kvlab.advice.goals import Goal
from kvlab.errors import KvlabError
from kvlab.prices import PRICES, Price, cost_of
from kvlab.scenarios import Scenario
from kvlab.settings import Value
from kvlab.sweeps.outcome import Outcome, key_of
from kvlab.sweeps.workers import Executor

Change = tuple[tuple[str, Value], ...]
"""Settings and their new values, in the order of the table of settings."""
_AT_ONCE: Final = 64


class Trial:
    """A change, what it costs, and what became of it with each seed that was tried so far."""

    def __init__(self, change: Change, price: int, scenario: Scenario) -> None:
        self.change = change
        self.price = price
        self.scenario = scenario
        self.outcomes: dict[int, Outcome] = {}

    def keeps(self, goals: Sequence[Goal]) -> bool:
        """Whether all seeds tried keep all goals."""
        return all(
            outcome.metrics is not None and all(goal.met_by(outcome.metrics) for goal in goals)
            for outcome in self.outcomes.values()
        )


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


def singles(
    scenario: Scenario, levers: Mapping[str, Sequence[Value]], prices: Mapping[str, Price] = PRICES
) -> list[Trial]:
    """Each lever alone, at each of its values."""
    return [trial for name, values in levers.items() for value in values
            if (trial := _trial(scenario, ((name, value),), prices)) is not None]  # fmt: skip


def combined(
    scenario: Scenario, levers: Mapping[str, Sequence[Value]], prices: Mapping[str, Price] = PRICES, *, count: int
) -> Iterator[Trial]:
    """`count` levers together, every combination of their values; the cheapest first."""
    found: list[tuple[int, int, Change]] = []
    for names in combinations(levers, count):
        for values in product(*(levers[name] for name in names)):
            price = _price(scenario, tuple(zip(names, values, strict=True)), prices)
            found.append((price, len(found), tuple(zip(names, values, strict=True))))
    for _, _, change in sorted(found, key=lambda entry: entry[:2]):
        trial = _trial(scenario, change, prices)
        if trial is not None:
            yield trial


def _trial(scenario: Scenario, change: Change, prices: Mapping[str, Price]) -> Trial | None:
    try:
        changed = scenario.replace(**dict(change))
    except KvlabError:
        return None
    return Trial(change, _price(scenario, change, prices), changed)


def _price(scenario: Scenario, change: Change, prices: Mapping[str, Price]) -> int:
    return cost_of(scenario.settings(), dict(change), prices)


def sufficient(lab: Lab, trials: Sequence[Trial], goals: Sequence[Goal], seeds: Sequence[int]) -> list[Trial]:
    """Those that keep the goals with every seed. The first seed alone rules most of them out."""
    lab.run(trials, seeds[:1])
    left = [trial for trial in trials if trial.keeps(goals)]
    lab.run(left, seeds[1:])
    return [trial for trial in left if trial.keeps(goals)]


def cheaper_together(
    lab: Lab,
    candidates: Iterator[Trial],
    goals: Sequence[Goal],
    seeds: Sequence[int],
    *,
    below: int | None,
    most_runs: int,
) -> list[Trial]:
    """Of combinations in rising price, those of the first price at which one keeps the goals.

    Args:
        below: only combinations cheaper than that are of interest; None: all.
        most_runs: stop looking after that many.
    """
    begun = lab.runs
    found: list[Trial] = []
    batch: list[Trial] = []
    for trial in candidates:
        too_dear = below is not None and trial.price >= below
        if too_dear or (found and trial.price > found[0].price) or lab.runs - begun >= most_runs:
            break
        if batch and (trial.price > batch[0].price or len(batch) == _AT_ONCE):
            found += sufficient(lab, batch, goals, seeds)
            batch = []
            if found and trial.price > found[0].price:
                break
        batch.append(trial)
    if batch and not (found and batch[0].price > found[0].price):
        found += sufficient(lab, batch, goals, seeds)
    return found
