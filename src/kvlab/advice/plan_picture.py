"""A plan as a picture: the knee. Every goal's metric against the setting, and with how many seeds all goals hold."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from kvlab.advice.goals import Goal
from kvlab.advice.pictures import BLUE, GREEN, Curve, Panel, Picture
from kvlab.advice.plan import Plan
from kvlab.advice.served import missed
from kvlab.metrics import METRICS
from kvlab.setting_table import SETTINGS
from kvlab.settings import RATE, SIZE, Setting, Value, exact_decimal
from kvlab.units import GIB, NS_PER_S

_MOST_PANELS: Final = 4
_GIB_DIGITS: Final = 4
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
        return f"{wanted}: no {plan.field} that was tried holds with every seed. {_untried(plan)}"
    way = "up" if plan.largest else "down"
    answer = f"{readable(setting, plan.answer)} {unit}".rstrip()
    if plan.open_seeds and len(plan.open_seeds) == len(plan.limits):
        text = f"{wanted}: {plan.field} holds {way} to {answer} with {_all_seeds(plan)}. Nothing failed that far"
        return f"{text}, and no further value is possible." if _at_bound(plan) else f"{text}, where the search ended."
    kind = "at most" if plan.largest else "at least"
    text = f"{wanted}: {kind} {plan.field} {answer}. {_limits(plan)}, in steps of {readable(setting, plan.step)}."
    if plan.open_seeds:
        end = readable(setting, plan.interval[1 if plan.largest else 0])
        whose = f"{len(plan.open_seeds)} of them"
        text += f" With {whose} nothing failed {way} to {end}"
        text += ", and no further value is possible." if _at_bound(plan) else ", where the search ended."
    return text


def _all_seeds(plan: Plan) -> str:
    if plan.scenario.traffic.trace is not None:
        return "this trace"
    return "one seed" if len(plan.limits) == 1 else f"all of {len(plan.limits)} seeds"


def _at_bound(plan: Plan) -> bool:
    """Whether the search ended where the setting does."""
    setting = SETTINGS[plan.field]
    end, bound = (plan.interval[1], setting.at_most) if plan.largest else (plan.interval[0], setting.at_least)
    if not isinstance(end, int | Decimal) or not isinstance(plan.step, int | Decimal):
        return False
    return bound is not None and abs(Decimal(end) - bound) < plan.step


def readable(setting: Setting, value: Value) -> str:
    """As the setting shows it, but memory from 1 GiB on in that one unit; multiples of 64 MiB are exact.

    >>> [readable(SETTINGS["gpu_memory_bytes"], size << 20) for size in (40_512, 40_576, 512)]
    ['39.5625 GiB', '39.625 GiB', '512 MiB']
    """
    if setting.kind is SIZE and isinstance(value, int) and value >= GIB:
        return f"{exact_decimal(round(Decimal(value) / GIB, _GIB_DIGITS))} GiB"
    return setting.show(value)


def _untried(plan: Plan) -> str:
    """What "nothing" means: so few of all values; and which misses the goals by least, of the medians."""
    setting, count = SETTINGS[plan.field], len(plan.probes)
    if count == 1:
        return f"Only {readable(setting, plan.probes[0].value)} was tried."
    low, high = (readable(setting, plan.probes[end].value) for end in (0, -1))
    held = sum(limit is not None for limit in plan.limits.values())
    whose = "each seed" if held == len(plan.limits) else f"{held} of {len(plan.limits)} seeds"
    some = f"With {whose} some value does. " if held else ""
    between = f"From {low} to {high} {unit_of(plan.field)}".rstrip() + f" {count} values were tried, and none between"
    most = max(probe.seeds_tried for probe in plan.probes)
    compared = [probe for probe in plan.probes if probe.seeds_tried == most]
    nearest = min(compared, key=lambda probe: missed(probe.metrics, plan.goals))
    return f"{some}{between}; {readable(setting, nearest.value)} comes nearest."


def _limits(plan: Plan) -> str:
    low, high = (readable(SETTINGS[plan.field], value) for value in plan.interval)
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
