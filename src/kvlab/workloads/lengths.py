"""Lengths of prompts and outputs: distributions written as text, drawn by inverse CDF.

    512   fixed(512)   uniform(200, 1500)   exponential(250, max=1500)   lognormal(p50=600, p95=3000)
    histogram(100:5, 200:3)   empirical(lengths.csv, num_decode_tokens)

One uniform number makes one length, so a longer mean or a lower cap moves the same draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.units import parse_count, parse_decimal
from kvlab.workloads.exact_math import exp, exponential_quantile, log, normal_quantile
from kvlab.workloads.spec import Call, format_call, parse_call
from kvlab.workloads.streams import Floats, Ints

MAX_TOKENS: Final = 10_000_000
"""Longest prompt or output that anything here accepts: ten times the longest context on offer."""
_Z95: Final = 1.6448536269514722  # the 95 % quantile of the normal distribution


Quantile = Callable[[Floats], Floats]
"""From u in [0, 1) to lengths."""


class Lengths(Protocol):
    """A distribution of lengths in tokens. `str()` gives text that parses back to an equal value."""

    @property
    def max_tokens(self) -> int | None:
        """The cap, or None."""

    def quantile(self) -> Quantile:
        """The inverse CDF, before scaling, rounding and the cap; ready to be called often."""


def sampler(lengths: Lengths) -> Callable[[Floats, Floats | float], Ints]:
    """(u, scale) -> whole tokens: scale x inverse CDF, rounded half to even, at least 1, at most the cap.

    Raises:
        TraceError: a file of lengths can't be used.
    """
    quantile = lengths.quantile()
    limit = float(MAX_TOKENS if lengths.max_tokens is None else lengths.max_tokens)

    def draw(u: Floats, scale: Floats | float) -> Ints:
        return np.clip(np.rint(quantile(u) * scale), 1.0, limit).astype(np.int64)

    return draw


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same length."""

    tokens: int
    max_tokens: int | None = None

    def quantile(self) -> Quantile:
        """See `Lengths`."""
        return lambda u: np.full_like(u, float(self.tokens))

    def __str__(self) -> str:
        return format_call("fixed", self.tokens, max=self.max_tokens)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every whole number from `low` to `high`, both included, equally often."""

    low: int
    high: int
    max_tokens: int | None = None

    def quantile(self) -> Quantile:
        """See `Lengths`."""
        low, count = float(self.low), float(self.high - self.low + 1)
        return lambda u: low + np.floor(u * count)

    def __str__(self) -> str:
        return format_call("uniform", self.low, self.high, max=self.max_tokens)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential with a mean: many short ones, a few very long."""

    mean: Decimal
    max_tokens: int | None = None

    def quantile(self) -> Quantile:
        """See `Lengths`."""
        mean = float(self.mean)
        return lambda u: mean * exponential_quantile(u)

    def __str__(self) -> str:
        return format_call("exponential", self.mean, max=self.max_tokens)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Log-normal with a median and a 95 % quantile, as a dashboard shows them."""

    p50: Decimal
    p95: Decimal
    max_tokens: int | None = None

    def quantile(self) -> Quantile:
        """See `Lengths`."""
        p50 = float(self.p50)
        sigma = float(log(np.array([float(self.p95) / p50]))[0]) / _Z95
        return lambda u: p50 * exp(np.minimum(sigma * normal_quantile(u), 100.0))

    def __str__(self) -> str:
        return format_call("lognormal", p50=self.p50, p95=self.p95, max=self.max_tokens)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Given lengths with given weights, `((tokens, weight), ...)` by rising length."""

    bars: tuple[tuple[int, int], ...]
    max_tokens: int | None = None

    def quantile(self) -> Quantile:
        """See `Lengths`."""
        values = np.array([tokens for tokens, _ in self.bars], dtype=np.float64)
        ends = np.cumsum(np.array([weight for _, weight in self.bars], dtype=np.float64))
        total = float(ends[-1])
        return lambda u: values[np.searchsorted(ends, np.floor(u * total), side="right")]

    def __str__(self) -> str:
        return format_call("histogram", *(f"{tokens}:{weight}" for tokens, weight in self.bars), max=self.max_tokens)


