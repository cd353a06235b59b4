"""Against the standard library (to the last bits), and against the same formulas in plain Python (bit by bit)."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest

from kvlab.workloads.exact_math import exp, exponential_quantile, log, normal_quantile
from kvlab.workloads.streams import Floats, Stream

U = np.concatenate([Stream(3, "test").take(5_000), 2.0 ** -np.arange(1.0, 54.0), 1.0 - 2.0 ** -np.arange(1.0, 54.0)])


def units_in_the_last_place(got: Floats, expected: list[float]) -> float:
    return max(abs(a - b) / math.ulp(b) for a, b in zip(got.tolist(), expected, strict=True))


def test_log_is_right_to_two_units_in_the_last_place() -> None:
    assert units_in_the_last_place(log(U), [math.log(u) for u in U.tolist()]) <= 2
    assert log(np.array([1.0])).tolist() == [0.0]


def test_exp_is_right_to_two_units_in_the_last_place() -> None:
    x = (U - 0.5) * 1200
    assert units_in_the_last_place(exp(x), [math.exp(v) for v in x.tolist()]) <= 2
    assert exp(np.zeros(1)).tolist() == [1.0]


def test_normal_quantile_agrees_with_the_standard_library() -> None:
    u = U[U > 0]
    expected = [NormalDist().inv_cdf(v) for v in u.tolist()]
    assert np.abs(normal_quantile(u) - np.array(expected)).max() < 1e-13
    assert normal_quantile(np.array([0.5])).tolist() == [0.0]
    assert -8.4 < normal_quantile(np.array([0.0]))[0] < -8.2


def test_exponential_quantile_keeps_its_tail() -> None:
    assert exponential_quantile(np.array([0.0, 1.0 - 2.0**-53])).tolist() == [0.0, pytest.approx(53 * math.log(2))]


@pytest.mark.parametrize("function", [log, exp, normal_quantile])
def test_an_array_gives_the_bits_of_its_elements(function: Callable[[Floats], Floats]) -> None:
    """Vector units of different widths round alike."""
    u = U[U > 0]
    one_by_one = [function(u[i : i + 1])[0] for i in range(0, len(u), 7)]
    assert function(u)[::7].tolist() == one_by_one


def test_log_gives_the_bits_of_plain_python() -> None:
    """No step is fused or reordered: the interpreter does one IEEE operation at a time."""

    def plain(x: float) -> float:
        mantissa, exponent = math.frexp(x)
        if mantissa < 0.7071067811865476:
            mantissa, exponent = mantissa + mantissa, exponent - 1
        s = (mantissa - 1.0) / ((mantissa - 1.0) + 2.0)
        total = 1 / 23
        for n in range(10, -1, -1):
            total = total * (s * s)
            total = total + 1 / (2 * n + 1)
        return exponent * 0.6931471803691238 + ((s + s) * total + exponent * 1.9082149292705877e-10)

    assert log(U).tolist() == [plain(u) for u in U.tolist()]
