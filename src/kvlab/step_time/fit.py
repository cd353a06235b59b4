"""Least squares for step times: relative errors, no negative coefficient, errors on data that the fit hasn't seen.

Rows are steps, columns are figures of their load, the first of ones. A step of 20 ms that is 2 ms off counts as one
of 200 ms that is 20 ms off: rows are divided by what was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from kvlab.step_time.profiles import Errors

Floats = npt.NDArray[np.float64]

FOLDS: Final = 5
INDISTINCT: Final = 0.995
"""Share of a column that the other columns explain, from which on its coefficient isn't told apart."""
_TOLERANCE: Final = 1e-10
_ROUNDS: Final = 60


def nnls(matrix: Floats, target: Floats) -> Floats:
    """The x >= 0 with the least |matrix x - target|: Lawson and Hanson's active set.

    >>> nnls(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([3.0, 2.0, 1.0])).round(6).tolist()
    [2.0, 0.0]
    """
    count = matrix.shape[1]
    solution = np.zeros(count)
    free = np.zeros(count, dtype=bool)
    tolerance = _TOLERANCE * max(1.0, float(np.abs(matrix.T @ target).max(initial=0.0)))
    for _ in range(10 * count + 10):
        slope = matrix.T @ (target - matrix @ solution)
        if free.all() or float(slope[~free].max()) <= tolerance:
            break
        free[np.flatnonzero(~free)[slope[~free].argmax()]] = True
        while True:
            trial = np.zeros(count)
            trial[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
            wrong = free & (trial <= 0)
            if not wrong.any():
                solution = trial
                break
            share = (solution[wrong] / (solution[wrong] - trial[wrong])).min()  # as far as nothing gets negative
            solution = solution + share * (trial - solution)
            free &= solution > _TOLERANCE * max(1.0, float(np.abs(solution).max()))
            solution[~free] = 0.0
    return solution


def fit_relative(columns: Floats, measured: Floats) -> Floats:
    """Non-negative coefficients with the least squares of relative errors.

    Args:
        columns: one row per step.
        measured: its duration, more than 0.
    """
    weighted = columns / measured[:, None]
    size = np.abs(weighted).max(axis=0)
    size[size == 0] = 1.0
    solved: Floats = nnls(weighted / size, np.ones(len(measured))) / size
    return solved


def fit_knee(columns: Floats, measured: Floats, by: int, num_laws: int = 2) -> Floats:
    """Coefficients of laws whose maximum fits best, one row each, the one for small loads first.

    Args:
        by: the column that says which law the first guess gives a step to.
    """
    order = np.argsort(np.argsort(columns[:, by], kind="stable"), kind="stable")
    owner = order * num_laws // len(order)
    best = fit_relative(columns, measured)[None, :]  # where one law is as good as several, one it is
    best_error = _rms(columns @ best[0], measured)
    for _ in range(_ROUNDS):
        laws = []
        for law in range(num_laws):
            chosen = owner == law
            if chosen.sum() <= columns.shape[1]:
                return best
            laws.append(fit_relative(columns[chosen], measured[chosen]))
        coefficients = np.array(laws)
        values = columns @ coefficients.T
        error = _rms(values.max(axis=1), measured)
        if error < best_error:
            best, best_error = coefficients, error
        moved = values.argmax(axis=1)
        if (moved == owner).all():
            break
        owner = moved
    return best


def _rms(predicted: Floats, measured: Floats) -> float:
    return float(np.sqrt(np.mean((predicted / measured - 1) ** 2)))


def errors_of(predicted: Floats, measured: Floats) -> Errors:
    """How far predictions are off, rounded to hundredths of a per cent."""
    relative = 100 * (predicted / measured - 1)
    size = np.sort(np.abs(relative))
    return Errors(
        points=len(measured),
        mean_percent=round(float(size.mean()), 2),
        p95_percent=round(float(size[-(-95 * len(size) // 100) - 1]), 2),
        bias_percent=round(float(relative.mean()), 2),
    )


def folds_of(count: int, folds: int = FOLDS) -> npt.NDArray[np.int64]:
    """The fold of each row: in turns, so that it's the same each time and each fold has steps of all sizes."""
    return np.arange(count, dtype=np.int64) % min(folds, count)


Fitter = Callable[[Floats, Floats], Floats]
"""(columns, measured) -> coefficients of one law, or a row for each of several, whose maximum counts."""


def held_out(columns: Floats, measured: Floats, fitter: Fitter = fit_relative, folds: int = FOLDS) -> Errors:
    """Errors of each row, predicted by a fit to the other folds.

    Args:
        columns: more rows than columns outside each fold, or its coefficients aren't told by the rest.
    """
    fold = folds_of(len(measured), folds)
    predicted = np.zeros(len(measured))
    for number in range(int(fold.max()) + 1):
        chosen = fold == number
        laws = np.atleast_2d(fitter(columns[~chosen], measured[~chosen]))
        predicted[chosen] = (columns[chosen] @ laws.T).max(axis=1)
    return errors_of(predicted, measured)


def indistinct(columns: Floats, measured: Floats) -> list[int]:
    """Columns that the others explain nearly wholly, or that are 0 everywhere: their coefficients mean little."""
    weighted = columns / measured[:, None]
    found = []
    for number in range(columns.shape[1]):
        column = weighted[:, number]
        total = float((column**2).sum())
        if total == 0:
            found.append(number)
            continue
        others = np.delete(weighted, number, axis=1)
        size = np.linalg.norm(others, axis=0)
        others = others[:, size > 0] / size[size > 0]
        if others.shape[1]:
            rest = column - others @ np.linalg.lstsq(others, column, rcond=None)[0]
            if 1 - float((rest**2).sum()) / total > INDISTINCT:
                found.append(number)
    return found
