"""The tables that the page is built from: tabs with controls, tiles, missions and examples; the glossary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kvlab.metrics import METRICS
from kvlab.metrics.catalog import Metric
from kvlab.missions import Mission, missions_for
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB, SETTINGS, VLLM_V1
from kvlab.settings import Setting
from kvlab.web.advising import limits_for, limits_of
from kvlab.web.controls import CONTROLS, TILES, USED_RATIO, acts_only, defaults
from kvlab.web.examples import examples_for
from kvlab.web.limits import MAX_UPLOAD_BYTES
from kvlab.web.your_server import MAX_CONCURRENCY

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
    VLLM_V1: _Words(
        "Your server",
        "vLLM with your model, your GPU and your flags: the scheduler of its V1 engine, step by step, and the memory "
        "that it would find at its start. Set it up, drop a trace of yours, or begin with a case that somebody "
        "reported.",
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
"""What the labs don't tell: a panel of the page."""

NOT_MODELLED_SERVER: Final = (
    "Step times are measured for a few pairs of model and GPU, and estimated from the GPU's peak rates for all others: "
    "what is estimated can be off by a third and more. The waterfall and the explanation of “Step times” say which.",
    "Memory for activations, CUDA graphs and what is outside PyTorch follows formulas fitted to logs of engines; your "
    "log of vLLM's start has the true sizes. Give its KV cache with kv_cache_memory_bytes and compare.",
    "Drawn requests have nothing in common, so the prefix cache finds only what preempted requests left behind. Drop a "
    "trace with block hashes (Mooncake's have them) to see real hits.",
    "No pools of several kinds of layers (sliding windows, linear attention), no speculative decoding, no LoRA "
    "adapters, no images, no connector to other caches, no disaggregation.",
    "One replica: no load balancer in front. Text in and out, the HTTP server and the network are in no latency.",
    "Nobody gives up: users wait for ever, never cancel, and never retry.",
)
"""What a real server's tab doesn't tell."""


@cache
def tables() -> dict[str, Any]:
    """What `GET /api/labs` gives, ready for JSON."""
    return {
        "version": TABLE_VERSION,
        "labs": {lab: _lab(lab, words) for lab, words in _LABS.items()},
        "glossary": _glossary(),
        "traffic_fields": [name for name, setting in SETTINGS.items() if setting.group == "traffic"],
        "most_trace_bytes": MAX_UPLOAD_BYTES,
    }


def _lab(lab: str, words: _Words) -> dict[str, Any]:
    missions = missions_for(lab)
    default = defaults(lab)
    rules = acts_only(lab).items()
    return {
        "title": words.title,
        "intro": words.intro,
        "controls": [
            control.to_dict(default[control.name], _stops(missions, control.name)) for control in CONTROLS[lab]
        ],
        "tiles": [tile.to_dict() for tile in TILES[lab]],
        "missions": [mission.card() for mission in missions],
        "defaults": default,
        "acts_only": {name: {other: list(texts) for other, texts in needs.items()} for name, needs in rules},
        "limits": limits_for(lab) | {"missions": {mission.id: limits_of(mission) for mission in missions}},
        "examples": examples_for(lab),
        "not_modelled": list(NOT_MODELLED_SERVER if lab == VLLM_V1 else NOT_MODELLED),
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
    own = {metric.name: metric for metric in (USED_RATIO, MAX_CONCURRENCY)}
    entries = {name: _metric_entry(metric) for name, metric in (METRICS | own).items()}
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
