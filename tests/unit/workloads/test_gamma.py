from __future__ import annotations

import math

import numpy as np
import pytest

from kvlab.workloads.exact_math import exponential_quantile, normal_quantile
from kvlab.workloads.gamma import gamma_quantile
from kvlab.workloads.streams import Stream

U = np.concatenate([Stream(5, "test").take(20_000), 2.0 ** -np.arange(1.0, 30.0), 1.0 - 2.0 ** -np.arange(1.0, 54.0)])


def test_shape_1_is_the_exponential() -> None:
    assert gamma_quantile(U, 1.0) == pytest.approx(exponential_quantile(U), rel=1e-7)


def test_shape_a_half_is_the_square_of_a_normal() -> None:
    u = U[U < 0.999]
    assert gamma_quantile(u, 0.5) == pytest.approx(normal_quantile((1 + u) / 2) ** 2, rel=1e-6, abs=1e-12)


def test_shape_2_inverts_its_distribution_function() -> None:
    t = 2 * gamma_quantile(U, 2.0)
    distribution = [1 - (1 + x) * math.exp(-x) for x in t.tolist()]
    assert distribution == pytest.approx(U.tolist(), rel=1e-6)


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 4.0, 50.0, 10_000.0])
def test_the_mean_is_1_and_the_variation_is_1_over_the_root_of_the_shape(shape: float) -> None:
    u = (np.arange(200_000) + 0.5) / 200_000
    gaps = gamma_quantile(u, shape)
    assert gaps.mean() == pytest.approx(1, rel=0.01)
    assert gaps.std() == pytest.approx(1 / math.sqrt(shape), rel=0.03)


@pytest.mark.parametrize("shape", [0.01, 0.7, 10_000.0])
def test_it_rises_and_stays_finite_and_not_negative(shape: float) -> None:
    gaps = gamma_quantile(np.sort(np.concatenate([U, [0.0]])), shape)
    assert np.isfinite(gaps).all()
    assert gaps[0] >= 0
    assert (np.diff(gaps) >= 0).all()
