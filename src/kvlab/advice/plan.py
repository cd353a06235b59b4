"""How far a setting can go within a service level: the largest rate, the most users, the least memory.

Each seed has a limit of its own, found by bisection on the same requests; between them lies what nobody can promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kvlab.advice.bisection import Bisection, Bracket, shown
from kvlab.advice.goals import Goal, check_goals
from kvlab.advice.served import paired_seeds, turned_away
from kvlab.errors import ConfigError, KvlabError
from kvlab.scenarios import Scenario
from kvlab.setting_table import find_setting
from kvlab.settings import COUNT, DURATION, FACTOR, RATE, RATIO, SIZE, Kind, Setting, Value
from kvlab.sweeps.outcome import Outcome
from kvlab.sweeps.workers import Executor, at_work
from kvlab.tabular import Tabular
from kvlab.units import MIB

if TYPE_CHECKING:
    import pyarrow as pa

_STEPS: Final[dict[Kind, Decimal]] = {
    RATE: Decimal("0.1"),
    RATIO: Decimal("0.005"),
    FACTOR: Decimal("0.05"),
    COUNT: Decimal(1),
    DURATION: Decimal(1_000_000),
    SIZE: Decimal(64 * MIB),
}
"""Smallest difference that matters, by kind of setting; of small values less (`_usual_step`)."""
_STEPS_BELOW: Final = 20
"""At least so many steps lie below the value that is set."""
_NO_AMOUNT: Final = ("seed",)
"""Whole numbers of which there is no more or less."""
_ALSO_SHOWN: Final = ("throughput_tokens_per_s", "peak_kv_usage_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One value, and what became of it."""

    value: Value
    seeds_kept: int
    """With how many of the seeds tried all goals held."""
    seeds_tried: int
    metrics: Mapping[str, float | None]
    """Median over those seeds."""
    low: Mapping[str, float | None]
    """The least over those seeds, and so on."""
    high: Mapping[str, float | None]
    turned_away: int = 0
    """Most requests of a run that were rejected or never ended: then it holds only if a goal is about these."""
    error: str | None = None
    """Why a run was impossible; None where all ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Tabular):
    """The answer, and how sure it is."""

    scenario: Scenario
    field: str
    largest: bool
    """True: the largest value that holds; False: the least."""
    goals: tuple[Goal, ...]
    answer: Value
    """The farthest value that was found to hold with every seed; None where there is none."""
    limits: Mapping[int, Value]
    """Seed -> the last value that holds with it, where the next doesn't; None where none does."""
    open_seeds: tuple[int, ...]
    """Seeds with which nothing failed, as far as was looked: their limits lie further."""
    probes: tuple[Probe, ...]
    """All values tried, in order."""
    step: Value
    runs: int

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
            "open_seeds": list(self.open_seeds),
            "probes": [
                {
                    "value": setting.to_json(probe.value),
                    "seeds_kept": probe.seeds_kept,
                    "seeds_tried": probe.seeds_tried,
                    "metrics": dict(probe.metrics),
                    "low": dict(probe.low),
                    "high": dict(probe.high),
                    "turned_away": probe.turned_away,
                    "error": probe.error,
                }
                for probe in self.probes
            ],
            "runs": self.runs,
        }

    def table(self) -> pa.Table:
        """One row per value tried; of each metric the median over the seeds, and its _low and _high."""
        import pyarrow as pa

        return pa.Table.from_pylist(list(self._rows()))

    def _rows(self) -> Iterator[dict[str, Any]]:
        for probe in self.probes:
            value = float(probe.value) if isinstance(probe.value, Decimal) else probe.value
            row: dict[str, Any] = {self.field: value, "seeds_kept": probe.seeds_kept, "seeds_tried": probe.seeds_tried}
            for name, middle in probe.metrics.items():
                row |= {name: middle, f"{name}_low": probe.low[name], f"{name}_high": probe.high[name]}
            yield row | {"turned_away": probe.turned_away, "error": probe.error}

    def plot(self, path: str | Path) -> Path:
        """Draws the knee: every goal's metric against the setting, its limit, and the answer. .png, .svg or .html.

        Raises:
            ConfigError: another ending.
            OutputError: the file can't be written.
        """
        from kvlab.advice.pictures import save
        from kvlab.advice.plan_picture import picture

        return save(picture(self), Path(path))


