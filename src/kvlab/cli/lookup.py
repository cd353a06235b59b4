"""What a word means to `kvlab explain`: kvlab's own names, the labels of its tables, and the engines' names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from kvlab.metrics import METRICS, Metric
from kvlab.setting_table import SETTINGS
from kvlab.settings import Setting

SPREADS: Final = ("mean", "p50", "p90", "p95", "p99", "max")

_WORDS: Final = {
    "first token": ("ttft",),
    "between tokens": ("gap",),
    "per token": ("tpot",),
    "whole answer": ("e2e",),
    "in the queue": ("queue_time",),
    "latency": ("ttft", "gap", "tpot", "e2e"),
    "throughput": ("throughput_in_window_tokens_per_s", "throughput_tokens_per_s"),
    "goodput": ("goodput_per_s", "good_ratio"),
    "preemptions": ("preemptions", "preemptions_per_1000"),
    "recomputed": ("recomputes", "recomputed_tokens"),
    "swapped out": ("swap_outs", "swapped_tokens"),
    "paused": ("paused_ratio",),
    "paused > 1 s": ("paused_ratio",),
    "kv cache": ("kv_capacity_tokens", "kv_capacity_bytes", "mean_kv_usage_ratio", "peak_kv_usage_ratio"),
    "prefix cache": ("prefix_hit_ratio", "cached_tokens"),
    "waste": ("waste_ratio", "mean_waste_tokens", "external_fragmentation_ratio"),
    "running": ("mean_running", "peak_running"),
    "waiting": ("mean_waiting", "peak_waiting"),
    "requests": ("arrived", "finished", "rejected", "unfinished", "requests_per_s"),
}
"""Words of the tables and charts that no label of the catalog has."""

_ENGINE_NAME: Final = re.compile(r"--[\w-]+|\w+:\w+|[A-Za-z]\w*_\w+|^(?!sum )[\w-]+(?= of )")
"""In what the catalogs say about an engine: flags, metrics, and the bare words that begin "NAME of ..."."""
_NO_NAME: Final = "bench_serving"  # says where the flag before it belongs


@dataclass(frozen=True, slots=True)
class Meaning:
    """One thing that can be explained."""

    names: tuple[str, ...]
    """kvlab's name; six for a latency, whose mean, percentiles and maximum are explained at once."""
    entry: Metric | Setting

    @property
    def called(self) -> str:
        """The name in a sentence."""
        return self.names[0] if len(self.names) == 1 else _stem(self.names[0])


@dataclass(frozen=True, slots=True)
class Found:
    """What a word means."""

    meanings: tuple[Meaning, ...]
    engines: tuple[str, ...] = ()
    """Whose word it is; none when it's kvlab's own."""


def look_up(given: str) -> Found | None:
    """What a word means: as a name of kvlab, else as a label or a word of its tables, else as an engine's name."""
    word = plain(given)
    for index in (_own_names(), _labels()):
        if word in index:
            return Found(index[word])
    found = _engine_names().get(word)
    return None if found is None else Found(*found)


def known_words() -> list[str]:
    """Every word that `look_up` knows, kvlab's own names first."""
    return [*_own_names(), *_labels(), *_engine_names()]


def plain(text: str) -> str:
    """Names alike but for case, hyphens and spaces are the same.

    >>> plain("--max-num-seqs"), plain("KV usage, mean"), plain("vllm:num_preemptions_total"), plain("Paused > 1 s")
    ('max_num_seqs', 'kv_usage_mean', 'vllm_num_preemptions_total', 'paused_1_s')
    """
    return "_".join(re.findall(r"[^\W_]+", text.lower()))


@cache
def _own_names() -> dict[str, tuple[Meaning, ...]]:
    metrics = {name: (Meaning((name,), metric),) for name, metric in METRICS.items()}
    settings = {name: (Meaning((name,), setting),) for name, setting in SETTINGS.items()}
    families = {_stem(meaning.names[0]): (meaning,) for meaning in _meanings() if len(meaning.names) > 1}
    flags = {plain(flag): settings[setting.name] for setting in SETTINGS.values() for flag in setting.aliases}
    exact = {**flags, **families, **settings, **metrics}
    return {plain(name): meanings for name, meanings in exact.items()}


@cache
def _labels() -> dict[str, tuple[Meaning, ...]]:
    found: dict[str, tuple[Meaning, ...]] = {}
    by_name = {name: meaning for meaning in _meanings() for name in (*meaning.names, meaning.called)}
    for words, names in _WORDS.items():
        found[plain(words)] = tuple(by_name[name] for name in names)
        if len(names) == 1 and len(by_name[names[0]].names) > 1:  # "First token (TTFT)", as the table has it
            found[plain(f"{words} {_family_label(by_name[names[0]])}")] = found[plain(words)]
    for metric in METRICS.values():
        found.setdefault(plain(metric.label), (Meaning((metric.name,), metric),))
    for meaning in _meanings():  # "ITL" of "ITL p99", and "KV usage" of "KV usage, mean" and "KV usage, peak"
        if isinstance(meaning.entry, Metric):
            label = plain(_family_label(meaning))
            known = found.get(label, ())
            found[label] = known if meaning in known else (*known, meaning)
    return found


def _family_label(meaning: Meaning) -> str:
    """The label without the statistic at its end."""
    assert isinstance(meaning.entry, Metric)
    label = meaning.entry.label
    return label.rsplit(" ", 1)[0] if len(meaning.names) > 1 else label.split(", ")[0]


@cache
def _engine_names() -> dict[str, tuple[tuple[Meaning, ...], tuple[str, ...]]]:
    """Word -> (what kvlab has for it, the engines that say so)."""
    found: dict[str, tuple[list[Meaning], list[str]]] = {}
    for meaning in _meanings():
        for engine, text in meaning.entry.engines.items():
            for word in _words_of(text):
                meanings, engines = found.setdefault(word, ([], []))
                meanings += [meaning] * (meaning not in meanings)
                engines += [engine] * (engine not in engines)
    return {word: (tuple(meanings), tuple(engines)) for word, (meanings, engines) in found.items()}


def _words_of(text: str) -> Iterator[str]:
    for name in _ENGINE_NAME.findall(text):
        if name == _NO_NAME:
            continue
        yield plain(name)
        if ":" in name:
            yield plain(name.split(":")[1])


@cache
def _meanings() -> tuple[Meaning, ...]:
    families: dict[str, list[str]] = {}
    for metric in METRICS.values():
        families.setdefault(_stem(metric.name) if metric.group == "latency" else metric.name, []).append(metric.name)
    metrics = (Meaning(tuple(names), METRICS[names[0]]) for names in families.values())
    return (*metrics, *(Meaning((name,), setting) for name, setting in SETTINGS.items()))


def _stem(name: str) -> str:
    """
    >>> _stem("mean_ttft_ns"), _stem("p99_queue_time_ns")
    ('ttft', 'queue_time')
    """
    return name.partition("_")[2].removesuffix("_ns")
