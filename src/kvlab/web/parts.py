"""What the page's knobs and figures are made of: one `Control` per setting, one `Tile` per figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal

from kvlab.metrics import METRICS
from kvlab.metrics.catalog import Metric
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.settings import NOT_SET
from kvlab.units import GIB, NS_PER_S, parse_bytes

GIB_UNIT: Final = "GiB"
Kind = Literal["range", "choice", "switch", "select", "text"]
"""Slider of stops, radio buttons, on or off, a list to choose from, text with suggestions."""
Group = Literal["server", "traffic", "event"]
Figure = int | Fraction | float | None
Figures = Mapping[str, Figure]
"""Metrics of a run by name: exact, or the nearest doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One knob. Its values are the texts that links hold."""

    name: str
    """A setting of the scenario."""
    label: str
    kind: Kind
    group: Group
    unit: str = ""
    values: tuple[str, ...] = ()
    """Every stop, in order."""
    labels: tuple[str, ...] = ()
    """What the page shows for each; empty: the values themselves."""
    on: str | None = None
    off: str | None = None
    """Of a switch."""
    unset: str = ""
    """What the page shows for "none"."""
    brings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Value -> settings that it needs beside it, and what they are unless they are set."""

    def to_dict(self, default: str, more: Iterable[str] = ()) -> dict[str, Any]:
        """Ready for JSON.

        Args:
            more: further stops, which a mission needs.
        """
        values, labels = self.stops(more)
        return {
            "name": self.name,
            "label": self.label,
            "kind": self.kind,
            "unit": self.unit,
            "help": SETTINGS[self.name].help,
            "group": self.group,
            "values": values,
            "labels": labels,
            "on": self.on,
            "off": self.off,
            "unset": self.unset,
            "brings": {value: dict(settings) for value, settings in self.brings.items()},
            "default": default,
        }

    def stops(self, more: Iterable[str]) -> tuple[list[str], list[str]]:
        """Every value in order, with further ones of a slider in their places; and what the page shows for each."""
        shown = dict(zip(self.values, self.labels or self.values, strict=True))
        if self.kind == "range":
            parse = SETTINGS[self.name].parse
            for text in more:
                shown.setdefault(text, self._label(text))
            order = {text: Decimal(-1) if text == NOT_SET else Decimal(str(parse(text))) for text in shown}
            shown = {text: shown[text] for text in sorted(shown, key=order.__getitem__)}
        return list(shown), list(shown.values())

    def show(self, text: str) -> str:
        """A value of the setting as the page says it, with its unit."""
        if self.kind == "switch":
            return {self.on: "on", self.off: "off"}.get(text, text)
        if text == NOT_SET and self.unset:
            return self.unset
        shown = dict(zip(self.values, self.labels, strict=True)) if self.labels else {}
        label = shown.get(text) or (self._label(text) if self.kind == "range" else text)
        return f"{label} {self.unit}" if self.unit and label[:1].isdigit() else label

    def _label(self, text: str) -> str:
        if text == NOT_SET:
            return text
        if self.unit == "%":
            return percent(text)
        return f"{parse_bytes(text, self.name) / GIB:g}" if self.unit == GIB_UNIT else text


def percent(text: str) -> str:
    """A ratio as a slider shows it."""
    return f"{float(text) * 100:g}"


def texts(values: Iterable[object]) -> tuple[str, ...]:
    """Stops as links write them."""
    return tuple(map(str, values))


def hundredths(first: int, last: int) -> tuple[str, ...]:
    """Stops from first / 100 to last / 100."""
    return tuple(f"{value / 100:g}" for value in range(first, last + 1))


def tenths(first: int, last: int) -> tuple[str, ...]:
    """Stops from first / 10 to last / 10."""
    return tuple(f"{value / 10:g}" for value in range(first, last + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure of the page."""

    name: str
    """Of the glossary."""
    label: str
    main: bool = False
    """One of the three that a phone shows while a slider moves."""
    metric: Metric
    value: Callable[[Scenario, Figures], Figure]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        unit = "s" if self.metric.unit == "ns" else self.metric.unit
        return {
            "name": self.name,
            "label": self.label,
            "unit": unit,
            "better": self.metric.better,
            "main": self.main,
        }

    def show(self, scenario: Scenario, figures: Figures) -> dict[str, Any]:
        """The figure of a run: a plain number (seconds, bytes, a ratio of 0..1, a count), and as a person reads it."""
        value = _exact(self.value(scenario, figures))
        scale = NS_PER_S if self.metric.unit == "ns" else 1
        plain = None if value is None else float(Fraction(value) / scale)
        return {"value": plain, "text": self.metric.format(value)}


def _exact(value: Figure) -> Fraction | int | None:
    """A double as its shortest decimal: what lies half-way between two texts is then rounded as the exact value is.

    >>> _exact(9 / 800), Fraction(9 / 800) == Fraction(9, 800)
    (Fraction(9, 800), False)
    """
    return Fraction(str(value)) if isinstance(value, float) else value


def tile(name: str, label: str, *, main: bool = False) -> Tile:
    """A figure of the catalog."""
    return Tile(name=name, label=label, main=main, metric=METRICS[name], value=lambda _, figures: figures[name])


def throughput(scenario: Scenario, figures: Figures) -> Figure:
    """In the window; of an uncut trace, which has none, to the last token."""
    return figures["throughput_tokens_per_s" if scenario.window_ns is None else "throughput_in_window_tokens_per_s"]


THROUGHPUT: Final = Tile(
    name="throughput_in_window_tokens_per_s",
    label="Throughput",
    main=True,
    metric=METRICS["throughput_in_window_tokens_per_s"],
    value=throughput,
)
TTFT: Final = tile("p95_ttft_ns", "First token, p95", main=True)
