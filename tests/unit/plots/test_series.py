from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.core.tally import Tally
from kvlab.plots.series import (
    MAX_NINES,
    Floats,
    is_restless,
    means,
    nines,
    one_per_column,
    percentile_line,
    step_line,
    thin,
)


def floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


def test_a_step_line_has_corners_and_falls_to_zero_where_nothing_runs() -> None:
    x, y = step_line(floats(1, 2, 5), floats(2, 3, 6), floats(10, 20, 30))
    assert list(zip(x, y, strict=True)) == [
        (0, 0), (1, 0), (1, 10), (2, 10), (2, 20), (3, 20), (3, 0), (5, 0), (5, 30), (6, 30), (6, 0),
    ]  # fmt: skip


def test_a_line_of_nothing_is_empty() -> None:
    x, y = step_line(floats(), floats(), floats())
    assert len(x) == len(y) == 0
    assert thin((x, y), 10)[0].size == 0
    assert not is_restless((x, y))


def test_a_short_line_is_left_alone() -> None:
    line = (floats(0, 1, 2), floats(5, 6, 7))
    assert thin(line, 10) is line


@settings(deadline=None, max_examples=60)  # the machine may be busy
@given(st.lists(st.integers(0, 50), min_size=200, max_size=400), st.integers(1, 20))
def test_thinning_keeps_first_last_lowest_and_highest_of_every_column(values: list[int], columns: int) -> None:
    x, y = np.arange(len(values), dtype=np.float64), np.array(values, dtype=np.float64)
    thin_x, thin_y = thin((x, y), columns)
    assert len(thin_x) <= 4 * columns or len(thin_x) == len(x)
    assert (np.diff(thin_x) > 0).all()
    assert (y[thin_x.astype(int)] == thin_y).all(), "every point that is kept is a point of the line"
    column = np.minimum((x * columns / x[-1]).astype(int), columns - 1)
    kept_column = np.minimum((thin_x * columns / x[-1]).astype(int), columns - 1)
    for one in range(columns):
        all_of_it, kept = y[column == one], thin_y[kept_column == one]
        if len(all_of_it):
            assert (kept.min(), kept.max()) == (all_of_it.min(), all_of_it.max())
            assert (kept[0], kept[-1]) == (all_of_it[0], all_of_it[-1])


def test_one_peak_among_a_hundred_thousand_steps_survives() -> None:
    starts = np.arange(100_000, dtype=np.float64)
    values = np.full(100_000, 50.0)
    values[61_803] = 99.0
    values[31_415] = 1.0
    x, y = thin(step_line(starts, starts + 1, values), 1500)
    assert len(x) <= 6000
    assert y.max() == 99
    assert y[1:-1].min() in (0, 1)
    assert 1 in y


def test_means_keep_the_area() -> None:
    line = step_line(floats(0, 1, 3), floats(1, 3, 4), floats(2, 8, 4))
    x, y = means(line, 2)
    assert x.tolist() == [0, 2, 2, 4]
    assert y.tolist() == [5, 5, 6, 6]


def test_only_a_line_that_goes_up_and_down_all_the_time_is_restless() -> None:
    x = np.arange(1000, dtype=np.float64)
    assert is_restless((x, x % 2))
    assert not is_restless((x, x))
    assert not is_restless((x, np.zeros(1000)))


def test_events_are_shown_once_per_column() -> None:
    times = floats(0, 0.1, 0.2, 5.0, 5.05, 9.9)
    assert one_per_column(times, 10.0, 10).tolist() == [0, 5.0, 9.9]
    assert one_per_column(floats(3.0), 10.0, 10).tolist() == [3.0]
    assert one_per_column(floats(), 0.0, 10).size == 0


def test_a_percentile_axis_spreads_the_tail() -> None:
    assert nines(floats(0, 0.9, 0.99, 0.999)) == pytest.approx([0, 1, 2, 3])
    assert nines(floats(1.0)).tolist() == [MAX_NINES]


def test_a_percentile_line_passes_through_the_percentiles() -> None:
    tally = Tally()
    for value, count in ((10, 50), (20, 49), (70, 1)):
        tally.add(value, count)
    values, share = percentile_line(tally)
    assert values.tolist() == [10, 10, 20, 20, 70, 70]
    assert share.tolist() == [0, 0.5, 0.5, 0.99, 0.99, 1]
    assert percentile_line(Tally())[0].size == 0


def test_a_long_percentile_line_is_thinned_but_keeps_its_ends() -> None:
    tally = Tally()
    for value in range(50_000):
        tally.add(value)
    values, share = percentile_line(tally, points=100)
    assert len(values) <= 2 * 102
    assert (values[0], values[-1], share[-1]) == (0, 49_999, 1)
