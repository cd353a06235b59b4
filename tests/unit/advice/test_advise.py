"""The cheapest fix is found, holds with every seed, and says what it costs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import kvlab
from kvlab.advice.advise import find_fixes
from kvlab.advice.answer import FIX, HOLDS, NOTHING, Advice, Fix
from kvlab.advice.goals import parse_goals
from kvlab.advice.levers import LADDERS, levers
from kvlab.errors import ConfigError, KvlabError
from kvlab.missions import Mission, judge, missions_for
from kvlab.prices import PRICES, Flat, Price, price_of
from kvlab.scenarios import load
from kvlab.setting_table import LABS, RULES, SETTINGS
from kvlab.sweeps.workers import local
from kvlab.vllm_print import changed_flags

MISSIONS = [mission for rules in LABS for mission in missions_for(rules)]


def advice_on(mission: Mission) -> Advice:
    scenario = mission.scenario()
    now = scenario.settings()
    return find_fixes(
        scenario,
        [goal.measure for goal in mission.goals],
        seeds=(scenario.traffic.seed,),
        levers={
            name: [value for value in map(SETTINGS[name].parse, stops) if value != now[name]]
            for name, stops in mission.levers.items()
        },
        executor=local(1),
    )


@pytest.mark.parametrize("mission", MISSIONS, ids=lambda mission: mission.id)
def test_the_first_fix_of_every_mission_earns_three_stars(mission: Mission) -> None:
    advice = advice_on(mission)
    assert advice.verdict == FIX
    fixed = mission.scenario().replace(**dict(advice.fixes[0].change))
    verdict = judge(mission, fixed, kvlab.simulate(fixed, record=kvlab.METRICS).metrics)
    assert verdict is not None
    assert verdict.stars == 3
    assert verdict.cost == advice.fixes[0].price


def test_fixes_stand_by_price_and_hold_with_every_seed() -> None:
    scenario = load("preemption-lab")
    goals = parse_goals("gap_max<=150ms, preemptions_per_1000<=10")
    moves = {"max_num_seqs": (56, 48, 44, 40), "headroom_blocks": (16, 128), "kv_cache_dtype": ("fp8",)}
    advice = find_fixes(scenario, goals, seeds=(1, 2), levers=moves, executor=local(1))
    assert [(fix.text, fix.price) for fix in advice.fixes] == [
        ("headroom_blocks=128", 1), ("max_num_seqs=44", 2), ("kv_cache_dtype=fp8", 8),
    ]  # fmt: skip
    assert advice.kv_is_bottleneck
    for fix in advice.fixes:
        for seed in (1, 2):
            run = kvlab.simulate(scenario.replace(**dict(fix.change), seed=seed), record=kvlab.METRICS)
            assert all(goal.met_by(run.metrics.values()) for goal in goals)
    capped = advice.fixes[1]
    assert "p95_ttft_ns" in [effect.metric for effect in capped.side_effects]
    effect = next(effect for effect in capped.effects if effect.metric == "preemptions_per_1000")
    assert effect.before is not None
    assert effect.before > 50
    assert effect.low == effect.after == effect.high == 0


def test_the_smallest_move_of_a_number_that_suffices_is_found_between_the_steps() -> None:
    scenario = load("preemption-lab").replace(num_requests=120, request_rate=4)
    goals = parse_goals("preemptions<=0")
    heard: list[Fix] = []
    with local(1) as run:
        advice = find_fixes(scenario, goals, seeds=(1,), executor=run, found=heard.append)
    fix = next(fix for fix in advice.fixes if fix.change[0][0] == "max_num_seqs")
    ((_, most),) = fix.change
    assert isinstance(most, int)
    assert most not in LADDERS["max_num_seqs"](scenario.server.max_num_seqs)
    for seqs, preempts in ((most, False), (most + 1, True)):
        metrics = kvlab.simulate(scenario.replace(max_num_seqs=seqs), record=kvlab.METRICS).metrics
        assert (metrics.preemptions > 0) == preempts
    assert sorted(heard, key=id) == sorted(advice.fixes, key=id)
    assert advice.table().num_rows == len(advice.fixes) * len(fix.effects)


def test_a_fix_comes_with_the_flags_that_change() -> None:
    server = kvlab.scenario("vllm-v1", model="Qwen/Qwen2.5-7B-Instruct", gpu="L40S-48GB", enable_prefix_caching=False)
    for change, flags in (
        ({"watermark": Decimal("0.02")}, "--watermark 0.02"),
        ({"max_num_seqs": 64, "kv_cache_dtype": "fp8"}, "--max-num-seqs 64 --kv-cache-dtype fp8"),
        ({"enable_prefix_caching": True}, "--enable-prefix-caching"),
        ({"request_rate": 1}, ""),
    ):
        assert changed_flags(server, server.replace(**change)) == flags
    lab = load("preemption-lab")
    swap = lab.replace(preemption_mode="swap", headroom_blocks=32)
    assert changed_flags(lab, swap) == "--watermark 0.0091 --preemption-mode swap --swap-space 4"
    assert changed_flags(swap, lab) == "(without --watermark) (without --preemption-mode) (without --swap-space)"


def test_a_service_level_that_holds_needs_no_fix() -> None:
    advice = kvlab.advise(load("preemption-lab").replace(num_requests=20), "ttft_p95<=60s", seeds=1, workers=1)
    assert (advice.verdict, advice.fixes, advice.runs) == (HOLDS, (), 1)
    assert not advice.kv_is_bottleneck


def test_where_nothing_helps_the_nearest_is_told() -> None:
    scenario = load("preemption-lab").replace(num_requests=60)
    moves = {"max_num_seqs": (32, 16), "headroom_blocks": (16,)}
    advice = find_fixes(scenario, parse_goals("itl_p50<=1ms"), seeds=(1,), levers=moves, executor=local(1))
    assert advice.verdict == NOTHING
    assert advice.nearest is not None
    assert advice.nearest.text == "max_num_seqs=16"
    assert not advice.to_dict()["fixes"]


def test_two_levers_together_where_that_is_cheaper() -> None:
    mission = next(mission for mission in MISSIONS if mission.id == "cache-too-small")
    advice = advice_on(mission)
    assert len(advice.fixes[0].change) == 2


@pytest.mark.parametrize("name", ["burst-least-memory", "cache-too-small"])
def test_a_pair_as_cheap_as_that_of_a_mission_is_among_the_first_that_are_tried(name: str) -> None:
    """Each wants two levers, and one of them alone does nothing, or goes far."""
    mission = next(mission for mission in MISSIONS if mission.id == name)
    scenario, goals = mission.scenario(), [goal.measure for goal in mission.goals]
    advice = find_fixes(scenario, goals, seeds=(scenario.traffic.seed,), executor=local(1), most_runs=60)
    assert not advice.complete
    assert advice.fixes[0].price <= advice_on(mission).fixes[0].price
    assert len(advice.fixes[0].change) == 2


def test_a_limit_that_would_bind_once_another_lever_makes_room_is_raised_beside_it() -> None:
    mission = next(mission for mission in MISSIONS if mission.id == "four-answers-one-prompt")
    scenario, goals = mission.scenario(), [goal.measure for goal in mission.goals]
    prices = {name: PRICES[name] for name in mission.levers}
    advice = find_fixes(scenario, goals, seeds=(1,), executor=local(1), prices=prices)
    assert [(name, advice.fixes[0].price) for name, _ in advice.fixes[0].change] == [
        ("allocator", 4), ("max_num_seqs", 4),
    ]  # fmt: skip
    assert advice.complete


def test_of_two_levers_together_each_is_moved_no_further_than_needed() -> None:
    mission = next(mission for mission in MISSIONS if mission.id == "cache-too-small")
    scenario, goals = mission.scenario(), [goal.measure for goal in mission.goals]
    prices = {name: PRICES[name] for name in ("kv_cache_dtype", "max_num_seqs")}
    advice = find_fixes(scenario, goals, seeds=(1,), executor=local(1), prices=prices)
    change = dict(advice.fixes[0].change)
    most = change["max_num_seqs"]
    assert isinstance(most, int)
    assert most not in (*LADDERS["max_num_seqs"](scenario.server.max_num_seqs), scenario.server.max_num_seqs)
    for seqs, holds in ((most, True), (most - 1, False)):
        run = kvlab.simulate(scenario.replace(**change | {"max_num_seqs": seqs}), record=kvlab.METRICS)
        assert all(goal.met_by(run.metrics.values()) for goal in goals) == holds


def test_a_limit_on_what_no_run_of_the_scenario_has_is_refused() -> None:
    counted = load("preemption-lab").replace(num_requests=20)
    for text, remedy in (("throughput>=700", "throughput_tokens_per_s"), ("goodput>=1", "--good")):
        with pytest.raises(ConfigError, match=remedy):
            find_fixes(counted, parse_goals(text), seeds=(1,), executor=local(1))


def test_a_scenario_that_cannot_run_is_refused() -> None:
    broken = load("block-table-lab").replace(kv_memory_bytes="64 KiB")
    with pytest.raises(KvlabError, match=r"^kv_memory_bytes"):
        find_fixes(broken, parse_goals("ttft_p95<=2s"), seeds=(1,), executor=local(1))


@pytest.mark.parametrize("rules", [rules for rules in RULES if rules != "vllm-v0"])
def test_every_step_of_every_ladder_can_be_and_has_a_price(rules: str) -> None:
    scenario = load(rules)
    now = scenario.settings()
    found = levers(scenario)
    assert len(found) >= 5
    for name, values in found.items():
        for value in values:
            assert value != now[name]
            scenario.replace(**{name: value}).engine_config()
            assert price_of(name, now[name], value) >= 0  # type: ignore[arg-type]


def test_every_ladder_has_a_price() -> None:
    assert set(LADDERS) <= set(PRICES)


def test_the_rate_of_a_trace_or_of_users_who_wait_is_no_lever() -> None:
    closed = load("preemption-lab").replace(arrivals="closed-loop", max_concurrency=8)
    assert "request_rate" not in levers(closed)
    assert levers(load("preemption-lab"))["request_rate"][0] == Decimal("3.1")


def test_a_busy_server_can_be_relieved_as_far_as_a_quiet_one() -> None:
    scenario = load("preemption-lab").replace(duration_ns="20 s", request_rate=12)
    prices = {"request_rate": PRICES["request_rate"]}
    advice = find_fixes(scenario, parse_goals("ttft_p95<=2s"), seeds=(1,), executor=local(1), prices=prices)
    ((_, rate),) = advice.fixes[0].change
    assert isinstance(rate, Decimal)
    assert 3 < rate < 8
    assert advice.fixes[0].price > 80


def test_without_a_lever_there_is_nothing_to_search() -> None:
    scenario = load("preemption-lab").replace(num_requests=60)
    with pytest.raises(ConfigError, match="leave no lever"):
        find_fixes(scenario, parse_goals("gap_max<=1ms"), seeds=(1,), executor=local(1), prices={})


def test_a_change_that_turns_requests_away_is_no_fix() -> None:
    """A shorter max_tokens of what the engine takes would make everything fast, by refusing it."""
    scenario = kvlab.scenario("vllm-v1", num_requests=40, request_rate=12, max_model_len=4096)
    goals = parse_goals("e2e_p95<=10s")
    advice = find_fixes(
        scenario, goals, seeds=(1,), levers={"max_model_len": (600,)},
        prices={"max_model_len": Price(rule=Flat(up=0, down=0), reason="Free.")}, executor=local(1),
    )  # fmt: skip
    refused = kvlab.simulate(scenario.replace(max_model_len=600), record=kvlab.METRICS).metrics
    assert all(goal.met_by(refused.values()) for goal in goals)
    assert refused.rejected > 0
    assert advice.verdict == NOTHING


def test_less_headroom_and_a_lower_watermark_are_levers_and_what_is_kept_free_counts_as_full() -> None:
    lab = load("preemption-lab").replace(headroom_blocks=1500, request_rate="2.5")
    vllm = kvlab.scenario("vllm-v1", watermark="0.9", request_rate=6, num_requests=120)
    for scenario, name in ((lab, "headroom_blocks"), (vllm, "watermark")):
        moves = {name: levers(scenario)[name]}
        with local(1) as run:
            advice = find_fixes(scenario, parse_goals("ttft_p95<=2s"), seeds=(1,), levers=moves, executor=run)
        assert advice.kv_is_bottleneck
        assert advice.peak_kv_usage < 0.7
        ((changed, value),) = advice.fixes[0].change
        assert (changed, advice.fixes[0].price) == (name, 0)
        assert value < scenario.settings()[name]  # type: ignore[operator]


def test_the_loosest_first_limit_on_long_prompts_is_found_between_the_steps() -> None:
    scenario = kvlab.scenario("vllm-v1", gpu="L40S-48GB", num_requests=80, request_rate=5)
    goals = parse_goals("itl_p99<=90ms")
    with local(1) as run:
        advice = find_fixes(
            scenario, goals, seeds=(1,), executor=run,
            prices={"long_prefill_token_threshold": PRICES["long_prefill_token_threshold"]},
        )  # fmt: skip
    ((name, most),) = advice.fixes[0].change
    assert name == "long_prefill_token_threshold"
    assert isinstance(most, int)
    for threshold, holds in ((most, True), (most + 256, False)):
        metrics = kvlab.simulate(scenario.replace(**{name: threshold}), record=kvlab.METRICS).metrics
        assert goals[0].met_by(metrics.values()) == holds


def test_without_a_request_there_is_nothing_to_advise_on_and_those_turned_away_are_counted() -> None:
    lab = load("preemption-lab")
    goals = parse_goals("preemptions<=0")
    for scenario, problem in (
        (lab.replace(duration_ns="1ms"), "no request arrives"),
        (lab.replace(prompt_tokens="60000", num_requests=5), "finishes none"),
    ):
        with pytest.raises(ConfigError, match=problem):
            find_fixes(scenario, goals, seeds=(1,), executor=local(1))
    long = lab.replace(prompt_tokens="histogram(200:3, 60000:1)", num_requests=20)
    advice = find_fixes(long, goals, seeds=(1,), executor=local(1))
    assert advice.verdict == HOLDS
    assert advice.turned_away == kvlab.simulate(long, record=kvlab.METRICS).metrics.rejected > 0
    assert repr(advice) == "<Advice on preemption-lab-v1: holds; 1 run>"


def test_a_trace_is_run_once(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{n / 10},600,80\n" for n in range(40)))
    advice = kvlab.advise(load("preemption-lab").replace(trace=str(trace)), "ttft_p95<=60s", workers=1)
    assert (advice.verdict, advice.seeds, advice.runs) == (HOLDS, (1,), 1)
