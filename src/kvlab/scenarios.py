"""A run as one frozen value: what the command line, the API, the page and links exchange.

A scenario has a server (the settings of one lab), traffic and a service level. Its settings have flat names that are
unique across these groups, so `max_num_seqs=48` means the same as keyword, flag, `--set`, link and in JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvlab.core.config import EngineConfig, Slo
from kvlab.errors import ConfigError, ScenarioError, UnknownNameError
from kvlab.servers import SERVERS, Server
from kvlab.setting_table import RULES, SETTINGS, VLLM_V0, VLLM_V1, find_setting, settings_of
from kvlab.settings import JsonValue
from kvlab.slo_text import format_slo, parse_slo

if TYPE_CHECKING:  # numpy comes with them
    from kvlab.core.request import RequestSource
    from kvlab.workloads.traffic import Traffic

FORMAT_VERSION: Final = 1
MAX_FILE_BYTES: Final = 2**20
PRESETS: Final = ("preemption-lab-v1", "block-table-lab-v1", VLLM_V1, VLLM_V0)
"""Versioned names; without "-v1" they mean the newest version."""
ALIASES: Final = {name.removesuffix("-v1"): name for name in PRESETS}
NO_LIMITS: Final = Slo()
_PRESET_FOLDER: Final = Path(__file__).parent / "presets"
_MAX_NAME: Final = 80
_LIKE_A_PRESET: Final = re.compile(rf"({'|'.join(RULES)})(-v[0-9]+)?")
_KEYS: Final = ("version", "name", "rules", "server", "traffic", "slo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that decides a run. Equal scenarios give equal results, on every machine.

    `Scenario.from_json(s.to_json()) == s`.
    """

    name: str
    server: Server
    traffic: Traffic
    slo: Slo = NO_LIMITS

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 1 <= len(self.name) <= _MAX_NAME or not self.name.isprintable():
            raise ConfigError("name", self.name, f"expected 1 to {_MAX_NAME} printable characters")
        sampling = SETTINGS["num_samples"].rules
        if self.rules not in sampling and self.traffic.num_samples != 1:
            remedy = f"the {self.rules} has one sample per request; parallel sampling is in {' and '.join(sampling)}"
            raise ConfigError("num_samples", self.traffic.num_samples, remedy)
        self._check_name()
        self._check_idle()

    def _check_name(self) -> None:
        """A name like a preset's is one of this lab's presets: changes are told from that one."""
        match = _LIKE_A_PRESET.fullmatch(self.name)
        if match is None or (match[1] == self.rules and (self.name in PRESETS or not match[2])):
            return
        known = " and ".join(name for name in PRESETS if name.startswith(self.rules))
        remedy = f"presets of the {self.rules} are {known}; call a scenario of your own otherwise"
        raise ConfigError("name", self.name, remedy)

    def _check_idle(self) -> None:
        """A setting that would do nothing is an error where it isn't as in the lab's preset, not ignored."""
        for group in ("server", "traffic"):
            part = getattr(self, group)
            idle = part.idle()
            usual = _usual(self.rules, group) if idle else part
            for field, remedy in idle.items():
                value = getattr(part, field)
                if value != getattr(usual, field):
                    raise ConfigError(field, SETTINGS[field].show(value), remedy)

    @property
    def rules(self) -> str:
        """Whose rules hold: preemption-lab, block-table-lab, vllm-v1 or vllm-v0."""
        return self.server.rules

    @property
    def kv_bytes_per_token(self) -> int:
        """KV cache of one token as it is stored, in bytes."""
        return self.server.stored_bytes_per_token

    @property
    def window_ns(self) -> int | None:
        """End of the time in which requests arrive; None where nobody sets one (an uncut trace, a request count)."""
        return self.traffic.window_ns

    def settings(self) -> dict[str, object]:
        """Every setting by its flat name."""
        return dict(_settings(self))

    def _value(self, group: str, name: str) -> object:
        if group == "slo":
            return format_slo(self.slo)
        return getattr(self.server if group == "server" else self.traffic, name)

    def replace(self, **values: object) -> Scenario:
        """The same with other settings; values are text with units, numbers, or of the setting's own type.

        Raises:
            UnknownNameError: no such setting; names the nearest.
            ConfigError: a value that can't work, or a setting of the other lab.
        """
        changed: dict[str, dict[str, Any]] = {"server": {}, "traffic": {}, "slo": {}}
        name: Any = values.pop("name", self.name)
        for field, given in values.items():
            setting = find_setting(field, self.rules, given)
            changed[setting.group][field] = setting.parse(given)
        return dataclasses.replace(
            self,
            name=name,
            server=dataclasses.replace(self.server, **changed["server"]),
            traffic=dataclasses.replace(self.traffic, **changed["traffic"]),
            slo=parse_slo(changed["slo"]["slo"]) if changed["slo"] else self.slo,
        )

    def changes(self) -> dict[str, object]:
        """The settings that differ from those of the lab's preset: what a link holds."""
        return self.diff(preset(self.name if self.name in PRESETS else self.rules))

    def diff(self, other: Scenario) -> dict[str, object]:
        """This scenario's settings where they differ from the other's.

        Raises:
            ConfigError: the scenarios are of different labs.
        """
        if self.rules != other.rules:
            raise ConfigError("rules", self.rules, f"can't be told apart by settings from a scenario of {other.rules}")
        theirs = other.settings()
        return {name: value for name, value in self.settings().items() if value != theirs[name]}

    def engine_config(self) -> EngineConfig:
        """The server in the engine's units.

        Raises:
            ConfigError: the pool holds no block, or too many.
        """
        return self.server.engine_config()

    def source(self) -> RequestSource:
        """A fresh source of this scenario's requests; answers are capped by the lab's `max_tokens`.

        Raises:
            TraceError: the trace can't be read, or (later, when it comes to it) has a row that can't be used.
        """
        from kvlab.traffic_limits import limited_source

        max_tokens = getattr(self.server, "max_tokens", None)
        return limited_source(self.traffic, max_tokens)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; decimals as numbers of at most 15 digits."""
        document: dict[str, Any] = {"version": FORMAT_VERSION, "name": self.name, "rules": self.rules}
        for group in ("server", "traffic"):
            document[group] = {s.name: s.to_json(self._value(group, s.name)) for s in settings_of(self.rules, group)}
        document["slo"] = format_slo(self.slo)
        return document

    def to_json(self) -> str:
        """The scenario as text that `from_json` reads back as the same value."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, where: str = "scenario") -> Scenario:
        """A scenario from its JSON text. Settings that are left out are those of the lab's preset.

        Args:
            where: what to call the document in messages, such as its file name.
        Raises:
            ScenarioError: not JSON, not this version, a key given twice, or the wrong shape.
            UnknownNameError: a key that isn't known; names the nearest.
            ConfigError: a value that can't work.
        """
        return cls.from_dict(read_document(text, where), where=where)

    @classmethod
    def from_dict(cls, document: object, *, where: str = "scenario") -> Scenario:
        """The same from a parsed document."""
        rules = _rules_of(document, where)
        return _compose(document, where, preset(rules))


