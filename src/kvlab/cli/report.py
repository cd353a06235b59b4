"""The result of a run as a page of text: what was run, the story in a sentence, the chart, the figures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from kvlab.cli.chart import chart
from kvlab.cli.terminal import Terminal, columns, flow, visible_length
from kvlab.metrics import METRICS, Metrics
from kvlab.results import Run
from kvlab.scenarios import Scenario, preset
from kvlab.servers import VllmServer
from kvlab.setting_table import SETTINGS
from kvlab.slo_text import format_slo
from kvlab.timing import timing_notes
from kvlab.units import format_bytes, format_duration, format_number

_LATENCIES: Final = (
    ("ttft", "First token (TTFT)"),
    ("gap", "Between tokens (ITL)"),
    ("tpot", "Per token (TPOT)"),
    ("e2e", "Whole answer (E2E)"),
    ("queue_time", "In the queue"),
)
_SPREADS: Final = ("mean", "p50", "p90", "p95", "p99", "max")
_LABEL_WIDTH: Final = 14


def report(run: Run, scenario: Scenario, terminal: Terminal, *, with_chart: bool) -> str:
    """The whole page, ready to be written."""
    lines = [*_title(scenario, terminal), ""]
    if run.interrupted:
        lines[:0] = [_partial(run, terminal), ""]
    elif run.record.totals.unfinished:
        lines[:0] = [*(terminal.style(line, "bold", "yellow") for line in _stalled(run, terminal)), ""]
    if with_chart and run.record.steps:
        lines += [*_story(run, terminal), "", *chart(run, terminal), ""]
    if run.record.totals.steps:
        lines += [*_latencies(run.metrics, terminal), ""]
        lines += _facts(run, scenario, terminal)
    else:
        lines += [*textwrap.wrap(_nothing_ran(run, scenario), terminal.width), "", accounts(run.metrics.values())]
    return terminal.render(lines)


def _nothing_ran(run: Run, scenario: Scenario) -> str:
    if run.record.totals.arrived:
        return f"No request ran: none can ever fit in the KV cache of {capacity(run)}."
    window_ns = scenario.window_ns
    return "No request came" + ("." if window_ns is None else f" in {format_duration(window_ns)}.")


def _stalled(run: Run, terminal: Terminal) -> list[str]:
    """A real server would hang there, too."""
    totals = run.record.totals
    text = (
        f"STALLED at {format_duration(totals.end_ns)}: {totals.unfinished:,} requests never finish, as nothing can "
        "move any more: the head of the queue needs more blocks than the pool has, or requests preempt each other "
        "without end"
    )
    return textwrap.wrap(text, terminal.width)


def _partial(run: Run, terminal: Terminal) -> str:
    totals = run.record.totals
    text = (
        f"PARTIAL RESULT: interrupted after {format_duration(totals.end_ns)} of simulated time, "
        f"{totals.unfinished:,} requests unfinished"
    )
    return terminal.style(text, "bold", "yellow")


def _title(scenario: Scenario, terminal: Terminal) -> list[str]:
    changes = [change for change in changes_in_words(scenario, terminal) if not change.startswith("trace ")]
    traffic = scenario.traffic
    where = f"trace {traffic.trace}" if traffic.trace is not None else f"seed {traffic.seed}"
    return flow([terminal.style(scenario.name, "bold"), *changes, where], terminal.width, 2)


def changes_in_words(scenario: Scenario, terminal: Terminal) -> list[str]:
    """What differs from the lab's preset, each with what the preset has."""
    base = preset(scenario.rules).settings()
    changes = []
    for name, value in scenario.changes().items():
        was = SETTINGS[name].show(base[name])
        note = terminal.style(f" (preset: {was})", "dim") if was not in ("", "none") else ""
        changes.append(f"{name} {SETTINGS[name].show(value)}{note}")
    return changes


def _story(run: Run, terminal: Terminal) -> list[str]:
    metrics = run.metrics
    if run.full_ns is None:
        peak = METRICS["peak_kv_usage_ratio"].format(metrics.peak_kv_usage_ratio)
        first = f"The KV cache never fills: {peak} at most."
    else:
        first = f"The KV cache is full after {format_duration(run.full_ns)}."
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
    """The table; a narrow terminal gets fewer columns."""
    values = metrics.values()
    for spreads in (_SPREADS, [s for s in _SPREADS if s != "p90"], ["p50", "p95", "p99", "max"]):
        rows = [["", *(terminal.style(word, "dim") for word in spreads)]]
        for key, label in _LATENCIES:
            names = [f"{spread}_{key}_ns" for spread in spreads]
            rows.append([label, *(METRICS[name].format(values[name]) for name in names)])
        lines = columns(rows, "<" + ">" * len(spreads))
        if visible_length(lines[0]) <= terminal.width:
            break
    return lines


