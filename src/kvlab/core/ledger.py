"""The books of a run: sums, distributions and, if asked for, one record per step and per request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kvlab.core.config import Recording, Slo
from kvlab.core.records import PAUSE_NS, RequestRecord, RunRecord, StepRecord, Totals
from kvlab.core.request import Request
from kvlab.core.schedulers.base import Decisions, Scheduler
from kvlab.core.sequence import NEVER, Job
from kvlab.core.tally import EXACT_VALUES, Tally


class Ledger:
    """Only the engine writes here; nothing here is read by a decision."""

    def __init__(self, recording: Recording, slo: Slo | None) -> None:
        self._slo = slo
        limit = None if recording.requests else EXACT_VALUES
        self.ttft, self.gap, self.tpot = Tally(limit), Tally(limit), Tally(limit)
        self.e2e, self.queue_time = Tally(limit), Tally(limit)
        self.step_rows: list[tuple[object, ...]] | None = [] if recording.steps else None
        self._open_row: tuple[object, ...] = ()
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

    def book_step(self, scheduler: Scheduler, dur_ns: int) -> None:
        """Books one step of `dur_ns`, as memory and queue are after admission."""
        free = scheduler.space.num_free
        used = scheduler.context_tokens - scheduler.shared_tokens
        self.steps += 1
        self.free_steps += free
        self.free_ns += free * dur_ns
        self.used_token_steps += used
        self.used_token_ns += used * dur_ns
        if free < self.least_free:
            self.least_free = free
        num_waiting = len(scheduler.waiting)
        if num_waiting > self.peak_waiting:
            self.peak_waiting = num_waiting
        if scheduler.saved_blocks or not scheduler.batch.grows:
            self.book_layout(scheduler, dur_ns)

    def book_run(self, steps: int, dur_ns: int, free: int, used: int, least_free: int) -> None:
        """Books `steps` steps of `dur_ns` each, in which free memory only fell; `free` and `used` are sums over them."""
        self.steps += steps
        self.free_steps += free
        self.free_ns += free * dur_ns
        self.used_token_steps += used
        self.used_token_ns += used * dur_ns
        self.least_free = min(self.least_free, least_free)

    def book_layout(self, scheduler: Scheduler, dur_ns: int) -> None:
        """Books what only changes as requests come and go: sharing, and the holes of a contiguous space."""
        self.saved_block_ns += scheduler.saved_blocks * dur_ns
        if not scheduler.batch.grows:
            self.largest_hole_token_ns += scheduler.largest_hole * dur_ns

    def book_moves(self, scheduler: Scheduler, decisions: Decisions, start_ns: int) -> None:
        """Books who entered and left the running set in the step that starts at `start_ns`."""
        for job in decisions.admitted:
            self.waiting_ns += start_ns - job.since_ns
            job.since_ns = start_ns
            if job.admitted_ns < 0:
                job.admitted_ns = start_ns
        for job in decisions.resumed:
            job.since_ns = start_ns
        for job, outcome in decisions.preempted:
            self.running_ns += (start_ns - job.since_ns) * len(job.live)
            job.since_ns = start_ns
            self.preemptions += 1
            self.swap_outs += outcome == "swap"
        self.recomputed_tokens += decisions.recomputed_tokens
        self.swap_ns += decisions.swap_ns
        self.swapped_tokens += decisions.swapped_tokens
        if scheduler.num_running > self.peak_running:
            self.peak_running = scheduler.num_running

    def open_step(self, scheduler: Scheduler, decisions: Decisions, t_ns: int, dur_ns: int) -> None:
        """Notes the row of a step that ends at `t_ns`, as it is after admission."""
        self._open_row = (
            t_ns, dur_ns, scheduler.num_running, len(scheduler.waiting), scheduler.num_swapped,
            scheduler.capacity_tokens - scheduler.space.num_free * scheduler.tokens_per_unit,
            scheduler.context_tokens - scheduler.shared_tokens, scheduler.largest_hole, scheduler.saved_blocks,
            decisions.prefill_tokens,
            tuple([job.id for job in decisions.admitted]) if decisions.admitted else (),
            tuple([job.id for job in decisions.resumed]) if decisions.resumed else (),
            tuple([(job.id, outcome) for job, outcome in decisions.preempted]) if decisions.preempted else (),
        )  # fmt: skip

    def close_step(self, finished: list[Job]) -> None:
        """Writes the noted row, with the requests that the step finished."""
        assert self.step_rows is not None
        self.step_rows.append((*self._open_row, tuple([job.id for job in finished])))

    def quiet_row_of(self, scheduler: Scheduler) -> Callable[[int, int, int, int], None]:
        """A function that writes the row of a quiet step from (end, duration, free units, context tokens)."""
        assert self.step_rows is not None
        append = self.step_rows.append
        capacity, unit, shared = scheduler.capacity_tokens, scheduler.tokens_per_unit, scheduler.shared_tokens
        counts = (scheduler.num_running, len(scheduler.waiting), scheduler.num_swapped)
        saved, grows, hole = scheduler.saved_blocks, scheduler.batch.grows, scheduler.largest_hole

        def write(t_ns: int, dur_ns: int, free: int, context_tokens: int) -> None:
            free_tokens = free * unit
            now_hole = free_tokens if grows else hole
            row = (t_ns, dur_ns, *counts, capacity - free_tokens, context_tokens - shared, now_hole, saved)
            append((*row, 0, (), (), (), ()))

        return write

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
        self.gap.trim()
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
            cow_copies=scheduler.cow_copies,
            reserved_token_steps=capacity * self.steps - self.free_steps * unit,
            reserved_token_ns=capacity * busy_ns - free_token_ns,
            peak_reserved_tokens=capacity - self.least_free * unit if self.steps else 0,
            largest_hole_token_ns=free_token_ns if scheduler.batch.grows else self.largest_hole_token_ns,
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
            steps=tuple(map(_as_step_record, self.step_rows or ())),
            stays=tuple(scheduler.stays or ()),
            interrupted=interrupted,
        )


_AT_ONCE: Final = 1024

_COPIED: Final = (
    "arrived", "finished", "rejected", "steps", "output_tokens", "good", "paused", "preemptions", "prefill_tokens",
    "recomputed_tokens", "swap_outs", "swapped_tokens", "swap_ns", "used_token_steps", "used_token_ns",
    "saved_block_ns", "running_ns", "waiting_ns", "peak_running", "peak_waiting",
)  # fmt: skip

_as_step_record = partial(tuple.__new__, StepRecord)


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
    )
