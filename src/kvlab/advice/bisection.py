"""The farthest value of a setting that keeps all goals, for each of several seeds at once.

Values are *places*: multiples of a step, counted from 0, and among them the value that is set. Each seed searches on
its own, by doubling, then by halving what is left; what all of them want to know next is run together. A run is made
once.

Goals that want more of one thing and less of another may hold in a band alone, that doubling steps over. Where nothing
holds that was tried, it is looked for between: next to the value that misses the goals by least.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

from kvlab.advice.goals import Goal
from kvlab.advice.served import keeps, missed
from kvlab.errors import KvlabError
from kvlab.scenarios import Scenario
from kvlab.settings import FACTOR, RATE, RATIO, Setting, Value
from kvlab.sweeps.outcome import Outcome
from kvlab.sweeps.workers import Executor

MOST_DOUBLINGS: Final = 7
"""A limit that isn't met at 128 times the value that is set, or at a 128th of it, is not looked for any further."""
_MOST_WORSE: Final = 2
"""Where more load may help: doublings in a row that only make it worse. Runs of an overloaded server take long."""
_MOST_STEPS_BACK: Final = 64
_MOST_BETWEEN: Final = 12
"""Runs of a seed between those of the doublings; and steps back where values may be too small as well as too large."""
_GOLDEN: Final = 0.382
"""Share of a gap after which it is asked, seen from the better end."""


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
        start: Decimal,
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
        self._start = start
        self._is_multiple = start % step == 0
        self._origin = int(start // step) + (not self._is_multiple)
        self._first = min(self._origin, max(1, _whole(setting.at_least, step, ROUND_CEILING) or 1))
        last = _whole(setting.at_most, step, ROUND_FLOOR)
        self._last = None if last is None else last + (not self._is_multiple)
        self._wants_more = not all(goal.at_most for goal in goals)
        self.runs = 0

    def value(self, place: int) -> Value:
        """The value at a place."""
        if place == self._origin:
            return self._setting.parse(shown(self._setting, self._start))
        multiple = place - (place > self._origin and not self._is_multiple)
        return self._setting.parse(shown(self._setting, multiple * self._step))

    def brackets(self, seeds: Sequence[int]) -> dict[int, Bracket]:
        """For each seed where its limit is, found from the value that is set."""
        found = self._ended({seed: self._search(seed) for seed in seeds})
        goods = sorted({bracket.good for bracket in found.values() if bracket.good is not None})
        if goods and self._wants_more:
            without = [seed for seed, bracket in found.items() if bracket.good is None]
            found |= self._ended({seed: self._look_at(goods, seed, found[seed].bad) for seed in without})
        return {seed: found[seed] for seed in seeds}

    def _ended(self, searches: dict[int, _Search]) -> dict[int, Bracket]:
        """All searches, side by side, to their ends."""
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
        return found

    def common(self, brackets: dict[int, Bracket]) -> int | None:
        """The farthest place that holds with every seed: tried with all of them, since luck is not monotonic."""
        goods = [bracket.good for bracket in brackets.values()]
        if any(good is None for good in goods):
            return None
        place: int = (min if self._harder > 0 else max)(good for good in goods if good is not None)
        for _ in range(_MOST_BETWEEN if self._wants_more else _MOST_STEPS_BACK):
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

    def _search(self, seed: int) -> _Search:
        good: int | None
        bad: int | None
        if (yield self._origin):
            good, bad = yield from self._climb(self._origin)
        else:
            good, bad = yield from self._look(self._origin, -self._harder)
            if good is None and self._wants_more:
                # too little of something, such as throughput: the other way there may be enough
                good = yield from self._look_beyond(seed)
                if good is not None:
                    good, bad = yield from self._climb(good)
            if good is None:
                good, bad = yield from self._look_between(seed, bad)
        return (yield from self._halve(good, bad))

    def _halve(self, good: int | None, bad: int | None) -> _Search:
        """What is left between a place that holds and one that doesn't."""
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

    def _look(self, place: int, direction: int) -> Generator[int, bool, tuple[int | None, int]]:
        """From a place that doesn't hold: the first that does, and the last that doesn't."""
        for _ in range(MOST_DOUBLINGS):
            following = self._next(place, direction)
            if following == place:
                break
            if (yield following):
                return following, place
            place = following
        return None, place

    def _look_beyond(self, seed: int) -> Generator[int, bool, int | None]:
        """From the value that is set, which doesn't hold: the first beyond it that does."""
        place, least, worse = self._origin, self._missed(self._origin, seed), 0
        for _ in range(MOST_DOUBLINGS):
            following = self._next(place, self._harder)
            if following == place:
                break
            if (yield following):
                return following
            place, now = following, self._missed(following, seed)
            worse = 0 if now < least else worse + 1
            least = min(least, now)
            if worse == _MOST_WORSE:
                break
        return None

    def _look_between(self, seed: int, bad: int | None) -> Generator[int, bool, tuple[int | None, int | None]]:
        """Between places that don't hold: one that does, and the next tried beyond it."""
        for _ in range(_MOST_BETWEEN):
            place = self._most_promising(self._places(seed), seed)
            if place is None:
                break
            if (yield place):
                return place, self._tried_beyond(place, seed)
        return None, bad

    def _look_at(self, places: Sequence[int], seed: int, bad: int | None) -> _Search:
        """Where other seeds have their limits: of several peaks a lower one may have been climbed."""
        for place in [*places][:: -self._harder][:_MOST_BETWEEN]:
            if (yield place):
                return (yield from self._halve(place, self._tried_beyond(place, seed)))
        return Bracket(None, bad)

    def _places(self, seed: int) -> list[int]:
        """Those tried with a seed, in order."""
        return [place for place, outcomes in self.tried().items() if seed in outcomes]

    def _tried_beyond(self, place: int, seed: int) -> int | None:
        beyond = [other for other in self._places(seed) if (other - place) * self._harder > 0]
        return min(beyond, key=lambda other: abs(other - place), default=None)

    def _most_promising(self, places: Sequence[int], seed: int) -> int | None:
        """In a gap beside the place that misses the goals by least; None where no gap can have anything better.

        A gap can, if its ends miss different goals, or if the least is not at one end of all that was tried.
        """
        amounts = {place: self._missed(place, seed) for place in places}
        best = min(places, key=lambda place: amounts[place])
        number = places.index(best)
        gaps = [other for other in places[max(0, number - 1) : number + 2] if abs(other - best) > 1]
        opposite = [other for other in gaps if self._opposite(best, other, seed)]
        is_valley = amounts[best] < min(amounts[places[0]], amounts[places[-1]])
        wanted = opposite or (gaps if is_valley else [])
        if not wanted:
            return None
        gap = max((other - best for other in wanted), key=abs)
        return best + (max(1, round(gap * _GOLDEN)) if gap > 0 else min(-1, round(gap * _GOLDEN)))

    def _missed(self, place: int, seed: int) -> float:
        return missed(self._known[place, seed].metrics, self._goals)

    def _opposite(self, one: int, other: int, seed: int) -> bool:
        """Whether each keeps a goal that the other misses."""
        first, second = (self._known[place, seed].metrics for place in (one, other))
        if first is None or second is None:
            return False
        kept = [(goal.met_by(first), goal.met_by(second)) for goal in self._goals]
        return (True, False) in kept and (False, True) in kept

    def _next(self, place: int, direction: int) -> int:
        """Twice as far, or half; the same at the end of what the setting can be."""
        return self._inside(max(place * 2, place + 1) if direction > 0 else place // 2)

    def _inside(self, place: int) -> int:
        place = max(place, self._first)
        return place if self._last is None else min(place, self._last)


def shown(setting: Setting, value: Decimal) -> object:
    """A value as the setting takes it."""
    return value if setting.kind in (RATE, RATIO, FACTOR) else int(value)


def _whole(bound: int | Decimal | None, step: Decimal, rounding: str) -> int | None:
    return None if bound is None else int((Decimal(bound) / step).to_integral_value(rounding))
