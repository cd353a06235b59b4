"""How far a setting can go within a service level: the largest rate, the most users, the least memory.

Each seed has a limit of its own, found by bisection on the same requests; between them lies what nobody can promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from statistics import median
from typing import Any, Final

from kvlab.advice.goals import Goal
from kvlab.errors import ConfigError, KvlabError
from kvlab.scenarios import Scenario
from kvlab.setting_table import find_setting
from kvlab.settings import COUNT, DURATION, FACTOR, RATE, RATIO, SIZE, Kind, Setting, Value
from kvlab.sweeps.outcome import Outcome, key_of
from kvlab.sweeps.workers import Executor, at_work
from kvlab.units import MIB

_STEPS: Final[dict[Kind, Decimal]] = {
    RATE: Decimal("0.1"),
    RATIO: Decimal("0.005"),
    FACTOR: Decimal("0.05"),
    COUNT: Decimal(1),
    DURATION: Decimal(1_000_000),
    SIZE: Decimal(64 * MIB),
}
"""Smallest difference that matters, by kind of setting."""
_MOST_DOUBLINGS: Final = 7
"""A limit that isn't met at 128 times the value that is set is called open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One value, and what became of it."""

    value: Value
    seeds_kept: int
    """With how many of the seeds tried all goals held."""
    seeds_tried: int
    metrics: Mapping[str, float | None]
    """Median over those seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer, and how sure it is."""

    scenario: Scenario
    field: str
    largest: bool
    """True: the largest value that holds; False: the least."""
    goals: tuple[Goal, ...]
    limits: Mapping[int, Value]
    """Seed -> the last value that holds with it; None where none does."""
    probes: tuple[Probe, ...]
    """All values tried, in order."""
    step: Value
    runs: int

    @property
    def answer(self) -> Value:
        """The value that holds with every seed; None where there is none."""
        values = [value for value in self.limits.values() if value is not None]
        if len(values) < len(self.limits):
            return None
        return min(values, key=_number) if self.largest else max(values, key=_number)

    @property
    def interval(self) -> tuple[Value, Value]:
        """The least and the largest limit of a seed."""
        values = sorted((value for value in self.limits.values() if value is not None), key=_number)
        return (values[0], values[-1]) if values else (None, None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        setting = find_setting(self.field, self.scenario.rules)
        low, high = self.interval
        return {
            "field": self.field,
            "looked_for": "largest" if self.largest else "least",
            "slo": [goal.text for goal in self.goals],
            "answer": setting.to_json(self.answer),
            "interval": [setting.to_json(low), setting.to_json(high)],
            "step": setting.to_json(self.step),
            "limits": {str(seed): setting.to_json(value) for seed, value in self.limits.items()},
            "probes": [
                {
                    "value": setting.to_json(probe.value),
                    "seeds_kept": probe.seeds_kept,
                    "seeds_tried": probe.seeds_tried,
                    "metrics": dict(probe.metrics),
                }
                for probe in self.probes
            ],
            "runs": self.runs,
        }


def find_limit(
    scenario: Scenario,
    field: str,
    goals: Sequence[Goal],
    *,
    largest: bool = True,
    seeds: Sequence[int] = (),
    step: object = None,
    executor: Executor | None = None,
) -> Plan:
    """The largest (or least) value of a numeric setting with which all goals hold, for each seed.

    Args:
        field: such as request_rate, max_concurrency, kv_memory_bytes, gpu_memory_utilization.
        seeds: of the traffic; by default five from the scenario's own on.
        step: the answer is a multiple of it; by default what matters for that kind of setting.
    Raises:
        ConfigError: a setting without numbers, or one that isn't set in this scenario.
        UnknownNameError: no such setting.
    """
    setting = find_setting(field, scenario.rules)
    start = scenario.settings()[field]
    if setting.kind not in _STEPS:
        raise ConfigError(field, start, "has no numbers that could be planned")
    if start is None:
        raise ConfigError(field, start, "isn't set in this scenario: give it a value to start from")
    first = scenario.traffic.seed
    tried = tuple(seeds) or tuple(range(first, first + 5))
    width = _STEPS[setting.kind] if step is None else Decimal(str(_checked(setting, step)))
    _check_start(scenario, setting, width)
    with at_work(executor) as run:
        search = _Search(scenario, setting, goals, width, largest=largest, executor=run)
        limits = search.limits(_number(start), tried)
    return Plan(
        scenario=scenario,
        field=field,
        largest=largest,
        goals=tuple(goals),
        limits={seed: search.value(place) if place is not None else None for seed, place in limits.items()},
        probes=search.probes(),
        step=setting.parse(_shown(setting, width)),
        runs=search.runs,
    )


def _check_start(scenario: Scenario, setting: Setting, step: Decimal) -> None:
    """Raises what is wrong with the scenario itself, or with moving that setting in it at all."""
    scenario.engine_config()
    scenario.source().next_arrival_ns()
    now = _number(scenario.settings()[setting.name])
    problem: KvlabError | None = None
    for value in (now + step, now - step):
        try:
            scenario.replace(**{setting.name: _shown(setting, value)})
        except KvlabError as error:
            problem = error
        else:
            return
    assert problem is not None
    raise problem


def _checked(setting: Setting, step: object) -> Decimal:
    width = _number(setting.kind.parse(step, setting.name))
    if width <= 0:
        raise ConfigError("step", step, "must be more than 0")
    return width


def _number(value: object) -> Decimal:
    assert isinstance(value, int | Decimal), value
    return Decimal(value)


def _shown(setting: Setting, value: Decimal) -> object:
    return value if setting.kind in (RATE, RATIO, FACTOR) else int(value)


class _Search:
    """Bisection for several seeds at once: places are multiples of the step."""

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
        self._up = 1 if largest else -1
        self._executor = executor
        self._known: dict[tuple[int, int], Outcome] = {}
        self.runs = 0

    def value(self, place: int) -> Value:
        """The value at a place."""
        return self._setting.parse(_shown(self._setting, place * self._step))

    def limits(self, start: Decimal, seeds: Sequence[int]) -> dict[int, int | None]:
        """For each seed the farthest place that holds; None where even the easiest doesn't."""
        origin = max(1, int(start // self._step))
        brackets = self._brackets(origin, seeds)
        while open_ := {seed: pair for seed, pair in brackets.items() if self._is_open(pair)}:
            middles = {seed: (good + bad) // 2 for seed, (good, bad) in open_.items()}  # type: ignore[operator]
            self._run([(place, seed) for seed, place in middles.items()])
            for seed, place in middles.items():
                good, bad = brackets[seed]
                brackets[seed] = (place, bad) if self._keeps(place, seed) else (good, place)
        return {seed: good for seed, (good, _) in brackets.items()}

    @staticmethod
    def _is_open(pair: tuple[int | None, int | None]) -> bool:
        good, bad = pair
        return good is not None and bad is not None and abs(good - bad) > 1

    def _brackets(self, origin: int, seeds: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """For each seed a place that holds and one that doesn't, by doubling and halving from where it is."""
        found: dict[int, tuple[int | None, int | None]] = {}
        places = dict.fromkeys(seeds, origin)
        goods: dict[int, int | None] = dict.fromkeys(seeds)
        bads: dict[int, int | None] = dict.fromkeys(seeds)
        for _ in range(_MOST_DOUBLINGS):
            if not places:
                break
            self._run([(place, seed) for seed, place in places.items()])
            for seed, place in list(places.items()):
                if self._keeps(place, seed):
                    goods[seed] = place
                else:
                    bads[seed] = place
                following = self._next(place, harder=bads[seed] is None)
                if (goods[seed] is not None and bads[seed] is not None) or following is None:
                    found[seed] = (goods[seed], bads[seed])
                    del places[seed]
                else:
                    places[seed] = following
        return found | {seed: (goods[seed], bads[seed]) for seed in places}

    def _next(self, place: int, *, harder: bool) -> int | None:
        """Twice as far, or half; None at the end of what the setting can be."""
        up = harder == (self._up > 0)
        following = place * 2 if up else place // 2
        try:
            self._setting.check(self.value(following))
        except KvlabError:
            return None
        return following if following >= 1 and following != place else None

    def _run(self, wanted: Sequence[tuple[int, int]]) -> None:
        scenarios: dict[tuple[int, int], Scenario] = {}
        for place, seed in wanted:
            if (place, seed) in self._known:
                continue
            try:
                scenarios[place, seed] = self._scenario.replace(**{self._setting.name: self.value(place), "seed": seed})
            except KvlabError as error:
                self._known[place, seed] = Outcome(metrics=None, error=str(error))
        keys = list(scenarios)
        assert len({key_of(scenario) for scenario in scenarios.values()}) == len(keys), "a place twice"
        for number, outcome in self._executor(enumerate(scenarios.values())):
            self._known[keys[number]] = outcome
        self.runs += len(keys)

    def _keeps(self, place: int, seed: int) -> bool:
        metrics = self._known[place, seed].metrics
        return metrics is not None and all(goal.met_by(metrics) for goal in self._goals)

    def probes(self) -> tuple[Probe, ...]:
        """Every place tried, in order of its value."""
        found = []
        names = dict.fromkeys(
            (*(goal.metric for goal in self._goals), "throughput_tokens_per_s", "peak_kv_usage_ratio")
        )
        for place in sorted({place for place, _ in self._known}):
            seeds = [seed for tried, seed in self._known if tried == place]
            outcomes = [self._known[place, seed].metrics for seed in seeds]
            values = {name: [m[name] for m in outcomes if m is not None] for name in names}
            found.append(
                Probe(
                    value=self.value(place),
                    seeds_kept=sum(self._keeps(place, seed) for seed in seeds),
                    seeds_tried=len(seeds),
                    metrics={name: _middle(some) for name, some in values.items()},
                )
            )
        return tuple(found)


def _middle(values: Sequence[int | float | None]) -> float | None:
    """Median of those that there are."""
    present = [float(value) for value in values if value is not None]
    return median(present) if present else None


def replicas_for(rates: Sequence[Decimal], per_replica: Decimal) -> list[int]:
    """Servers that each rate of a daily profile needs, at least one.

    >>> replicas_for([Decimal(2), Decimal(7)], Decimal("2.5"))
    [1, 3]
    """
    return [max(1, int((rate / per_replica).to_integral_value(ROUND_CEILING))) for rate in rates]
