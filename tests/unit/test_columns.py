from __future__ import annotations

import numpy as np
import pytest
from tests.runs import MS, contiguous_run, paged_run, preemption_run

from kvlab.columns import preemption_columns, request_columns, step_columns
from kvlab.core.records import RequestRecord, StepRecord


def test_request_columns_are_the_records_with_minus_one_for_none() -> None:
    run = preemption_run()
    columns = run.requests
    assert tuple(columns) == RequestRecord._fields
    for name, column in columns.items():
        expected = [-1 if getattr(r, name) is None else getattr(r, name) for r in run.record.requests]
        assert column.tolist() == expected, name
    assert columns["rejected"].dtype == np.bool_
    assert columns["finish_ns"][4] == -1, "request 4 was rejected"


def test_step_columns_count_the_lists() -> None:
    for run in (preemption_run(), paged_run(), contiguous_run()):
        columns, steps = run.timeline, run.record.steps
        assert columns["start_ns"].tolist() == [s.t_ns - s.dur_ns for s in steps]
        assert columns["reserved_tokens"].tolist() == [s.reserved_tokens for s in steps]
        assert columns["num_admitted"].tolist() == [len(s.admitted) for s in steps]
        assert int(columns["num_preempted"].sum()) == run.record.totals.preemptions
        assert int(columns["num_swapped_out"].sum()) == run.record.totals.swap_outs
        assert not set(columns) & {"admitted", "resumed", "preempted", "finished"}


def test_one_row_per_preemption_at_the_start_of_its_step() -> None:
    step = StepRecord(50 * MS, 20 * MS, 1, 0, 1, 0, 0, 0, 0, 0, (), (), ((7, "swap"), (5, "recompute")), ())
    columns = preemption_columns([step._replace(preempted=()), step])
    assert {name: column.tolist() for name, column in columns.items()} == {
        "t_ns": [30 * MS, 30 * MS],
        "step": [1, 1],
        "request_id": [7, 5],
        "outcome": ["swap", "recompute"],
    }


def test_columns_of_nothing_are_empty() -> None:
    for columns in (request_columns(()), step_columns(()), preemption_columns(())):
        assert columns
        assert all(len(column) == 0 for column in columns.values())


def test_columns_cannot_be_written() -> None:
    column = preemption_run().timeline["t_ns"]
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        column.setflags(write=True)
    with pytest.raises(TypeError):
        preemption_run().timeline["t_ns"] = column  # type: ignore[index]
