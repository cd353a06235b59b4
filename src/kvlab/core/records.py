"""What a step, a request and a run leave behind: frozen, and the same from both engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvlab.core.memory import Stay
from kvlab.core.tally import Tally

PAUSE_NS = 1_000_000_000
"""A request with a gap longer than this counts as paused."""


class StepRecord(NamedTuple):
    """One step of the schedule. Counts are taken after admission, before this step's tokens are emitted."""

    t_ns: int
    """End of the step."""
    dur_ns: int
    running: int
    """Running sequences: one per sample."""
    waiting: int
    """Waiting requests, without those that arrive during the step."""
    swapped: int
    reserved_tokens: int
    """Tokens in taken blocks or segments."""
    used_tokens: int
    """Tokens that hold KV when the step ends; a shared block counts once."""
    largest_hole_tokens: int
    """Biggest free range that one sequence could get: all free blocks when paged."""
    saved_blocks: int
    """Blocks that sharing saves: block-table entries - taken blocks."""
    prefill_tokens: int
    admitted: tuple[int, ...]
    """Ids in order of admission; includes re-admissions after a recompute."""
    resumed: tuple[int, ...]
    """Ids swapped in."""
    preempted: tuple[tuple[int, str], ...]
    """(id, what became of it: recompute or swap), in order."""
    finished: tuple[int, ...]
    """Ids of requests whose last sample ended with this step, in order of admission."""


class RequestRecord(NamedTuple):
    """One request's life. Times in absolute ns; None where it did not come to that."""

    id: int
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    """Sum over samples."""
    num_samples: int
    rejected: bool
    admitted_ns: int | None
    """Start of the step that admitted it first."""
    first_token_ns: int | None
    """Of any sample."""
    finish_ns: int | None
    """Last token of the last sample."""
    tpot_ns: int | None
    """Mean gap, pooled over samples, rounded down; None without gaps or when unfinished."""
    max_gap_ns: int
    """Longest gap of any sample; 0 without gaps."""
    preemptions: int
    recomputed_tokens: int
    swap_outs: int
    cached_tokens: int = 0
    """Prompt tokens that were in the prefix cache when it was first admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts over a whole run. `*_ns` sums weight a quantity by the duration of each step."""

    arrived: int
    finished: int
    rejected: int
    unfinished: int
    """Waiting, running or swapped when the run was stopped, or when nothing could move any more."""
    steps: int
    end_ns: int
    """End of the last step; 0 without steps."""
    busy_ns: int
    """Sum of step durations."""
    output_tokens: int
    output_tokens_in_window: int
    """Emitted at or before the end of the arrival window (all of them without a window)."""
    good: int
    """Finished requests that met the SLO (all finished without an SLO)."""
    paused: int
    """Finished requests with a gap over one second."""
    preemptions: int
    prefill_tokens: int
    recomputed_tokens: int
    swap_outs: int
    swap_ins: int
    swapped_tokens: int
    """Tokens copied out, and again when copied back."""
    swap_ns: int
    """Time that steps lasted longer because of copies."""
    cow_copies: int
    reserved_token_steps: int
    used_token_steps: int
    reserved_token_ns: int
    used_token_ns: int
    largest_hole_token_ns: int
    saved_block_ns: int
    running_ns: int
    waiting_ns: int
    peak_running: int
    peak_waiting: int
    peak_reserved_tokens: int
    cached_tokens: int = 0
    """Tokens that admissions found in the prefix cache."""
    queried_tokens: int = 0
    """Tokens that admissions looked for there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything one run left behind. The lists are empty unless the `Recording` asked for them."""

    totals: Totals
    capacity_tokens: int
    """KV tokens of the GPU that can be used: whole blocks (paged) or all tokens (contiguous)."""
    rejected: tuple[int, ...]
    """Ids, in order. Kept only when requests are recorded."""
    ttft: Tally
    """First token (of any sample) - arrival, one per finished request, ns."""
    gap: Tally
    """Time between two consecutive tokens of one sample, pauses included, ns."""
    tpot: Tally
    """Mean gap of each finished request that has gaps, ns."""
    e2e: Tally
    """Last token - arrival, one per finished request, ns."""
    queue_time: Tally
    """First admission (start of that step) - arrival, one per finished request, ns."""
    requests: tuple[RequestRecord, ...]
    """By id, rejected and unfinished ones included."""
    steps: tuple[StepRecord, ...]
    stays: tuple[Stay, ...]
    """In order of their end."""
    interrupted: bool
    """The monitor stopped the run before its end: every figure is of the part that ran."""
