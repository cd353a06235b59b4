"""The metrics of one run, in one pass over its totals and tallies.

Means over time run from 0 to the end of the last step. Idle time counts: nothing is reserved then, nothing waits and
every token is free. Ratios and rates stay exact `Fraction`s until somebody displays them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Final, NamedTuple

from kvlab.core.records import RunRecord
from kvlab.core.tally import Tally
from kvlab.units import NS_PER_S

Value = int | Fraction | None
"""Of a metric: None where there is nothing to measure (a percentile over no values, a ratio of nothing)."""

PERCENTS: Final = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Every figure of a run. What each one means, its unit and its source: `kvlab.metrics.METRICS`.

    Latencies are whole nanoseconds over finished requests; percentiles are nearest rank, means are rounded down.
    """

    mean_ttft_ns: int | None
    p50_ttft_ns: int | None
    p90_ttft_ns: int | None
    p95_ttft_ns: int | None
    p99_ttft_ns: int | None
    max_ttft_ns: int | None
    mean_gap_ns: int | None
    p50_gap_ns: int | None
    p90_gap_ns: int | None
    p95_gap_ns: int | None
    p99_gap_ns: int | None
    max_gap_ns: int | None
    mean_tpot_ns: int | None
    p50_tpot_ns: int | None
    p90_tpot_ns: int | None
    p95_tpot_ns: int | None
    p99_tpot_ns: int | None
    max_tpot_ns: int | None
    mean_e2e_ns: int | None
    p50_e2e_ns: int | None
    p90_e2e_ns: int | None
    p95_e2e_ns: int | None
    p99_e2e_ns: int | None
    max_e2e_ns: int | None
    mean_queue_time_ns: int | None
    p50_queue_time_ns: int | None
    p90_queue_time_ns: int | None
    p95_queue_time_ns: int | None
    p99_queue_time_ns: int | None
    max_queue_time_ns: int | None

    throughput_in_window_tokens_per_s: Fraction | None
    throughput_tokens_per_s: Fraction | None
    requests_per_s: Fraction | None
    goodput_per_s: Fraction | None
    good_ratio: Fraction | None

    preemptions: int
    preemptions_per_1000: Fraction | None
    recomputes: int
    swap_outs: int
    swap_ins: int
    paused_ratio: Fraction | None
    recomputed_tokens: int
    swapped_tokens: int
    swap_ns: int

    kv_capacity_tokens: int
    kv_capacity_bytes: int | None
    mean_kv_usage_ratio: Fraction | None
    peak_kv_usage_ratio: Fraction | None
    mean_waste_tokens: Fraction | None
    waste_ratio: Fraction | None
    mean_largest_hole_tokens: Fraction | None
    external_fragmentation_ratio: Fraction | None
    mean_saved_blocks: Fraction | None
    cow_copies: int
    prefix_hit_ratio: Fraction | None
    cached_tokens: int

    mean_running: Fraction | None
    peak_running: int
    mean_waiting: Fraction | None
    peak_waiting: int

    arrived: int
    finished: int
    rejected: int
    unfinished: int

    output_tokens: int
    prefill_tokens: int
    steps: int
    mean_step_ns: Fraction | None
    busy_ratio: Fraction | None
    end_ns: int

    percentiles_exact: bool
    """False when a tally had to round: percentiles are then low by at most 1 part in 1,024."""

    def values(self) -> dict[str, Value]:
        """Every metric by name, in the order of the catalog."""
        return {name: getattr(self, name) for name in _NAMES}

    def to_dict(self) -> dict[str, int | float | None]:
        """The same, ready for JSON: a ratio is the nearest double, a whole number stays one."""
        return {name: float(value) if isinstance(value, Fraction) else value for name, value in self.values().items()}


_NAMES: Final = tuple(field.name for field in fields(Metrics) if field.name != "percentiles_exact")