def _facts(run: Run, scenario: Scenario, terminal: Terminal) -> list[str]:
    metrics = run.metrics
    lines = []
    for label, parts in [*_fact_parts(metrics, scenario), ("Step times", timing_notes(run, scenario))]:
        if not parts:
            continue
        head = f"{label:<{_LABEL_WIDTH}}"
        wrapped = flow(parts, terminal.width - _LABEL_WIDTH, 0)
        lines += [(head if i == 0 else " " * _LABEL_WIDTH) + line for i, line in enumerate(wrapped)]
    return lines


def _fact_parts(metrics: Metrics, scenario: Scenario) -> list[tuple[str, list[str]]]:
    shown = {name: METRICS[name].format(value) for name, value in metrics.values().items()}
    slo = format_slo(scenario.slo)
    facts = [
        ("Throughput", _throughput(metrics, shown, scenario.window_ns)),
        ("Preemptions", _preemptions(metrics, shown)),
        ("Paused > 1 s", [f"{shown['paused_ratio']} of requests"]),
        (
            "KV cache",
            [
                f"{shown['kv_capacity_tokens']}, {shown['kv_capacity_bytes']}",
                f"{shown['mean_kv_usage_ratio']} taken on average",
                f"{shown['peak_kv_usage_ratio']} at most",
            ],
        ),
        ("Prefix cache", _prefix_cache(metrics, shown)),
        ("Waste", _waste(metrics, shown)),
        ("Running", [f"{shown['mean_running']} sequences on average", f"{shown['peak_running']} at most"]),
        ("Waiting", [f"{shown['mean_waiting']} requests on average", f"{shown['peak_waiting']} at most"]),
        ("Goodput", [f"{shown['goodput_per_s']}, {shown['good_ratio']} within {slo}"] if slo else []),
        ("Requests", [accounts(metrics.values()), *_turned_away(metrics, scenario)]),
    ]
    return [(label, parts) for label, parts in facts if parts]


def _turned_away(metrics: Metrics, scenario: Scenario) -> list[str]:
    """Why a server of vLLM rejects: at its front door, and by one setting."""
    if not metrics.rejected or not isinstance(scenario.server, VllmServer):
        return []
    config = scenario.engine_config()
    limit = getattr(config, "max_model_len", None)
    return [f"rejected: prompts of {limit:,} tokens or more (max_model_len), or none"] if limit else []


def _throughput(metrics: Metrics, shown: dict[str, str], window_ns: int | None) -> list[str]:
    to_the_end = f"{shown['throughput_tokens_per_s']} to the last token, at {format_duration(metrics.end_ns)}"
    if window_ns is None:
        return [to_the_end]
    return [f"{shown['throughput_in_window_tokens_per_s']} in the first {format_duration(window_ns)}", to_the_end]


def _preemptions(metrics: Metrics, shown: dict[str, str]) -> list[str]:
    if not metrics.preemptions:
        return ["none"]
    parts = [f"{shown['preemptions']}, {shown['preemptions_per_1000']} per 1,000 requests"]
    if metrics.recomputes:
        parts.append(f"{shown['recomputes']} recomputed: {shown['recomputed_tokens']} computed again")
    if metrics.swap_outs:
        parts.append(f"{shown['swap_outs']} swapped out: {shown['swapped_tokens']} copied in {shown['swap_ns']}")
    return parts


def _prefix_cache(metrics: Metrics, shown: dict[str, str]) -> list[str]:
    """Only where something was found in it: most traffic doesn't say what its tokens are."""
    if not metrics.cached_tokens:
        return []
    return [f"{shown['prefix_hit_ratio']} of the tokens looked for were there: {shown['cached_tokens']}"]


def _waste(metrics: Metrics, shown: dict[str, str]) -> list[str]:
    waste = [f"{shown['waste_ratio']} of what is reserved"]
    if metrics.external_fragmentation_ratio:
        waste.append(f"{shown['external_fragmentation_ratio']} of what is free is fragmented")
    if metrics.mean_saved_blocks:
        waste.append(f"sharing saves {shown['mean_saved_blocks']}, with {shown['cow_copies']} copies on write")
    return waste


def accounts(values: Mapping[str, int | float | Fraction | None]) -> str:
    """Every request that came, and what became of it."""
    arrived, finished, rejected, unfinished = (
        METRICS[name].format(values[name]) for name in ("arrived", "finished", "rejected", "unfinished")
    )
    text = f"{arrived} arrived = {finished} finished + {rejected} rejected"
    return f"{text} + {unfinished} unfinished" if values["unfinished"] else text


def capacity(run: Run) -> str:
    """The KV cache in words, for messages."""
    size_bytes = run.metrics.kv_capacity_bytes
    size = "" if size_bytes is None else f", {format_bytes(size_bytes)}"
    return f"{format_number(run.record.capacity_tokens)} tokens{size}"
