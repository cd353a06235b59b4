"""Axes: what their texts mean, the grid, and the Latin hypercube."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.sweeps.axes import Axis, axis_of, grid, hypercube, parse_axis

LAB = "preemption-lab"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("max_num_seqs=16,32,64", [16, 32, 64]),
        ("max-num-seqs=16, 32", [16, 32]),
        ("max_num_seqs=8:20:4", [8, 12, 16, 20]),
        ("max_num_seqs=8:21:4", [8, 12, 16, 20]),
        ("request_rate=2:3:0.5", [Decimal(2), Decimal("2.5"), Decimal(3)]),
        ("gpu_memory_utilization=90%,0.95", [Decimal("0.9"), Decimal("0.95")]),
        ("swap_space_bytes=1GiB:2GiB:512MiB", [2**30, 3 * 2**29, 2**31]),
        ("max_num_seqs=log(8, 128, 5)", [8, 16, 32, 64, 128]),
        ("max_num_seqs=log(1, 3, 6)", [1, 2, 3]),
        ("request_rate=log(1, 8, 4)", [Decimal(1), Decimal(2), Decimal(4), Decimal(8)]),
        ("preemption_mode=swap,recompute", ["swap", "recompute"]),
        ("prompt_tokens=uniform(1, 9),512", ["uniform(1, 9)", "512"]),
        ("burst=2.5", [Decimal("2.5")]),
    ],
)
def test_what_a_text_means(text: str, values: list[object]) -> None:
    assert [place[0] for place in parse_axis(text, LAB).values] == values


def test_settings_that_move_together() -> None:
    axis = parse_axis("max_num_seqs+headroom_blocks=64+0,48+16", LAB)
    assert axis == Axis(names=("max_num_seqs", "headroom_blocks"), values=((64, 0), (48, 16)))
    assert axis.label == "max_num_seqs+headroom_blocks"


@pytest.mark.parametrize(
    "text",
    [
        "max_num_seqs", "max_num_seqs=", "max_num_seqs=0", "max_num_seqs=1:2:0", "max_num_seqs=3:2:1",
        "max_num_seqs=log(0, 8, 3)", "max_num_seqs=log(8, 8, 3)", "max_num_seqs=log(1, 8, 1)",
        "preemption_mode=a:b:c", "max_num_seqs+headroom_blocks=64", "max_num_seqs+max_num_seqs=1+2",
        "max_num_seqs=1:1000000:1", "max_num_seqs=log(1, 1000000, 100001)", "max_tokens=8",
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(text: str) -> None:
    with pytest.raises((ConfigError, UnknownNameError)):
        parse_axis(text, LAB)


def test_a_typo_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="max_num_seqs"):
        parse_axis("max_num_seq=1", LAB)


def test_keywords_are_axes() -> None:
    assert axis_of("max_num_seqs", [8, 16], LAB) == parse_axis("max_num_seqs=8,16", LAB)
    assert axis_of("max_num_seqs", "8,16", LAB) == parse_axis("max_num_seqs=8,16", LAB)
    assert axis_of("max_num_seqs", 8, LAB) == parse_axis("max_num_seqs=8", LAB)
    with pytest.raises(ConfigError, match="at least one value"):
        axis_of("max_num_seqs", [], LAB)


def test_a_grid_has_every_combination_the_last_axis_fastest() -> None:
    axes = [parse_axis("max_num_seqs=1,2", LAB), parse_axis("headroom_blocks=0,8,16", LAB)]
    points = [(point["max_num_seqs"], point["headroom_blocks"]) for point in grid(axes)]
    assert points == [(1, 0), (1, 8), (1, 16), (2, 0), (2, 8), (2, 16)]


def test_a_setting_on_two_axes_and_too_many_points_are_refused() -> None:
    axis = parse_axis("max_num_seqs=1,2", LAB)
    with pytest.raises(ConfigError, match="two axes"):
        list(grid([axis, axis]))
    with pytest.raises(ConfigError, match="two axes"):
        list(hypercube([axis, axis], 2, seed=1))
    for count in (0, 10**9):
        with pytest.raises(ConfigError, match="sample"):
            next(hypercube([axis], count, seed=1))
    wide = [parse_axis("max_num_seqs=1:2000:1", LAB), parse_axis("headroom_blocks=1:2000:1", LAB)]
    with pytest.raises(ConfigError, match="Latin hypercube"):
        next(grid(wide))


def test_a_hypercube_spreads_evenly_along_each_axis() -> None:
    axes = [parse_axis("max_num_seqs=1:10:1", LAB), parse_axis("request_rate=1:5:1", LAB)]
    points = list(hypercube(axes, 10, seed=3))
    assert sorted(point["max_num_seqs"] for point in points) == list(range(1, 11))  # type: ignore[type-var]
    assert sorted(point["request_rate"] for point in points) == [Decimal(n) for n in (1, 1, 2, 2, 3, 3, 4, 4, 5, 5)]  # type: ignore[type-var]
    assert points == list(hypercube(axes, 10, seed=3))
    assert points != list(hypercube(axes, 10, seed=4))
