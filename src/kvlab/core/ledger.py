"""The books of a run: sums, distributions and, if asked for, one record per step and per request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import mul
from typing import Any, Final

from kvlab.core.config import Recording, Slo
from kvlab.core.records import PAUSE_NS, RequestRecord, RunRecord, StepRecord, Totals
from kvlab.core.request import Request
from kvlab.core.schedulers.base import Decisions, Scheduler
from kvlab.core.sequence import NEVER, Job
from kvlab.core.tally import EXACT_VALUES, Tally

ROW: Final = (
    "t_ns", "dur_ns", "running", "waiting", "swapped", "free", "used", "saved_blocks", "hole", "prefill_tokens",
    "emitting", "gaps", "admitted", "resumed", "preempted", "finished",
)  # fmt: skip
"""A step as the engine writes it, after admission and before its tokens. `free` is in units of the space; `hole` 0
where memory is paged, as all that is free is in reach; `emitting` counts sequences that emit a token, `gaps` those of
them that emitted one in the step before. The last four only if steps are kept."""


class Ledger:
    """Only the engine writes here; nothing here is read by a decision."""

    def __init__(self, recording: Recording, slo: Slo | None) -> None:
        self._slo = slo
        limit = None if recording.requests else EXACT_VALUES
        self.ttft, self.gap, self.tpot = Tally(limit), Tally(limit), Tally(limit)
        self.e2e, self.queue_time = Tally(limit), Tally(limit)
        self.keeps_steps = recording.steps
        self.rows: list[tuple[Any, ...]] = []
        """Steps that are not booked yet, see `ROW`; `digest` books them in one go, which is much cheaper."""
        self._kept_rows: list[tuple[Any, ...]] = []
        self._request_rows: list[RequestRecord] | None = [] if recording.requests else None
        self._rejected_ids: list[int] = []
        self._done: list[tuple[Job, int]] = []  # finished, to be booked in one go
        self.arrived = self.finished = self.rejected = 0
        self.good = self.paused = 0
        self.steps = 0
        self.output_tokens = 0
        self.output_tokens_in_window: int | None = None
        self.preemptions = self.prefill_tokens = self.recomputed_tokens = 0
        self.swap_outs = self.swapped_tokens = self.swap_ns = 0
        self.free_steps = self.free_ns = 0
        """Sums over steps of the space's `num_free`, plain and weighted by duration."""
        self.least_free: int = NEVER
        self.used_token_steps = self.used_token_ns = 0
        self.largest_hole_token_ns = self.saved_block_ns = 0
        self.running_ns = self.waiting_ns = 0
        self.peak_running = self.peak_waiting = 0

    def digest(self) -> None:
        """Books the rows written since the last call."""
        rows, self.rows = self.rows, []
        if self.keeps_steps:
            self._kept_rows += rows
        if not rows:
            return
        _, dur, running, waiting, _, free, used, saved, hole, prefill, emitting, gaps = (*zip(*rows, strict=False),)[
            :12
        ]
        self.steps += len(rows)
        self.free_steps += sum(free)
        self.free_ns += sumprod(free, dur)
        self.used_token_steps += sum(used)
        self.used_token_ns += sumprod(used, dur)
        self.running_ns += sumprod(running, dur)
        self.waiting_ns += sumprod(waiting, dur)
        self.saved_block_ns += sumprod(saved, dur)
        self.largest_hole_token_ns += sumprod(hole, dur)
        self.prefill_tokens += sum(prefill)
        self.output_tokens += sum(emitting)
        self.least_free = min(self.least_free, *free)
        self.peak_running = max(self.peak_running, *running)
        self.peak_waiting = max(self.peak_waiting, *waiting)
        counts = self.gap.counts
        for dur_ns, count in zip(dur, gaps, strict=True):
            if count:
                counts[dur_ns] += count
        self.gap.trim()

    def book_run(self, scheduler: Scheduler, steps: int, dur_ns: int, free: int, used: int) -> None:
        """Books `steps` steps of `dur_ns` each, in which only tables grew; `free` and `used` are sums over them."""
        all_ns = steps * dur_ns
        self.steps += steps
        self.free_steps += free
        self.free_ns += free * dur_ns
        self.used_token_steps += used
        self.used_token_ns += used * dur_ns
        self.running_ns += scheduler.num_running * all_ns
        self.waiting_ns += len(scheduler.waiting) * all_ns
        self.saved_block_ns += scheduler.saved_blocks * all_ns
        self.least_free = min(self.least_free, scheduler.space.num_free)
        self.peak_waiting = max(self.peak_waiting, len(scheduler.waiting))
        self.output_tokens += scheduler.batch.num_seqs * steps
        self.gap.counts[dur_ns] += scheduler.batch.num_seqs * steps
        if not scheduler.batch.grows:
            self.largest_hole_token_ns += scheduler.largest_hole * all_ns

    def book_moves(self, decisions: Decisions, start_ns: int) -> None:
        """Books who entered and left the running set in the step that starts at `start_ns`."""
        for job in decisions.admitted:
            if job.admitted_ns < 0:
                job.admitted_ns = start_ns
        if decisions.preempted:
            self.preemptions += len(decisions.preempted)
            self.swap_outs += sum(outcome == "swap" for _, outcome in decisions.preempted)
        self.recomputed_tokens += decisions.recomputed_tokens
        self.swap_ns += decisions.swap_ns
        self.swapped_tokens += decisions.swapped_tokens

    def book_rejected(self, request: Request) -> None:
        """A request that can never run."""
        self.rejected += 1
        if self._request_rows is not None:
            self._rejected_ids.append(request.id)
            self._request_rows.append(_record(Job(request), None, rejected=True))

    def book_finished(self, job: Job, t_ns: int) -> None:
        """A request emitted its last token at `t_ns`."""
        self.finished += 1
        self._done.append((job, t_ns))
        if len(self._done) == _AT_ONCE:
            self._book_done()

    def _book_done(self) -> None:
        """The distributions over the requests that finished since the last call."""
        done, self._done = self._done, []
        arrivals = [job.request.arrival_ns for job, _ in done]
        ttft = [job.first_token_ns - arrival for (job, _), arrival in zip(done, arrivals, strict=True)]
        e2e = [t_ns - arrival for (_, t_ns), arrival in zip(done, arrivals, strict=True)]
        tpot = [_tpot_ns(job) for job, _ in done]
        self.ttft.update(ttft)
        self.e2e.update(e2e)
        self.tpot.update([value for value in tpot if value is not None])
        self.queue_time.update([job.admitted_ns - arrival for (job, _), arrival in zip(done, arrivals, strict=True)])
        self.paused += sum(job.max_gap_ns > PAUSE_NS for job, _ in done)
        if self._slo is None:
            self.good += len(done)
        else:
            times = zip(done, ttft, tpot, e2e, strict=True)
            self.good += sum(
                self._slo.met(first, mean or 0, job.max_gap_ns, all_) for (job, _), first, mean, all_ in times
            )
        if self._request_rows is not None:
            self._request_rows += [_record(job, t_ns) for job, t_ns in done]

    def close(
        self, scheduler: Scheduler, unfinished: list[Job], end_ns: int, idle_ns: int, *, interrupted: bool
    ) -> RunRecord:
        """The finished record. `unfinished` are the requests that a stopped run still had inside."""
        self._book_done()
        self.digest()
        if self._request_rows is not None:
            self._request_rows += [_record(job, None) for job in unfinished]
            self._request_rows.sort()
        assert self.arrived == self.finished + self.rejected + len(unfinished), "a request was lost"
        busy_ns = end_ns - idle_ns if self.steps else 0
        capacity, unit = scheduler.capacity_tokens, scheduler.tokens_per_unit
        free_token_ns = self.free_ns * unit
        in_window = self.output_tokens if self.output_tokens_in_window is None else self.output_tokens_in_window
        totals = Totals(
            unfinished=len(unfinished),
            end_ns=end_ns if self.steps else 0,
            busy_ns=busy_ns,
            output_tokens_in_window=in_window,
            swap_ins=scheduler.swap_ins,
            cached_tokens=scheduler.cached_tokens,
            queried_tokens=scheduler.queried_tokens,
            cow_copies=scheduler.cow_copies,
            reserved_token_steps=capacity * self.steps - self.free_steps * unit,
            reserved_token_ns=capacity * busy_ns - free_token_ns,
            peak_reserved_tokens=capacity - self.least_free * unit if self.steps else 0,
            largest_hole_token_ns=self.largest_hole_token_ns + (free_token_ns if scheduler.batch.grows else 0),
            **{name: getattr(self, name) for name in _COPIED},
        )
        return RunRecord(
            totals=totals,
            capacity_tokens=scheduler.capacity_tokens,
            rejected=tuple(self._rejected_ids),
            ttft=self.ttft,
            gap=self.gap,
            tpot=self.tpot,
            e2e=self.e2e,
            queue_time=self.queue_time,
            requests=tuple(self._request_rows or ()),
            steps=_step_records(self._kept_rows, capacity, unit, scheduler.batch.grows),
            stays=tuple(scheduler.stays or ()),
            interrupted=interrupted,
        )


