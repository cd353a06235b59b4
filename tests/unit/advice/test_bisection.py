"""The search alone, with runs that are a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal

import pytest

from kvlab.advice.bisection import Bisection, Bracket
from kvlab.advice.goals import Goal, parse_goals
from kvlab.scenarios import Scenario, load
from kvlab.setting_table import find_setting
from kvlab.sweeps.outcome import Outcome

GOALS = parse_goals("ttft_p95<=10ns")


def search(
    ttft_ns: Callable[[Decimal, int], int],
    start: str,
    *,
    largest: bool = True,
    field: str = "request_rate",
    step: str = "0.1",
) -> Bisection:
    """Runs whose TTFT is a function of the setting's value and the seed."""
    return bisection(lambda value, seed: {"p95_ttft_ns": ttft_ns(value, seed)}, GOALS, start, largest, field, step)


def bisection(
    metrics: Callable[[Decimal, int], dict[str, int | float | None]],
    goals: Sequence[Goal],
    start: str,
    largest: bool = True,
    field: str = "request_rate",
    step: str = "0.1",
) -> Bisection:
    """Runs whose metrics are a function of the setting's value and the seed."""

    def run(tasks: Iterable[tuple[int, Scenario]]) -> Iterator[tuple[int, Outcome]]:
        for number, scenario in tasks:
            value = scenario.settings()[field]
            assert isinstance(value, int | Decimal)
            yield number, Outcome(metrics=metrics(Decimal(value), scenario.traffic.seed))

    scenario = load("preemption-lab")
    setting = find_setting(field, scenario.rules)
    return Bisection(scenario, setting, goals, Decimal(step), start=Decimal(start), largest=largest, executor=run)


@pytest.mark.parametrize("limit", ["0.1", "0.2", "3.1", "3.6", "3.7", "17.3", "400"])
def test_the_limit_is_found_from_wherever_it_starts(limit: str) -> None:
    found = search(lambda rate, seed: 10 if rate <= Decimal(limit) else 11, "3.6")
    place = int(Decimal(limit) * 10)
    assert found.brackets([1]) == {1: Bracket(place, place + 1)}
    assert found.common({1: Bracket(place, place + 1)}) == place
    assert found.runs <= 20


def test_the_least_is_found_downwards_and_up_to_the_bound() -> None:
    def most_memory(ratio: Decimal, seed: int) -> int:
        return 10 if ratio >= Decimal("0.97") else 11

    found = search(most_memory, "0.6", largest=False, field="gpu_memory_utilization", step="0.005")
    assert found.brackets([1]) == {1: Bracket(194, 193)}
    assert found.value(194) == Decimal("0.97")


def test_each_seed_has_its_own_limit_and_luck_is_not_monotonic() -> None:
    """Seed 2 goes further, but fails at 3 and at 2.9, which it is only asked when the others' limit is known."""

    def ttft_ns(rate: Decimal, seed: int) -> int:
        unlucky = seed == 2 and rate in (Decimal(3), Decimal("2.9"))
        return 11 if unlucky or rate > (3 if seed == 1 else 5) else 10

    found = search(ttft_ns, "3.6")
    brackets = found.brackets([1, 2])
    assert brackets == {1: Bracket(30, 31), 2: Bracket(50, 51)}
    assert found.common(brackets) == 28


def test_what_holds_everywhere_or_nowhere_ends_after_seven_doublings() -> None:
    always, never = search(lambda rate, seed: 1, "1"), search(lambda rate, seed: 99, "100")
    assert always.brackets([1]) == {1: Bracket(1280, None)}
    assert never.brackets([1]) == {1: Bracket(None, 7)}
    assert never.common({1: Bracket(None, 7)}) is None
    assert always.runs == never.runs == 8


def test_no_run_is_made_twice() -> None:
    asked: list[tuple[Decimal, int]] = []

    def ttft_ns(rate: Decimal, seed: int) -> int:
        asked.append((rate, seed))
        return 10 if rate <= seed else 11

    found = search(ttft_ns, "3.6")
    brackets = found.brackets([2, 3, 4])
    found.common(brackets)
    assert len(asked) == len(set(asked)) == found.runs
    assert sum(len(outcomes) for outcomes in found.tried().values()) == found.runs


