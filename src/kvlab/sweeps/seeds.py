"""Which seeds a call means: a number of them, or a list."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Set
from itertools import islice
from typing import Final

from kvlab.errors import ConfigError
from kvlab.setting_table import SETTINGS

MOST: Final = 10_000
_EXPECTED: Final = "expected how many, such as 3, or a list of whole numbers, such as [1, 2, 3]"


def seeds_of(seeds: int | Iterable[int], first: int, most: int = MOST) -> tuple[int, ...]:
    """The seeds in their order.

    >>> seeds_of(3, first=5), seeds_of([7, 1], first=5)
    ((5, 6, 7), (7, 1))

    Args:
        seeds: so many from `first` on, or these.
        most: so many are allowed.
    Raises:
        ConfigError: none, too many, one that is there twice, or one that can't be a seed.
    """
    count = _whole(seeds)
    if count is not None:
        if not 1 <= count <= most:
            raise ConfigError("seeds", count, f"must be from 1 to {most:,}")
        return tuple(_seed(number) for number in range(first, first + count))
    if isinstance(seeds, str | bytes | Mapping | Set) or not isinstance(seeds, Iterable):
        raise ConfigError("seeds", seeds, _EXPECTED)
    found = tuple(_seed(one) for one in islice(seeds, most + 1))
    if not found:
        raise ConfigError("seeds", seeds, "needs at least one")
    if len(found) > most:
        raise ConfigError("seeds", f"more than {most:,}", f"at most {most:,}")
    seen: set[int] = set()
    for one in found:
        if one in seen:
            raise ConfigError("seeds", one, "is there twice: the same seed gives the same requests")
        seen.add(one)
    return found


def _whole(given: object) -> int | None:
    """The number, from NumPy too; None for what is none."""
    if isinstance(given, bool):
        return None
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        return None


def _seed(given: object) -> int:
    setting = SETTINGS["seed"]
    assert isinstance(setting.at_least, int)
    assert isinstance(setting.at_most, int)
    seed = _whole(given)
    if seed is None:
        raise ConfigError("seeds", given, "a seed is a whole number")
    if not setting.at_least <= seed <= setting.at_most:
        raise ConfigError("seeds", seed, f"a seed is from {setting.at_least} to {setting.at_most:,}")
    return seed
