"""Two knobs against each other: every cell is the setup at hand with two settings changed, run once.

    request_rate
         4.5  |  .  .  .  .  .
         3.6  |  3  2  1  2  .      the setup at hand first, then outwards from it
         2.8  |  .  .  2  .  .
              +----------------
                32 48 64 80 96   max_num_seqs

A cell is run with the setup's own seed, so its figures are those that the page shows once the cell is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kvlab.advice.levers import in_force
from kvlab.errors import ConfigError, KvlabError, UnknownNameError
from kvlab.missions import mission
from kvlab.scenarios import Scenario
from kvlab.setting_table import SETTINGS
from kvlab.settings import NOT_SET
from kvlab.sweeps.outcome import Outcome
from kvlab.sweeps.workers import Executor
from kvlab.web.controls import CONTROLS, TILES, acts_only
from kvlab.web.parts import Control
from kvlab.web.queries import DRAWN, FindTrace, Query, scenario_of
from kvlab.web.streams import Emit, Work

MOST_COLUMNS: Final = 9
MOST_ROWS: Final = 7
MOST_CELLS: Final = MOST_COLUMNS * MOST_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One knob of a grid."""

    control: Control
    values: tuple[str, ...]
    """As links hold them, in the order of the knob."""
    shown: tuple[str, ...]
    """As the page shows each, without its unit."""
    here: int
    """Place of the setup at hand."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        values = [{"value": value, "text": text} for value, text in zip(self.values, self.shown, strict=True)]
        return {"name": self.control.name, "label": self.control.label, "unit": self.control.unit, "values": values}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap:
    """A grid that can be filled."""

    query: Query
    x: Axis
    y: Axis

    def places(self) -> list[tuple[int, int]]:
        """(column, row) of every cell, in the order in which they are run."""
        cells = [(column, row) for row in range(len(self.y.values)) for column in range(len(self.x.values))]
        return sorted(cells, key=lambda cell: (cell[0] - self.x.here) ** 2 + (cell[1] - self.y.here) ** 2)

    def fill(self, emit: Emit, executor: Executor) -> None:
        """Runs all cells. Messages: "start", a "cell" each as they come, "done"."""
        scenario, places = self.query.scenario, self.places()
        emit({"start": self._start()})
        runs: list[Scenario | None] = []
        failed = 0
        for column, row in places:
            try:
                changes = {self.x.control.name: self.x.values[column], self.y.control.name: self.y.values[row]}
                runs.append(scenario.replace(**changes))
            except KvlabError as error:
                runs.append(None)
                failed += 1
                emit({"cell": self._cannot(column, row, str(error))})
        for number, outcome in executor((number, run) for number, run in enumerate(runs) if run is not None):
            failed += outcome.metrics is None
            run = runs[number]
            assert run is not None
            emit({"cell": self._cell(*places[number], run, outcome)})
        emit({"done": {"cells": len(places), "failed": failed}})

    def _start(self) -> dict[str, Any]:
        traffic = self.query.scenario.traffic
        return {
            "x": self.x.to_dict(),
            "y": self.y.to_dict(),
            "here": {"x": self.x.here, "y": self.y.here},
            "metrics": [tile.to_dict() for tile in TILES[self.query.scenario.rules]],
            "seeds": [traffic.seed] if traffic.trace is None else [],
        }

    def _cell(self, column: int, row: int, scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
        if outcome.metrics is None:
            return self._cannot(column, row, outcome.error or "")
        figures = outcome.metrics
        shown = {tile.name: tile.show(scenario, figures) for tile in TILES[scenario.rules]}
        return {
            "x": column,
            "y": row,
            "metrics": {name: figure["value"] for name, figure in shown.items()},
            "texts": {name: figure["text"] for name, figure in shown.items()},
        }

    def _cannot(self, column: int, row: int, why: str) -> dict[str, Any]:
        trace = self.query.trace
        return {"x": column, "y": row, "error": why if trace is None else why.replace(trace.path, trace.name)}


def sweeping(fields: Mapping[str, str], find_trace: FindTrace) -> Work:
    """The work of `heatmap_of`, which says what is wrong with the fields."""
    return heatmap_of(fields, find_trace).fill


def heatmap_of(fields: Mapping[str, str], find_trace: FindTrace) -> Heatmap:
    """The grid that a query asks for: the fields of a run, `x` and `y` (knobs), and the `mission` being played, if any.

    Raises:
        KvlabError: as `scenario_of`, no such knob or mission, or a knob that does nothing in this setup.
        RefusedError: no such trace.
    """
    setup = dict(fields)
    x, y, playing = setup.pop("x", ""), setup.pop("y", ""), setup.pop("mission", None)
    query = scenario_of(setup, find_trace)
    levers = None if playing is None else mission(playing).levers
    knobs = knobs_of(query.scenario)
    if levers is not None:
        knobs = {name: knob for name, knob in knobs.items() if name in levers}
    for field, name in (("x", x), ("y", y)):
        if name not in knobs:
            raise UnknownNameError(f"knob {field}", name, knobs)
    if x == y:
        raise ConfigError("y", y, "x is the same knob; choose another")
    return Heatmap(
        query=query,
        x=_axis(knobs[x], query.scenario, MOST_COLUMNS, levers),
        y=_axis(knobs[y], query.scenario, MOST_ROWS, levers),
    )


def knobs_of(scenario: Scenario) -> dict[str, Control]:
    """Those with few enough values, or values in order, that do something beside the other settings, by name."""
    settings = scenario.settings()
    idle = {
        name
        for name, needs in acts_only(scenario.rules).items()
        if any(SETTINGS[other].show(settings[other]) not in values for other, values in needs.items())
    }
    if scenario.traffic.trace is not None:
        idle.update(DRAWN)
    return {knob.name: knob for knob in CONTROLS[scenario.rules] if _can_be_swept(knob) and knob.name not in idle}


def _can_be_swept(knob: Control) -> bool:
    """Not: free text, a long list without an order, a choice that brings other settings along."""
    if knob.kind == "select":
        return len(knob.values) <= MOST_ROWS and not knob.brings
    return knob.kind != "text"


def _axis(knob: Control, scenario: Scenario, most: int, levers: Mapping[str, tuple[str, ...]] | None) -> Axis:
    """At most so many of the knob's stops, the present one and both ends among them."""
    now = SETTINGS[knob.name].show(scenario.settings()[knob.name])
    shown = _stops(knob, now, scenario)
    if levers is not None:
        shown = {text: label for text, label in shown.items() if text == now or text in levers[knob.name]}
    values = list(shown)
    here = values.index(now)
    picked = _around(len(values), here, most)
    return Axis(
        control=knob,
        values=tuple(values[place] for place in picked),
        shown=tuple(shown[values[place]] for place in picked),
        here=picked.index(here),
    )