def summarize(record: RunRecord, *, window_ns: int | None, kv_bytes_per_token: int | None) -> Metrics:
    """All metrics of a run.

    Args:
        window_ns: end of the arrival window, counted from 0; None when the run had none (an uncut trace).
        kv_bytes_per_token: for the capacity in bytes; None leaves that out.
    Source: MODEL.md, "Metrics" and "Traffic" (both throughputs).
    """
    totals, capacity = record.totals, record.capacity_tokens
    end_ns, finished = totals.end_ns, totals.finished
    idle_ns = end_ns - totals.busy_ns
    free_token_ns = capacity * totals.busy_ns - totals.reserved_token_ns
    # a stopped run did not see the rest of its window
    window = window_ns if window_ns is None or not record.interrupted else min(window_ns, end_ns)
    ttft, gap, tpot = _spread(record.ttft), _spread(record.gap), _spread(record.tpot)
    e2e, queue_time = _spread(record.e2e), _spread(record.queue_time)
    return Metrics(
        mean_ttft_ns=ttft.mean,
        p50_ttft_ns=ttft.p50,
        p90_ttft_ns=ttft.p90,
        p95_ttft_ns=ttft.p95,
        p99_ttft_ns=ttft.p99,
        max_ttft_ns=ttft.max,
        mean_gap_ns=gap.mean,
        p50_gap_ns=gap.p50,
        p90_gap_ns=gap.p90,
        p95_gap_ns=gap.p95,
        p99_gap_ns=gap.p99,
        max_gap_ns=gap.max,
        mean_tpot_ns=tpot.mean,
        p50_tpot_ns=tpot.p50,
        p90_tpot_ns=tpot.p90,
        p95_tpot_ns=tpot.p95,
        p99_tpot_ns=tpot.p99,
        max_tpot_ns=tpot.max,
        mean_e2e_ns=e2e.mean,
        p50_e2e_ns=e2e.p50,
        p90_e2e_ns=e2e.p90,
        p95_e2e_ns=e2e.p95,
        p99_e2e_ns=e2e.p99,
        max_e2e_ns=e2e.max,
        mean_queue_time_ns=queue_time.mean,
        p50_queue_time_ns=queue_time.p50,
        p90_queue_time_ns=queue_time.p90,
        p95_queue_time_ns=queue_time.p95,
        p99_queue_time_ns=queue_time.p99,
        max_queue_time_ns=queue_time.max,
        throughput_in_window_tokens_per_s=None if window is None else _per_s(totals.output_tokens_in_window, window),
        throughput_tokens_per_s=_per_s(totals.output_tokens, end_ns),
        requests_per_s=_per_s(finished, end_ns),
        goodput_per_s=_per_s(totals.good, end_ns),
        good_ratio=_ratio(totals.good, finished + totals.rejected),
        preemptions=totals.preemptions,
        preemptions_per_1000=_ratio(1000 * totals.preemptions, finished),
        recomputes=totals.preemptions - totals.swap_outs,
        swap_outs=totals.swap_outs,
        swap_ins=totals.swap_ins,
        paused_ratio=_ratio(totals.paused, finished),
        recomputed_tokens=totals.recomputed_tokens,
        swapped_tokens=totals.swapped_tokens,
        swap_ns=totals.swap_ns,
        kv_capacity_tokens=capacity,
        kv_capacity_bytes=None if kv_bytes_per_token is None else capacity * kv_bytes_per_token,
        mean_kv_usage_ratio=_ratio(totals.reserved_token_ns, capacity * end_ns),
        peak_kv_usage_ratio=_ratio(totals.peak_reserved_tokens, capacity),
        mean_waste_tokens=_ratio(totals.reserved_token_ns - totals.used_token_ns, end_ns),
        waste_ratio=_ratio(totals.reserved_token_ns - totals.used_token_ns, totals.reserved_token_ns),
        mean_largest_hole_tokens=_ratio(totals.largest_hole_token_ns + capacity * idle_ns, end_ns),
        external_fragmentation_ratio=_ratio(free_token_ns - totals.largest_hole_token_ns, free_token_ns),
        mean_saved_blocks=_ratio(totals.saved_block_ns, end_ns),
        cow_copies=totals.cow_copies,
        prefix_hit_ratio=_ratio(totals.cached_tokens, totals.queried_tokens),
        cached_tokens=totals.cached_tokens,
        mean_running=_ratio(totals.running_ns, end_ns),
        peak_running=totals.peak_running,
        mean_waiting=_ratio(totals.waiting_ns, end_ns),
        peak_waiting=totals.peak_waiting,
        arrived=totals.arrived,
        finished=finished,
        rejected=totals.rejected,
        unfinished=totals.unfinished,
        output_tokens=totals.output_tokens,
        prefill_tokens=totals.prefill_tokens,
        steps=totals.steps,
        mean_step_ns=_ratio(totals.busy_ns, totals.steps),
        busy_ratio=_ratio(totals.busy_ns, end_ns),
        end_ns=end_ns,
        percentiles_exact=all(
            tally.is_exact for tally in (record.ttft, record.gap, record.tpot, record.e2e, record.queue_time)
        ),
    )


class _Spread(NamedTuple):
    mean: int | None
    p50: int | None
    p90: int | None
    p95: int | None
    p99: int | None
    max: int | None


def _spread(tally: Tally) -> _Spread:
    p50, p90, p95, p99 = tally.percentiles(*PERCENTS)
    return _Spread(tally.mean(), p50, p90, p95, p99, tally.largest)


def _ratio(part: int, whole: int) -> Fraction | None:
    return Fraction(part, whole) if whole else None


def _per_s(count: int, duration_ns: int) -> Fraction | None:
    return _ratio(count * NS_PER_S, duration_ns)
