"""The result of a run as a page of text: what was run, the story in a sentence, the chart, the figures."""

from __future__ import annotations

import textwrap
from typing import Final

from kvlab.cli.chart import chart
from kvlab.cli.terminal import Terminal, columns, flow
from kvlab.metrics import METRICS, Metrics
from kvlab.results import Run
from kvlab.scenarios import Scenario, preset
from kvlab.setting_table import SETTINGS
from kvlab.units import format_bytes, format_duration, format_number

_LATENCIES: Final = (
    ("ttft", "First token (TTFT)"),
    ("gap", "Between tokens (ITL)"),
    ("tpot", "Per token (TPOT)"),
    ("e2e", "Whole answer (E2E)"),
    ("queue_time", "In the queue"),
)
_SPREAD: Final = ("mean", "p50", "p90", "p95", "p99", "max")
_LABEL_WIDTH: Final = 14


def report(run: Run, scenario: Scenario, terminal: Terminal, *, with_chart: bool) -> str:
    """The whole page, ready to be written."""
    lines = [*_title(run, scenario, terminal), ""]
    if run.interrupted:
        lines[:0] = [_partial(run, terminal), ""]
    if with_chart and run.record.steps:
        lines += [*_story(run, terminal), "", *chart(run, terminal), ""]
    lines += [*_latencies(run.metrics, terminal), ""]
    lines += _facts(run, scenario, terminal)
    return terminal.render(lines)


def _partial(run: Run, terminal: Terminal) -> str:
    totals = run.record.totals
    text = (
        f"PARTIAL RESULT: interrupted after {format_duration(totals.end_ns)} of simulated time, "
        f"{totals.unfinished:,} requests unfinished"
    )
    return terminal.style(text, "bold", "yellow")


def _title(run: Run, scenario: Scenario, terminal: Terminal) -> list[str]:
    base = preset(scenario.rules)
    changes = [
        f"{name} {SETTINGS[name].show(value)} {terminal.style('(' + _was(base, name) + ')', 'dim')}"
        for name, value in scenario.changes().items()
    ]
    traffic = scenario.traffic
    where = f"trace {traffic.trace}" if traffic.trace is not None else f"seed {traffic.seed}"
    parts = [terminal.style(scenario.name, "bold"), *changes, where]
    return flow(parts, terminal.width, 2)


def _was(base: Scenario, name: str) -> str:
    return SETTINGS[name].show(base.settings()[name]) or "none"


def _story(run: Run, terminal: Terminal) -> list[str]:
    metrics = run.metrics
    full_ns = next(
        (s.t_ns - s.dur_ns for s in run.record.steps if s.reserved_tokens == run.record.capacity_tokens), None
    )
    if full_ns is None:
        peak = METRICS["peak_kv_usage_ratio"].format(metrics.peak_kv_usage_ratio)
        first = f"The KV cache never fills: {peak} at most."
    else:
        first = f"The KV cache is full after {format_duration(full_ns)}."
    second = "Nothing is preempted."
    if metrics.preemptions:
        rate = METRICS["preemptions_per_1000"].format(metrics.preemptions_per_1000)
        times = "once" if metrics.preemptions == 1 else f"{metrics.preemptions:,} times"
        second = f"Requests are preempted {times}, {rate} per 1,000;"
        second += f" the longest silence between two tokens is {format_duration(metrics.max_gap_ns)}."
    first_line, *rest = textwrap.wrap(f"{first} {second}", terminal.width)
    assert first_line.startswith(first), "the first sentence is short"
    return [terminal.style(first, "bold") + first_line[len(first) :], *rest]


def _latencies(metrics: Metrics, terminal: Terminal) -> list[str]:
    values = metrics.values()
    rows = [["", *(terminal.style(word, "dim") for word in _SPREAD)]]
    for key, label in _LATENCIES:
        rows.append(
            [label, *(METRICS[f"{spread}_{key}_ns"].format(values[f"{spread}_{key}_ns"]) for spread in _SPREAD)]
        )
    return columns(rows, "<>>>>>>", gap=2)


