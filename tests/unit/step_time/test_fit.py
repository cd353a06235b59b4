"""Least squares: known coefficients come back, none is negative, errors are of data that the fit hasn't seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.step_time.fit import errors_of, fit_knee, fit_relative, folds_of, held_out, indistinct, nnls

COEFFICIENTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=5)


def columns(count: int, rows: int = 60, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    matrix = generator.uniform(1, 100, (rows, count))
    matrix[:, 0] = 1.0
    return matrix


@given(COEFFICIENTS)
def test_exact_data_give_their_coefficients_back(true: list[float]) -> None:
    matrix = columns(len(true))
    measured = matrix @ np.array(true)
    found = nnls(matrix, measured)
    assert (found >= 0).all()
    assert matrix @ found == pytest.approx(measured, rel=1e-6, abs=1e-6 * max(true, default=1) + 1e-9)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=5), st.integers(0, 99))
def test_no_other_choice_without_negative_coefficients_is_better(true: list[float], seed: int) -> None:
    matrix = columns(len(true), seed=seed)
    target = matrix @ np.array(true)
    found = nnls(matrix, target)
    assert (found >= 0).all()
    slope = matrix.T @ (target - matrix @ found)  # optimal: none to gain by more of any, or by less of those used
    scale = 1e-6 * max(1.0, float(np.abs(matrix.T @ target).max()))
    assert (slope <= scale).all()
    assert (np.abs(slope[found > 0]) <= scale).all()


def test_relative_errors_weigh_small_and_large_alike() -> None:
    matrix = np.ones((2, 1))
    assert fit_relative(matrix, np.array([1.0, 100.0]))[0] == pytest.approx(1.01 / 1.0001)


def test_a_knee_needs_two_laws() -> None:
    tokens = np.arange(1.0, 401.0)
    matrix = np.column_stack([np.ones(400), tokens])
    measured = np.maximum(20 + 0.01 * tokens, 0.1 * tokens + 5)
    laws = fit_knee(matrix, measured, by=1)
    assert laws.shape == (2, 2)
    assert errors_of((matrix @ laws.T).max(axis=1), measured).mean_percent < 0.05
    straight = 5 + 0.1 * tokens
    assert errors_of((matrix @ fit_knee(matrix, straight, by=1).T).max(axis=1), straight).mean_percent < 0.05


def test_errors_by_hand() -> None:
    errors = errors_of(np.array([110.0, 90.0, 100.0, 104.0]), np.array([100.0] * 4))
    assert (errors.points, errors.mean_percent, errors.p95_percent, errors.bias_percent) == (4, 6.0, 10.0, 1.0)


def test_held_out_rows_are_not_fitted_to() -> None:
    matrix = np.ones((10, 1))
    measured = np.ones(10)
    measured[0] = 2.0
    assert held_out(matrix, measured, folds=10).p95_percent == 50.0  # the odd one out is predicted as the others


def test_folds_are_the_same_each_time_and_alike_in_size() -> None:
    assert folds_of(7).tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert folds_of(2).tolist() == [0, 1]


def test_columns_that_grow_together_are_named() -> None:
    matrix = columns(3)
    measured = matrix.sum(axis=1)
    assert indistinct(matrix, measured) == []
    matrix[:, 2] = 3 * matrix[:, 1]
    assert indistinct(matrix, measured) == [1, 2]
    matrix[:, 2] = 0
    assert indistinct(matrix, measured) == [2]
