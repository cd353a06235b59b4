"""Every error as the page gets it: a status, and JSON that names field, value and limit."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from kvlab.errors import ConfigError, KvlabError, TraceError
from kvlab.setting_table import SETTINGS
from kvlab.web.limits import LimitError

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
TIMEOUT: Final = 408
CONFLICT: Final = 409
TOO_LARGE: Final = 413
URI_TOO_LONG: Final = 414
MISDIRECTED: Final = 421
BUG: Final = 500
BUSY: Final = 503
A_BUG: Final = "this is a bug in kvlab: the server's terminal shows where"
_SHOWN: Final = 120
_OUT_OF_MEMORY: Final = "CUDA out of memory"
"""In the engine's own words, which have no remedy."""
_ROOM: Final = (
    " What helps: a GPU with more memory, more GPUs that share each layer (tensor_parallel_size), fewer bits a weight "
    "(weight_dtype), or a smaller model."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is an error."""

    status: int
    message: str
    field: str | None = None
    value: object = None
    limit: object = None

    def to_json(self) -> bytes:
        """The body."""
        return json.dumps(self.to_dict(), ensure_ascii=True).encode()

    def to_dict(self) -> dict[str, Any]:
        """The body, and a stream's last line."""
        error: dict[str, Any] = {
            "field": self.field,
            "value": _short(self.value),
            "limit": _short(self.limit),
            "message": _short(self.message, 1_000),
        }
        return {"error": error}

    def renamed(self, path: str, name: str) -> Refusal:
        """The same of a trace by its owner's name for it, not by its path on this machine."""
        value = name if self.value == path else self.value
        return replace(self, message=self.message.replace(path, name), value=value)


class RefusedError(Exception):
    """Ends the handling of a request with that refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def refusal_of(error: KvlabError) -> Refusal:
    """What the page is told of an error that somebody's input caused."""
    if isinstance(error, LimitError):
        return Refusal(status=TOO_LARGE, message=str(error), field=error.field, value=error.value, limit=error.limit)
    if isinstance(error, ConfigError):
        message = str(error) + (_ROOM if _OUT_OF_MEMORY in str(error) else "")
        return Refusal(
            status=BAD_REQUEST, message=message, field=error.field, value=error.value, limit=_bounds(error.field)
        )
    if isinstance(error, TraceError):
        return Refusal(
            status=BAD_REQUEST, message=str(error), field=error.field or "trace", value=error.value, limit=None
        )
    return Refusal(status=BAD_REQUEST, message=str(error))


def _bounds(field: str) -> str | None:
    """What a setting accepts, where its table says so."""
    setting = SETTINGS.get(field)
    if setting is None:
        return None
    if setting.choices is not None:
        return ", ".join(setting.choices())
    least = setting.at_least if setting.above is None else setting.above
    bounds = [] if least is None else [f"{'at least' if setting.above is None else 'more than'} {setting.show(least)}"]
    if setting.at_most is not None:
        bounds.append(f"at most {setting.show(setting.at_most)}")
    return ", ".join(bounds) or None


def _short(value: object, most: int = _SHOWN) -> object:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"
