"""The search alone, with runs that are a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal

import pytest

from kvlab.advice.bisection import Bisection, Bracket
from kvlab.advice.goals import parse_goals
from kvlab.scenarios import Scenario, load
from kvlab.setting_table import find_setting
from kvlab.sweeps.outcome import Outcome

GOALS = parse_goals("ttft_p95<=10ns")


def search(
    ttft_ns: Callable[[Decimal, int], int], *, largest: bool = True, field: str = "request_rate", step: str = "0.1"
) -> Bisection:
    """Runs whose TTFT is a function of the setting's value and the seed."""

    def run(tasks: Iterable[tuple[int, Scenario]]) -> Iterator[tuple[int, Outcome]]:
        for number, scenario in tasks:
            value = scenario.settings()[field]
            assert isinstance(value, int | Decimal)
            yield number, Outcome(metrics={"p95_ttft_ns": ttft_ns(Decimal(value), scenario.traffic.seed)})

    scenario = load("preemption-lab")
    setting = find_setting(field, scenario.rules)
    return Bisection(scenario, setting, GOALS, Decimal(step), largest=largest, executor=run)


@pytest.mark.parametrize("limit", ["0.1", "0.2", "3.1", "3.6", "3.7", "17.3", "400"])
def test_the_limit_is_found_from_wherever_it_starts(limit: str) -> None:
    found = search(lambda rate, seed: 10 if rate <= Decimal(limit) else 11)
    place = int(Decimal(limit) * 10)
    assert found.brackets(Decimal("3.6"), [1]) == {1: Bracket(place, place + 1)}
    assert found.common({1: Bracket(place, place + 1)}) == place
    assert found.runs <= 20


def test_the_least_is_found_downwards_and_up_to_the_bound() -> None:
    def most_memory(ratio: Decimal, seed: int) -> int:
        return 10 if ratio >= Decimal("0.97") else 11

    found = search(most_memory, largest=False, field="gpu_memory_utilization", step="0.005")
    assert found.brackets(Decimal("0.6"), [1]) == {1: Bracket(194, 193)}
    assert found.value(194) == Decimal("0.97")


def test_each_seed_has_its_own_limit_and_luck_is_not_monotonic() -> None:
    """Seed 2 goes further, but fails at 3 and at 2.9, which it is only asked when the others' limit is known."""

    def ttft_ns(rate: Decimal, seed: int) -> int:
        unlucky = seed == 2 and rate in (Decimal(3), Decimal("2.9"))
        return 11 if unlucky or rate > (3 if seed == 1 else 5) else 10

    found = search(ttft_ns)
    brackets = found.brackets(Decimal("3.6"), [1, 2])
    assert brackets == {1: Bracket(30, 31), 2: Bracket(50, 51)}
    assert found.common(brackets) == 28


def test_what_holds_everywhere_or_nowhere_ends_after_seven_doublings() -> None:
    always, never = search(lambda rate, seed: 1), search(lambda rate, seed: 99)
    assert always.brackets(Decimal(1), [1]) == {1: Bracket(1280, None)}
    assert never.brackets(Decimal(100), [1]) == {1: Bracket(None, 7)}
    assert never.common({1: Bracket(None, 7)}) is None
    assert always.runs == never.runs == 8


def test_no_run_is_made_twice() -> None:
    asked: list[tuple[Decimal, int]] = []

    def ttft_ns(rate: Decimal, seed: int) -> int:
        asked.append((rate, seed))
        return 10 if rate <= seed else 11

    found = search(ttft_ns)
    brackets = found.brackets(Decimal("3.6"), [2, 3, 4])
    found.common(brackets)
    assert len(asked) == len(set(asked)) == found.runs
    assert sum(len(outcomes) for outcomes in found.tried().values()) == found.runs
