"""Which columns of a table are the arrival, the prompt and the output, and in which unit the time is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from kvlab.errors import ConfigError, TraceError, UnknownNameError
from kvlab.workloads.spec import split_args, unquoted
from kvlab.workloads.traces.rows import TIME_UNITS

_ROLES: Final = ("arrival", "prompt", "output", "hash_ids")
_SUFFIX: Final = re.compile(r"[_ (\[](ns|us|ms|s|sec|seconds)[)\]]?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of columns. None is the name that kvlab itself writes."""

    arrival: str | None = None
    arrival_unit: str | None = None
    """A key of `TIME_UNITS`; None takes it from the name, as in arrival_ms."""
    prompt: str = "prompt_tokens"
    output: str = "output_tokens"
    hash_ids: str | None = None

    @property
    def unit_ns(self) -> int | None:
        """ns per unit of the arrival column; None where nothing says it (dates need none)."""
        unit = self.arrival_unit
        if unit is None and (match := _SUFFIX.search(self.arrival or "")):
            unit = match[1].lower()[:3].replace("sec", "s")
        return None if unit is None else TIME_UNITS[unit]

    def found_in(self, path: str, names: list[str]) -> Columns:
        """The same columns, with the arrival's own name where none was given.

        Raises:
            TraceError: a column that isn't there, with the nearest that is.
        """
        arrival = self.arrival
        if arrival is None:
            arrival = next((name for name in names if name in _OWN_ARRIVALS), "arrival_s")  # or _ns, _us, _ms
        wanted = (arrival, self.prompt, self.output, *([self.hash_ids] if self.hash_ids else []))
        for name in wanted:
            check_column(path, name, names, taken=wanted)
        own_ids = "hash_ids" if self.hash_ids is None and "hash_ids" in names else self.hash_ids
        return Columns(
            arrival=arrival, arrival_unit=self.arrival_unit, prompt=self.prompt, output=self.output, hash_ids=own_ids
        )


_OWN_ARRIVALS: Final = tuple(f"arrival_{unit}" for unit in ("ns", "us", "ms", "s"))


def parse_columns(text: str, field: str) -> Columns:
    """Columns from "arrival=ts:ms, prompt=in, output=out"; names with a comma or colon stand in double quotes.

    Raises:
        UnknownNameError: neither arrival, prompt, output nor hash_ids.
        ConfigError: not of that form.
    """
    given: dict[str, str] = {}
    for part in split_args(text, text, field):
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if role not in _ROLES:
            raise UnknownNameError(f"{field} role", role, _ROLES)
        if not equals or not name or role in given:
            raise ConfigError(field, text, "expected the form arrival=NAME:UNIT, prompt=NAME, output=NAME")
        if role == "arrival" and (match := re.search(r":\s*([a-z]+)\Z", name)):
            if match[1] not in TIME_UNITS:
                raise UnknownNameError(f"{field} unit", match[1], TIME_UNITS)
            given["arrival_unit"] = match[1]
            name = name[: match.start()].strip()
        given[role] = unquoted(name)
    return Columns(**given)


def check_column(path: str, name: str, names: Iterable[str], taken: Iterable[str] = ()) -> None:
    """`name` is one of the columns, once.

    Args:
        taken: columns that mean something already, so that none of them is a misspelt `name`.
    Raises:
        TraceError: it isn't; says which are there, and the nearest.
    """
    known = list(names)
    if known.count(name) == 1:
        return
    if name in known:
        raise TraceError(path, f'column "{name}" is there {known.count(name)} times; keep one', line=1)
    folded = {_folded(column): column for column in reversed(known) if column not in taken}
    near = get_close_matches(_folded(name), folded, n=1, cutoff=0.7)
    hint = f'did you mean "{folded[near[0]]}"? ' if near else ""
    shown = ", ".join(known[:12])[:300] + (", ..." if len(known) > 12 else "")
    remedy = (
        "name yours, as in arrival=ts:ms, prompt=in, output=out" if len(known) > 1 else "are they parted by commas?"
    )
    raise TraceError(path, f'no column "{name}": {hint}There are: {shown}; {remedy}', line=1)


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
