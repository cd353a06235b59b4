"""Every metric: what it's called, its unit, which way is better, its formula, its source, and the engines' own names.

One dict is the whole registry; its keys are the fields of `Metrics` and the words in JSON, the CLI and the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal

from kvlab.errors import UnknownNameError
from kvlab.metrics.engine_names import ENGINE_NAMES
from kvlab.units import format_bytes, format_duration, format_number

Better = Literal["lower", "higher"]

MISSING: Final = "–"
"""Shown where there is nothing to measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One entry of the catalog."""

    name: str
    label: str
    """For tables and tiles; no unit."""
    unit: str
    """ns, bytes, ratio, or the plural of what is counted."""
    better: Better | None
    """None: neither way is better by itself."""
    group: str
    formula: str
    source: str
    engines: Mapping[str, str] = field(default_factory=dict)
    """Engine -> the name there. An engine that is absent has no such figure."""

    def format(self, value: int | Fraction | float | None) -> str:
        """The value with its unit, as a person reads it.

        >>> METRICS["p99_gap_ns"].format(26_900_000), METRICS["mean_kv_usage_ratio"].format(Fraction(7, 8))
        ('26.9 ms', '87.5 %')
        >>> METRICS["preemptions"].format(1234), METRICS["requests_per_s"].format(None)
        ('1,234', '–')
        """
        if value is None:
            return MISSING
        exact = Fraction(value)
        if self.unit == "ns":
            return format_duration(exact)
        if self.unit == "bytes":
            return format_bytes(int(exact))
        if self.unit == "ratio":
            return f"{format_number(exact * 100)} %"
        number = format_number(exact)
        return f"{number} {self.unit}" if "/" in self.unit or self.unit in ("tokens", "blocks") else number

    def format_change(self, delta: Fraction | int | float | None) -> str:
        """A difference of two values with its sign; ratios differ by percentage points.

        >>> METRICS["p99_gap_ns"].format_change(-1_500_000), METRICS["paused_ratio"].format_change(Fraction(1, 50))
        ('−1.5 ms', '+2 pp')
        >>> METRICS["preemptions"].format_change(0), METRICS["preemptions"].format_change(None)
        ('no change', '–')
        """
        if delta is None:
            return MISSING
        if not delta:
            return "no change"
        size = self.format(abs(Fraction(delta)))
        return ("+" if delta > 0 else "−") + (size.removesuffix("%") + "pp" if self.unit == "ratio" else size)


def metric(name: str) -> Metric:
    """The entry of that name.

    Raises:
        UnknownNameError: no such metric; names the nearest.
    """
    found = METRICS.get(name.replace("-", "_"))
    if found is None:
        raise UnknownNameError("metric", name, METRICS)
    return found


_MODEL: Final = 'MODEL.md, "Metrics"'
_TRAFFIC: Final = 'MODEL.md, "Traffic"'
_MEMORY: Final = 'MODEL.md, "Block-table lab", memory at a step'
_LAB1: Final = 'MODEL.md, "Preemption lab"'
_LAB2: Final = 'MODEL.md, "Block-table lab"'
_VLLM: Final = "docs/vllm-v1.md"
_OWN: Final = "kvlab"

_WHICH: Final = {
    "mean": "the mean, rounded down to a whole ns",
    "p50": "the ceil(50 n / 100)-th smallest of the n values (nearest rank)",
    "p90": "the ceil(90 n / 100)-th smallest of the n values (nearest rank)",
    "p95": "the ceil(95 n / 100)-th smallest of the n values (nearest rank)",
    "p99": "the ceil(99 n / 100)-th smallest of the n values (nearest rank)",
    "max": "the largest",
}
_LATENCIES: Final = (
    (
        "ttft",
        "TTFT",
        _MODEL,
        "time to first token: first token of any sample - arrival, one value per finished request",
    ),
    (
        "gap",
        "ITL",
        _MODEL,
        "inter-token latency (gap): time between two consecutive tokens of one sample, pauses by preemption included; "
        "the gaps of all samples are pooled",
    ),
    (
        "tpot",
        "TPOT",
        _MODEL,
        "time per output token: mean gap of one request, one value per finished request with gaps",
    ),
    ("e2e", "E2E", _OWN, "end-to-end time: last token of the last sample - arrival, one value per finished request"),
    (
        "queue_time",
        "Queue time",
        _OWN,
        "start of the step that first admitted the request - arrival, one value per finished request; "
        "waiting after a preemption is not in it",
    ),
)

_Row = tuple[str, str, str, Better | None, str, str]
_GROUPS: Final[dict[str, tuple[_Row, ...]]] = {  # name, label, unit, better, source, formula
    "throughput": (
        ("throughput_in_window_tokens_per_s", "Throughput in the window", "tokens/s", "higher", _TRAFFIC,
         "output tokens emitted at or before the end of the arrival window / length of the window; – without a "
         "window"),
        ("throughput_tokens_per_s", "Throughput to the last token", "tokens/s", "higher", _TRAFFIC,
         "all output tokens / end of the last step"),
        ("requests_per_s", "Requests", "requests/s", "higher", _OWN, "finished requests / end of the last step"),
        ("goodput_per_s", "Goodput", "requests/s", "higher", _MODEL,
         "finished requests that met every limit of the SLO / end of the last step; without an SLO all are "
         "good"),
        ("good_ratio", "Requests within the SLO", "ratio", "higher", _OWN,
         "finished requests that met every limit of the SLO / (finished + rejected)"),
    ),
    "preemption": (
        ("preemptions", "Preemptions", "preemptions", "lower", _MODEL,
         "times a running request lost its GPU blocks, by swap or recompute"),
        ("preemptions_per_1000", "Preemptions per 1,000 requests", "preemptions", "lower", _MODEL,
         "1,000 x preemptions / finished requests"),
        ("recomputes", "Preemptions by recompute", "preemptions", "lower", _LAB1, "preemptions - swap-outs"),
        ("swap_outs", "Preemptions by swap", "preemptions", "lower", _LAB1,
         "times a victim's blocks were copied to the CPU"),
        ("swap_ins", "Swap-ins", "swap-ins", "lower", _LAB1, "times they were copied back"),
        ("paused_ratio", "Requests paused over 1 s", "ratio", "lower", _MODEL,
         "finished requests with a gap over 1,000,000,000 ns / finished requests"),
        ("recomputed_tokens", "Recomputed tokens", "tokens", "lower", _LAB1,
         "computed tokens that preemptions by recompute discarded"),
        ("swapped_tokens", "Swapped tokens", "tokens", "lower", _LAB1,
         "tokens copied to the CPU, and counted again when copied back"),
        ("swap_ns", "Time spent swapping", "ns", "lower", _LAB1,
         "time by which steps lasted longer because of copies, both ways"),
    ),
    "KV cache": (
        ("kv_capacity_tokens", "KV capacity", "tokens", "higher", _LAB1,
         "tokens of the GPU's KV memory that can be used: whole blocks (paged), all tokens (contiguous)"),
        ("kv_capacity_bytes", "KV capacity", "bytes", "higher", _LAB1, "KV capacity in tokens x KV bytes per token"),
        ("mean_kv_usage_ratio", "KV usage, mean", "ratio", None, _MODEL,
         "sum over steps of reserved tokens x duration / (KV capacity x end of the last step)"),
        ("peak_kv_usage_ratio", "KV usage, peak", "ratio", None, _OWN,
         "most reserved tokens in any step / KV capacity"),
        ("mean_waste_tokens", "Internal waste, mean", "tokens", "lower", _MEMORY,
         "sum over steps of (reserved - used tokens) x duration / end of the last step"),
        ("waste_ratio", "Internal waste", "ratio", "lower", _MEMORY,
         "sum over steps of (reserved - used tokens) x duration / sum of reserved tokens x duration"),
        ("mean_largest_hole_tokens", "Largest hole, mean", "tokens", "higher", _MEMORY,
         "biggest free range that one sequence could get (all free blocks when paged), averaged over time"),
        ("external_fragmentation_ratio", "External fragmentation", "ratio", "lower", _OWN,
         "1 - sum over steps of largest hole x duration / sum of free tokens x duration; 0 when paged"),
        ("mean_saved_blocks", "Saved by sharing, mean", "blocks", "higher", _LAB2,
         "block-table entries - taken blocks, averaged over time"),
        ("cow_copies", "Copies on write", "copies", None, _LAB2,
         "blocks copied because a sample wrote into one that others share"),
        ("prefix_hit_ratio", "Prefix cache hits", "ratio", "higher", _VLLM,
         "tokens that admissions found in the prefix cache / tokens that they looked for; – without a prefix cache"),
        ("cached_tokens", "Tokens from the prefix cache", "tokens", "higher", _VLLM,
         "tokens that admissions found in the prefix cache, after a preemption again"),
    ),
    "load": (
        ("mean_running", "Running sequences, mean", "sequences", None, _OWN,
         "running sequences after admission, averaged over time; one per sample"),
        ("peak_running", "Running sequences, peak", "sequences", None, _OWN, "most running sequences in any step"),
        ("mean_waiting", "Queue length, mean", "requests", "lower", _OWN,
         "requests waiting after admission, averaged over time"),
        ("peak_waiting", "Queue length, peak", "requests", "lower", _OWN, "most waiting requests in any step"),
    ),
    "requests": (
        ("arrived", "Arrived", "requests", None, _MODEL,
         "requests that came; arrived = finished + rejected (+ unfinished, where a run was stopped or could not go "
         "on)"),
        ("finished", "Finished", "requests", "higher", _MODEL,
         "requests whose last sample emitted its last token; latencies and percentiles are over these"),
        ("rejected", "Rejected", "requests", "lower", _LAB1,
         "requests that could never run, turned away when they arrived"),
        ("unfinished", "Unfinished", "requests", "lower", _OWN,
         "waiting, running or swapped when the run was stopped or could not go on; 0 in a complete run"),
    ),
    "work": (
        ("output_tokens", "Output tokens", "tokens", None, _MODEL, "tokens emitted, all samples"),
        ("prefill_tokens", "Prefill tokens", "tokens", None, _MODEL,
         "tokens computed by prefill, again after a recompute"),
        ("steps", "Steps", "steps", None, _MODEL, "decisions + forward passes"),
        ("mean_step_ns", "Step, mean", "ns", None, _OWN, "sum of step durations / steps"),
        ("busy_ratio", "Busy", "ratio", None, _OWN, "sum of step durations / end of the last step"),
        ("end_ns", "End of the run", "ns", "lower", _MODEL, "end of the last step"),
    ),
}  # fmt: skip


def _entries() -> Iterator[Metric]:
    for stem, label, source, what in _LATENCIES:
        for which, how in _WHICH.items():
            yield Metric(
                name=f"{which}_{stem}_ns",
                label=f"{label} {which}",
                unit="ns",
                better="lower",
                group="latency",
                formula=f"{what}; {how}",
                source=source,
                engines=ENGINE_NAMES.get(stem, {}),
            )
    for group, rows in _GROUPS.items():
        for name, label, unit, better, source, formula in rows:
            yield Metric(
                name=name,
                label=label,
                unit=unit,
                better=better,
                group=group,
                formula=formula,
                source=source,
                engines=ENGINE_NAMES.get(name, {}),
            )


METRICS: Final[dict[str, Metric]] = {entry.name: entry for entry in _entries()}
"""Every metric by name, in the order in which tables show them."""

HEADLINES: Final = (
    "throughput_in_window_tokens_per_s",
    "throughput_tokens_per_s",
    "p50_ttft_ns",
    "p95_ttft_ns",
    "p99_ttft_ns",
    "p50_gap_ns",
    "p99_gap_ns",
    "max_gap_ns",
    "preemptions_per_1000",
    "paused_ratio",
    "recomputed_tokens",
    "mean_kv_usage_ratio",
    "peak_kv_usage_ratio",
    "peak_waiting",
)
"""The figures a reader looks at first: the tiles of the labs."""