@pytest.mark.parametrize("step", ["7", "2", "0.7"])
def test_the_value_that_is_set_is_tried_wherever_the_steps_lie(step: str) -> None:
    """Also where it is the only one that holds: below the first step, or between two."""
    found = search(lambda rate, seed: 10 if rate == Decimal("3.6") else 11, "3.6", step=step)
    brackets = found.brackets([1])
    place = brackets[1].good
    assert place is not None
    assert found.common(brackets) == place
    assert found.value(place) == Decimal("3.6")
    below, above = place * Decimal(step) - Decimal(step), place * Decimal(step)
    assert found.value(place + 1) == above
    assert place == 1 or found.value(place - 1) == below


def test_nothing_set_is_a_value_too() -> None:
    found = search(lambda blocks, seed: 10 if blocks <= 5 else 11, "0", field="headroom_blocks", step="1")
    assert found.brackets([1]) == {1: Bracket(5, 6)}
    assert 0 in found.tried()


BAND = parse_goals("ttft_p95<=10ns, throughput>=100")
PEAK = parse_goals("goodput>=1.9")


@pytest.mark.parametrize("start", ["0.5", "3.6", "7.2", "50"])
@pytest.mark.parametrize(("low", "high"), [("2.8", "3.1"), ("5.1", "5.3"), ("21", "23")])
def test_a_band_between_the_doublings_is_found(start: str, low: str, high: str) -> None:
    """Too little throughput below it, and too long a TTFT above."""

    def metrics(rate: Decimal, seed: int) -> dict[str, int | float | None]:
        ttft_ns = 10 if rate <= Decimal(high) else 10 + int(rate * 3)
        return {"p95_ttft_ns": ttft_ns, "throughput_in_window_tokens_per_s": float(100 * rate / Decimal(low))}

    found = bisection(metrics, BAND, start)
    place = int(Decimal(high) * 10)
    assert found.brackets([1]) == {1: Bracket(place, place + 1)}
    assert found.runs <= 36


def test_a_peak_between_the_doublings_is_climbed() -> None:
    """Goodput, alone: it rises with the rate to 2 at 2.7, and falls to nothing."""

    def metrics(rate: Decimal, seed: int) -> dict[str, int | float | None]:
        return {"goodput_per_s": float(min(rate / Decimal("1.35"), max(Decimal(0), 2 - (rate - Decimal("2.7")) * 2)))}

    found = bisection(metrics, PEAK, "3.6")
    assert found.brackets([1]) == {1: Bracket(27, 28)}


def test_a_seed_at_a_low_peak_is_asked_where_another_seed_holds() -> None:
    """Seed 2 has a lower peak at 1.8, where the doublings come by, and holds from 2.6 to 2.8, too."""

    def metrics(rate: Decimal, seed: int) -> dict[str, int | float | None]:
        peak = max(Decimal(0), Decimal("2.05") - abs(rate - Decimal("2.7")))
        if seed == 2 and not Decimal("2.6") <= rate <= Decimal("2.8"):
            peak = max(Decimal(0), Decimal("1.8") - abs(rate - Decimal("1.8")))
        return {"goodput_per_s": float(peak)}

    found = bisection(metrics, PEAK, "3.6")
    assert found.brackets([2])[2].good is None
    assert found.brackets([1, 2]) == {1: Bracket(28, 29), 2: Bracket(28, 29)}


def test_a_peak_that_is_too_low_is_not_looked_for_any_longer_than_twelve_runs() -> None:
    def metrics(rate: Decimal, seed: int) -> dict[str, int | float | None]:
        return {"goodput_per_s": float(max(Decimal(0), Decimal("1.8") - abs(rate - Decimal("227.3")) / 200))}

    found = bisection(metrics, PEAK, "100", step="0.001")
    (bracket,) = found.brackets([1]).values()
    assert bracket.good is None
    assert found.runs == 1 + 7 + 3 + 12
