from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.tally import Tally

VALUES = st.lists(st.integers(0, 50) | st.integers(0, 10**12), max_size=60)


def tally_of(values: list[int], limit: int | None = None) -> Tally:
    tally = Tally(limit)
    for value in values:
        tally.add(value)
    return tally


def test_over_nothing_every_statistic_is_none() -> None:
    tally = Tally()
    assert tally.percentiles(0, 50, 100) == [None, None, None]
    assert tally.mean() is None
    assert tally.largest is None
    assert tally.items() == []


@pytest.mark.parametrize(
    ("count", "percent", "rank"),
    [(1, 50, 1), (2, 50, 1), (3, 50, 2), (100, 99, 99), (101, 99, 100), (10, 95, 10), (10, 0, 1), (7, 100, 7)],
)
def test_percentiles_are_nearest_rank(count: int, percent: int, rank: int) -> None:
    """MODEL.md, "Metrics": the ceil(p x n / 100)-th smallest."""
    assert tally_of(list(range(1, count + 1))).percentiles(percent) == [rank]


@given(VALUES.filter(bool), st.lists(st.integers(1, 100), min_size=1, max_size=5))
def test_percentiles_equal_those_of_the_sorted_list_in_any_order(values: list[int], percents: list[int]) -> None:
    ordered = sorted(values)
    expected = [ordered[-(-p * len(values) // 100) - 1] for p in percents]
    assert tally_of(values).percentiles(*percents) == expected


@given(VALUES)
def test_sums_are_exact(values: list[int]) -> None:
    tally = tally_of(values, limit=3)
    assert tally.num_values == len(values)
    assert tally.total == sum(values)
    assert tally.largest == max(values, default=None)
    assert tally.mean() == (sum(values) // len(values) if values else None)


def test_a_count_is_as_good_as_that_many_additions() -> None:
    tally = Tally()
    tally.add(5, 3)
    tally.add(2)
    assert tally == tally_of([5, 2, 5, 5])
    assert tally.items() == [(2, 1), (5, 3)]


def test_tallies_of_other_values_differ() -> None:
    assert tally_of([1, 2]) != tally_of([1, 3])
    assert tally_of([1]) != [(1, 1)]


def test_count_above_is_strict() -> None:
    assert tally_of([1, 2, 2, 3]).count_above(2) == 1


@given(VALUES)
def test_up_to_the_limit_every_value_is_kept(values: list[int]) -> None:
    tally = tally_of(values, limit=len(set(values)))
    assert tally.is_exact
    assert tally == tally_of(values)


def test_beyond_the_limit_memory_is_bounded_and_values_are_low_by_at_most_one_part_in_1024() -> None:
    values = [2**30 + 52_361 * i for i in range(20_000)]  # within one power of two: 1,024 rounded values
    tally = tally_of(values, limit=100)
    assert not tally.is_exact
    assert len(tally.items()) <= 1_024 + 100
    for percent in (1, 50, 99):
        [rounded], exact = tally.percentiles(percent), values[percent * 200 - 1]
        assert rounded is not None
        assert 0 <= exact - rounded <= exact // 1024


def test_what_a_hot_loop_wrote_is_trimmed_on_request() -> None:
    tally = Tally(limit=10)
    tally.counts.update(range(10_000, 10_100))
    assert tally.is_exact
    tally.trim()
    assert not tally.is_exact
    assert (tally.num_values, tally.total, tally.largest) == (100, sum(range(10_000, 10_100)), 10_099)


@given(VALUES)
def test_an_update_is_as_good_as_one_addition_each(values: list[int]) -> None:
    tally = Tally(limit=None)
    tally.update(iter(values))
    assert tally == tally_of(values)


def test_small_values_survive_the_rounding() -> None:
    assert tally_of(list(range(2000)), limit=10).items() == [(value, 1) for value in range(2000)]


def test_repr_says_how_much_it_holds() -> None:
    assert repr(tally_of([4, 4, 10])) == "Tally(3 values, 2 distinct, mean 6)"
