"""Seeds are a number of them, or a list; whatever else is given is refused with what would do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kvlab.errors import ConfigError
from kvlab.sweeps.seeds import seeds_of


def test_a_number_counts_from_the_first_and_a_list_is_taken_as_it_is() -> None:
    assert seeds_of(3, first=5) == (5, 6, 7)
    assert seeds_of(range(2, 4), first=5) == (2, 3)
    assert seeds_of((seed for seed in (9, 0)), first=5) == (9, 0)
    assert seeds_of(np.array([4, 2]), first=5) == (4, 2)
    assert all(type(seed) is int for seed in seeds_of(np.array([4, 2]), first=5))


@pytest.mark.parametrize(
    ("seeds", "problem"),
    [
        (0, "from 1 to 10,000"), (-1, "from 1 to 10,000"), (10_001, "from 1 to 10,000"), (True, "expected how many"),
        ("3", "expected how many"), (1.5, "expected how many"), (None, "expected how many"),
        ({1, 2}, "expected how many"), ([], "at least one"), ([5, 6, 5], "seeds = 5: is there twice"),
        ([-1], "from 0 to"), ([2**53], "from 0 to"), ([1, True], "whole number"), (["1"], "whole number"),
        ([1.0], "whole number"), (range(10_001), "at most 10,000"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused(seeds: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        seeds_of(seeds, first=1)  # type: ignore[arg-type]
    assert caught.value.field == "seeds"


def test_endless_seeds_are_not_read_to_their_end() -> None:
    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield (number := number + 1)

    with pytest.raises(ConfigError, match="at most 10"):
        seeds_of(endless(), first=1, most=10)


def test_the_last_seed_has_none_after_it() -> None:
    assert seeds_of(1, first=2**53 - 1) == (2**53 - 1,)
    with pytest.raises(ConfigError, match="a seed is from 0 to"):
        seeds_of(2, first=2**53 - 1)
