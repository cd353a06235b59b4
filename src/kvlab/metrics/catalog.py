"""Every metric: what it's called, its unit, which way is better, its formula, its source, and the engines' own names.

One dict is the whole registry; its keys are the fields of `Metrics` and the words in JSON, the CLI and the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal

from kvlab.errors import UnknownNameError
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
_OWN: Final = "kvlab"

_WHICH: Final = {
    "mean": ("mean", "the mean, rounded down to a whole ns"),
    "p50": ("p50", "the ceil(50 n / 100)-th smallest of the n values (nearest rank)"),
    "p90": ("p90", "the ceil(90 n / 100)-th smallest of the n values (nearest rank)"),
    "p95": ("p95", "the ceil(95 n / 100)-th smallest of the n values (nearest rank)"),
    "p99": ("p99", "the ceil(99 n / 100)-th smallest of the n values (nearest rank)"),
    "max": ("max", "the largest"),
}


def _latencies(stem: str, label: str, what: str, source: str, engines: dict[str, str]) -> list[Metric]:
    return [
        Metric(
            name=f"{which}_{stem}_ns",
            label=f"{label} {short}",
            unit="ns",
            better="lower",
            group="latency",
            formula=f"{what}; {how}",
            source=source,
            engines=engines,
        )
        for which, (short, how) in _WHICH.items()
    ]


def _group(group: str, *rows: tuple[str, str, str, Better | None, str, str, dict[str, str]]) -> list[Metric]:
    return [
        Metric(
            name=name, label=label, unit=unit, better=better, group=group, formula=how, source=source, engines=engines
        )
        for name, label, unit, better, how, source, engines in rows
    ]


_ENTRIES: Final = [
    *_latencies(
        "ttft",
        "TTFT",
        "time to first token: first token of any sample - arrival, one value per finished request",
        _MODEL,
        {
            "vLLM": "vllm:time_to_first_token_seconds",
            "SGLang": "sglang:time_to_first_token_seconds",
            "TensorRT-LLM": "trtllm_time_to_first_token_seconds",
        },
    ),
    *_latencies(
        "gap",
        "ITL",
        "inter-token latency (gap): time between two consecutive tokens of one sample, pauses by preemption included; "
        "the gaps of all samples are pooled",
        _MODEL,
        {"vLLM": "vllm:inter_token_latency_seconds", "SGLang": "sglang:inter_token_latency_seconds"},
    ),
    *_latencies(
        "tpot",
        "TPOT",
        "time per output token: mean gap of one request, rounded down, one value per finished request with gaps",
        'STYLE.md, "Size, names, habits"',
        {
            "vLLM": "vllm:request_time_per_output_token_seconds",
            "TGI": "tgi_request_mean_time_per_token_duration",
            "TensorRT-LLM": "trtllm_time_per_output_token_seconds",
        },
    ),
    *_latencies(
        "e2e",
        "E2E",
        "end-to-end time: last token of the last sample - arrival, one value per finished request",
        _OWN,
        {
            "vLLM": "vllm:e2e_request_latency_seconds",
            "SGLang": "sglang:e2e_request_latency_seconds",
            "TGI": "tgi_request_duration",
            "TensorRT-LLM": "trtllm_e2e_request_latency_seconds",
        },
    ),
    *_latencies(
        "queue_time",
        "Queue time",
        "start of the step that first admitted the request - arrival, one value per finished request; "
        "waiting after a preemption is not in it",
        _OWN,
        {
            "vLLM": "vllm:request_queue_time_seconds",
            "SGLang": "sglang:queue_time_seconds",
            "TGI": "tgi_request_queue_duration",
            "TensorRT-LLM": "trtllm_request_queue_time_seconds",
        },
    ),
    *_group(
        "throughput",
        (
            "throughput_in_window_tokens_per_s",
            "Throughput in the window",
            "tokens/s",
            "higher",
            "output tokens emitted at or before the end of the arrival window / length of the window; "
            "– without a window",
            _TRAFFIC,
            {"SGLang": "sglang:gen_throughput"},
        ),
        (
            "throughput_tokens_per_s",
            "Throughput to the last token",
            "tokens/s",
            "higher",
            "all output tokens / end of the last step",
            _TRAFFIC,
            {"vLLM": "output_throughput (vllm bench serve)", "SGLang": "sglang:gen_throughput"},
        ),
        (
            "requests_per_s",
            "Requests",
            "requests/s",
            "higher",
            "finished requests / end of the last step",
            _OWN,
            {"vLLM": "request_throughput (vllm bench serve)"},
        ),
        (
            "goodput_per_s",
            "Goodput",
            "requests/s",
            "higher",
            "finished requests that met every limit of the SLO / end of the last step; without an SLO all are good",
            'STYLE.md, "Size, names, habits"',
            {"vLLM": "request_goodput (vllm bench serve --goodput)"},
        ),
        (
            "good_ratio",
            "Requests within the SLO",
            "ratio",
            "higher",
            "finished requests that met every limit of the SLO / (finished + rejected)",
            _OWN,
            {},
        ),
    ),
    *_group(
        "preemption",
        (
            "preemptions",
            "Preemptions",
            "preemptions",
            "lower",
            "times a running request lost its GPU blocks, by swap or recompute",
            _MODEL,
            {"vLLM": "vllm:num_preemptions_total", "SGLang": "sglang:num_retracted_requests_total"},
        ),
        (
            "preemptions_per_1000",
            "Preemptions per 1,000 requests",
            "preemptions",
            "lower",
            "1,000 x preemptions / finished requests",
            _MODEL,
            {},
        ),
        (
            "recomputes",
            "Preemptions by recompute",
            "preemptions",
            "lower",
            "preemptions - swap-outs",
            _LAB1,
            {"vLLM": "vllm:num_preemptions_total", "SGLang": "sglang:num_retracted_requests_total"},
        ),
        (
            "swap_outs",
            "Preemptions by swap",
            "preemptions",
            "lower",
            "times a victim's blocks were copied to the CPU",
            _LAB1,
            {},
        ),
        ("swap_ins", "Swap-ins", "swap-ins", "lower", "times they were copied back", _LAB1, {}),
        (
            "paused_ratio",
            "Requests paused over 1 s",
            "ratio",
            "lower",
            "finished requests with a gap over 1,000,000,000 ns / finished requests",
            _MODEL,
            {},
        ),
        (
            "recomputed_tokens",
            "Recomputed tokens",
            "tokens",
            "lower",
            "computed tokens that preemptions by recompute discarded",
            _LAB1,
            {"SGLang": "sglang:num_retracted_input_tokens_total + sglang:num_retracted_output_tokens_total"},
        ),
        (
            "swapped_tokens",
            "Swapped tokens",
            "tokens",
            "lower",
            "tokens copied to the CPU, and counted again when copied back",
            _LAB1,
            {},
        ),
        (
            "swap_ns",
            "Time spent swapping",
            "ns",
            "lower",
            "time by which steps lasted longer because of copies, both ways",
            _LAB1,
            {},
        ),
    ),
    *_group(
        "KV cache",
        (
            "kv_capacity_tokens",
            "KV capacity",
            "tokens",
            "higher",
            "tokens of the GPU's KV memory that can be used: whole blocks (paged), all tokens (contiguous)",
            _LAB1,
            {
                "vLLM": "GPU KV cache size (start-up log); num_gpu_blocks x block_size (vllm:cache_config_info)",
                "SGLang": "sglang:max_total_num_tokens",
                "TensorRT-LLM": "trtllm_kv_cache_max_blocks x trtllm_kv_cache_tokens_per_block",
            },
        ),
        (
            "kv_capacity_bytes",
            "KV capacity",
            "bytes",
            "higher",
            "KV capacity in tokens x KV bytes per token",
            _LAB1,
            {},
        ),
        (
            "mean_kv_usage_ratio",
            "KV usage, mean",
            "ratio",
            None,
            "sum over steps of reserved tokens x duration / (KV capacity x end of the last step)",
            _MODEL,
            {
                "vLLM": "vllm:kv_cache_usage_perc (a ratio, 0 to 1), averaged over time",
                "SGLang": "sglang:token_usage, averaged over time",
                "TensorRT-LLM": "trtllm_kv_cache_utilization, averaged over time",
            },
        ),
        (
            "peak_kv_usage_ratio",
            "KV usage, peak",
            "ratio",
            None,
            "most reserved tokens in any step / KV capacity",
            _OWN,
            {
                "vLLM": "largest vllm:kv_cache_usage_perc",
                "SGLang": "largest sglang:token_usage",
                "TensorRT-LLM": "largest trtllm_kv_cache_utilization",
            },
        ),
        (
            "mean_waste_tokens",
            "Internal waste, mean",
            "tokens",
            "lower",
            "sum over steps of (reserved - used tokens) x duration / end of the last step",
            _MEMORY,
            {},
        ),
        (
            "waste_ratio",
            "Internal waste",
            "ratio",
            "lower",
            "sum over steps of (reserved - used tokens) x duration / sum of reserved tokens x duration",
            _MEMORY,
            {},
        ),
        (
            "mean_largest_hole_tokens",
            "Largest hole, mean",
            "tokens",
            "higher",
            "biggest free range that one sequence could get (all free blocks when paged), averaged over time",
            _MEMORY,
            {},
        ),
        (
            "external_fragmentation_ratio",
            "External fragmentation",
            "ratio",
            "lower",
            "1 - sum over steps of largest hole x duration / sum of free tokens x duration; 0 when paged",
            _OWN,
            {},
        ),
        (
            "mean_saved_blocks",
            "Saved by sharing, mean",
            "blocks",
            "higher",
            "block-table entries - taken blocks, averaged over time",
            _LAB2,
            {},
        ),
        (
            "cow_copies",
            "Copies on write",
            "copies",
            None,
            "blocks copied because a sample wrote into one that others share",
            _LAB2,
            {},
        ),
    ),
    *_group(
        "load",
        (
            "mean_running",
            "Running sequences, mean",
            "sequences",
            None,
            "running sequences after admission, averaged over time; one per sample",
            _OWN,
            {
                "vLLM": "vllm:num_requests_running",
                "SGLang": "sglang:num_running_reqs",
                "TGI": "tgi_batch_current_size",
                "TensorRT-LLM": "trtllm_num_requests_running",
            },
        ),
        (
            "peak_running",
            "Running sequences, peak",
            "sequences",
            None,
            "most running sequences in any step",
            _OWN,
            {
                "vLLM": "largest vllm:num_requests_running",
                "SGLang": "largest sglang:num_running_reqs",
                "TGI": "largest tgi_batch_current_size",
                "TensorRT-LLM": "largest trtllm_num_requests_running",
            },
        ),
        (
            "mean_waiting",
            "Queue length, mean",
            "requests",
            "lower",
            "requests waiting after admission, averaged over time",
            _OWN,
            {
                "vLLM": "vllm:num_requests_waiting",
                "SGLang": "sglang:num_queue_reqs",
                "TGI": "tgi_queue_size",
                "TensorRT-LLM": "trtllm_num_requests_waiting",
            },
        ),
        (
            "peak_waiting",
            "Queue length, peak",
            "requests",
            "lower",
            "most waiting requests in any step",
            _OWN,
            {
                "vLLM": "largest vllm:num_requests_waiting",
                "SGLang": "largest sglang:num_queue_reqs",
                "TGI": "largest tgi_queue_size",
                "TensorRT-LLM": "largest trtllm_num_requests_waiting",
            },
        ),
    ),
    *_group(
        "requests",
        (
            "arrived",
            "Arrived",
            "requests",
            None,
            "requests that came; arrived = finished + rejected (+ unfinished in a run that was stopped)",
            _MODEL,
            {"SGLang": "sglang:num_requests_total", "TGI": "tgi_request_count"},
        ),
        (
            "finished",
            "Finished",
            "requests",
            "higher",
            "requests whose last sample emitted its last token; latencies and percentiles are over these",
            _MODEL,
            {
                "vLLM": "vllm:request_success_total",
                "TGI": "tgi_request_success",
                "TensorRT-LLM": "trtllm_request_success_total",
            },
        ),
        (
            "rejected",
            "Rejected",
            "requests",
            "lower",
            "requests that could never run, turned away when they arrived",
            _LAB1,
            {},
        ),
        (
            "unfinished",
            "Unfinished",
            "requests",
            "lower",
            "waiting, running or swapped when the run was stopped; 0 in a complete run",
            _OWN,
            {},
        ),
    ),
    *_group(
        "work",
        (
            "output_tokens",
            "Output tokens",
            "tokens",
            None,
            "tokens emitted, all samples",
            _MODEL,
            {
                "vLLM": "vllm:generation_tokens_total",
                "SGLang": "sglang:generation_tokens_total",
                "TGI": "sum of tgi_request_generated_tokens",
                "TensorRT-LLM": "trtllm_generation_tokens_total",
            },
        ),
        (
            "prefill_tokens",
            "Prefill tokens",
            "tokens",
            None,
            "tokens computed by prefill, again after a recompute",
            _MODEL,
            {},
        ),
        (
            "steps",
            "Steps",
            "steps",
            None,
            "decisions + forward passes",
            _MODEL,
            {},
        ),
        (
            "mean_step_ns",
            "Step, mean",
            "ns",
            None,
            "sum of step durations / steps",
            _OWN,
            {"TensorRT-LLM": "trtllm_iteration_latency_seconds"},
        ),
        (
            "busy_ratio",
            "Busy",
            "ratio",
            None,
            "sum of step durations / end of the last step",
            _OWN,
            {"SGLang": "sglang:gpu_execution_seconds_total per second"},
        ),
        ("end_ns", "End of the run", "ns", "lower", "end of the last step", _MODEL, {}),
    ),
]

METRICS: Final[dict[str, Metric]] = {entry.name: entry for entry in _ENTRIES}
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
