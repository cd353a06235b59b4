"""Servers and GPUs for the rates of a day, when it is known what one server holds.

The rule: servers = rate x (1 + headroom) / largest rate of one server, rounded up, at least one. Servers are
independent and fed in turn, so each sees its share of the rate, if anything more evenly than a stream as thin. A burst
that all users share is not averaged out: the scenario of the one server must have it. docs/planning.md, "A day".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvlab.errors import ConfigError, InputError
from kvlab.scenarios import Scenario
from kvlab.tabular import Tabular
from kvlab.units import parse_decimal, parse_ratio

if TYPE_CHECKING:
    import pyarrow as pa

_DAY_H: Final = 24
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?\Z")
_MAX_ROWS: Final = 10_000
_MOST_HEADROOM: Final = 10


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the day with one rate."""

    start_h: Fraction
    hours: Fraction
    rate: Decimal
    """Requests per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily(Tabular):
    """What each part of a day needs."""

    stretches: tuple[Stretch, ...]
    servers: tuple[int, ...]
    """One per stretch."""
    rate_per_server: Decimal
    """Largest rate of one server, requests per second."""
    gpus_per_server: int
    headroom: Decimal
    """Share by which every rate is raised first."""

    @property
    def peak_servers(self) -> int:
        """Those of the busiest part."""
        return max(self.servers)

    @property
    def resized_gpu_hours(self) -> Fraction:
        """Of a day, if the number of servers follows the rate."""
        pairs = zip(self.stretches, self.servers, strict=True)
        return sum((part.hours * servers for part, servers in pairs), Fraction(0)) * self.gpus_per_server

    @property
    def fixed_gpu_hours(self) -> Fraction:
        """Of a day, if there are always as many as at its peak."""
        return sum((part.hours for part in self.stretches), Fraction(0)) * self.peak_servers * self.gpus_per_server

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "rate_per_server": float(self.rate_per_server),
            "gpus_per_server": self.gpus_per_server,
            "headroom": float(self.headroom),
            "parts": self._rows(),
            "peak_servers": self.peak_servers,
            "peak_gpus": self.peak_servers * self.gpus_per_server,
            "gpu_hours_resized": float(self.resized_gpu_hours),
            "gpu_hours_fixed": float(self.fixed_gpu_hours),
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "start_h": float(part.start_h),
                "hours": float(part.hours),
                "rate": float(part.rate),
                "servers": servers,
                "gpus": servers * self.gpus_per_server,
            }
            for part, servers in zip(self.stretches, self.servers, strict=True)
        ]

    def table(self) -> pa.Table:
        """One row per part of the day: start_h, hours, rate, servers, gpus."""
        import pyarrow as pa

        return pa.Table.from_pylist(self._rows())


def daily(
    profile: Sequence[Stretch], rate_per_server: Decimal, *, gpus_per_server: int = 1, headroom: Decimal = Decimal(0)
) -> Daily:
    """Servers and GPUs for a day.

    Args:
        rate_per_server: what one server holds, as `find_limit` finds it.
        headroom: share by which every rate is raised first, such as Decimal("0.2").
    Raises:
        ConfigError: a headroom below 0, or of more than 10.
    """
    _check_headroom(headroom, str(headroom))
    raised = [part.rate * (1 + headroom) for part in profile]
    return Daily(
        stretches=tuple(profile),
        servers=tuple(replicas_for(raised, rate_per_server)),
        rate_per_server=rate_per_server,
        gpus_per_server=gpus_per_server,
        headroom=headroom,
    )


def replicas_for(rates: Sequence[Decimal], per_replica: Decimal) -> list[int]:
    """Servers that each rate needs, at least one.

    >>> replicas_for([Decimal(2), Decimal(7)], Decimal("2.5"))
    [1, 3]
    """
    return [max(1, int((rate / per_replica).to_integral_value(ROUND_CEILING))) for rate in rates]


def gpus_of(scenario: Scenario) -> int:
    """GPUs of one server: those that share a layer, times pipeline stages; a lab has one.

    >>> from kvlab.scenarios import load
    >>> gpus_of(load("vllm-v1").replace(tensor_parallel_size=4)), gpus_of(load("preemption-lab"))
    (4, 1)
    """
    server = scenario.server
    sizes = (getattr(server, name, 1) for name in ("tensor_parallel_size", "pipeline_parallel_size"))
    first, second = sizes
    return int(first) * int(second)


def parse_headroom(text: str) -> Decimal:
    """The share by which rates are raised: "20%" or "0.2".

    >>> parse_headroom("20%"), parse_headroom("0.2"), parse_headroom("150 %")
    (Decimal('0.2'), Decimal('0.2'), Decimal('1.5'))

    Raises:
        ConfigError: not a ratio, below 0, above 1,000 %, or above 1 without a %: 20 was hardly meant as 20 times.
    """
    share = parse_ratio(text, "headroom")
    if share > 1 and "%" not in text:
        written = text.strip()
        raise ConfigError("headroom", text, f"is {written} times as much again; {written} % is written {written}%")
    _check_headroom(share, text)
    return share


def _check_headroom(share: Decimal, text: str) -> None:
    if share < 0:
        raise ConfigError("headroom", text, "can't be negative")
    if share > _MOST_HEADROOM:
        raise ConfigError("headroom", text, f"is over {_MOST_HEADROOM * 100:,} %; a fifth more is written 20%")


def parse_profile(text: str) -> tuple[Stretch, ...]:
    """The rates of a day: "2,1,1,4", equally long parts of it, or the CSV file of that name with columns time, rate.

    Times are hours or HH:MM, rising; a rate holds until the next time, the last one until the first of the next day.

    >>> [(str(part.start_h), str(part.rate)) for part in parse_profile("2, 0.5")]
    [('0', '2'), ('12', '0.5')]

    Raises:
        ConfigError: rates that can't be, or none.
        InputError: a file that can't be read, or a row that can't be used.
    """
    if not re.fullmatch(r"[-+\d.,\s_eE]*", text):
        return _read_profile(Path(text))
    parts = [part.strip() for part in text.split(",")]
    if not all(parts) or len(parts) > _MAX_ROWS:
        raise ConfigError("profile", text, "expected rates such as 2,1,5,9, or a CSV file with columns time,rate")
    hours = Fraction(_DAY_H, len(parts))
    rates = [parse_decimal(part, "profile") for part in parts]
    for rate in rates:
        if rate < 0:
            raise ConfigError("profile", text, "rates can't be negative")
    return tuple(Stretch(hours * number, hours, rate) for number, rate in enumerate(rates))


def _read_profile(path: Path) -> tuple[Stretch, ...]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [(number, row) for number, row in enumerate(csv.reader(file), start=1) if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "not a CSV file"
        raise InputError(str(path), f"can't be read as the profile of a day: {reason}") from None
    columns = (0, 1)
    if lines and not _is_number(lines[0][1][-1]):
        names = [name.strip().lower() for name in lines.pop(0)[1]]
        if "time" not in names or "rate" not in names:
            raise InputError(str(path), "needs the columns time and rate", line=1)
        columns = (names.index("time"), names.index("rate"))
    if not 1 <= len(lines) <= _MAX_ROWS:
        raise InputError(str(path), f"needs from 1 to {_MAX_ROWS:,} rows with a time and a rate")
    rows = [(number, *_row(path, number, row, columns)) for number, row in lines]
    for (_, before, _), (number, after, _) in pairwise(rows):
        if after <= before:
            raise InputError(str(path), "times must rise within the day", line=number)
    ends = [*(start for _, start, _ in rows[1:]), rows[0][1] + _DAY_H]
    return tuple(Stretch(start, end - start, rate) for (_, start, rate), end in zip(rows, ends, strict=True))


def _row(path: Path, number: int, row: list[str], columns: tuple[int, int]) -> tuple[Fraction, Decimal]:
    if len(row) <= max(columns):
        raise InputError(str(path), "expected a time and a rate", line=number)
    time, text = (row[column].strip() for column in columns)
    try:
        clock = _CLOCK.match(time)
        hours = Fraction(int(clock[1]) * 60 + int(clock[2]), 60) if clock else Fraction(parse_decimal(time, "time"))
        rate = parse_decimal(text, "rate")
    except ConfigError as error:
        raise InputError(str(path), error.remedy, line=number, field=error.field, value=error.value) from None
    if not 0 <= hours < _DAY_H:
        raise InputError(str(path), "must be within a day, as hours or HH:MM", line=number, field="time", value=time)
    if rate < 0:
        raise InputError(str(path), "can't be negative", line=number, field="rate", value=text)
    return hours, rate


def _is_number(text: str) -> bool:
    try:
        parse_decimal(text.strip(), "rate")
    except ConfigError:
        return False
    return True
