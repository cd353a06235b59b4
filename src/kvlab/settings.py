"""What one setting is: how it is read from text, shown, stored in JSON, bounded and explained.

The table of all settings is `kvlab.setting_table`; values live in the frozen groups of `kvlab.scenarios`.
Flags, `--set`, links, scenario files and `kvlab explain` all read this one description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.units import (
    GIB,
    KIB,
    MIB,
    NS_PER_MS,
    NS_PER_S,
    NS_PER_US,
    parse_bytes,
    parse_count,
    parse_decimal,
    parse_duration_ns,
    parse_ratio,
)

Value = int | str | bool | Decimal | None
"""What a setting holds. None means "not set", never 0."""
JsonValue = int | float | str | bool | None

MAX_TEXT: Final = 4_096
"""Longest text that a setting accepts, in characters."""
NOT_SET: Final = "none"
_EXACT_DIGITS: Final = 15
"""Decimals that `kvlab.units` reads have at most that many."""


def _parse_switch(given: object, name: str) -> bool:
    if isinstance(given, bool):
        return given
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    word = str(given).strip().lower()
    if word not in words:
        raise ConfigError(name, given, "expected on or off")
    return words[word]


def _parse_text(given: object, name: str) -> str:
    if not isinstance(given, str):
        raise ConfigError(name, given, "expected text")
    return given.strip()


def _parse_spec(given: object, name: str) -> str:
    """A text such as "uniform(200, 1500)"; a bare whole number is meant as it stands."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else _parse_text(given, name)


def exact_decimal(value: Decimal) -> str:
    """The shortest plain text of a decimal: no exponent, no trailing zeros.

    >>> exact_decimal(Decimal("4.50")), exact_decimal(Decimal("1E+2"))
    ('4.5', '100')
    """
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _in_units(value: int, units: Iterable[tuple[str, int]]) -> str:
    """The value in the largest unit that shows it exactly with at most three decimals."""
    for unit, size in units:
        thousandths, rest = divmod(value * 1000, size)
        if abs(value) >= size and rest == 0 and abs(thousandths) < 10**_EXACT_DIGITS:
            return f"{exact_decimal(Decimal(thousandths) / 1000)} {unit}"
    return str(value)


