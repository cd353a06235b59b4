"""Which settings a report draws along: across, up, and one picture for each value of what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.setting_table import SETTINGS
from kvlab.sweeps.report_data import Points, middle_of, shown
from kvlab.sweeps.table import settings_column

MOST_FACETS: Final = 9
"""Heatmaps side by side; with more of them, cells are medians over what is left, and the report says so."""
_LISTED: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How every metric of a sweep is drawn."""

    across: str
    up: str | None
    """None: a curve."""
    facets: tuple[Mapping[str, Any], ...]
    """What each heatmap has of the settings that are on no axis; one without any where none is left."""
    note: str
    """What a reader has to know of it."""

    def title(self, facet: Mapping[str, Any]) -> str:
        """Of one heatmap."""
        return ", ".join(f"{name} {shown(name, value)}" for name, value in facet.items())


def heatmaps(points: Points, plan: Layout, metric: str) -> list[list[list[float | None]]]:
    """Of each facet the cells: rows along `up`, in them columns along `across`; None where there is no value."""
    assert plan.up is not None
    left = tuple(plan.facets[0])
    found = points.along((*left, plan.up, plan.across))
    rows, columns = points.axis(plan.up), points.axis(plan.across)
    return [
        [
            [middle_of(found.get((*(facet[name] for name in left), row, column), ()), metric) for column in columns]
            for row in rows
        ]
        for facet in plan.facets
    ]


def chosen(points: Points, at: Sequence[str]) -> Points:
    """The points that have the wanted values, such as "max_num_seqs=8"; all where none is wanted.

    Raises:
        ConfigError: not of this form, a setting twice, or a value that the sweep hasn't.
        UnknownNameError: a setting that doesn't vary.
    """
    wanted: dict[str, Any] = {}
    for text in at:
        given, equals, value = text.partition("=")
        name = given.strip().replace("-", "_")
        if not equals:
            raise ConfigError("at", text, "expected SETTING=VALUE, such as max_num_seqs=8")
        if name not in points.names:
            raise UnknownNameError("setting of this sweep", name, points.names)
        if name in wanted:
            raise ConfigError("at", text, f"names {name} twice")
        wanted[name] = _value(points, name, value.strip())
    found = tuple(points.where(wanted))
    if not found:
        raise ConfigError("at", ", ".join(at), "the sweep has no point with all of these")
    return replace(points, points=found)


def _value(points: Points, name: str, text: str) -> Any:
    """As the table has it."""
    known = points.axis(name)
    (value,) = settings_column(name, [SETTINGS[name].parse(text)]).to_pylist()
    if value not in known:
        some = ", ".join(shown(name, one) for one in known[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
        raise ConfigError(f"at {name}", text, f"the sweep has {some}")
    return value


def layout(points: Points) -> Layout:
    """The two longest axes make a heatmap, one alone a curve."""
    names = sorted(_independent(points), key=lambda name: -len(points.axis(name)))
    across, *others = [name for name in names if len(points.axis(name)) > 1] or names[:1]
    if not others:
        return Layout(across=across, up=None, facets=({},), note="")
    up, *left = others
    facets = [dict(zip(left, values, strict=True)) for values in product(*(points.axis(name) for name in left))]
    found = points.along(left)
    facets = [facet for facet in facets if tuple(facet.values()) in found]
    if len(facets) <= MOST_FACETS:
        note = f"One heatmap for each {' and '.join(left)}; their colours mean the same." if left else ""
        return Layout(across=across, up=up, facets=tuple(facets), note=note)
    what = f"{len(facets):,} values of {left[0]}" if len(left) == 1 else f"{len(facets):,} mixes of {', '.join(left)}"
    note = f"Each cell of a heatmap is the median over {what}: --at {left[0]}=VALUE picks one."
    return Layout(across=across, up=up, facets=({},), note=note)


def _independent(points: Points) -> list[str]:
    """Settings without those that only move together with an earlier one."""
    kept: list[str] = []
    for name in points.names:
        if not any(_move_together(points, earlier, name) for earlier in kept):
            kept.append(name)
    return kept


def _move_together(points: Points, one: str, other: str) -> bool:
    places = points.names.index(one), points.names.index(other)
    pairs = {tuple(point.settings[place] for place in places) for point in points.points}
    return 1 < len(pairs) == len(points.axis(one)) == len(points.axis(other))
