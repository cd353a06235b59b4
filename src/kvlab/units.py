"""Nanoseconds, bytes, ratios and counts: exact in, readable out.

Parsing never goes through a binary float: "0.1 ms" is 100,000 ns, and "92 %" is Decimal("0.92").
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

from kvlab.errors import ConfigError

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30

_DURATIONS: Final = {"ns": 1, "us": NS_PER_US, "µs": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S,
                     "min": 60 * NS_PER_S, "h": 3600 * NS_PER_S}  # fmt: skip
_SIZES: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 2**40,
                 "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip
_QUANTITY: Final = re.compile(r"([+-]?[0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-zµ%]*)\Z")
_MAX_DIGITS: Final = 15  # every decimal of up to 15 digits survives JSON numbers read by other programs


def ceil_div(a: int, b: int) -> int:
    """`a / b` rounded up, for b > 0."""
    return -(-a // b)


def parse_decimal(text: object, field: str) -> Decimal:
    """An exact decimal number from text, an int, a Decimal, a Fraction, or a float (to 15 digits).

    Raises:
        ConfigError: not a finite number, more than 15 significant digits, or a fraction without an end.
    """
    if isinstance(text, bool):
        raise ConfigError(field, text, "expected a number")
    try:
        value = Decimal(_ascii(_written(text, field).strip()).replace("_", "").replace(",", ""))
    except (InvalidOperation, UnicodeEncodeError):
        raise ConfigError(field, text, "expected a number such as 4 or 0.92") from None
    if not value.is_finite():
        raise ConfigError(field, text, "expected a finite number")
    if len(value.as_tuple().digits) > _MAX_DIGITS and value != value.to_integral_value():
        raise ConfigError(field, text, f"at most {_MAX_DIGITS} significant digits are kept exactly")
    if abs(value.adjusted()) > 30:
        raise ConfigError(field, text, "out of any sensible range")
    return value


def parse_count(text: object, field: str) -> int:
    """A whole number, such as 4096, "4,096" or "4k"-free plain digits.

    Raises:
        ConfigError: not a whole number.
    """
    value = parse_decimal(text, field)
    if value != value.to_integral_value():
        raise ConfigError(field, text, "expected a whole number")
    return int(value)


def parse_duration_ns(text: object, field: str) -> int:
    """Nanoseconds from "1.5 ms", "25ms", "2 min"; a bare number is nanoseconds.

    Raises:
        ConfigError: unknown unit, or not a whole number of nanoseconds.
    """
    return _parse_quantity(text, field, _DURATIONS, "ns", "nanoseconds")


def parse_bytes(text: object, field: str) -> int:
    """Bytes from "24 GiB", "512MiB", "16 GB" (10^9); a bare number is bytes.

    Raises:
        ConfigError: unknown unit, or not a whole number of bytes.
    """
    return _parse_quantity(text, field, _SIZES, "B", "bytes")


def parse_ratio(text: object, field: str) -> Decimal:
    """An exact ratio from "0.92" or "92 %".

    Raises:
        ConfigError: not a number.
    """
    shown = _written(text, field).strip()
    if shown.endswith("%"):
        return parse_decimal(shown[:-1], field) / 100
    return parse_decimal(text, field)


def _parse_quantity(text: object, field: str, units: dict[str, int], bare: str, name: str) -> int:
    if isinstance(text, bool):
        raise ConfigError(field, text, f"expected a number of {name}")
    match = _QUANTITY.match(_written(text, field).strip())
    unit = (match[2] or bare) if match else ""
    if match is None or unit not in units:
        example = "1.5 ms" if bare == "ns" else "24 GiB"
        raise ConfigError(field, text, f'expected a number with a unit, such as "{example}". Units: {", ".join(units)}')
    value = Fraction(parse_decimal(match[1], field)) * units[unit]
    if value.denominator != 1:
        raise ConfigError(field, text, f"not a whole number of {name}")
    return int(value)


def counted(count: int, what: str) -> str:
    """A number with what it is of: "1 run", "2,000 runs".

    >>> counted(1, "run"), counted(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def format_duration(ns: int | Fraction | None) -> str:
    """A duration with three significant digits, in the unit a person would choose; "–" for None.

    >>> format_duration(26_900_000), format_duration(51_376_328_370), format_duration(154_000_000_000)
    ('26.9 ms', '51.4 s', '154 s')
    """
    if ns is None:
        return "–"
    exact = Fraction(ns)
    for unit, size in (("s", NS_PER_S), ("ms", NS_PER_MS), ("µs", NS_PER_US)):
        if abs(exact) >= size:
            return f"{format_number(exact / size)} {unit}"
    return f"{format_number(exact)} ns"


def format_bytes(count: int) -> str:
    """Bytes in binary units with three significant digits.

    >>> format_bytes(13_500 * 2**20), format_bytes(512)
    ('13.2 GiB', '512 B')
    """
    for unit, size in (("TiB", 2**40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= size:
            return f"{format_number(Fraction(count, size))} {unit}"
    return f"{count} B"


def format_number(value: int | Fraction | Decimal | float) -> str:
    """At least three significant digits, thousands separated, no exponent; exact rounding, half to even.

    >>> format_number(1234567), format_number(Fraction(1, 3)), format_number(12.345), format_number(0)
    ('1,234,567', '0.333', '12.3', '0')
    """
    exact = Fraction(value)
    if exact.denominator == 1 and abs(exact) >= 100:
        return f"{int(exact):,}"
    if exact == 0:
        return "0"
    digits = 0 if abs(exact) >= 100 else 1 if abs(exact) >= 10 else 2 if abs(exact) >= 1 else 3
    scaled = round(exact * 10**digits)
    text = f"{Decimal(scaled).scaleb(-digits):,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _written(given: object, field: str) -> str:
    """The number as a person would write it: arithmetic on floats leaves a tail behind the 15th digit.

    >>> _written(0.1 + 0.2, "x"), _written(2.0**53, "x"), _written(Fraction(3, 8), "x"), _written("0.30", "x")
    ('0.3', '9007199254740992', '0.375', '0.30')
    """
    if isinstance(given, float):
        return str(int(given)) if given.is_integer() else format(given, f".{_MAX_DIGITS}g")
    if isinstance(given, Fraction):
        value = Decimal(given.numerator) / given.denominator
        if Fraction(value) != given:
            raise ConfigError(field, given, "has no exact decimal; round it")
        return f"{value:f}"
    return str(given)


def _ascii(text: str) -> str:
    """The text, which must be plain: Decimal would take digits of any script.

    Raises:
        UnicodeEncodeError: it isn't.
    """
    return text.encode("ascii").decode("ascii")
