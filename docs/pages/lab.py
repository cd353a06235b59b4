"""What can be moved and read in the labs: controls, tiles, cases, missions, prices, limits."""

from __future__ import annotations

from collections.abc import Callable

from docs.pages.markdown import ARROWS, table, with_tables
from kvlab.cases import CASES
from kvlab.missions import missions_for
from kvlab.prices import PRICES
from kvlab.setting_table import BLOCK_TABLE_LAB, PAGE_RULES, PREEMPTION_LAB, SETTINGS, VLLM_V1
from kvlab.settings import NOT_SET
from kvlab.web import limits
from kvlab.web.controls import CONTROLS, TILES, base
from kvlab.web.parts import Control

MOST_CHOICES = 5
"""Of a list that is shown whole."""


def lab_page() -> str:
    """The page of the labs as it is, with its tables made anew: each stands between two comments."""
    return with_tables("lab.md", LAB_TABLES)


def controls_table(lab: str) -> list[str]:
    """What can be moved in a lab, with its range and its default."""
    settings = base(lab).settings()
    return table(
        ["on the page", "setting", "values", "default"],
        [
            [
                control.label,
                f"`{control.name}`",
                stops(control),
                shown(control, SETTINGS[control.name].show(settings[control.name])),
            ]
            for control in CONTROLS[lab]
        ],
    )


def stops(control: Control) -> str:
    """What a control can be set to, in short."""
    if control.kind == "switch":
        return "off, on"
    labels = control.labels or control.values
    if control.kind == "text":
        return f"a length or a distribution, such as `{control.values[1]}`"
    if control.kind in ("choice", "select"):
        return ", ".join(labels) if len(labels) <= MOST_CHOICES else f"{len(labels)} of a list"
    unit = f" {control.unit}" if labels[-1].replace(".", "").isdigit() else ""
    return f"{labels[0]} to {labels[-1]}{unit}"


def shown(control: Control, text: str) -> str:
    """A value as the page shows it."""
    if control.kind == "switch":
        return "off" if text == control.off else "on"
    if control.kind == "text":
        return f"`{text}`"
    labels = dict(zip(control.values, control.labels or control.values, strict=True))
    label = labels.get(text, control.unset or text) if text == NOT_SET else labels.get(text, text)
    return f"{label} {control.unit}".rstrip() if label.replace(".", "").isdigit() else label


def tiles_table() -> list[str]:
    """The figures of all tabs; the main ones stay in sight on a phone."""
    by_name = {tile.name: tile for lab in PAGE_RULES for tile in TILES[lab]}
    shows = {lab: {tile.name: tile for tile in TILES[lab]} for lab in PAGE_RULES}
    rows = []
    for name, tile in by_name.items():
        marks = [("main" if shows[lab][name].main else "yes") if name in shows[lab] else "" for lab in PAGE_RULES]
        rows.append([tile.label, f"`{name}`", ARROWS[tile.metric.better], *marks])
    return table(["tile", "metric", "", *PAGE_RULES], rows)


def cases_table() -> list[str]:
    """Reported cases that the page has as setups."""
    rows = []
    for case in (case for case in CASES if case.on_page):
        source = case.source if case.url is None else f"[{case.source}]({case.url})"
        variants = "; ".join(variant.name for variant in case.variants)
        rows.append([f"**{case.title}**", case.story, variants, source])
    return table(["what somebody saw", "what happens, and what to try", "variants", "source"], rows)


def missions_table(lab: str) -> list[str]:
    """What the operator says, and what is asked for; how it's done is for the reader to find."""
    rows = [
        [str(number), f"**{mission.title}**", mission.story, "; ".join(goal.text for goal in mission.goals)]
        for number, mission in enumerate(missions_for(lab), start=1)
    ]
    return table(["", "mission", "the operator says", "goals"], rows)


def prices_table() -> list[str]:
    """What each lever costs."""
    rows = [[f"`{field}`", price.rule.describe(SETTINGS[field]), price.reason] for field, price in PRICES.items()]
    return table(["setting", "price", "what is really paid with"], rows)


def limits_table() -> list[str]:
    """What one request of a browser may ask for."""
    rows = [
        ["requests of a run", f"{limits.MAX_REQUESTS:,}"],
        ["samples of all requests", f"{limits.MAX_SAMPLES:,}"],
        ["steps of a run", f"{limits.MAX_STEPS:,}"],
        ["tokens of one answer", f"{limits.MAX_OUTPUT_TOKENS:,}"],
        ["blocks on the GPU, and in the swap space", f"{limits.MAX_BLOCKS:,}"],
        ["size of a trace file", f"{limits.MAX_UPLOAD_BYTES // 2**20} MiB"],
        ["the same, unpacked", f"{limits.MAX_UNPACKED_BYTES // 2**20} MiB"],
        ["rows of a trace file", f"{limits.MAX_TRACE_ROWS:,}"],
    ]
    return table(["", "at most"], rows)


LAB_TABLES: dict[str, Callable[[], list[str]]] = {
    "controls of the preemption lab": lambda: controls_table(PREEMPTION_LAB),
    "controls of the block-table lab": lambda: controls_table(BLOCK_TABLE_LAB),
    "controls of your server": lambda: controls_table(VLLM_V1),
    "reported cases": cases_table,
    "tiles": tiles_table,
    "missions of the preemption lab": lambda: missions_table(PREEMPTION_LAB),
    "missions of the block-table lab": lambda: missions_table(BLOCK_TABLE_LAB),
    "prices": prices_table,
    "limits": limits_table,
}
"""What lab.md holds of the code, by the words of the comment before it."""
