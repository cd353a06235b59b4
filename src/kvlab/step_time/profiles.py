"""Fitted step times, kept with what they were fitted to, how far they reach and how far they were off.

A profile is a JSON file; those that come with the package lie in `kvlab/step_time/profiles/`, one each, and are written
by the scripts in `fits/`. `kvlab calibrate` writes a user's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from kvlab.core.step_time import AnyStepTime, StepLoad, from_dict, to_dict
from kvlab.errors import ConfigError, ScenarioError, UnknownNameError
from kvlab.strict_json import unique_keys

FORMAT: Final = 1
FIGURES: Final = StepLoad._fields
"""Of a step's load, which a range may bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How far predictions are from measurements, in per cent of the measurement."""

    points: int
    mean_percent: float
    """Of absolute errors."""
    p95_percent: float
    bias_percent: float
    """Signed: above 0 where predictions are too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the coefficients come from, in words."""

    measured: str
    """What was measured, by whom."""
    fitted_on: str
    held_out_on: str
    licence: str
    attribution: str


@dataclass(frozen=True, slots=True)
class Outside:
    """A figure of a load beyond what was measured."""

    figure: str
    value: int
    limit: int

    def __str__(self) -> str:
        return f"{self.figure} {self.value:,}, measured up to {self.limit:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How long the steps of one model on one kind of GPU last."""

    name: str
    gpu: str
    model: str
    tp: int
    engine: str
    engine_version: str
    measured_in: int
    """Year of the measurements."""
    step_time: AnyStepTime
    range: Mapping[str, tuple[int, int]] = field(hash=False)
    """Figure of the load -> smallest and largest value among the measurements; one that isn't there has no bound."""
    errors: Mapping[str, Errors] = field(hash=False)
    """What was predicted -> errors on data that the fit hasn't seen."""
    provenance: Provenance
    assumed: bool = False
    """Not measured on this GPU with this model."""
    band_percent: int | None = None
    """Of an assumed one: how far off it may be, either way."""

    def extrapolated(self, load_max: StepLoad) -> tuple[Outside, ...]:
        """Figures beyond the range, in the order of `StepLoad`; none when all of the run is inside.

        Args:
            load_max: the largest value of each figure over the steps of a run.
        """
        limits = {name: high for name, (_, high) in self.range.items()}
        return tuple(
            Outside(name, value, limits[name])
            for name, value in zip(FIGURES, load_max, strict=True)
            if name in limits and value > limits[name]
        )

    def to_dict(self) -> dict[str, Any]:
        """A document that `Profile.from_dict` reads back as an equal value."""
        return {
            "format": FORMAT,
            "name": self.name,
            "gpu": self.gpu,
            "model": self.model,
            "tp": self.tp,
            "engine": self.engine,
            "engine_version": self.engine_version,
            "measured_in": self.measured_in,
            "assumed": self.assumed,
            "band_percent": self.band_percent,
            "step_time": to_dict(self.step_time),
            "range": {name: list(bounds) for name, bounds in self.range.items()},
            "errors": {name: _plain(errors) for name, errors in self.errors.items()},
            "provenance": _plain(self.provenance),
        }

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, document: object, where: str = "profile") -> Profile:
        """The profile that a document stands for.

        Raises:
            ConfigError: a field is missing or has a value that can't be: names it.
            UnknownNameError: a field that doesn't exist.
        """
        given = _object(document, where)
        known = ("format", *(item.name for item in fields(cls)))
        for name in given:
            if name not in known:
                raise UnknownNameError(f"field of {where}", str(name), known)
        if given.get("format") != FORMAT:
            raise ConfigError(f"{where}.format", given.get("format"), f"this version reads format {FORMAT}")
        for name in known:
            if name not in given and name not in ("assumed", "band_percent"):
                raise ConfigError(f"{where}.{name}", None, "is missing")
        texts = {name: _text(given, name, where) for name in ("name", "gpu", "model", "engine", "engine_version")}
        band = given.get("band_percent")
        return cls(
            **texts,
            tp=_count(given["tp"], f"{where}.tp", 1),
            measured_in=_count(given["measured_in"], f"{where}.measured_in", 2000),
            step_time=from_dict(given["step_time"], f"{where}.step_time"),
            range=_range(given["range"], f"{where}.range"),
            errors=_errors(given["errors"], f"{where}.errors"),
            provenance=_provenance(given["provenance"], f"{where}.provenance"),
            assumed=_flag(given.get("assumed", False), f"{where}.assumed"),
            band_percent=None if band is None else _count(band, f"{where}.band_percent", 0),
        )


