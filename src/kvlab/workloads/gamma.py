"""The gamma quantile, from nothing but `exp`, `log` and sums in a fixed order.

With v = ln(gap / mean gap), the density of v is proportional to exp(shape * (v - e^v + 1)): no gamma function needed.
Its integral is taken cell by cell (Gauss-Legendre) from both ends, so that both tails keep their relative precision,
and v is interpolated as a function of s = ln(P / (1 - P)), in which it is smooth and nearly straight on both sides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from kvlab.workloads.exact_math import exp, log
from kvlab.workloads.streams import Floats

_CELLS: Final = 1024
_DEPTH: Final = 45.0  # the table ends where the density has fallen by e^-45; doubles in [0, 1) end at e^-37
_SHORTEST: Final = -30.0  # ln of a gap that counts as 0: 10^-13 of the mean
_LONGEST: Final = 12.0  # e^12 mean gaps: beyond what any shape from 0.01 reaches
_NODES: Final = (-0.8611363115940526, -0.3399810435848563, 0.3399810435848563, 0.8611363115940526)
_WEIGHTS: Final = (0.34785484513745385, 0.6521451548625461, 0.6521451548625461, 0.34785484513745385)


def gamma_quantile(u: Floats, shape: float) -> Floats:
    """Gaps of mean 1 with a coefficient of variation of 1/sqrt(shape), good to 7 digits, for shape 0.01..10,000."""
    table_s, table_v, table_slope = _table(shape)
    p = np.maximum(u, 2.0**-54)
    s = np.clip(log(p) - log(1.0 - p), table_s[0], table_s[-1])
    cell = np.clip(np.searchsorted(table_s, s, side="right") - 1, 0, _CELLS - 1)
    left, width = table_s[cell], table_s[cell + 1] - table_s[cell]
    t = (s - left) / width
    rest = 1.0 - t
    # Cubic Hermite: values and slopes of both ends of the cell.
    v = table_v[cell] * (rest * rest * (1.0 + t + t)) + table_v[cell + 1] * (t * t * (3.0 - t - t))
    v += width * (t * rest * (table_slope[cell] * rest - table_slope[cell + 1] * t))
    return exp(v)


@lru_cache(maxsize=16)
def _table(shape: float) -> tuple[Floats, Floats, Floats]:
    """s, v and dv/ds at the edges of the cells."""
    low, high = _edges(shape)
    v = low + (high - low) * (np.arange(_CELLS + 1) / float(_CELLS))
    half = (v[1:] - v[:-1]) * 0.5
    middle = v[:-1] + half
    mass = np.zeros(_CELLS)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        mass += weight * half * _density(middle + node * half, shape)
    density = _density(v, shape)
    below = density[0] / shape  # the left tail is exp(shape * v) by then
    above = density[-1] / (shape * (exp(v[-1:]) - 1.0))[0]  # the right tail falls by e^-(shape * (e^v - 1)) per v
    p = np.cumsum(np.concatenate(([below], mass)))
    q = np.cumsum(np.concatenate(([above], mass[::-1])))[::-1]
    return log(p) - log(q), v, p * q / (density * (p + q))


def _density(v: Floats, shape: float) -> Floats:
    return exp(np.maximum(shape * (v - exp(v) + 1.0), -600.0))


def _edges(shape: float) -> tuple[float, float]:
    """v left and right of the mode where the density has fallen by e^-_DEPTH, by bisection."""
    near, far = np.zeros(2), np.array([_SHORTEST, _LONGEST])
    for _ in range(25):
        v = (near + far) * 0.5
        inside = shape * (v - exp(v) + 1.0) > -_DEPTH
        near, far = np.where(inside, v, near), np.where(inside, far, v)
    return float(near[0]), float(near[1])
