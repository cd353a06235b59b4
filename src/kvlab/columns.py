"""Records as columns: read-only numpy arrays that tables, plots and users work on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kvlab.core.records import RequestRecord, StepRecord

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]

NOTHING: Final = -1
"""Stands where a record has None: no time, no length and no id is negative."""

_COUNTED: Final = ("admitted", "resumed", "preempted", "finished")


def request_columns(requests: Sequence[RequestRecord]) -> Columns:
    """One int64 column per field of `RequestRecord`, in order of id; `rejected` is bool, None becomes -1."""
    columns = _transpose(RequestRecord._fields, requests)
    return _frozen({name: _ints(values, bool if name == "rejected" else np.int64) for name, values in columns.items()})


def step_columns(steps: Sequence[StepRecord]) -> Columns:
    """One int64 column per field of `StepRecord`, in order of time, and `start_ns`.

    Lists become counts: `num_admitted`, `num_resumed`, `num_finished`, and `num_preempted` of which
    `num_swapped_out` by swap (the rest by recompute).
    """
    columns = _transpose(StepRecord._fields, steps)
    result = {name: _ints(values, np.int64) for name, values in columns.items() if name not in _COUNTED}
    for name in _COUNTED:
        result[f"num_{name}"] = _ints([len(ids) for ids in columns[name]], np.int64)
    swaps = [sum(outcome == "swap" for _, outcome in victims) for victims in columns["preempted"]]
    result["num_swapped_out"] = _ints(swaps, np.int64)
    return _frozen({"start_ns": result["t_ns"] - result["dur_ns"], **result})


def preemption_columns(steps: Sequence[StepRecord]) -> Columns:
    """One row per preemption, in order: `t_ns` (start of its step), `step`, `request_id`, `outcome` (text)."""
    rows = [
        (step.t_ns - step.dur_ns, number, request_id, outcome)
        for number, step in enumerate(steps)
        for request_id, outcome in step.preempted
    ]
    columns = _transpose(("t_ns", "step", "request_id", "outcome"), rows)
    return _frozen({name: _ints(values, "U9" if name == "outcome" else np.int64) for name, values in columns.items()})


def _transpose(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Sequence[Any]]:
    return dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))


def _ints(values: Iterable[Any], dtype: npt.DTypeLike) -> Column:
    return np.array([NOTHING if value is None else value for value in values], dtype=dtype)


def _frozen(columns: dict[str, Column]) -> Columns:
    for column in columns.values():
        column.setflags(write=False)
    return MappingProxyType(columns)