def _stops(knob: Control, now: str, scenario: Scenario) -> dict[str, str]:
    """Value -> what the page shows, with the present value in its place."""
    if knob.kind == "switch":
        assert knob.off is not None
        assert knob.on is not None
        return {knob.off: "off", knob.on: "on"} | ({} if now in (knob.off, knob.on) else {now: now})
    values, labels = knob.stops([now])
    shown = dict(zip(values, labels, strict=True))
    if NOT_SET in shown and knob.unset:
        shown = _with_default(knob, shown, now, _default(knob.name, scenario))
    return shown if now in shown else shown | {now: now}


def _with_default(knob: Control, shown: dict[str, str], now: str, default: int | None) -> dict[str, str]:
    """The stops with the engine's default in its place among the numbers, and that number once."""
    if default is None:
        return shown | {NOT_SET: knob.unset}
    stops = {text: label for text, label in shown.items() if text != NOT_SET}
    number = str(default)
    if now == number:
        return stops
    below = {text: label for text, label in stops.items() if int(text) < default}
    above = {text: label for text, label in stops.items() if int(text) > default}
    return below | {NOT_SET: f"{number}, default"} | above


def _default(name: str, scenario: Scenario) -> int | None:
    """What the engine takes for a setting that is left to it; None where only a run tells."""
    try:
        number = in_force(scenario.replace(**{name: NOT_SET}))[name]
    except KvlabError:
        return None  # what is wrong there is said by its cells
    return number if isinstance(number, int) else None


def _around(count: int, here: int, most: int) -> list[int]:
    """At most `most` of 0..count-1: both ends, `here`, and the more between them the nearer to it.

    >>> _around(5, 2, 9), _around(60, 50, 9), _around(76, 0, 7)
    ([0, 1, 2, 3, 4], [0, 31, 43, 47, 50, 52, 53, 55, 59], [0, 2, 4, 9, 18, 37, 75])
    """
    if count <= most:
        return list(range(count))
    below, above = here, count - 1 - here
    half = (most - 1) // 2
    steps = min(below, max(half, most - 1 - above))
    return sorted([here, *(here - far for far in _farther(below, steps)),
                   *(here + far for far in _farther(above, most - 1 - steps))])  # fmt: skip


def _farther(most: int, steps: int) -> list[int]:
    """That many distances up to `most`, each about the same factor above the one before, and at least by one."""
    found: list[int] = []
    for step in range(1, steps + 1):
        found.append(max(round(most ** (step / steps)), found[-1] + 1 if found else 1))
    return found
