"""Records as columns: read-only numpy arrays that tables, plots and users work on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from kvlab.core.records import RequestRecord, StepRecord

Column = npt.NDArray[Any]
_T = TypeVar("_T", bound=np.generic)
Columns = Mapping[str, Column]

NOTHING: Final = -1
"""Stands where a record has None: no time, no length and no id is negative."""

_LISTS: Final = ("admitted", "resumed", "preempted", "finished")


def request_columns(requests: Sequence[RequestRecord]) -> Columns:
    """One int64 column per field of `RequestRecord`, in order of id; `rejected` is bool, None becomes -1."""
    dtypes = {name: bool if name == "rejected" else np.int64 for name in RequestRecord._fields}
    return _frozen({name: _column(requests, place, dtypes[name]) for place, name in enumerate(dtypes)})


def step_columns(steps: Sequence[StepRecord]) -> Columns:
    """One int64 column per field of `StepRecord`, in order of time, and `start_ns`.

    Lists become counts: `num_admitted`, `num_resumed`, `num_finished`, and `num_preempted` of which
    `num_swapped_out` by swap (the rest by recompute).
    """
    count, columns = len(steps), dict[str, Column]()
    for place, name in enumerate(StepRecord._fields):
        values: Iterable[Any] = map(itemgetter(place), steps)
        if name in _LISTS:
            columns[f"num_{name}"] = np.fromiter(map(len, values), np.int64, count)
        else:
            columns[name] = np.fromiter(values, np.int64, count)
    swaps = (sum(outcome == "swap" for _, outcome in step.preempted) if step.preempted else 0 for step in steps)
    columns["num_swapped_out"] = np.fromiter(swaps, np.int64, count)
    return _frozen({"start_ns": columns["t_ns"] - columns["dur_ns"], **columns})


def preemption_columns(steps: Sequence[StepRecord]) -> Columns:
    """One row per preemption, in order: `t_ns` (start of its step), `step`, `request_id`, `outcome` (text)."""
    rows = [
        (step.t_ns - step.dur_ns, number, request_id, outcome)
        for number, step in enumerate(steps)
        if step.preempted
        for request_id, outcome in step.preempted
    ]
    dtypes: dict[str, npt.DTypeLike] = {"t_ns": np.int64, "step": np.int64, "request_id": np.int64, "outcome": "U9"}
    return _frozen({name: _column(rows, place, dtypes[name]) for place, name in enumerate(dtypes)})


def _column(rows: Sequence[tuple[Any, ...]], place: int, dtype: npt.DTypeLike) -> Column:
    return np.fromiter((NOTHING if row[place] is None else row[place] for row in rows), dtype, len(rows))


def _frozen(columns: dict[str, Column]) -> Columns:
    return MappingProxyType({name: read_only(column) for name, column in columns.items()})


def read_only(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """A view that can't be made writable again, as the array itself could."""
    array.setflags(write=False)
    return array.view()
