"""What a service level means."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvlab.advice.goals import Goal, parse_goals
from kvlab.errors import ConfigError, UnknownNameError


@pytest.mark.parametrize(
    ("text", "metric", "at_most", "limit"),
    [
        ("gap_p99<=150ms", "p99_gap_ns", True, 150_000_000),
        ("p99_gap <= 150 ms", "p99_gap_ns", True, 150_000_000),
        ("p99_gap_ns<=150ms", "p99_gap_ns", True, 150_000_000),
        ("itl_max<1s", "max_gap_ns", True, 10**9),
        ("ttft_mean≤2s", "mean_ttft_ns", True, 2 * 10**9),
        ("queue_time_p95<=1s", "p95_queue_time_ns", True, 10**9),
        ("throughput>=700", "throughput_in_window_tokens_per_s", False, 700),
        ("paused<=0.5%", "paused_ratio", True, Fraction(1, 200)),
        ("preemptions<=0", "preemptions", True, 0),
        ("preemptions_per_1000<=10", "preemptions_per_1000", True, 10),
    ],
)
def test_what_a_limit_means(text: str, metric: str, at_most: bool, limit: Fraction) -> None:
    assert parse_goals(text) == (Goal(metric=metric, at_most=at_most, limit=Fraction(limit)),)


def test_several_limits_stand_in_order() -> None:
    assert [goal.metric for goal in parse_goals("ttft_p95<=2s, gap_p99<=150ms")] == ["p95_ttft_ns", "p99_gap_ns"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "ttft_p95",
        "ttft_p95=2s",
        "ttft_p95<=",
        "ttft_p95<=fast",
        "paused<=x",
        "gap_max<=150",
        "gap_max<=-5ms",
        "kv_usage<=80",
        "paused<=150%",
    ],
)
def test_what_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_goals(text)


def test_a_typo_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="ttft_p95"):
        parse_goals("ttft_p96<=2s")


def test_by_how_much_a_goal_is_missed() -> None:
    (goal,) = parse_goals("gap_p99<=100ms")
    assert goal.missed_by({"p99_gap_ns": 150_000_000}) == Fraction(1, 2)
    assert goal.met_by({"p99_gap_ns": 100_000_000})
    assert not goal.met_by({"p99_gap_ns": None})
    (least,) = parse_goals("throughput>=700")
    assert least.met_by({"throughput_in_window_tokens_per_s": 700.0})
    assert not least.met_by({"throughput_in_window_tokens_per_s": 699.9})


@pytest.mark.parametrize(
    ("text", "problem"),
    [("ttft_p95<=", "needs a value"), ("ttft_p95<=2s itl_p99<=150ms", "put a comma between"), ("ttft_p95", "expected")],
)
def test_what_was_left_out_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_goals(text)
