"""Public cases come out as committed, and each check means what it says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvlab.validation.chat import hit_rates
from kvlab.validation.checks import between, near, shown, true, within
from kvlab.validation.numbers import CaseNumbers, committed
from kvlab.validation.simulated_cases import SIMULATED
from kvlab.validation.sized_cases import SIZED
from kvlab.validation.watermark import holds, watermark_table


@pytest.mark.parametrize("check", [*SIMULATED, *SIZED], ids=lambda check: check.__name__)
def test_a_case_comes_out_as_committed(check: Callable[[], CaseNumbers]) -> None:
    found = check()
    kept = next(case for case in committed().cases if case.id == found.id)
    assert found == kept, "run: kvlab validate --again --numbers src/kvlab/validation/numbers.json"


def test_every_miss_is_explained() -> None:
    assert [case.id for case in committed().cases if not case.holds and not case.why] == []
    assert [case.id for case in committed().cases if case.holds and case.why] == []


def test_the_watermark_table_comes_out_as_committed() -> None:
    table = committed().watermark
    assert table is not None
    again = watermark_table(seeds=(1,))
    for found, kept in zip(again.rows, table.rows, strict=True):
        assert found.preemptions[0] == kept.preemptions[0]
    assert all(map(holds, table.rows))


def test_checks_hold_within_their_tolerance() -> None:
    assert near("x", 100, 104, 5).holds
    assert not near("x", 100, 106, 5).holds
    assert near("x", 0, 0, 0).tolerance == "exactly"
    assert within("x", 92.4, 94, 2).holds
    assert not within("x", 92.4, 95, 2).holds
    assert not between("x", "about 2", 5, 1, 4).holds
    assert true("x", "yes", "no", False).obtained == "no"


def test_numbers_are_shown_with_four_digits() -> None:
    assert shown(299_584.0) == "299,584"
    assert shown(0.6 / 7) == "0.08571"
    assert shown(60, "s") == "60 s"


def test_an_ample_cache_hits_all_of_a_chats_history() -> None:
    assert hit_rates(400_000)[:3] == [0.0, 0.5, pytest.approx(2 / 3)]
