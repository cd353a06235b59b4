"""One request of a trace, and how its cells are read: exactly, and strictly.

Cells are text (CSV), or what JSON and Parquet make of them. A cell that can't be used raises ValueError with the
reason; the reader knows the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache, partial
from typing import Final, NamedTuple, cast

from kvlab.units import NS_PER_MS, NS_PER_S, NS_PER_US
from kvlab.workloads.lengths import MAX_TOKENS

TIME_UNITS: Final = {
    "ns": 1,
    "us": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
MAX_TIME_NS: Final = 2**63 - 1
"""The year 2262, counted from 1970."""

_NUMBER: Final = re.compile(r"([0-9]+)(?:\.([0-9]*))?([eE][+-]?[0-9]{1,3})?\Z")
_CLOCK: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})\Z")
_CLOCK_END: Final = re.compile(r"(?:\.([0-9]+))?(?:Z|([+-][0-9]{2}:?[0-9]{2}))?\Z")
_NO_TIME: Final = "expected a number, or a date and time such as 2023-11-16 18:15:46.6805900"


class TraceRow(NamedTuple):
    """One recorded request."""

    line: int
    """Where it stands in its file, from 1: a line of text, a row of a table."""
    arrival_ns: int
    """On the clock of the file."""
    prompt_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] = ()
    """One id per block of the prompt: equal ids, equal prefix up to that block. Empty where there are none."""


TRACE_ROW: Final = cast("Callable[[Iterable[object]], TraceRow]", partial(tuple.__new__, TraceRow))
"""Makes a TraceRow of all its fields, faster than by name."""


def read_tokens(cell: object, least: int) -> int:
    """A whole number of tokens, at least `least` (0 or 1).

    Raises:
        ValueError: it isn't one.
    """
    text = cell.strip() if isinstance(cell, str) else str(cell)
    whole, point, zeros = text.partition(".")  # tables that once had gaps write 374.0
    if not (whole.isascii() and whole.isdecimal() and not zeros.strip("0") and (zeros or not point)):
        if text.startswith("-") and text[1:].isdigit():
            raise ValueError("a number of tokens can't be negative")
        raise ValueError("expected a whole number of tokens" if text else "there is no value")
    if len(whole) > 20 or (tokens := int(whole)) > MAX_TOKENS:
        raise ValueError(f"at most {MAX_TOKENS:,} tokens are accepted")
    if tokens < least:
        raise ValueError("a prompt has at least one token; drop the row")
    return tokens


def read_plain_numbers(cells: Sequence[object]) -> list[int]:
    """Numbers of a whole column: digits and nothing else, or JSON's whole numbers.

    Raises:
        ValueError: a cell is something else.
    """
    types = set(map(type, cells))
    if types == {int}:
        return cast(list[int], list(cells))
    if types == {str}:
        texts = cast(Sequence[str], cells)
        joined = "".join(texts)
        if joined.isdecimal() and joined.isascii() and max(map(len, texts)) < 19:
            return list(map(int, texts))  # which refuses an empty one
    raise ValueError("not all are plain digits")


def read_time_ns(cell: object, unit_ns: int | None) -> int:
    """A date and time, or a number in a unit, in ns; digits below a nanosecond are cut off.

    Raises:
        ValueError: neither, or a number whose unit isn't known.
    """
    text = cell.strip() if isinstance(cell, str) else str(cell)
    if text[4:5] == "-" and text[:4].isdecimal():
        return _clock_ns(text)
    match = _NUMBER.match(text)
    if match is None:
        if text.startswith("-"):
            raise ValueError("a time can't be negative")
        raise ValueError(_NO_TIME if text else "there is no value")
    if unit_ns is None:
        raise ValueError(f"the time has no unit: say it, as in arrival=COLUMN:ms. Units: {', '.join(TIME_UNITS)}")
    whole, fraction, exponent = match.groups()
    if exponent is None and len(whole) <= 20:
        time_ns = int(whole) * unit_ns
        if fraction:
            time_ns += int(fraction[:40]) * unit_ns // 10 ** len(fraction[:40])
    elif Decimal(text).adjusted() < 30:
        time_ns = int(Decimal(text[:60]) * unit_ns)
    else:
        time_ns = MAX_TIME_NS + 1
    return _in_range(time_ns)


def read_times_ns(cells: Sequence[object], unit_ns: int | None) -> list[int]:
    """`read_time_ns` of a whole column.

    Raises:
        ValueError: a cell is no time.
    """
    if set(map(type, cells)) == {str}:
        texts = cast(Sequence[str], cells)
        length = len(texts[0])
        if 20 < length < 39 and set(map(len, texts)) == {length} and {text[19] for text in texts} == {"."}:
            fractions = [text[20:] for text in texts]
            digits = "".join(fractions)
            if digits.isdecimal() and digits.isascii():  # dates and times of one form, as machines write them
                unit = 10 ** (length - 20)
                seconds = map(_second_ns, [text[:19] for text in texts])
                times = [ns + part * NS_PER_S // unit for ns, part in zip(seconds, map(int, fractions), strict=True)]
                _in_range(min(times))
                _in_range(max(times))
                return times
    return [read_time_ns(cell, unit_ns) for cell in cells]


def read_hash_ids(cell: object) -> tuple[int, ...]:
    """A list of whole numbers; as text, with spaces between them.

    Raises:
        ValueError: it isn't one.
    """
    if isinstance(cell, str):
        cell = [int(part) if part.isdecimal() and len(part) < 20 else part for part in cell.split()]
    if not isinstance(cell, list | tuple) or not set(map(type, cell)) <= {int}:
        raise ValueError("expected a list of whole numbers")
    if cell and not 0 <= min(cell) <= max(cell) < 2**63:
        raise ValueError("an id is from 0 to 2^63 - 1")
    return tuple(cell)


def _clock_ns(text: str) -> int:
    second, _, fraction = text.partition(".")
    offset_ns = 0
    if not (fraction.isdecimal() and fraction.isascii()):  # there is none, or an offset from UTC stands at the end
        match = _CLOCK_END.match(text, 19)
        if match is None:
            raise ValueError(_NO_TIME)
        second, fraction = text[:19], match[1] or "0"
        if match[2]:
            offset_ns = (int(match[2][1:3]) * 60 + int(match[2][-2:])) * 60 * NS_PER_S
            offset_ns = -offset_ns if match[2][0] == "-" else offset_ns
    fraction = fraction[:18]
    time_ns = _second_ns(second) + int(fraction) * NS_PER_S // 10 ** len(fraction)
    return _in_range(time_ns - offset_ns)


@lru_cache(maxsize=256)
def _second_ns(text: str) -> int:
    """ns since 1970 of "2023-11-16 18:15:46"."""
    match = _CLOCK.match(text)
    if match is None:
        raise ValueError(_NO_TIME)
    day, *clock = match.groups()
    hour, minute, second = map(int, clock)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("a time of day is from 00:00:00 to 23:59:59")
    days = date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal()
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * NS_PER_S


def _in_range(time_ns: int) -> int:
    if not 0 <= time_ns <= MAX_TIME_NS:
        raise ValueError("the time lies outside 1970 to 2262 (2^63 ns)")
    return time_ns
