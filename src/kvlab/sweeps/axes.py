"""What a sweep varies: lists, ranges, log ranges, and settings that move together.

max_num_seqs=16,32,64            a list
request_rate=2:8:0.5             from, to, step; both ends count
max_num_seqs=log(8, 256, 6)      six values with equal ratios, rounded to what the setting can hold
max_num_seqs+watermark=64+0,48+0.02   pairs: one axis that moves two settings
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import product
from typing import Final

from kvlab.errors import ConfigError
from kvlab.setting_table import find_setting
from kvlab.settings import FACTOR, RATE, RATIO, Setting, Value

MAX_RUNS: Final = 100_000
"""Of one sweep, which holds all its results in memory."""
_LOG: Final = re.compile(r"log\(\s*([^,()]+),\s*([^,()]+),\s*(\d+)\s*\)", re.ASCII)
_DECIMALS: Final = (FACTOR, RATE, RATIO)
_MILLIONTH: Final = Decimal("0.000001")
_DIGITS: Final = 40
"""Of logarithms: far more than any setting keeps, so that rounding is the same everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Settings that move together, and where they go."""

    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    """One tuple per place on the axis, a value for each name."""

    @property
    def label(self) -> str:
        """The names, joined as they are written."""
        return "+".join(self.names)


def parse_axis(text: str, rules: str) -> Axis:
    """The axis that a text such as "max_num_seqs=16,32,64" means under these rules.

    >>> parse_axis("request_rate=2:3:0.5", "preemption-lab").values
    ((Decimal('2'),), (Decimal('2.5'),), (Decimal('3'),))

    Raises:
        ConfigError: no such form, no value, or one that the setting can't have.
        UnknownNameError: no such setting; names the nearest.
    """
    label, equals, spec = text.partition("=")
    if not equals or not spec.strip():
        raise ConfigError("axis", text, "expected NAME=VALUE,VALUE,..., NAME=FROM:TO:STEP or NAME=log(FROM, TO, COUNT)")
    settings = [find_setting(name.strip().replace("-", "_"), rules) for name in label.split("+")]
    names = tuple(setting.name for setting in settings)
    if len(set(names)) < len(names):
        raise ConfigError("axis", label, "names a setting twice")
    if len(settings) > 1:
        return Axis(names=names, values=tuple(_together(settings, part) for part in spec.split(",")))
    values = list(dict.fromkeys(_places(settings[0], spec.strip())))
    return Axis(names=names, values=tuple((value,) for value in values))


def axis_of(name: str, given: object, rules: str) -> Axis:
    """The axis of a keyword of `kvlab.sweep`: a text as above without the name, or an iterable of values."""
    if isinstance(given, str):
        return parse_axis(f"{name}={given}", rules)
    setting = find_setting(name, rules, given)
    if not isinstance(given, Iterable):
        return Axis(names=(name,), values=((setting.parse(given),),))
    values = tuple((setting.parse(value),) for value in given)
    if not values:
        raise ConfigError(name, given, "needs at least one value")
    return Axis(names=(name,), values=values)


def _together(settings: list[Setting], part: str) -> tuple[Value, ...]:
    texts = part.split("+")
    if len(texts) != len(settings):
        names = "+".join(setting.name for setting in settings)
        raise ConfigError("axis", part.strip(), f"{names} needs {len(settings)} values joined by +")
    return tuple(setting.parse(text.strip()) for setting, text in zip(settings, texts, strict=True))


def _places(setting: Setting, spec: str) -> list[Value]:
    log = _LOG.fullmatch(spec)
    if log is not None:
        return _log_range(setting, log[1], log[2], int(log[3]))
    parts = spec.split(":")
    if len(parts) == 3:
        return _range(setting, *parts)
    return [setting.parse(part.strip()) for part in _split(spec)]


def _split(spec: str) -> list[str]:
    """At commas outside parentheses: lengths such as uniform(200, 1500) are one value."""
    parts, depth = [""], 0
    for letter in spec:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _range(setting: Setting, first: str, last: str, step: str) -> list[Value]:
    low, high, width = (_number(setting, text) for text in (first, last, step))
    if width <= 0 or high < low:
        raise ConfigError(setting.name, f"{first}:{last}:{step}", "expected FROM:TO:STEP with FROM <= TO and STEP > 0")
    count = int((high - low) // width) + 1
    _bounded(setting.name, count)
    return [_fitting(setting, low + number * width) for number in range(count)]


def _log_range(setting: Setting, first: str, last: str, count: int) -> list[Value]:
    low, high = _number(setting, first), _number(setting, last)
    if low <= 0 or high <= low or count < 2:
        raise ConfigError(setting.name, f"log({first}, {last}, {count})", "expected 0 < FROM < TO and COUNT >= 2")
    _bounded(setting.name, count)
    with localcontext() as context:
        context.prec = _DIGITS
        ratio = (high / low).ln() / (count - 1)
        inner = [low * (ratio * number).exp() for number in range(1, count - 1)]
    return [_fitting(setting, value) for value in (low, *inner, high)]


def _number(setting: Setting, text: str) -> Decimal:
    value = setting.parse(text.strip())
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ConfigError(setting.name, text, "has no numbers between which a range could be")
    return Decimal(value)


def _fitting(setting: Setting, value: Decimal) -> Value:
    """The nearest value that the setting can hold: with six decimals, or whole."""
    if setting.kind in _DECIMALS:
        return setting.parse(value.quantize(_MILLIONTH).normalize() + 0)
    return setting.parse(int(value.to_integral_value()))


def _bounded(name: str, count: int) -> None:
    if count > MAX_RUNS:
        raise ConfigError(name, count, f"at most {MAX_RUNS:,} values")


def _names_of(axes: Iterable[Axis]) -> list[str]:
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("axis", name, "is on two axes")
    return names


def grid(axes: Iterable[Axis]) -> Iterator[dict[str, Value]]:
    """Every combination, the last axis fastest.

    Raises:
        ConfigError: a setting on two axes, or too many points.
    """
    axes = list(axes)
    names = _names_of(axes)
    count = 1
    for axis in axes:
        count *= len(axis.values)
    if count > MAX_RUNS:
        raise ConfigError("axes", count, f"at most {MAX_RUNS:,} points: take fewer values, or a Latin hypercube")
    for places in product(*(axis.values for axis in axes)):
        yield dict(zip(names, (value for place in places for value in place), strict=True))


def hypercube(axes: Iterable[Axis], count: int, seed: int) -> Iterator[dict[str, Value]]:
    """A Latin hypercube: `count` points whose values are spread evenly along each axis; a sample of the grid.

    The same for the same seed, on every machine.

    Raises:
        ConfigError: a setting on two axes, or no such number of points.
    """
    from kvlab.workloads.streams import Stream

    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_RUNS:
        raise ConfigError("sample", count, f"must be a whole number from 1 to {MAX_RUNS:,}")
    axes = list(axes)
    names = _names_of(axes)
    orders = []
    for number, axis in enumerate(axes):
        keys = Stream(seed, f"hypercube {number}").take(count)
        ranks = sorted(range(count), key=lambda place: (keys[place], place))
        orders.append([axis.values[rank * len(axis.values) // count] for rank in ranks])
    for places in zip(*orders, strict=True):
        yield dict(zip(names, (value for place in places for value in place), strict=True))