def read_profile(path: str | Path) -> Profile:
    """A profile from a file.

    Raises:
        ScenarioError: it can't be read or isn't JSON.
        ConfigError: it isn't a profile.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ScenarioError(f"{path}: can't be read: {reason}") from None
    try:
        document = json.loads(text, object_pairs_hook=unique_keys)
    except ValueError as error:
        raise ScenarioError(f"{path}: not JSON: {error}") from None
    return Profile.from_dict(document, str(path))


@cache
def profiles() -> dict[str, Profile]:
    """All that come with the package, by name."""
    folder = resources.files("kvlab.step_time") / "profiles"
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".json"):
            profile = Profile.from_dict(json.loads(entry.read_text(encoding="utf-8")), entry.name)
            found[profile.name] = profile
    return found


def profile(name: str) -> Profile:
    """The profile of that name.

    Raises:
        UnknownNameError: there is none; names the nearest.
    """
    if name not in profiles():
        raise UnknownNameError("step-time profile", name, profiles())
    return profiles()[name]


def find_profile(gpu: str, model: str, tp: int) -> Profile | None:
    """The latest measured profile of exactly this GPU, model and tensor parallelism; None when there is none.

    Names are compared without case, and a model's without its owner: "Llama-3.1-8B" is "meta-llama/Llama-3.1-8B".
    Nothing else is alike: another size of GPU memory or a fine-tuned model of another name is another thing.
    """
    wanted = (plain(gpu), plain(model), tp)
    alike = [p for p in profiles().values() if (plain(p.gpu), plain(p.model), p.tp) == wanted]
    return max(alike, key=lambda p: p.measured_in, default=None)


def plain(name: str) -> str:
    """
    >>> plain("meta-llama/Llama-3.1-8B"), plain("RTX-4090-24GB")
    ('llama-3.1-8b', 'rtx-4090-24gb')
    """
    return name.rpartition("/")[2].lower().replace("_", "-").replace(" ", "-")


def _plain(value: Errors | Provenance) -> dict[str, Any]:
    return {item.name: getattr(value, item.name) for item in fields(value)}


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(where, value, "expected an object")
    return value


def _text(given: Mapping[str, Any], name: str, where: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise ConfigError(f"{where}.{name}", value, "expected text")
    return value


def _count(value: object, where: str, at_least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigError(where, value, f"expected a whole number of at least {at_least}")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(where, value, "expected true or false")
    return value


def _range(value: object, where: str) -> dict[str, tuple[int, int]]:
    found = {}
    for name, bounds in _object(value, where).items():
        if name not in FIGURES:
            raise UnknownNameError(f"figure of {where}", str(name), FIGURES)
        if not isinstance(bounds, list) or len(bounds) != 2:
            raise ConfigError(f"{where}.{name}", bounds, "expected [smallest, largest]")
        low = _count(bounds[0], f"{where}.{name}", 0)
        found[name] = (low, _count(bounds[1], f"{where}.{name}", low))
    return found


def _errors(value: object, where: str) -> dict[str, Errors]:
    found = {}
    for name, given in _object(value, where).items():
        place = f"{where}.{name}"
        numbers = _object(given, place)
        if set(numbers) != {item.name for item in fields(Errors)}:
            raise ConfigError(place, ", ".join(map(str, numbers)), "expected points, mean_, p95_ and bias_percent")
        for key, number in numbers.items():
            if not isinstance(number, int | float) or isinstance(number, bool):
                raise ConfigError(f"{place}.{key}", number, "expected a number")
        found[str(name)] = Errors(**numbers)
    return found


def _provenance(value: object, where: str) -> Provenance:
    given = _object(value, where)
    known = [item.name for item in fields(Provenance)]
    for name in given:
        if name not in known:
            raise UnknownNameError(f"field of {where}", str(name), known)
    return Provenance(**{name: _text(given, name, where) for name in known})
