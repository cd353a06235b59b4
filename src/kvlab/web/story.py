"""A finished run in a sentence or two, for a person who has touched nothing yet."""

from __future__ import annotations

from kvlab.core.config import BlockTableLabConfig
from kvlab.metrics import METRICS
from kvlab.results import Run
from kvlab.units import format_duration


def story(run: Run) -> str:
    """What happened to the memory, and what users felt of it."""
    if not run.metrics.finished:
        return _nobody_served(run)
    contiguous = isinstance(run.config, BlockTableLabConfig) and run.config.allocator == "contiguous"
    return f"{_memory(run)} {_reserved(run) if contiguous else _preempted(run)} {_felt(run)}{_stalled(run)}"


def _nobody_served(run: Run) -> str:
    rejected = run.metrics.rejected
    if run.metrics.unfinished:
        return f"Nobody was served:{_stalled(run)}"
    if not rejected:
        return "Nobody came: no request arrived in this window."
    return f"Nobody was served: all {rejected:,} requests were turned away, as none can ever fit into this memory."


def _memory(run: Run) -> str:
    if run.full_ns is None:
        return f"The KV cache never fills: {_shown(run, 'peak_kv_usage_ratio')} at most."
    return f"The KV cache is full after {format_duration(run.full_ns)}."


def _preempted(run: Run) -> str:
    metrics = run.metrics
    if not metrics.preemptions:
        return "No request is preempted."
    times = "once" if metrics.preemptions == 1 else f"{metrics.preemptions:,} times"
    if not metrics.swap_outs:
        lost = f"and computes {_shown(run, 'recomputed_tokens')} again"
    elif not metrics.recomputes:
        lost = f"and is copied to the CPU and back, which takes {_shown(run, 'swap_ns')} in all"
    else:
        lost = f"{metrics.swap_outs:,} by a copy to the CPU, {metrics.recomputes:,} by computing everything again"
    return f"From then on a running request loses its place {times}, {lost}."


def _reserved(run: Run) -> str:
    waste = _shown(run, "waste_ratio")
    return f"Every answer reserves room for the longest one allowed: {waste} of what is reserved holds nothing."


def _felt(run: Run) -> str:
    metrics = run.metrics
    if metrics.max_gap_ns is None:
        return f"One request in twenty waits {_shown(run, 'p95_ttft_ns')} or longer for its first token."
    return (
        f"Between two tokens users wait {_shown(run, 'p50_gap_ns')} in the middle and {_shown(run, 'max_gap_ns')} at "
        f"worst; one in twenty waits {_shown(run, 'p95_ttft_ns')} or longer for the first."
    )


def _stalled(run: Run) -> str:
    """Requests that never end, although the server was not stopped: a real one would hang in the same way."""
    unfinished = run.metrics.unfinished
    if not unfinished:
        return ""
    who = "one request never finishes" if unfinished == 1 else f"{unfinished:,} requests never finish"
    return f" At the end nothing moves any more: {who}, as what they need at once is more than there is."


def _shown(run: Run, name: str) -> str:
    return METRICS[name].format(getattr(run.metrics, name))
