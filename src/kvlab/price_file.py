"""A price table of your own: a JSON file that changes rows of `kvlab.prices`, or takes settings out of the question.

{
  "kv_cache_dtype": {"to": ["fp8"], "points": 3, "otherwise": 0, "reason": "Evaluated in October."},
  "max_num_seqs": {"raise": 1, "lower": 2},
  "kv_memory_bytes": {"step": "1 GiB", "raise": 5, "lower": 0},
  "tensor_parallel_size": null
}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.prices import PRICES, Flat, PerStep, Price, Rule, To
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.settings import NUMBERS
from kvlab.strict_json import unique_keys

MOST_POINTS: Final = 1_000_000
_FORMS: Final = (
    'expected {"raise": N, "lower": N}, the same with "step", or {"to": [VALUES], "points": N, "otherwise": N}'
)


def read_prices(path: str | Path) -> dict[str, Price]:
    """The whole table, with what the file changes; a setting that is null there has no price, and is left alone.

    Raises:
        ConfigError: the file can't be read, or has a row that can't be used; names the row.
        UnknownNameError: a setting that has no price to be changed; names the nearest.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=unique_keys)
    except OSError as error:
        raise ConfigError("prices", str(path), f"can't be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError("prices", str(path), f"is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError("prices", str(path), "expected an object: setting -> price")
    prices = dict(PRICES)
    for name, row in document.items():
        if name not in PRICES:
            raise UnknownNameError("priced setting", name, PRICES)
        if row is None:
            del prices[name]
        else:
            prices[name] = _price(name, row)
    return prices


def for_levers(prices: Mapping[str, Price], names: Iterable[str], scenario: Scenario) -> dict[str, Price]:
    """The rows of these settings alone: without a price nothing else may change.

    Raises:
        ConfigError: no name at all.
        UnknownNameError: advice doesn't move such a setting in this scenario; names the nearest that it does.
    """
    from kvlab.advice.levers import levers

    usual = [name for name in levers(scenario) if name in prices]
    wanted = [_lever(name) for name in ((names,) if isinstance(names, str) else names)]
    for name in wanted:
        if name not in usual:
            raise UnknownNameError("lever of this scenario", name, usual)
    if not wanted:
        raise ConfigError("levers", "none", f"name at least one of {', '.join(usual)}")
    return {name: prices[name] for name in wanted}


def _lever(name: object) -> str:
    if not isinstance(name, str):
        raise ConfigError("levers", name, 'expected settings\' names, such as ["max_num_seqs", "watermark"]')
    return name.strip().lstrip("-").replace("-", "_")


def _price(name: str, row: object) -> Price:
    if not isinstance(row, dict):
        raise ConfigError(f"prices {name}", row, _FORMS)
    left = dict(row)
    reason = left.pop("reason", PRICES[name].reason)
    if not isinstance(reason, str) or not reason.strip():
        raise ConfigError(f"prices {name}", reason, "the reason is a sentence")
    return Price(rule=_rule(name, left), reason=reason)


def _rule(name: str, row: dict[str, Any]) -> Rule:
    setting = SETTINGS[name]
    if "raise" in row and setting.kind not in NUMBERS:
        raise ConfigError(f"prices {name}", row, 'is no number: expected {"to": [VALUES], "points": N, "otherwise": N}')
    points = {key: _points(name, row[key]) for key in ("raise", "lower", "points", "otherwise") if key in row}
    if set(row) == {"raise", "lower"}:
        return Flat(up=points["raise"], down=points["lower"])
    if set(row) == {"step", "raise", "lower"}:
        step = setting.kind.parse(row["step"], f"prices {name} step")
        if isinstance(step, bool) or not isinstance(step, int | Decimal) or step <= 0:
            raise ConfigError(f"prices {name} step", row["step"], "must be a number above 0")
        return PerStep(step=step, up=points["raise"], down=points["lower"])
    if set(row) == {"to", "points", "otherwise"} and isinstance(row["to"], list):
        values = tuple(setting.parse(value) for value in row["to"])
        return To(values=values, price=points["points"], others=points["otherwise"])
    raise ConfigError(f"prices {name}", row, _FORMS)


def _points(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_POINTS:
        raise ConfigError(f"prices {name}", value, f"points are whole numbers from 0 to {MOST_POINTS:,}")
    return value
