"""Values written as calls, `name(1, 2, max=3)`: one small grammar for lengths and rate events."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.units import parse_count

_CALL: Final = re.compile(r"([a-z][a-z0-9-]*)\s*\((.*)\)\Z", re.DOTALL)
_KEYWORD: Final = re.compile(r"([a-z][a-z0-9_]*)\s*=\s*(.*)\Z", re.DOTALL)
_PLAIN: Final = re.compile(r'[^,"=]*\Z')


class Call:
    """A parsed call: its name, and its arguments, to be taken one by one. What nobody took is an error."""

    def __init__(self, text: str, field: str, name: str, args: list[str], keywords: dict[str, str]) -> None:
        self.text = text
        self.field = field
        self.name = name
        self._args = args
        self._keywords = keywords
        self._known: list[str] = []

    def positional(self, count: int | None) -> list[str]:
        """Exactly `count` arguments without a name; None for however many there are."""
        args = self._args
        if count is not None and len(args) != count:
            some = "one value" if count == 1 else f"{count} values"
            raise ConfigError(self.field, self.text, f"{self.name}(...) takes {some}, {len(args)} given")
        self._args = []
        return args

    def named(self, name: str) -> str:
        """The argument `name=...`, which must be there."""
        self._known.append(name)
        if name not in self._keywords:
            raise ConfigError(self.field, self.text, f"{self.name}(...) needs {name}=...")
        return self._keywords.pop(name)

    def cap(self, limit: int) -> int | None:
        """The optional argument `max=`, a whole number from 1 to `limit`."""
        self._known.append("max")
        if "max" not in self._keywords:
            return None
        cap = parse_count(self._keywords.pop("max"), self.field)
        if not 1 <= cap <= limit:
            raise ConfigError(self.field, self.text, f"max = {cap:,} must be from 1 to {limit:,}")
        return cap

    def check_all_used(self) -> None:
        """Nothing is left over.

        Raises:
            ConfigError: an argument that this call doesn't have.
        """
        if self._args:
            raise ConfigError(self.field, self.text, f"{self.name}(...) takes only named values: {self._known}")
        for name in self._keywords:
            raise UnknownNameError(f"{self.field} argument of {self.name}(...)", name, self._known)


def parse_call(text: str, field: str, bare: str | None = None) -> Call:
    """A call from its text; with `bare`, text that is no call means `bare(text)`.

    Raises:
        ConfigError: not of the form name(a, b, key=c).
    """
    stripped = text.strip()
    match = _CALL.match(stripped)
    if match is None:
        if bare is None or not re.match(r"[+-]?[0-9.]", stripped):
            raise ConfigError(field, text, "expected the form name(value, ...)")
        return Call(text, field, bare, [stripped], {})
    args: list[str] = []
    keywords: dict[str, str] = {}
    for part in split_args(match[2], text, field):
        keyword = _KEYWORD.match(part)
        if keyword is None:
            if keywords:
                raise ConfigError(field, text, "values without a name come before those with one")
            args.append(unquoted(part))
        elif keyword[1] in keywords:
            raise ConfigError(field, text, f"{keyword[1]} is given twice")
        else:
            keywords[keyword[1]] = unquoted(keyword[2])
    return Call(text, field, match[1], args, keywords)


def format_call(name: str, *args: object, **keywords: object) -> str:
    """Text that `parse_call` reads back; keywords that are None are left out."""
    shown = [_quoted(arg) for arg in args]
    shown += [f"{key}={_quoted(value)}" for key, value in keywords.items() if value is not None]
    return f"{name}({', '.join(shown)})"


def split_args(inside: str, text: str, field: str) -> list[str]:
    """Arguments, cut at commas outside double quotes.

    Raises:
        ConfigError: an open quotation mark, or nothing between two commas; `text` is shown.
    """
    parts = [""]
    for piece in re.findall(r'[^,"]+|"[^"]*"|,|"', inside):
        if piece == '"':
            raise ConfigError(field, text, "a quotation mark is not closed")
        if piece == ",":
            parts.append("")
        else:
            parts[-1] += piece
    parts = [part.strip() for part in parts]
    if parts == [""]:
        return []
    if "" in parts:
        raise ConfigError(field, text, "a value is missing beside a comma")
    return parts


def unquoted(part: str) -> str:
    """Without the double quotes around it, if there are any."""
    return part[1:-1] if len(part) >= 2 and part[0] == part[-1] == '"' else part


def _quoted(value: object) -> str:
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return text if _PLAIN.match(text) and text == text.strip() and text else f'"{text}"'
