"""A plan as a picture: the knee. Every goal's metric against the setting, and with how many seeds all goals hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvlab.advice.goals import Goal
from kvlab.advice.pictures import BLUE, GREEN, Curve, Panel, Picture
from kvlab.advice.plan import Plan
from kvlab.metrics import METRICS
from kvlab.setting_table import SETTINGS
from kvlab.settings import RATE, Value
from kvlab.units import GIB, NS_PER_S

_MOST_PANELS: Final = 4
_STEEP: Final = 20
"""Largest over least value of a curve, from which on its axis is logarithmic."""
_UNITS: Final = {"ns": ("s", 1 / NS_PER_S), "ratio": ("%", 100.0), "bytes": ("GiB", 1 / GIB)}
"""Unit of a metric -> the one that is drawn, and the factor."""


def picture(plan: Plan) -> Picture:
    """One panel per goal, and one for the seeds."""
    goals = [_panel(plan, goal) for goal in plan.goals[: _MOST_PANELS - 1]]
    title = f"{'Largest' if plan.largest else 'Least'} {plan.field}: {plan.scenario.name}"
    return Picture(title=title, text=sentence(plan), panels=(*goals, _seeds(plan)))


def sentence(plan: Plan) -> str:
    """The answer, how far seeds differ, and what wasn't looked for."""
    setting, unit = SETTINGS[plan.field], unit_of(plan.field)
    wanted = "; ".join(goal.text for goal in plan.goals)
    if plan.answer is None:
        return f"{wanted}: no {plan.field} that was tried holds with every seed."
    kind = "at most" if plan.largest else "at least"
    text = f"{wanted}: {kind} {plan.field} {setting.show(plan.answer)} {unit}".rstrip()
    text += f". {_limits(plan)}, in steps of {setting.show(plan.step)}."
    if plan.open_seeds:
        further = "or more" if plan.largest else "or less"
        whose = "all" if len(plan.open_seeds) == len(plan.limits) else f"{len(plan.open_seeds)}"
        end = setting.show(plan.interval[1 if plan.largest else 0])
        text += f" With {whose} of them nothing failed as far as was looked: theirs is {end} {further}."
    return text


def _limits(plan: Plan) -> str:
    low, high = (SETTINGS[plan.field].show(value) for value in plan.interval)
    if len(plan.limits) > 1:
        spread = f"between {low} and {high}" if low != high else f"at {low}"
        return f"The limits of {len(plan.limits)} seeds lie {spread}"
    if plan.scenario.traffic.trace is None:
        return f"The limit of one seed lies at {low}"
    return f"The limit of this trace lies at {low}, and another day's elsewhere"


def unit_of(field: str) -> str:
    """Of a setting, as a reader expects it behind a number."""
    setting = SETTINGS[field]
    return setting.unit or (setting.kind.unit if setting.kind is RATE else "")


def _panel(plan: Plan, goal: Goal) -> Panel:
    metric = METRICS[goal.metric]
    unit, factor = _UNITS.get(metric.unit, (metric.unit, 1.0))
    low, high = _ends(plan)
    known = [value for probe in plan.probes for value in (probe.low[goal.metric], probe.high[goal.metric]) if value]
    return Panel(
        title=f"{metric.label}, median and range over the seeds that were tried",
        x_label=_x_label(plan),
        y_label=unit,
        curves=(
            Curve(
                x=[_plain(plan, probe.value) for probe in plan.probes],
                y=_scaled([probe.metrics for probe in plan.probes], goal.metric, factor),
                low=_scaled([probe.low for probe in plan.probes], goal.metric, factor),
                high=_scaled([probe.high for probe in plan.probes], goal.metric, factor),
                label=metric.label,
                colour=BLUE,
                with_dots=True,
            ),
        ),
        y_log=bool(known) and max(known) > _STEEP * min(known),
        limit=float(goal.limit) * factor,
        limit_label=goal.text,
        mark=None if plan.answer is None else _plain(plan, plan.answer),
        mark_label="holds with every seed",
        span=(low, high) if low is not None and high is not None and low < high else None,
        span_label="limits of the seeds",
    )


def _seeds(plan: Plan) -> Panel:
    low, high = _ends(plan)
    return Panel(
        title="Seeds with which every limit holds, of those that were tried",
        x_label=_x_label(plan),
        y_label="%",
        curves=(
            Curve(
                x=[_plain(plan, probe.value) for probe in plan.probes],
                y=[100 * probe.seeds_kept / probe.seeds_tried for probe in plan.probes],
                label="seeds",
                colour=GREEN,
                with_dots=True,
            ),
        ),
        mark=None if plan.answer is None else _plain(plan, plan.answer),
        mark_label="holds with every seed",
        span=(low, high) if low is not None and high is not None and low < high else None,
        span_label="limits of the seeds",
    )


def _x_label(plan: Plan) -> str:
    unit = "GiB" if SETTINGS[plan.field].kind.unit.startswith("B,") else unit_of(plan.field)
    return f"{plan.field} ({unit})" if unit else plan.field


def _plain(plan: Plan, value: Value) -> float:
    assert value is not None
    return float(value) / (GIB if SETTINGS[plan.field].kind.unit.startswith("B,") else 1)


def _ends(plan: Plan) -> tuple[float | None, float | None]:
    low, high = plan.interval
    return (None, None) if low is None or high is None else (_plain(plan, low), _plain(plan, high))


def _scaled(rows: list[Mapping[str, float | None]], metric: str, factor: float) -> list[float | None]:
    return [None if (value := row[metric]) is None else value * factor for row in rows]
