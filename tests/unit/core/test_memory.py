from __future__ import annotations

import pytest

from kvlab.core.memory import Copied, Stay, cpu_stays_at, gpu_stays_at


def stay(**changes: object) -> Stay:
    """Steps 10 to 37: two blocks of 4 tokens at first, one more in step 14 and every 4 steps from then on."""
    plain = Stay(
        request_id=7,
        sample=0,
        order=3,
        arrival_ns=100,
        on_cpu=False,
        start_step=10,
        end_step=20,
        decode_step=12,
        initial_blocks=2,
        growth_step=14,
        block_size=4,
        blocks=(7, 8, 3, 5),
        copied=None,
        segment=None,
        end="finished",
    )
    return plain._replace(**changes)


@pytest.mark.parametrize(
    ("step", "table"),
    [(10, (7, 8)), (13, (7, 8)), (14, (7, 8, 3)), (17, (7, 8, 3)), (18, (7, 8, 3, 5)), (19, (7, 8, 3, 5))],
)
def test_a_table_grows_by_one_block_every_block_size_steps(step: int, table: tuple[int, ...]) -> None:
    assert stay().table_at(step) == table


def test_a_table_that_never_grows_stays_as_it_was() -> None:
    assert stay(growth_step=1 << 62, blocks=(7, 8)).table_at(19) == (7, 8)


def test_until_it_was_copied_an_entry_is_the_shared_block() -> None:
    copied = stay(copied=Copied(step=13, entry=1, source=90))
    assert copied.table_at(12) == (7, 90)
    assert copied.table_at(13) == (7, 8)


def test_gpu_stays_are_those_that_cover_the_step_in_admission_order() -> None:
    first, second = stay(order=1, request_id=5), stay(order=2, request_id=4)
    others = [stay(on_cpu=True), stay(start_step=16), stay(end_step=15)]
    assert gpu_stays_at([second, *others, first], step=15) == [first, second]


def test_cpu_stays_come_back_by_arrival_then_id() -> None:
    late, early, tied = (
        stay(on_cpu=True, arrival_ns=9, request_id=1),
        stay(on_cpu=True, arrival_ns=5, request_id=3),
        stay(on_cpu=True, arrival_ns=5, request_id=2),
    )
    assert cpu_stays_at([late, early, stay(), tied], step=15) == [tied, early, late]
