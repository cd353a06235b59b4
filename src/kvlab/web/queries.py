"""From the query of a link to a scenario: the flat names of settings, each once, bounded in size."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.scenarios import Scenario
from kvlab.setting_table import PAGE_RULES
from kvlab.settings import NOT_SET
from kvlab.units import NS_PER_S
from kvlab.web.controls import base
from kvlab.web.errors import URI_TOO_LONG, Refusal, RefusedError
from kvlab.web.limits import MAX_QUERY_CHARS, check_names, check_size
from kvlab.web.uploads import Upload
from kvlab.workloads.traffic import DRAWN_ONLY

_CLIENT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_MAX_FIELDS: Final = 100
_MAX_ID: Final = 10**9
DRAWN: Final = (
    *DRAWN_ONLY, "arrivals", "burstiness", "max_concurrency", "think_time_ns", "burst", "rate_events",
)  # fmt: skip
"""Settings of drawn traffic: left out beside a trace."""

FindTrace = Callable[[str], Upload]
"""Token -> the uploaded trace; raises RefusedError when there is none."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a link asks for."""

    scenario: Scenario
    """It names a trace by its path on this machine."""
    trace: Upload | None


def fields_of(query: str) -> dict[str, str]:
    """The fields of a query string.

    Raises:
        RefusedError: longer than 8 KiB.
        ConfigError: too many fields, one given twice, or not UTF-8.
    """
    if len(query) > MAX_QUERY_CHARS:
        message = f"the link has {len(query):,} characters, at most {MAX_QUERY_CHARS:,} are read"
        raise RefusedError(
            Refusal(status=URI_TOO_LONG, message=message, field="query", value=len(query), limit=MAX_QUERY_CHARS)
        )
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except UnicodeDecodeError:
        raise ConfigError("query", query, "expected percent-encoded UTF-8") from None
    except ValueError:
        raise ConfigError("query", f"{query.count('&') + 1} fields", f"at most {_MAX_FIELDS} are read") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields:
            raise ConfigError(name, value, "is given twice")
        fields[name] = value
    return fields


def take_client(fields: dict[str, str], header: str | None) -> str | None:
    """Takes the client's name out of the fields; a page gives itself one, so that its newest run cancels its older.

    Raises:
        ConfigError: not such a name.
    """
    client = fields.pop("client", header)
    if client is not None and not _CLIENT.match(client):
        raise ConfigError("client", client, "expected 1 to 64 letters, digits, hyphens or underscores")
    return client


def scenario_of(fields: Mapping[str, str], find_trace: FindTrace) -> Query:
    """The scenario of `lab` and settings, within the page's limits, and able to start.

    Raises:
        KvlabError: as `read_scenario`, a server that would not start, or too much work.
        RefusedError: no such trace.
    """
    query = read_scenario(fields, find_trace)
    check_size(query.scenario)
    return query


def read_scenario(fields: Mapping[str, str], find_trace: FindTrace) -> Query:
    """The scenario of `lab` and settings. It names nothing of this machine but an uploaded trace.

    A trace takes the place of drawn traffic whose knobs were moved before: what it has no use for is left out.

    Raises:
        KvlabError: no such lab or setting, or a value that can't work.
        RefusedError: no such trace.
    """
    settings = dict(fields)
    lab = settings.pop("lab", "")
    if lab not in PAGE_RULES:
        raise UnknownNameError("lab", lab, PAGE_RULES)
    token = settings.pop("trace", NOT_SET)
    if "name" in settings:
        raise UnknownNameError("setting", "name", ())
    upload = None if token == NOT_SET else find_trace(token)
    if upload is not None:
        for field in DRAWN if "long_report_users" in settings else (*DRAWN, "seed"):
            settings.pop(field, None)
        settings["trace"] = upload.path
        if upload.format is not None:
            settings.setdefault("trace_format", upload.format)
    scenario = base(lab).replace(**settings)
    check_names(scenario)
    return Query(scenario, upload)


def take_moment(fields: dict[str, str]) -> tuple[int, int]:
    """Takes `id` and `t` (seconds) out of the fields: which request, and when in ns.

    Raises:
        ConfigError: missing, or not such numbers.
    """
    request_id, t = fields.pop("id", ""), fields.pop("t", "")
    if not re.fullmatch(r"[0-9]{1,10}", request_id) or int(request_id) > _MAX_ID:
        raise ConfigError("id", request_id, "expected the number of a request, counted from 0")
    try:
        seconds = float(t)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MAX_ID:
        raise ConfigError("t", t, "expected a time in seconds, from 0 on")
    return int(request_id), round(seconds * NS_PER_S)
