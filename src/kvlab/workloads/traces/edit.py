"""Traces from traces: a window, another speed, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from kvlab.workloads.traces.rows import TraceRow


def cut(rows: Iterable[TraceRow], from_ns: int, until_ns: int | None) -> Iterator[TraceRow]:
    """Rows that arrive in [from_ns, until_ns), counted from there; rows are in order of arrival."""
    for row in rows:
        if until_ns is not None and row.arrival_ns >= until_ns:
            return
        if row.arrival_ns >= from_ns:
            yield row._replace(arrival_ns=row.arrival_ns - from_ns)


def scale(rows: Iterable[TraceRow], speed: Fraction) -> Iterator[TraceRow]:
    """Rows at `speed` times their rate; times are rounded down to whole ns."""
    num, den = speed.as_integer_ratio()
    for row in rows:
        yield row._replace(arrival_ns=row.arrival_ns * den // num)


def sort(rows: Iterable[TraceRow]) -> list[TraceRow]:
    """Rows in order of arrival, equal arrivals as they were; all of them are held at once."""
    ordered = sorted(rows, key=lambda row: row.arrival_ns)
    start_ns = ordered[0].arrival_ns if ordered else 0
    return [row._replace(arrival_ns=row.arrival_ns - start_ns) for row in ordered]
