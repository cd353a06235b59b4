"""The farthest value that holds, for each seed and for all."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import kvlab
from kvlab.advice.goals import parse_goals
from kvlab.advice.plan import Plan, find_limit, replicas_for
from kvlab.errors import ConfigError, KvlabError
from kvlab.scenarios import Scenario, load
from kvlab.sweeps.workers import local

GOALS = parse_goals("ttft_p95<=2s, gap_max<=1s")


def small() -> Scenario:
    return load("preemption-lab").replace(duration_ns="40 s")


def holds(scenario: Scenario, seed: int, field: str, value: object) -> bool:
    run = kvlab.simulate(scenario.replace(**{field: value, "seed": seed}), record=kvlab.METRICS)
    return all(goal.met_by(run.metrics.values()) for goal in GOALS)


def planned(field: str, *, largest: bool, scenario: Scenario | None = None) -> Plan:
    return find_limit(scenario or small(), field, GOALS, largest=largest, seeds=(1, 2, 3), executor=local(1))


def test_the_largest_rate_holds_and_the_next_does_not() -> None:
    plan = planned("request_rate", largest=True)
    assert plan.step == Decimal("0.1")
    for seed, limit in plan.limits.items():
        assert isinstance(limit, Decimal)
        assert holds(small(), seed, "request_rate", limit)
        assert not holds(small(), seed, "request_rate", limit + Decimal("0.1"))
    assert plan.answer == min(plan.limits.values())  # type: ignore[type-var]
    assert plan.interval == (plan.answer, max(plan.limits.values()))  # type: ignore[type-var]


def test_the_least_memory_holds_and_a_step_less_does_not() -> None:
    plan = planned("gpu_memory_utilization", largest=False)
    assert plan.answer == max(plan.limits.values())  # type: ignore[type-var]
    for seed, limit in plan.limits.items():
        assert isinstance(limit, Decimal)
        assert holds(small(), seed, "gpu_memory_utilization", limit)


def test_users_of_a_closed_loop() -> None:
    closed = small().replace(arrivals="closed-loop", max_concurrency=8, num_requests=80)
    plan = planned("max_concurrency", largest=True, scenario=closed)
    assert isinstance(plan.answer, int)
    assert holds(closed, 1, "max_concurrency", plan.answer)


def test_where_nothing_holds_there_is_no_answer() -> None:
    plan = find_limit(small(), "request_rate", parse_goals("itl_p50<=1ms"), seeds=(1,), executor=local(1))
    assert plan.answer is None
    assert plan.interval == (None, None)
    assert plan.to_dict()["answer"] is None


@pytest.mark.parametrize(("field", "reason"), [("preemption_mode", "no numbers"), ("max_concurrency", "isn't set")])
def test_what_cannot_be_planned_is_refused(field: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        find_limit(small(), field, GOALS, executor=local(1))


def test_what_is_wrong_with_the_scenario_is_told_and_not_taken_for_an_answer(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match="no-such-file"):
        find_limit(
            load("preemption-lab").replace(trace="no-such-file.csv"),
            "max_num_seqs",
            GOALS,
            seeds=(1,),
            executor=local(1),
        )
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,10\n")
    with pytest.raises(ConfigError, match="request_rate"):
        find_limit(
            load("preemption-lab").replace(trace=str(trace)), "request_rate", GOALS, seeds=(1,), executor=local(1)
        )
    big = load("vllm-v1").replace(model="Qwen/Qwen2.5-72B-Instruct")
    with pytest.raises(ConfigError, match="would not start"):
        find_limit(big, "request_rate", GOALS, seeds=(1,), executor=local(1))


def test_a_limit_that_is_never_met_is_open() -> None:
    scenario = load("preemption-lab").replace(duration_ns="4 s", request_rate="1")
    plan = find_limit(scenario, "request_rate", parse_goals("ttft_p95<=999h"), seeds=(1,), executor=local(1))
    assert plan.answer == 64


def test_servers_of_a_daily_profile() -> None:
    rates = [Decimal(rate) for rate in ("0.2", "3", "3.1", "5", "9")]
    assert replicas_for(rates, Decimal(3)) == [1, 1, 2, 2, 3]