@dataclass(frozen=True, slots=True)
class Empirical:
    """The lengths in one column of a file, each as often as it occurs there. The file is read at the first draw."""

    path: str
    column: str
    max_tokens: int | None = None

    def quantile(self) -> Quantile:
        """See `Lengths`.

        Raises:
            TraceError: the file can't be read, or has no such column.
        """
        from kvlab.workloads.traces.histogram import histogram_of  # only traffic that needs files loads the readers

        return Histogram(histogram_of(self.path, self.column)).quantile()

    def __str__(self) -> str:
        return format_call("empirical", self.path, self.column, max=self.max_tokens)


def _fixed(call: Call) -> Lengths:
    (tokens,) = call.positional(1)
    return Fixed(_tokens(tokens, call.field), call.cap(MAX_TOKENS))


def _uniform(call: Call) -> Lengths:
    low, high = (_tokens(text, call.field) for text in call.positional(2))
    if low > high:
        raise ConfigError(call.field, call.text, f"the low end {low:,} is above the high end {high:,}")
    return Uniform(low, high, call.cap(MAX_TOKENS))


def _exponential(call: Call) -> Lengths:
    (mean,) = call.positional(1)
    return Exponential(_mean(mean, call.field), call.cap(MAX_TOKENS))


def _lognormal(call: Call) -> Lengths:
    p50, p95 = (_mean(call.named(name), call.field) for name in ("p50", "p95"))
    if p50 > p95:
        raise ConfigError(call.field, call.text, f"p50 = {p50} is above p95 = {p95}")
    return LogNormal(p50, p95, call.cap(MAX_TOKENS))


def _histogram(call: Call) -> Lengths:
    weights: dict[int, int] = {}
    for bar in call.positional(None):
        tokens, colon, weight = bar.partition(":")
        if not colon:
            raise ConfigError(call.field, bar, "expected tokens:weight, such as 100:5")
        count = parse_count(weight, call.field)
        if not 0 <= count <= 10**9:
            raise ConfigError(call.field, bar, "a weight is a whole number from 0 to 1,000,000,000")
        length = _tokens(tokens, call.field)
        weights[length] = weights.get(length, 0) + count
    bars = tuple(sorted((tokens, weight) for tokens, weight in weights.items() if weight))
    if not bars:
        raise ConfigError(call.field, call.text, "give at least one bar with a weight above 0, such as 100:5")
    return Histogram(bars, call.cap(MAX_TOKENS))


def _empirical(call: Call) -> Lengths:
    path, column = call.positional(2)
    return Empirical(path, column, call.cap(MAX_TOKENS))


LENGTHS: Final[dict[str, Callable[[Call], Lengths]]] = {
    "fixed": _fixed,
    "uniform": _uniform,
    "exponential": _exponential,
    "lognormal": _lognormal,
    "histogram": _histogram,
    "empirical": _empirical,
}
"""Name of a distribution -> what makes one from its parsed arguments."""


@lru_cache(maxsize=64)
def parse_lengths(text: str, field: str) -> Lengths:
    """The distribution that a text such as "exponential(250, max=1500)" or "512" describes.

    Raises:
        UnknownNameError: no distribution of that name.
        ConfigError: arguments that can't work.
    """
    call = parse_call(text, field, bare="fixed")
    if call.name not in LENGTHS:
        raise UnknownNameError(f"{field} distribution", call.name, LENGTHS)
    lengths = LENGTHS[call.name](call)
    call.check_all_used()
    return lengths


def _tokens(text: str, field: str) -> int:
    tokens = parse_count(text, field)
    if not 1 <= tokens <= MAX_TOKENS:
        raise ConfigError(field, text, f"a length is a whole number from 1 to {MAX_TOKENS:,} tokens")
    return tokens


def _mean(text: str, field: str) -> Decimal:
    mean = parse_decimal(text, field)
    if not 1 <= mean <= MAX_TOKENS:
        raise ConfigError(field, text, f"expected a number from 1 to {MAX_TOKENS:,} tokens")
    return mean
