"""The tables that the page is built from: labs with their controls, tiles and missions; the glossary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kvlab.metrics import METRICS
from kvlab.metrics.catalog import Metric
from kvlab.missions import Mission, missions_for
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB, SETTINGS
from kvlab.settings import Setting
from kvlab.web.controls import CONTROLS, TILES, USED_RATIO, defaults
from kvlab.web.limits import MAX_UPLOAD_BYTES

TABLE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class _Words:
    title: str
    intro: str


_LABS: Final = {
    PREEMPTION_LAB: _Words(
        "Preemption lab",
        "A 7B model on a GPU of 48 GiB. What is left beside the weights is the KV cache; when it is full, a running "
        "request has to go, and its user's stream freezes. Which lever is the cheapest that mends it?",
    ),
    BLOCK_TABLE_LAB: _Words(
        "Block-table lab",
        "How the KV cache is handed out: one reserved range per answer, or small blocks as tokens come. See what each "
        "wastes, what a block table is, and what several answers to one prompt can share.",
    ),
}

NOT_MODELLED: Final = (
    "Step times are straight lines (a base, and so much per sequence and per token), not kernels: real steps jump with "
    "batch sizes, CUDA graphs and attention back ends. Compare settings with each other; do not read the ms as yours.",
    "One GPU, one model, one server: no tensor or pipeline parallelism, no replicas, no load balancer in front.",
    "No prefix caching: prompts that start alike are computed and stored again. In the block-table lab only samples "
    "of one request share blocks.",
    "No speculative decoding, no LoRA adapters, no images, no encoder.",
    "Text in and out costs nothing: tokenising, the HTTP server and the network are not in any latency.",
    "The preemption lab swaps to the CPU as vLLM did before V1 (--preemption-mode, --swap-space); vLLM V1 always "
    "recomputes. Copies make the step longer; they never overlap with computing.",
    "The block-table lab computes a whole prompt in one step; chunked prefill is in the preemption lab.",
    "Nobody gives up: users wait for ever, never cancel, and never retry.",
    "Memory for activations is a fixed number, and blocks are all of one size: no sliding windows, no hybrid models.",
    "Traffic is drawn from simple distributions with a seed; yours has days, tenants and repeats. Drop your own trace "
    "on the page to see it.",
)
"""What the model doesn't tell: a panel of the page."""


@cache
def tables() -> dict[str, Any]:
    """What `GET /api/labs` gives, ready for JSON."""
    return {
        "version": TABLE_VERSION,
        "labs": {lab: _lab(lab, words) for lab, words in _LABS.items()},
        "glossary": _glossary(),
        "not_modelled": list(NOT_MODELLED),
        "most_trace_bytes": MAX_UPLOAD_BYTES,
    }


def _lab(lab: str, words: _Words) -> dict[str, Any]:
    missions = missions_for(lab)
    default = defaults(lab)
    return {
        "title": words.title,
        "intro": words.intro,
        "controls": [
            control.to_dict(default[control.name], _stops(missions, control.name)) for control in CONTROLS[lab]
        ],
        "tiles": [tile.to_dict() for tile in TILES[lab]],
        "missions": [mission.card() for mission in missions],
        "defaults": default,
    }


def _stops(missions: Iterable[Mission], field: str) -> list[str]:
    """Every value of a field that some mission loads or offers."""
    found: dict[str, None] = {}
    for mission in missions:
        if field in mission.setup:
            found[mission.setup[field]] = None
        found.update(dict.fromkeys(mission.levers.get(field, ())))
    return list(found)


def _glossary() -> dict[str, Any]:
    entries = {name: _metric_entry(metric) for name, metric in (METRICS | {USED_RATIO.name: USED_RATIO}).items()}
    return entries | {name: _setting_entry(setting) for name, setting in SETTINGS.items()}


def _metric_entry(metric: Metric) -> dict[str, Any]:
    return {
        "label": metric.label,
        "unit": metric.unit,
        "formula": metric.formula,
        "source": metric.source,
        "engines": dict(metric.engines),
    }


def _setting_entry(setting: Setting) -> dict[str, Any]:
    labels = {control.name: control.label for controls in CONTROLS.values() for control in controls}
    return {
        "label": labels.get(setting.name, setting.name.replace("_", " ")),
        "unit": setting.unit or setting.kind.unit,
        "formula": setting.help,
        "source": setting.source,
        "engines": dict(setting.engines),
    }
