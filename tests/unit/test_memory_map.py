from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.runs import (
    CONTIGUOUS,
    MS,
    ONE_SAMPLE,
    PAGED,
    PREEMPTION,
    SAMPLES,
    contiguous_run,
    paged_run,
    preemption_run,
    reference_of,
    run_of,
    stopped,
)

from kvlab.core.config import Recording
from kvlab.errors import ConfigError
from kvlab.memory_map import FREE, Segment


def test_blocks_of_every_step_are_those_of_the_reference() -> None:
    run, expected = preemption_run(), reference_of(PREEMPTION, ONE_SAMPLE)
    assert any(expected.cpu_tables), "the run swaps"
    for step, (tables, cpu_tables) in enumerate(zip(expected.tables, expected.cpu_tables, strict=True)):
        shown = run.memory_at(step=step)
        owner = [FREE] * PREEMPTION.num_gpu_blocks
        cpu_owner = [FREE] * PREEMPTION.num_cpu_blocks
        for (request_id, _), table in tables.items():
            for block in table:
                owner[block] = request_id
        for (request_id, _), table in cpu_tables.items():
            for block in table:
                cpu_owner[block] = request_id
        assert shown.owner.tolist() == owner, step
        assert shown.cpu_owner.tolist() == cpu_owner, step
        assert shown.num_free == owner.count(FREE)


def test_shared_blocks_have_several_holders_and_show_the_first() -> None:
    run, expected = paged_run(), reference_of(PAGED, SAMPLES)
    seen_shared = False
    for step, tables in enumerate(expected.tables):
        shown = run.memory_at(step=step)
        holders: dict[int, list[tuple[int, int]]] = {}
        for sequence, table in tables.items():
            for block in table:
                holders.setdefault(block, []).append(sequence)
        for block in range(PAGED.num_blocks):
            held_by = holders.get(block, [])
            assert shown.holders[block] == len(held_by), (step, block)
            first = min(held_by, default=(FREE, FREE))
            assert (shown.owner[block], shown.sample[block]) == first, (step, block)
            assert shown.shared[block] == (len(held_by) > 1)
            seen_shared |= len(held_by) > 1
    assert seen_shared


def test_segments_have_their_reservation_and_what_is_used_of_it() -> None:
    run, expected = contiguous_run(), reference_of(CONTIGUOUS, SAMPLES)
    for step, (tables, row) in enumerate(zip(expected.tables, run.record.steps, strict=True)):
        shown = run.memory_at(step=step)
        assert shown.owner.size == 0
        reserved = {(s.owner, s.sample): (s.start, s.reserved) for s in shown.segments}
        assert reserved == tables, step
        assert sum(s.reserved for s in shown.segments) == row.reserved_tokens
        assert sum(s.used for s in shown.segments) == row.used_tokens
        assert list(shown.segments) == sorted(shown.segments)
    assert run.memory_at(step=0).segments[0] == Segment(0, 9 + 24, 9, 0, 0)


def test_a_time_shows_the_step_that_runs_then() -> None:
    run = preemption_run()
    first, second = run.record.steps[:2]
    start = first.t_ns - first.dur_ns
    assert run.memory_at(t_ns=start - 1).step is None, "before the first arrival"
    assert run.memory_at(t_ns=start).step == 0
    assert run.memory_at(t_ns=first.t_ns - 1).step == 0
    assert run.memory_at(t_ns=first.t_ns).step == 1
    assert run.memory_at(t_ns=first.t_ns).t_ns == second.t_ns - second.dur_ns


def test_between_steps_and_after_the_last_everything_is_free() -> None:
    run = preemption_run()
    for t_ns in (600 * MS, run.record.totals.end_ns, 10**15):
        shown = run.memory_at(t_ns=t_ns)
        assert shown.step is None
        assert shown.num_free == PREEMPTION.num_gpu_blocks
        assert not shown.holders.any()


def test_a_stopped_run_keeps_what_its_last_step_held() -> None:
    run = stopped(preemption_run(), after_steps=9)
    last = run.memory_at(step=-1)
    assert last.step == 8
    assert last.num_free < PREEMPTION.num_gpu_blocks
    assert np.array_equal(run.memory_at(t_ns=10**15).owner, last.owner)


def test_what_cannot_be_asked_for_is_named() -> None:
    run = preemption_run()
    with pytest.raises(ConfigError, match="give either t_ns or step"):
        run.memory_at()
    with pytest.raises(ConfigError, match="give either t_ns or step"):
        run.memory_at(t_ns=1, step=1)
    with pytest.raises(ConfigError, match="the run has 34 steps"):
        run.memory_at(step=34)
    with pytest.raises(ConfigError, match="a run begins at 0"):
        run.memory_at(t_ns=-1)
    lean = run_of(PREEMPTION, ONE_SAMPLE, recording=Recording(steps=True))
    with pytest.raises(ConfigError, match=r"kept no memory; simulate with Recording\(memory=True\)"):
        lean.memory_at(step=0)


def test_a_map_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        preemption_run().memory_at(step=0).owner[0] = 3
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        preemption_run().memory_at(step=0).owner.setflags(write=True)


@pytest.mark.parametrize("value", ["60s", "1", 1.0, True, np.float64(1), Fraction(1)])
def test_a_time_and_a_step_are_whole_numbers(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"t_ns = .*: expected a whole number of ns"):
        preemption_run().memory_at(t_ns=value)
    with pytest.raises(ConfigError, match=r"step = .*: expected a whole number"):
        preemption_run().memory_at(step=value)
    assert preemption_run().memory_at(step=np.int64(3)).step == 3  # type: ignore[arg-type]


def test_a_map_is_shown_in_one_line() -> None:
    shown = preemption_run().memory_at(step=0)
    assert repr(shown) == f"<MemoryMap step 0 at 5 ms: {shown.num_free} of 12 GPU blocks free, 0 of 4 CPU blocks taken>"
    assert repr(preemption_run().memory_at(t_ns=0)).startswith("<MemoryMap no step at 0 ns: 12 of 12")
    assert repr(contiguous_run().memory_at(step=0)) == "<MemoryMap step 0 at 0 ns: 2 segments>"