def find_limit(
    scenario: Scenario,
    field: str,
    goals: Sequence[Goal],
    *,
    largest: bool = True,
    seeds: Sequence[int] = (),
    step: object = None,
    executor: Executor | None = None,
    every_seed: bool = False,
) -> Plan:
    """The largest (or least) value of a numeric setting with which all goals hold, for each seed.

    Args:
        field: such as request_rate, trace_speed, max_concurrency, kv_memory_bytes, gpu_memory_utilization.
        seeds: of the traffic; by default five from the scenario's own on. A trace has none: it is run once.
        step: the answer is a multiple of it, or the value that is set; by default what matters for that kind of
            setting, and at most a twentieth of the value.
        every_seed: tries every seed at all values around the limits, as a drawing of the knee needs it.
    Raises:
        ConfigError: a setting without numbers, or one that isn't set in this scenario; goodput without limits.
        UnknownNameError: no such setting.
    """
    check_goals(goals, scenario)
    setting = find_setting(field, scenario.rules)
    start = scenario.settings()[field]
    if setting.kind not in _STEPS or field in _NO_AMOUNT:
        remedy = f"has no more or less that could be planned: take a setting such as {default_field(scenario)}"
        raise ConfigError(field, start, remedy)
    if start is None:
        raise ConfigError(field, start, "isn't set in this scenario: give it a value to start from")
    tried = paired_seeds(scenario, seeds, usual=5)
    width = _usual_step(setting, _number(start)) if step is None else _checked(setting, step)
    _check_start(scenario, setting, width)
    with at_work(executor) as run:
        search = Bisection(scenario, setting, goals, width, start=_number(start), largest=largest, executor=run)
        brackets = search.brackets(tried)
        common = search.common(brackets)
        if every_seed:
            search.run((place, seed) for place in _around(search, brackets, common) for seed in tried)
    return Plan(
        scenario=scenario,
        field=field,
        largest=largest,
        goals=tuple(goals),
        answer=None if common is None else search.value(common),
        limits={seed: None if found.good is None else search.value(found.good) for seed, found in brackets.items()},
        open_seeds=tuple(seed for seed, found in brackets.items() if found.good is not None and found.bad is None),
        probes=tuple(_probes(search, goals)),
        step=setting.kind.parse(shown(setting, width), "step"),
        runs=search.runs,
    )


def default_field(scenario: Scenario) -> str:
    """What is planned unless something else is asked for: the load, by the setting that this traffic has for it.

    >>> from kvlab.scenarios import load
    >>> default_field(load("vllm-v1"))
    'request_rate'
    >>> default_field(load("vllm-v1").replace(arrivals="closed-loop", max_concurrency=8))
    'max_concurrency'
    """
    traffic = scenario.traffic
    if traffic.trace is not None:
        return "trace_speed"
    return "max_concurrency" if traffic.arrivals == "closed-loop" else "request_rate"


def _usual_step(setting: Setting, start: Decimal) -> Decimal:
    """What matters for its kind; of a small value a round number that is no more than a twentieth of it.

    >>> from kvlab.setting_table import SETTINGS
    >>> [str(_usual_step(SETTINGS["request_rate"], Decimal(rate))) for rate in ("9", "1.2", "0.3")]
    ['0.1', '0.05', '0.01']
    >>> _usual_step(SETTINGS["kv_bytes_per_token"], Decimal(2**17)), _usual_step(SETTINGS["max_num_seqs"], Decimal(3))
    (Decimal('4096'), Decimal('1'))
    """
    usual, most = _STEPS[setting.kind], start / _STEPS_BELOW
    if not 0 < most < usual:
        return usual
    if setting.kind is SIZE:
        return Decimal(1 << max(0, int(most).bit_length() - 1))
    ten = Decimal(1).scaleb(most.adjusted())
    step = next(ten * digit for digit in (5, 2, 1) if ten * digit <= most)
    return max(step, Decimal(1)) if setting.kind in (COUNT, DURATION) else step


def _check_start(scenario: Scenario, setting: Setting, step: Decimal) -> None:
    """Raises what is wrong with the scenario itself, or with moving that setting in it at all."""
    scenario.engine_config()
    scenario.source().next_arrival_ns()
    now = _number(scenario.settings()[setting.name])
    problem: KvlabError | None = None
    for value in (now + step, now - step):
        try:
            scenario.replace(**{setting.name: shown(setting, value)})
        except KvlabError as error:
            problem = error
        else:
            return
    assert problem is not None
    raise problem


def _checked(setting: Setting, step: object) -> Decimal:
    width = _number(setting.kind.parse(str(step), "step"))
    if width <= 0:
        raise ConfigError("step", step, "must be more than 0")
    return width


def _number(value: object) -> Decimal:
    assert isinstance(value, int | Decimal), value
    return Decimal(value)


def _around(search: Bisection, brackets: Mapping[int, Bracket], common: int | None) -> list[int]:
    """Places tried between the last that all hold and the first that none does, and one more at each end."""
    places = list(search.tried())
    known = [place for found in brackets.values() for place in (found.good, found.bad) if place is not None]
    known += [] if common is None else [common]
    if not known:
        return []
    first, last = places.index(min(known)), places.index(max(known))
    return places[max(0, first - 1) : last + 2]


def _probes(search: Bisection, goals: Sequence[Goal]) -> Iterator[Probe]:
    """Every place tried, in order of its value."""
    names = dict.fromkeys((*(goal.metric for goal in goals), *_ALSO_SHOWN))
    for place, outcomes in search.tried().items():
        values = {name: _present(outcomes.values(), name) for name in names}
        yield Probe(
            value=search.value(place),
            seeds_kept=sum(search.keeps(place, seed) for seed in outcomes),
            seeds_tried=len(outcomes),
            metrics={name: median(some) if some else None for name, some in values.items()},
            low={name: min(some, default=None) for name, some in values.items()},
            high={name: max(some, default=None) for name, some in values.items()},
            turned_away=max(turned_away(outcome.metrics or {}) for outcome in outcomes.values()),
            error=next((outcome.error for outcome in outcomes.values() if outcome.error is not None), None),
        )


def _present(outcomes: Iterable[Outcome], metric: str) -> list[float]:
    found = (None if outcome.metrics is None else outcome.metrics[metric] for outcome in outcomes)
    return [float(value) for value in found if value is not None]
