"""Service levels as people write them: "ttft<=2s, gap<=150ms"."""

from __future__ import annotations

import re
from typing import Final

from kvlab.core.config import Slo
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.settings import exact_duration
from kvlab.units import parse_duration_ns

_NAMES: Final = ("ttft", "tpot", "gap", "e2e")
_LIMIT: Final = re.compile(r"\s*([A-Za-z0-9_]+)\s*(?:<=|≤|<)\s*(.+?)\s*\Z")


def parse_slo(text: str) -> Slo:
    """Limits from text; nothing, or an empty text, is no limit.

    >>> parse_slo("ttft<=2s, gap<=150ms")
    Slo(ttft_ns=2000000000, tpot_ns=None, gap_ns=150000000, e2e_ns=None)

    Raises:
        ConfigError: not a list of limits, a limit given twice, or not a time.
        UnknownNameError: a name that is no latency.
    """
    limits: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _LIMIT.match(part)
        if match is None:
            raise ConfigError("slo", text, 'expected limits such as "ttft<=2s, gap<=150ms"')
        name = {"itl": "gap", "e2el": "e2e"}.get(match[1].lower(), match[1].lower())
        if name not in _NAMES:
            raise UnknownNameError("latency in slo", name, _NAMES)
        if name in limits:
            raise ConfigError("slo", text, f"{name} is limited twice")
        limits[name] = parse_duration_ns(match[2], f"slo {name}")
        if limits[name] < 1:
            raise ConfigError("slo", text, f"the limit of {name} must be at least 1 ns")
    return Slo(**{f"{name}_ns": limit for name, limit in limits.items()})


def format_slo(slo: Slo) -> str:
    """Text that `parse_slo` reads back as the same limits.

    >>> format_slo(Slo(ttft_ns=2_000_000_000))
    'ttft<=2s'
    """
    limits = {name: getattr(slo, f"{name}_ns") for name in _NAMES}
    return ", ".join(f"{n}<={exact_duration(ns).replace(' ', '')}" for n, ns in limits.items() if ns is not None)
