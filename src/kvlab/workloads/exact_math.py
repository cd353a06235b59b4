"""Logarithm, exponential and quantiles with the same bits on every machine.

Libraries of elementary functions differ in the last bit, and one bit can move a request by one token. These use only
IEEE addition, multiplication, division and square root (correctly rounded everywhere), one array operation at a time,
so that no compiler fuses two of them; `frexp`, `ldexp`, `rint` and comparisons are exact. Sums that depend on the
width of a vector unit (`np.sum`, `np.dot`) are never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kvlab.workloads.streams import Floats

_SQRT_HALF: Final = 0.7071067811865476
_LN2_HIGH: Final = 0.6931471803691238  # the upper bits of ln 2: times any exponent it is exact
_LN2_LOW: Final = 1.9082149292705877e-10
_LOG_SERIES: Final = tuple(1 / (2 * n + 1) for n in range(12))  # log((1+s)/(1-s)) = 2s (1 + s^2/3 + s^4/5 + ...)
_INVERSE_FACTORIALS: Final = (
    1.0, 1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5_040, 1 / 40_320, 1 / 362_880, 1 / 3_628_800,
    1 / 39_916_800, 1 / 479_001_600, 1 / 6_227_020_800,
)  # fmt: skip

# Wichura's algorithm AS 241 (PPND16), lowest power first: rational functions for the centre, the flank and the tail.
_CENTRE_NUM: Final = (
    3.3871328727963665, 133.14166789178438, 1971.5909503065513, 13731.69376550946, 45921.95393154987,
    67265.7709270087, 33430.57558358813, 2509.0809287301227,
)  # fmt: skip
_CENTRE_DEN: Final = (
    1.0, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597,
    39307.89580009271, 28729.085735721943, 5226.495278852854,
)  # fmt: skip
_MIDDLE_NUM: Final = (
    1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045, 1.2704582524523684,
    0.2417807251774506, 0.022723844989269184, 0.0007745450142783414,
)  # fmt: skip
_MIDDLE_DEN: Final = (
    1.0, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008,
    0.015198666563616457, 0.0005475938084995345, 1.0507500716444169e-09,
)  # fmt: skip
_TAIL_NUM: Final = (
    6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487, 0.026532189526576124,
    0.0012426609473880784, 2.7115555687434876e-05, 2.0103343992922881e-07,
)  # fmt: skip
_TAIL_DEN: Final = (
    1.0, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 0.0007868691311456133,
    1.8463183175100548e-05, 1.421511758316446e-07, 2.0442631033899397e-15,
)  # fmt: skip


def log(x: Floats) -> Floats:
    """Natural logarithm of positive normal doubles, to about one unit in the last place."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < _SQRT_HALF
    mantissa = np.where(small, mantissa + mantissa, mantissa)
    power = exponent.astype(np.float64) - small
    less_one = mantissa - 1.0
    s = less_one / (less_one + 2.0)
    series = _polynomial(_LOG_SERIES, s * s)
    return power * _LN2_HIGH + ((s + s) * series + power * _LN2_LOW)


def exp(x: Floats) -> Floats:
    """The exponential function for x in -700..700, to about one unit in the last place."""
    power = np.rint(x * 1.4426950408889634)
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    return np.ldexp(_polynomial(_INVERSE_FACTORIALS, rest), power.astype(np.int32))


def exponential_quantile(u: Floats) -> Floats:
    """Exponential with mean 1: -log(1 - u), for multiples of 2^-53 in [0, 1), whose 1 - u is exact."""
    return -log(1.0 - u)


def normal_quantile(u: Floats) -> Floats:
    """Standard normal, for u in [0, 1); 0 counts as 2^-54."""
    p = np.maximum(u, 2.0**-54)
    q = p - 0.5
    r = 0.180625 - q * q
    centre = q * _polynomial(_CENTRE_NUM, r) / _polynomial(_CENTRE_DEN, r)
    depth = np.sqrt(-log(np.minimum(p, 1.0 - p)))
    middle = _polynomial(_MIDDLE_NUM, depth - 1.6) / _polynomial(_MIDDLE_DEN, depth - 1.6)
    tail = _polynomial(_TAIL_NUM, depth - 5.0) / _polynomial(_TAIL_DEN, depth - 5.0)
    outside = np.where(depth <= 5.0, middle, tail)
    return np.where(r >= 0.0, centre, np.where(q < 0.0, -outside, outside))


def _polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    """c0 + c1 x + c2 x^2 + ... by Horner's rule."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total *= x
        total += coefficient
    return total
