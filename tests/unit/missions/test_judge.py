"""Verdicts: what counts as solved, and for how many stars."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest

import kvlab
from kvlab.metrics import Metrics
from kvlab.missions import Goal, Mission, Verdict, judge, mission
from kvlab.missions.judge import stars
from kvlab.prices import PRICES, Flat, Price
from kvlab.scenarios import Scenario


@pytest.fixture(scope="module")
def bad() -> Metrics:
    """Metrics that meet no goal of the first mission."""
    return kvlab.simulate(kvlab.scenario("preemption-lab", num_requests=20), record=kvlab.METRICS).metrics


def solved(metrics: Metrics) -> Metrics:
    return dataclasses.replace(
        metrics,
        paused_ratio=Fraction(1, 200),
        preemptions_per_1000=Fraction(10),
        throughput_in_window_tokens_per_s=Fraction(730),
    )


def verdict(one: Mission, scenario: Scenario, metrics: Metrics) -> Verdict:
    found = judge(one, scenario, metrics)
    assert found is not None
    return found


CAP = mission("cap-concurrency")


def test_limits_themselves_are_within(bad: Metrics) -> None:
    found = verdict(CAP, CAP.scenario().replace(max_num_seqs=40), solved(bad))
    assert (found.met, found.stars, found.cost, found.strays) == (True, 3, 2, ())
    assert [(goal.met, goal.value) for goal in found.goals] == [(True, "0.5 %"), (True, "10"), (True, "730 tokens/s")]


@pytest.mark.parametrize(
    "missed",
    [
        {"paused_ratio": Fraction(51, 10_000)},
        {"preemptions_per_1000": Fraction(1001, 100)},
        {"throughput_in_window_tokens_per_s": Fraction(72_999, 100)},
        {"paused_ratio": None},
    ],
)
def test_one_goal_missed_is_not_met(bad: Metrics, missed: dict[str, Fraction | None]) -> None:
    metrics = dataclasses.replace(solved(bad), **missed)  # type: ignore[arg-type]
    found = verdict(CAP, CAP.scenario().replace(max_num_seqs=40), metrics)
    assert (found.met, found.stars) == (False, 0)
    assert [goal.met for goal in found.goals].count(False) == 1


@pytest.mark.parametrize(
    ("changes", "cost", "expected"),
    [
        ({"max_num_seqs": 40}, 2, 3),
        ({"max_num_seqs": 37}, 2, 3),
        ({"preemption_mode": "swap"}, 1, 3),
        ({"max_num_seqs": 40, "gpu_memory_utilization": "0.92"}, 4, 2),
        ({"max_num_seqs": 40, "gpu_memory_utilization": "0.93"}, 5, 1),
    ],
)
def test_stars_by_price(bad: Metrics, changes: dict[str, object], cost: int, expected: int) -> None:
    found = verdict(CAP, CAP.scenario().replace(**changes), solved(bad))
    assert (found.cost, found.stars) == (cost, expected)


@pytest.mark.parametrize("change", [{"seed": 2}, {"request_rate": "1"}, {"longer_answers": 1}, {"headroom_blocks": 50}])
def test_another_question_is_no_answer(bad: Metrics, change: dict[str, object]) -> None:
    found = verdict(CAP, CAP.scenario().replace(max_num_seqs=40, **change), solved(bad))
    assert (found.met, found.stars, found.cost) == (False, 0, 2)
    assert found.strays == tuple(change)
    assert all(goal.met for goal in found.goals)


def test_name_and_service_level_do_not_matter(bad: Metrics) -> None:
    scenario = CAP.scenario().replace(max_num_seqs=40, name="mine", slo="ttft<=2s")
    assert verdict(CAP, scenario, solved(bad)).stars == 3


def test_a_run_of_the_other_lab_has_no_verdict(bad: Metrics) -> None:
    assert judge(CAP, kvlab.scenario("block-table-lab"), bad) is None


def test_prices_of_your_own(bad: Metrics) -> None:
    prices = {**PRICES, "max_num_seqs": Price(rule=Flat(up=1, down=5), reason="Our users hate queues.")}
    found = judge(CAP, CAP.scenario().replace(max_num_seqs=40), solved(bad), prices)
    assert found is not None
    assert (found.cost, found.stars) == (5, 1)


def test_json(bad: Metrics) -> None:
    found = verdict(CAP, CAP.scenario().replace(max_num_seqs=40), solved(bad))
    assert found.to_dict() == {
        "met": True,
        "stars": 3,
        "cost": 2,
        "goals": [
            {"met": True, "text": "Paused over 1 s: at most 0.5 %", "value": "0.5 %"},
            {"met": True, "text": "Preemptions per 1,000: at most 10", "value": "10"},
            {"met": True, "text": "Throughput: at least 730 tokens/s", "value": "730 tokens/s"},
        ],
        "strays": [],
    }


def test_twice_the_cheapest_is_the_last_price_for_two_stars() -> None:
    assert [stars(cost, 3) for cost in (0, 3, 4, 6, 7)] == [3, 3, 2, 2, 1]


def test_goals_read_units() -> None:
    assert Goal("p99_gap_ns", "<=", "105 ms").limit_value == 105_000_000
    assert Goal("waste_ratio", "<=", "2.5 %").limit_value == Fraction(25, 1000)
    assert Goal("preemptions", "<=", "2").limit_value == 2
