"""The farthest value that holds, for each seed and for all."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import kvlab
from kvlab.advice.goals import parse_goals
from kvlab.advice.plan import Plan, default_field, find_limit
from kvlab.advice.plan_picture import picture, sentence
from kvlab.errors import ConfigError, KvlabError
from kvlab.scenarios import Scenario, load
from kvlab.sweeps.workers import local

GOALS = parse_goals("ttft_p95<=2s, gap_max<=1s")


def small() -> Scenario:
    return load("preemption-lab").replace(duration_ns="40 s")


def holds(scenario: Scenario, seed: int, field: str, value: object) -> bool:
    run = kvlab.simulate(scenario.replace(**{field: value, "seed": seed}), record=kvlab.METRICS)
    return run.metrics.finished == run.metrics.arrived and all(goal.met_by(run.metrics.values()) for goal in GOALS)


def planned(field: str, *, largest: bool, scenario: Scenario | None = None, every_seed: bool = False) -> Plan:
    return find_limit(
        scenario or small(),
        field,
        GOALS,
        largest=largest,
        seeds=(1, 2, 3),
        executor=local(1),
        every_seed=every_seed,
    )


def test_the_largest_rate_holds_and_the_next_does_not() -> None:
    plan = planned("request_rate", largest=True)
    assert plan.step == Decimal("0.1")
    for seed, limit in plan.limits.items():
        assert isinstance(limit, Decimal)
        assert holds(small(), seed, "request_rate", limit)
        assert not holds(small(), seed, "request_rate", limit + Decimal("0.1"))
    assert plan.interval == (min(plan.limits.values()), max(plan.limits.values()))  # type: ignore[type-var]
    assert plan.open_seeds == ()


@pytest.mark.parametrize(("field", "largest"), [("request_rate", True), ("gpu_memory_utilization", False)])
def test_the_answer_holds_with_every_seed(field: str, largest: bool) -> None:
    plan = planned(field, largest=largest)
    assert isinstance(plan.answer, Decimal)
    assert all(holds(small(), seed, field, plan.answer) for seed in (1, 2, 3))
    probe = next(probe for probe in plan.probes if probe.value == plan.answer)
    assert (probe.seeds_kept, probe.seeds_tried) == (3, 3)
    for limit in plan.limits.values():
        assert isinstance(limit, Decimal)
        assert plan.answer <= limit if largest else plan.answer >= limit


def test_users_of_a_closed_loop() -> None:
    closed = small().replace(arrivals="closed-loop", max_concurrency=8, num_requests=80)
    assert default_field(closed) == "max_concurrency"
    plan = planned("max_concurrency", largest=True, scenario=closed)
    assert isinstance(plan.answer, int)
    assert holds(closed, 1, "max_concurrency", plan.answer)


def test_of_a_trace_the_speed_is_planned(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"{second / 2},400,100" for second in range(60)]
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    plan = kvlab.plan(kvlab.scenario("preemption-lab", trace=str(trace)), "ttft_p95<=1s", seeds=3, workers=1)
    assert plan.field == "trace_speed"
    assert list(plan.limits) == [1], "a trace draws nothing: one run of each"
    assert "The limit of this trace lies" in sentence(plan)
    assert isinstance(plan.answer, Decimal)
    assert plan.answer > 1


def test_where_nothing_holds_there_is_no_answer() -> None:
    plan = find_limit(small(), "request_rate", parse_goals("itl_p50<=1ms"), seeds=(1,), executor=local(1))
    assert plan.answer is None
    assert plan.interval == (None, None)
    assert plan.to_dict()["answer"] is None


def test_a_goal_that_wants_more_of_something_is_looked_for_upwards_too() -> None:
    few = small().replace(request_rate="0.5")
    plan = find_limit(few, "request_rate", parse_goals("throughput>=300, ttft_p95<=5s"), seeds=(1,), executor=local(1))
    assert isinstance(plan.answer, Decimal)
    assert plan.answer > 1


def test_memory_is_looked_for_up_to_all_there_is() -> None:
    """Twice 0.6 would be more than the whole GPU; 1 is tried, and holds."""
    scenario = small().replace(gpu_memory_utilization="0.6")
    goals = parse_goals("preemptions<=0")
    plan = find_limit(scenario, "gpu_memory_utilization", goals, largest=False, seeds=(1,), executor=local(1))
    assert isinstance(plan.answer, Decimal)
    assert Decimal("0.6") < plan.answer <= 1


@pytest.mark.parametrize("metric", ["goodput>=1", "good_ratio>=95%"])
def test_goodput_needs_limits_of_a_good_request(metric: str) -> None:
    goals = parse_goals(metric)
    with pytest.raises(ConfigError, match="--good"):
        find_limit(small(), "request_rate", goals, seeds=(1,), executor=local(1))
    limited = small().replace(slo="ttft<=2s, tpot<=70ms")
    plan = find_limit(limited, "request_rate", goals, seeds=(1,), executor=local(1))
    assert isinstance(plan.answer, Decimal)
    run = kvlab.simulate(limited.replace(request_rate=plan.answer), record=kvlab.METRICS)
    assert goals[0].met_by(run.metrics.values())


@pytest.mark.parametrize(
    ("field", "reason"),
    [("preemption_mode", "no more or less"), ("seed", "no more or less"), ("max_concurrency", "isn't set")],
)
def test_what_cannot_be_planned_is_refused(field: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        find_limit(small(), field, GOALS, executor=local(1))


@pytest.mark.parametrize("step", ["0", "-1", "a bit", "nan"])
def test_a_step_is_more_than_nothing(step: str) -> None:
    with pytest.raises(ConfigError, match="step"):
        find_limit(small(), "request_rate", GOALS, seeds=(1,), step=step, executor=local(1))


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
    scenario = load("preemption-lab").replace(duration_ns="2 s", request_rate="1")
    plan = find_limit(scenario, "request_rate", parse_goals("ttft_p95<=999h"), seeds=(1,), executor=local(1))
    assert plan.answer == 128
    assert plan.open_seeds == (1,)
    holds_to = "request_rate holds up to 128 requests/s with one seed. Nothing failed that far, where the search ended."
    assert sentence(plan).endswith(holds_to)


def test_values_at_which_a_run_is_impossible_say_why() -> None:
    quiet = small().replace(request_rate="0.2", duration_ns="10 s")
    goals = parse_goals("preemptions<=0")
    plan = find_limit(quiet, "gpu_memory_utilization", goals, largest=False, seeds=(1,), executor=local(1))
    assert plan.probes[0].error is not None
    assert "leaves no room for one KV block" in plan.probes[0].error
    assert plan.probes[-1].error is None


def test_who_turns_requests_away_keeps_nothing_but_a_goal_about_it() -> None:
    """At 0.325 there are blocks, and nobody fits: no preemptions, no latencies, no service."""
    quiet = small().replace(request_rate="0.2", duration_ns="10 s")
    goals = parse_goals("preemptions<=0")
    plan = find_limit(quiet, "gpu_memory_utilization", goals, largest=False, seeds=(1,), executor=local(1))
    assert isinstance(plan.answer, Decimal)
    for probe in plan.probes:
        assert probe.seeds_kept == (probe.turned_away == 0 and probe.error is None)
    assert any(probe.turned_away for probe in plan.probes)
    run = kvlab.simulate(quiet.replace(gpu_memory_utilization=plan.answer), record=kvlab.METRICS)
    assert run.metrics.finished == run.metrics.arrived
    lax = parse_goals("preemptions<=0, rejected<=100")
    less = find_limit(quiet, "gpu_memory_utilization", lax, largest=False, seeds=(1,), executor=local(1))
    assert isinstance(less.answer, Decimal)
    assert less.answer < plan.answer


def test_a_step_may_be_less_than_the_setting_can_be() -> None:
    scenario = load("vllm-v1").replace(duration_ns="1 s", max_model_len=16)
    goals = parse_goals("rejected<=9, unfinished<=9")
    plan = find_limit(scenario, "max_model_len", goals, largest=False, seeds=(1,), executor=local(1))
    assert (plan.step, plan.answer) == (1, 2)


def test_small_rates_have_small_steps() -> None:
    scenario = small().replace(request_rate="0.4", duration_ns="10 s")
    plan = find_limit(scenario, "request_rate", parse_goals("ttft_p95<=999h"), seeds=(1,), executor=local(1))
    assert plan.step == Decimal("0.02")


@pytest.mark.parametrize(
    ("field", "value", "step"),
    [("per_seq_ns", 300_000, 10_000), ("kv_bytes_per_token", 2**19, 2**14), ("request_rate", Decimal("3.6"), 7)],
)
def test_the_value_that_is_set_is_tried_and_steps_are_small_beside_it(field: str, value: object, step: int) -> None:
    given = step if field == "request_rate" else None
    goals = parse_goals("ttft_p95<=1200ms")
    scenario = load("preemption-lab").replace(duration_ns="20 s")
    plan = find_limit(scenario, field, goals, seeds=(1,), step=given, executor=local(1))
    assert plan.step == step
    (probe,) = (probe for probe in plan.probes if probe.value == value)
    assert probe.seeds_kept == 1
    assert plan.answer is not None


def test_goodput_that_holds_between_two_doublings_is_found() -> None:
    """At 3.6 too little arrives, at 7.2 too little is good."""
    scenario = load("preemption-lab").replace(duration_ns="20 s", slo="ttft<=1s")
    goals = parse_goals("goodput>=2")
    plan = find_limit(scenario, "request_rate", goals, seeds=(2,), executor=local(1))
    kept = {probe.value: probe.seeds_kept for probe in plan.probes}
    assert not kept[Decimal("3.6")]
    assert not kept[Decimal("7.2")]
    assert plan.answer == Decimal("6.1")
    too_much = find_limit(scenario, "request_rate", parse_goals("goodput>=4"), seeds=(2,), executor=local(1))
    assert too_much.answer is None
    assert f"{len(too_much.probes)} values were tried, and none between; 5.9 comes nearest." in sentence(too_much)


def test_a_plan_is_a_table_and_a_picture(tmp_path: Path) -> None:
    plan = planned("request_rate", largest=True, every_seed=True)
    around = [probe for probe in plan.probes if probe.seeds_tried == 3]
    low, high = plan.interval
    assert {low, high, plan.answer} <= {probe.value for probe in around}
    table = plan.table()
    assert table.num_rows == len(plan.probes) == len(plan.to_dict()["probes"])
    assert {"request_rate", "p95_ttft_ns", "p95_ttft_ns_low", "p95_ttft_ns_high"} <= set(table.column_names)
    assert plan.__dataframe__().num_rows() == table.num_rows
    drawn = picture(plan)
    assert len(drawn.panels) == len(GOALS) + 1
    assert drawn.panels[0].limit == 2.0
    assert drawn.panels[0].span == (float(low), float(high))  # type: ignore[arg-type] # rates
    assert drawn.panels[0].mark == float(plan.answer)  # type: ignore[arg-type] # a rate
    assert "limits of the seeds" in plan.plot(tmp_path / "knee.html").read_text()
