"""Range checks of settings, one wording for all."""

from __future__ import annotations

from decimal import Decimal

from kvlab.errors import ConfigError


def check_whole(field: str, value: object, low: int, high: int) -> None:
    """`value` is an int from `low` to `high`.

    Raises:
        ConfigError: it isn't.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(field, value, "expected a whole number")
    if not low <= value <= high:
        raise ConfigError(field, value, f"must be from {low:,} to {high:,}")


def check_number(field: str, value: object, low: str, high: str) -> None:
    """`value` is an exact number (a Decimal or an int) from `low` to `high`.

    Raises:
        ConfigError: it isn't; a binary float isn't exact.
    """
    if not isinstance(value, Decimal | int) or isinstance(value, bool):
        raise ConfigError(field, value, "expected an exact number: a Decimal or an int, not a float or text")
    if not (Decimal(value).is_finite() and Decimal(low) <= value <= Decimal(high)):
        raise ConfigError(field, value, f"must be from {Decimal(low):,f} to {Decimal(high):,f}")


def check_text(field: str, value: object) -> None:
    """`value` is a str.

    Raises:
        ConfigError: it isn't.
    """
    if not isinstance(value, str):
        raise ConfigError(field, value, "expected text")
