"""The farthest value of a setting that keeps all goals, for each of several seeds at once.

Values are *places*: multiples of a step, counted from 0. Each seed searches on its own, by doubling, then by halving
what is left; what all of them want to know next is run together. A run is made once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

from kvlab.advice.goals import Goal
from kvlab.advice.served import keeps
from kvlab.errors import KvlabError
from kvlab.scenarios import Scenario
from kvlab.settings import FACTOR, RATE, RATIO, Setting, Value
from kvlab.sweeps.outcome import Outcome
from kvlab.sweeps.workers import Executor

MOST_DOUBLINGS: Final = 7
"""A limit that isn't met at 128 times the value that is set, or at a 128th of it, is not looked for any further."""
_DOUBLINGS_BEYOND: Final = 4
"""Where more load may help: runs of an overloaded server take long."""
_MOST_STEPS_BACK: Final = 64


@dataclass(frozen=True, slots=True)
class Bracket:
    """Neighbouring places, of which one holds and the one beyond doesn't."""

    good: int | None
    """None: no place that was tried holds."""
    bad: int | None
    """None: everything held that far."""


_Search = Generator[int, bool, Bracket]
"""Asks for places, is told whether they hold, and ends with the answer."""


class Bisection:
    """The search, and every run that it made."""

    def __init__(
        self,
        scenario: Scenario,
        setting: Setting,
        goals: Sequence[Goal],
        step: Decimal,
        *,
        largest: bool,
        executor: Executor,
    ) -> None:
        self._scenario = scenario
        self._setting = setting
        self._goals = goals
        self._step = step
        self._harder = 1 if largest else -1
        self._executor = executor
        self._known: dict[tuple[int, int], Outcome] = {}
        self._first = max(1, _whole(setting.at_least, step, ROUND_CEILING) or 1)
        self._last = _whole(setting.at_most, step, ROUND_FLOOR)
        self.runs = 0

    def value(self, place: int) -> Value:
        """The value at a place."""
        return self._setting.parse(shown(self._setting, place * self._step))

    def brackets(self, start: Decimal, seeds: Sequence[int]) -> dict[int, Bracket]:
        """For each seed where its limit is, found from a value that is set."""
        origin = self._inside(int(start // self._step))
        searches = {seed: self._search(origin) for seed in seeds}
        asked = {seed: next(search) for seed, search in searches.items()}
        found: dict[int, Bracket] = {}
        while asked:
            self.run((place, seed) for seed, place in asked.items())
            for seed, place in list(asked.items()):
                try:
                    asked[seed] = searches[seed].send(self.keeps(place, seed))
                except StopIteration as end:
                    found[seed] = end.value
                    del asked[seed]
        return {seed: found[seed] for seed in seeds}

    def common(self, brackets: dict[int, Bracket]) -> int | None:
        """The farthest place that holds with every seed: tried with all of them, since luck is not monotonic."""
        goods = [bracket.good for bracket in brackets.values()]
        if any(good is None for good in goods):
            return None
        place: int = (min if self._harder > 0 else max)(good for good in goods if good is not None)
        for _ in range(_MOST_STEPS_BACK):
            self.run((place, seed) for seed in brackets)
            if all(self.keeps(place, seed) for seed in brackets):
                return place
            if self._inside(place - self._harder) == place:
                break
            place -= self._harder
        return None

    def run(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Makes sure of every (place, seed)."""
        scenarios: dict[tuple[int, int], Scenario] = {}
        for place, seed in wanted:
            if (place, seed) in self._known:
                continue
            try:
                scenarios[place, seed] = self._scenario.replace(**{self._setting.name: self.value(place), "seed": seed})
            except KvlabError as error:
                self._known[place, seed] = Outcome(metrics=None, error=str(error))
        keys = list(scenarios)
        for number, outcome in self._executor(enumerate(scenarios.values())):
            self._known[keys[number]] = outcome
        self.runs += len(keys)

    def keeps(self, place: int, seed: int) -> bool:
        """Whether a run kept all goals, and served everybody."""
        return keeps(self._known[place, seed].metrics, self._goals)

    def tried(self) -> dict[int, dict[int, Outcome]]:
        """Place -> seed -> what became of it; places in order."""
        found: dict[int, dict[int, Outcome]] = {}
        for place, seed in sorted(self._known):
            found.setdefault(place, {})[seed] = self._known[place, seed]
        return found

    def _search(self, origin: int) -> _Search:
        good: int | None
        bad: int | None
        if (yield origin):
            good, bad = yield from self._climb(origin)
        else:
            good, bad = yield from self._look(origin, -self._harder)
            if good is None and not all(goal.at_most for goal in self._goals):
                # too little of something, such as throughput: the other way there may be enough
                good, _ = yield from self._look(origin, self._harder, _DOUBLINGS_BEYOND)
                if good is not None:
                    good, bad = yield from self._climb(good)
        while good is not None and bad is not None and abs(good - bad) > 1:
            middle = (good + bad) // 2
            if (yield middle):
                good = middle
            else:
                bad = middle
        return Bracket(good, bad)

    def _climb(self, place: int) -> Generator[int, bool, tuple[int, int | None]]:
        """From a place that holds: the last that does, and the first that doesn't."""
        for _ in range(MOST_DOUBLINGS):
            following = self._next(place, self._harder)
            if following == place:
                break
            if not (yield following):
                return place, following
            place = following
        return place, None

    def _look(
        self, place: int, direction: int, most: int = MOST_DOUBLINGS
    ) -> Generator[int, bool, tuple[int | None, int]]:
        """From a place that doesn't hold: the first that does, and the last that doesn't."""
        for _ in range(most):
            following = self._next(place, direction)
            if following == place:
                break
            if (yield following):
                return following, place
            place = following
        return None, place

    def _next(self, place: int, direction: int) -> int:
        """Twice as far, or half; the same at the end of what the setting can be."""
        return self._inside(place * 2 if direction > 0 else place // 2)

    def _inside(self, place: int) -> int:
        place = max(place, self._first)
        return place if self._last is None else min(place, self._last)


def shown(setting: Setting, value: Decimal) -> object:
    """A value as the setting takes it."""
    return value if setting.kind in (RATE, RATIO, FACTOR) else int(value)


def _whole(bound: int | Decimal | None, step: Decimal, rounding: str) -> int | None:
    return None if bound is None else int((Decimal(bound) / step).to_integral_value(rounding))