@lru_cache(maxsize=64)
def _settings(scenario: Scenario) -> dict[str, object]:
    """Kept, as every mission of a lab is held against the same one."""
    return {s.name: scenario._value(s.group, s.name) for s in settings_of(scenario.rules)}


@lru_cache
def _usual(rules: str, group: str) -> Server | Traffic:
    """Server or traffic of the newest preset of these rules."""
    from kvlab.workloads.traffic import Traffic

    document: Any = _preset_document(ALIASES.get(rules, rules))
    values = _group(document[group], group, rules, rules)
    return SERVERS[rules](**values) if group == "server" else Traffic(**values)


def _preset_document(full: str) -> object:
    return read_document((_PRESET_FOLDER / f"{full}.json").read_text(encoding="utf-8"), full)


def preset(name: str) -> Scenario:
    """A preset by its name; without a version, the newest.

    Raises:
        UnknownNameError: no such preset; names the nearest.
    """
    full = ALIASES.get(name, name)
    if full not in PRESETS:
        raise UnknownNameError("preset", name, (*ALIASES, *PRESETS))
    document = _preset_document(full)
    _rules_of(document, full)
    return _compose(document, full, None)


def _rules_of(document: object, where: str) -> str:
    """Which lab a document is for, once its outer form is right."""
    if not isinstance(document, dict):
        raise ScenarioError(f"{where}: expected an object with {', '.join(_KEYS)}")
    for key in document:
        if key not in _KEYS:
            raise UnknownNameError(f"key of {where}", str(key), _KEYS)
    version = document.get("version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise ScenarioError(f"{where}: version {json.dumps(version, default=str)}; this kvlab reads {FORMAT_VERSION}")
    rules = document.get("rules")
    if rules not in RULES:
        raise UnknownNameError(f"rules in {where}", str(rules), RULES)
    return str(rules)


def _compose(document: Any, where: str, base: Scenario | None) -> Scenario:
    """The scenario of a document; what it leaves out is taken from `base`, or was forgotten in a preset."""
    from kvlab.workloads.traffic import Traffic

    rules = document["rules"]
    groups = {group: _group(document.get(group, {}), group, rules, where) for group in ("server", "traffic")}
    slo = parse_slo(str(find_setting("slo", rules).parse(document.get("slo", ""))))
    if base is None:
        server, traffic = SERVERS[rules](**groups["server"]), Traffic(**groups["traffic"])
    else:
        server = dataclasses.replace(base.server, **groups["server"])
        traffic = dataclasses.replace(base.traffic, **groups["traffic"])
    return Scenario(name=document.get("name", rules), server=server, traffic=traffic, slo=slo)


def _group(given: object, group: str, rules: str, where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ScenarioError(f"{where}: {group} must be an object")
    values = {}
    for key, value in given.items():
        setting = find_setting(str(key), rules, value)
        if setting.group != group:
            raise ScenarioError(f'{where}: "{key}" belongs to {setting.group}, not to {group}')
        values[setting.name] = setting.parse(value)
    return values


def load(name_or_path: str) -> Scenario:
    """A preset, or the scenario in a file; a relative trace that isn't here is looked for in the file's folder.

    Raises:
        UnknownNameError: neither a preset nor a file.
        ScenarioError: the file can't be read, or isn't a scenario.
        ConfigError: a value that can't work.
    """
    if name_or_path in ALIASES or name_or_path in PRESETS:
        return preset(name_or_path)
    path = Path(name_or_path)
    if not name_or_path.strip():
        raise UnknownNameError("preset or file", name_or_path, ALIASES)
    if not path.exists() and path.suffix != ".json" and path.name == name_or_path:
        raise UnknownNameError("preset or file", name_or_path, ALIASES)
    return _found_beside(path, Scenario.from_json(read_text(path), where=name_or_path))


def _found_beside(path: Path, scenario: Scenario) -> Scenario:
    """The scenario of a file with its trace found: from the current directory, else from the file's folder."""
    trace = scenario.traffic.trace
    if trace is None or os.path.exists(trace) or not os.path.exists(beside := path.parent / trace):
        return scenario
    return scenario.replace(trace=str(beside))


def read_text(path: Path) -> str:
    """A small text file whole.

    Raises:
        ScenarioError: missing, a directory, unreadable, not UTF-8, or over 1 MiB.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"can't read {path}: {reason}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ScenarioError(f"{path} is over {MAX_FILE_BYTES:,} bytes: that is no scenario")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScenarioError(f"{path} is not a text file in UTF-8: that is no scenario") from None


def read_document(text: str, where: str) -> object:
    """Strict JSON: decimals exact, no key twice, no NaN.

    Raises:
        ScenarioError: not such a document; names line and column where JSON breaks off.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ScenarioError(f'{where}: "{key}" is given twice')
            found[key] = value
        return found

    def refuse(word: str) -> JsonValue:
        raise ScenarioError(f"{where}: {word} is not a number")

    try:
        return json.loads(text, parse_float=Decimal, object_pairs_hook=unique, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise ScenarioError(f"{where}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):
        raise ScenarioError(f"{where}: not JSON that makes sense: a number or a nesting is too long") from None