_DURATION_UNITS: Final = (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US), ("ns", 1))
_SIZE_UNITS: Final = (("TiB", 2**40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("B", 1))


def exact_duration(ns: Value) -> str:
    """A duration that reads back as the same nanoseconds.

    >>> exact_duration(25_000_000), exact_duration(120_000_000_000), exact_duration(1_234_567)
    ('25 ms', '120 s', '1234.567 us')
    """
    assert isinstance(ns, int)
    return _in_units(ns, _DURATION_UNITS)


def exact_bytes(count: Value) -> str:
    """A size that reads back as the same bytes.

    >>> exact_bytes(13_500 * 2**20), exact_bytes(48 * 2**30), exact_bytes(2**17)
    ('13500 MiB', '48 GiB', '128 KiB')
    """
    assert isinstance(count, int)
    return _in_units(count, _SIZE_UNITS)


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of one type are read and shown."""

    word: str
    """What stands for the value in a usage line."""
    unit: str
    parse: Callable[[object, str], Value]
    """(given, field name) -> value; raises ConfigError."""
    show: Callable[[Value], str]
    """Text that `parse` reads back as the same value."""


def _show_decimal(value: Value) -> str:
    assert isinstance(value, Decimal)
    return exact_decimal(value)


def _show_switch(value: Value) -> str:
    return "on" if value else "off"


COUNT: Final = Kind("N", "", parse_count, str)
FACTOR: Final = Kind("FACTOR", "", parse_decimal, _show_decimal)
RATE: Final = Kind("RATE", "requests/s", parse_decimal, _show_decimal)
RATIO: Final = Kind("RATIO", "ratio or %", parse_ratio, _show_decimal)
DURATION: Final = Kind("TIME", "ns, us, ms, s, min, h", parse_duration_ns, exact_duration)
SIZE: Final = Kind("SIZE", "B, KiB, MiB, GiB", parse_bytes, exact_bytes)
NAME: Final = Kind("NAME", "", _parse_text, str)
TEXT: Final = Kind("TEXT", "", _parse_text, str)
LENGTHS: Final = Kind("LENGTHS", "tokens", _parse_spec, str)
FILE: Final = Kind("FILE", "", _parse_text, str)
SWITCH: Final = Kind("", "", _parse_switch, _show_switch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a scenario, under the one name that files, flags, links and the API share."""

    name: str
    group: str
    """server, traffic or slo."""
    kind: Kind
    help: str
    """One sentence, without the unit."""
    source: str
    rules: tuple[str, ...]
    """The labs that have it."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """Engine -> what it calls this."""
    unit: str = ""
    """Of counts: blocks, tokens, sequences."""
    at_least: int | Decimal | None = None
    above: int | None = None
    at_most: int | None = None
    choices: Callable[[], Iterable[str]] | None = None
    optional: bool = False
    """Whether "none" is a value: not set."""
    bare: str | None = None
    """What the flag means without a value."""
    aliases: tuple[str, ...] = ()
    """Further flags with the same meaning."""

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return "--" + self.name.replace("_", "-")

    def parse(self, given: object) -> Value:
        """The value that text, a number or a value of the right type stands for.

        Raises:
            ConfigError: not such a value, or out of bounds.
            UnknownNameError: none of the choices.
        """
        if given is None or (self.optional and isinstance(given, str) and given.strip().lower() == NOT_SET):
            if not self.optional:
                raise ConfigError(self.name, given, "needs a value")
            return None
        if isinstance(given, str):
            if len(given) > MAX_TEXT:
                raise ConfigError(self.name, given, f"at most {MAX_TEXT:,} characters")
            if not given.strip() and self.kind is not TEXT:
                raise ConfigError(self.name, given, "needs a value")
            if self.kind in NUMBERS and not given.replace("µ", "u").isascii():
                raise ConfigError(self.name, given, "expected digits 0 to 9")
        value = self.kind.parse(given, self.name)
        self.check(value)
        return value

    def check(self, value: object) -> None:
        """Bounds and choices.

        Raises:
            ConfigError: out of bounds, or of the wrong type.
            UnknownNameError: none of the choices.
        """
        if value is None and self.optional:
            return
        expected = (
            str if self.kind in _TEXTS else bool if self.kind is SWITCH else Decimal if self.kind in _DECIMALS else int
        )
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise ConfigError(self.name, value, f"expected {_TYPES[expected]}")
        if isinstance(value, str):
            if self.choices is not None and value not in (known := list(self.choices())):
                raise UnknownNameError(self.name, value, known)
            return
        assert isinstance(value, int | Decimal)
        if self.above is not None and value <= self.above:
            raise ConfigError(self.name, self.show(value), f"must be more than {self.above}")
        if self.at_least is not None and value < self.at_least:
            raise ConfigError(self.name, self.show(value), f"must be at least {self.show(self.at_least)}")
        if self.at_most is not None and value > self.at_most:
            hint = f" ({self.show(value)} % is {self.show(value / 100)})" if self.kind is RATIO and value <= 100 else ""
            raise ConfigError(self.name, self.show(value), f"must be at most {self.show(self.at_most)}{hint}")

    def show(self, value: object) -> str:
        """Text that `parse` reads back as the same value."""
        if value is None:
            return NOT_SET
        if self.kind in _DECIMALS:
            return exact_decimal(Decimal(str(value)))
        assert isinstance(value, int | str | Decimal)
        return self.kind.show(value)

    def to_json(self, value: object) -> JsonValue:
        """The value as JSON holds it; decimals of up to 15 digits survive as numbers."""
        if isinstance(value, Decimal):
            return int(value) if value == value.to_integral_value() else float(value)
        assert value is None or isinstance(value, int | str)
        return value


_DECIMALS: Final = (FACTOR, RATE, RATIO)
_TEXTS: Final = (NAME, TEXT, LENGTHS, FILE)
NUMBERS: Final = (COUNT, *_DECIMALS, DURATION, SIZE)
"""Kinds of which there is more and less."""
_TYPES: Final[dict[type, str]] = {str: "text", bool: "true or false", int: "a whole number", Decimal: "a Decimal"}