def _facts(run: Run, scenario: Scenario, terminal: Terminal) -> list[str]:
    metrics = run.metrics
    lines = []
    for label, parts in _fact_parts(metrics, scenario):
        texts = [text for text in parts if text]
        head = f"{label:<{_LABEL_WIDTH}}"
        wrapped = flow(texts, terminal.width - _LABEL_WIDTH, 0)
        lines += [(head if i == 0 else " " * _LABEL_WIDTH) + line for i, line in enumerate(wrapped)]
    return lines


def _fact_parts(metrics: Metrics, scenario: Scenario) -> list[tuple[str, list[str]]]:
    shown = {name: METRICS[name].format(value) for name, value in metrics.values().items()}
    window = scenario.window_ns
    facts = [
        (
            "Throughput",
            [
                f"{shown['throughput_in_window_tokens_per_s']} in the first {format_duration(window)}"
                if window
                else "",
                f"{shown['throughput_tokens_per_s']} to the last token, at {format_duration(metrics.end_ns)}",
            ],
        ),
        (
            "Preemptions",
            [
                f"{shown['preemptions']}, {shown['preemptions_per_1000']} per 1,000 requests",
                f"{shown['recomputes']} recomputed" if metrics.preemptions else "",
                f"{shown['swap_outs']} swapped out" if metrics.swap_outs else "",
            ],
        ),
        ("Paused > 1 s", [f"{shown['paused_ratio']} of requests"]),
        ("Work lost", _lost(metrics, shown)),
        (
            "KV cache",
            [
                f"{shown['kv_capacity_tokens']}, {shown['kv_capacity_bytes']}",
                f"{shown['mean_kv_usage_ratio']} used on average",
                f"{shown['peak_kv_usage_ratio']} at most",
            ],
        ),
        ("Waste", _waste(metrics, shown)),
        ("Running", [f"{shown['mean_running']} sequences on average", f"{shown['peak_running']} at most"]),
        ("Waiting", [f"{shown['mean_waiting']} requests on average", f"{shown['peak_waiting']} at most"]),
    ]
    if scenario.settings()["slo"]:
        facts.append(
            ("Goodput", [f"{shown['goodput_per_s']}, {shown['good_ratio']} within {scenario.settings()['slo']}"])
        )
    return [*facts, ("Requests", [accounts(metrics)])]


def _lost(metrics: Metrics, shown: dict[str, str]) -> list[str]:
    lost = [f"{shown['recomputed_tokens']} computed again"]
    if metrics.swapped_tokens:
        lost.append(f"{shown['swapped_tokens']} copied out and back in {shown['swap_ns']}")
    return lost


def _waste(metrics: Metrics, shown: dict[str, str]) -> list[str]:
    waste = [f"{shown['waste_ratio']} of what is reserved"]
    if metrics.external_fragmentation_ratio:
        waste.append(f"{shown['external_fragmentation_ratio']} of what is free is fragmented")
    if metrics.mean_saved_blocks:
        waste.append(f"sharing saves {shown['mean_saved_blocks']}, with {shown['cow_copies']} copies on write")
    return waste


def accounts(metrics: Metrics) -> str:
    """Every request that came, and what became of it."""
    text = f"{metrics.arrived:,} arrived = {metrics.finished:,} finished + {metrics.rejected:,} rejected"
    return f"{text} + {metrics.unfinished:,} unfinished" if metrics.unfinished else text


def capacity(run: Run) -> str:
    """The KV cache in words, for messages."""
    size = (
        ""
        if run.kv_bytes_per_token is None
        else f" ({format_bytes(run.record.capacity_tokens * run.kv_bytes_per_token)})"
    )
    return f"{format_number(run.record.capacity_tokens)} tokens{size}"