_AT_ONCE: Final = 1024

_COPIED: Final = (
    "arrived", "finished", "rejected", "steps", "output_tokens", "good", "paused", "preemptions", "prefill_tokens",
    "recomputed_tokens", "swap_outs", "swapped_tokens", "swap_ns", "used_token_steps", "used_token_ns",
    "saved_block_ns", "running_ns", "waiting_ns", "peak_running", "peak_waiting",
)  # fmt: skip

_as_step_record: Callable[[tuple[Any, ...]], StepRecord] = partial(tuple.__new__, StepRecord)


def sumprod(one: Iterable[int], other: Iterable[int]) -> int:
    """Sum of products, in whole numbers."""
    return sum(map(mul, one, other))


def _step_records(rows: list[tuple[Any, ...]], capacity_tokens: int, unit: int, grows: bool) -> tuple[StepRecord, ...]:
    if not rows:
        return ()
    t, dur, running, waiting, swapped, free, used, saved, hole, prefill, _, _, *ids = zip(*rows, strict=True)
    free_tokens = [count * unit for count in free]
    reserved = [capacity_tokens - count for count in free_tokens]
    reach = free_tokens if grows else hole
    columns = (t, dur, running, waiting, swapped, reserved, used, reach, saved, prefill, *ids)
    return tuple(map(_as_step_record, zip(*columns, strict=True)))


def _tpot_ns(job: Job) -> int | None:
    lengths = job.request.output_tokens
    num_gaps = sum(lengths) - len(lengths)
    return job.span_ns // num_gaps if num_gaps else None


def _record(job: Job, finish_ns: int | None, *, rejected: bool = False) -> RequestRecord:
    request = job.request
    return RequestRecord(
        request.id,
        request.arrival_ns,
        request.prompt_tokens,
        sum(request.output_tokens),
        len(request.output_tokens),
        rejected,
        job.admitted_ns if job.admitted_ns >= 0 else None,
        job.first_token_ns if job.first_token_ns >= 0 else None,
        finish_ns,
        None if finish_ns is None else _tpot_ns(job),
        job.max_gap_ns,
        job.preemptions,
        job.recomputed_tokens,
        job.swap_outs,
        job.cached_tokens,
    )
