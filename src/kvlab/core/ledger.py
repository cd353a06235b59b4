"""The books of a run: sums, distributions and, if asked for, one record per step and per request."""

from __future__ import annotations

from kvlab.core.config import Recording, Slo
from kvlab.core.records import PAUSE_NS, RequestRecord, RunRecord, StepRecord, Totals
from kvlab.core.request import Request
from kvlab.core.schedulers.base import Decisions, Scheduler
from kvlab.core.sequence import Job
from kvlab.core.tally import EXACT_VALUES, Tally


class Ledger:
    """Only the engine writes here; nothing here is read by a decision."""

    def __init__(self, recording: Recording, slo: Slo | None) -> None:
        self._slo = slo
        limit = None if recording.requests else EXACT_VALUES
        self.ttft, self.gap, self.tpot = Tally(limit), Tally(limit), Tally(limit)
        self.e2e, self.queue_time = Tally(limit), Tally(limit)
        self.step_rows: list[StepRecord] | None = [] if recording.steps else None
        self._request_rows: list[RequestRecord] | None = [] if recording.requests else None
        self._rejected_ids: list[int] = []
        self._open_row: tuple[object, ...] = ()
        self.arrived = self.finished = self.rejected = 0
        self.good = self.paused = 0
        self.output_tokens = 0
        self.output_tokens_in_window: int | None = None
        self.preemptions = self.prefill_tokens = self.recomputed_tokens = 0
        self.swap_outs = self.swapped_tokens = self.swap_ns = 0
        self.steps = 0
        self.busy_ns = 0
        self.reserved_token_steps = self.used_token_steps = 0
        self.reserved_token_ns = self.used_token_ns = 0
        self.largest_hole_token_ns = self.saved_block_ns = 0
        self.running_ns = self.waiting_ns = 0
        self.peak_running = self.peak_waiting = self.peak_reserved_tokens = 0

    def book_step(self, scheduler: Scheduler, decisions: Decisions, t_ns: int, dur_ns: int) -> None:
        """Books one step that ends at `t_ns`; memory and queue as they are after admission."""
        reserved = scheduler.reserved_tokens
        used = scheduler.context_tokens - scheduler.shared_tokens
        running = scheduler.num_running
        waiting = len(scheduler.waiting)
        self.busy_ns += dur_ns
        self.prefill_tokens += decisions.prefill_tokens
        self.reserved_token_steps += reserved
        self.used_token_steps += used
        self.reserved_token_ns += reserved * dur_ns
        self.used_token_ns += used * dur_ns
        self.largest_hole_token_ns += scheduler.largest_hole * dur_ns
        self.running_ns += running * dur_ns
        self.waiting_ns += waiting * dur_ns
        if scheduler.saved_blocks:
            self.saved_block_ns += scheduler.saved_blocks * dur_ns
        if running > self.peak_running:
            self.peak_running = running
        if waiting > self.peak_waiting:
            self.peak_waiting = waiting
        if reserved > self.peak_reserved_tokens:
            self.peak_reserved_tokens = reserved
        if decisions.swap_ns:
            self.swap_ns += decisions.swap_ns
            self.swapped_tokens += decisions.swapped_tokens
        if decisions.preempted:
            self.preemptions += len(decisions.preempted)
            self.swap_outs += sum(outcome == "swap" for _, outcome in decisions.preempted)
            self.recomputed_tokens += decisions.recomputed_tokens

        if self.step_rows is not None:
            self._open_row = (
                t_ns, dur_ns, running, waiting, scheduler.num_swapped, reserved, used, scheduler.largest_hole,
                scheduler.saved_blocks, decisions.prefill_tokens,
                tuple([job.request.id for job in decisions.admitted]) if decisions.admitted else (),
                tuple([job.request.id for job in decisions.resumed]) if decisions.resumed else (),
                tuple([(job.request.id, outcome) for job, outcome in decisions.preempted])
                if decisions.preempted else (),
            )  # fmt: skip

    def close_step(self, finished: list[Job]) -> None:
        """Completes the row of the booked step with the requests that it finished."""
        if self.step_rows is not None:
            self.step_rows.append(StepRecord(*self._open_row, tuple([job.request.id for job in finished])))

    def book_quiet_steps(
        self,
        scheduler: Scheduler,
        dur_ns: int,
        reserved_steps: int,
        reserved_ns: int,
        used_steps: int,
        used_ns: int,
    ) -> None:
        """Books steps of `dur_ns` in all, in which nobody came, left or was preempted.

        Args:
            reserved_steps: sum of reserved tokens over the steps; `reserved_ns` the same weighted by duration.
            used_steps: sum of used tokens over the steps; `used_ns` the same weighted by duration.
        """
        self.busy_ns += dur_ns
        self.reserved_token_steps += reserved_steps
        self.used_token_steps += used_steps
        self.reserved_token_ns += reserved_ns
        self.used_token_ns += used_ns
        self.running_ns += scheduler.num_running * dur_ns
        self.waiting_ns += len(scheduler.waiting) * dur_ns
        self.saved_block_ns += scheduler.saved_blocks * dur_ns
        if scheduler.batch.grows:
            self.largest_hole_token_ns += scheduler.capacity_tokens * dur_ns - reserved_ns
        else:
            self.largest_hole_token_ns += scheduler.largest_hole * dur_ns
        self.peak_reserved_tokens = max(self.peak_reserved_tokens, scheduler.reserved_tokens)

    def book_rejected(self, request: Request) -> None:
        """A request that can never run."""
        self.rejected += 1
        if self._request_rows is not None:
            self._rejected_ids.append(request.id)
            self._request_rows.append(_unfinished(Job(request), rejected=True))

    def book_finished(self, job: Job, t_ns: int) -> None:
        """A request emitted its last token at `t_ns`."""
        request = job.request
        num_gaps = sum(request.output_tokens) - len(request.output_tokens)
        tpot_ns = job.span_ns // num_gaps if num_gaps else None
        ttft_ns = job.first_token_ns - request.arrival_ns
        e2e_ns = t_ns - request.arrival_ns
        self.finished += 1
        self.ttft.add(ttft_ns)
        self.e2e.add(e2e_ns)
        self.queue_time.add(job.admitted_ns - request.arrival_ns)
        if tpot_ns is not None:
            self.tpot.add(tpot_ns)
        if self._slo is None or self._slo.met(ttft_ns, tpot_ns or 0, job.max_gap_ns, e2e_ns):
            self.good += 1
        if job.max_gap_ns > PAUSE_NS:
            self.paused += 1
        if self._request_rows is not None:
            self._request_rows.append(
                RequestRecord(
                    request.id,
                    request.arrival_ns,
                    request.prompt_tokens,
                    sum(request.output_tokens),
                    len(request.output_tokens),
                    False,
                    job.admitted_ns,
                    job.first_token_ns,
                    t_ns,
                    tpot_ns,
                    job.max_gap_ns,
                    job.preemptions,
                    job.recomputed_tokens,
                    job.swap_outs,
                )  # fmt: skip
            )

    def close(self, scheduler: Scheduler, unfinished: list[Job], end_ns: int, *, interrupted: bool) -> RunRecord:
        """The finished record. `unfinished` are the requests that a stopped run still had inside."""
        if self._request_rows is not None:
            self._request_rows += [_unfinished(job, rejected=False) for job in unfinished]
            self._request_rows.sort()
        assert self.arrived == self.finished + self.rejected + len(unfinished), "a request was lost"
        in_window = self.output_tokens if self.output_tokens_in_window is None else self.output_tokens_in_window
        totals = Totals(
            unfinished=len(unfinished),
            end_ns=end_ns if self.steps else 0,
            output_tokens_in_window=in_window,
            swap_ins=scheduler.swap_ins,
            cow_copies=scheduler.cow_copies,
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
            steps=tuple(self.step_rows or ()),
            stays=tuple(scheduler.stays or ()),
            interrupted=interrupted,
        )


_COPIED = (
    "arrived", "finished", "rejected", "steps", "busy_ns", "output_tokens", "good", "paused", "preemptions",
    "prefill_tokens", "recomputed_tokens", "swap_outs", "swapped_tokens", "swap_ns", "reserved_token_steps",
    "used_token_steps", "reserved_token_ns", "used_token_ns", "largest_hole_token_ns", "saved_block_ns",
    "running_ns", "waiting_ns", "peak_running", "peak_waiting", "peak_reserved_tokens",
)  # fmt: skip


def _unfinished(job: Job, *, rejected: bool) -> RequestRecord:
    request = job.request
    return RequestRecord(
        id=request.id,
        arrival_ns=request.arrival_ns,
        prompt_tokens=request.prompt_tokens,
        output_tokens=sum(request.output_tokens),
        num_samples=len(request.output_tokens),
        rejected=rejected,
        admitted_ns=job.admitted_ns if job.admitted_ns >= 0 else None,
        first_token_ns=job.first_token_ns if job.first_token_ns >= 0 else None,
        finish_ns=None,
        tpot_ns=None,
        max_gap_ns=job.max_gap_ns,
        preemptions=job.preemptions,
        recomputed_tokens=job.recomputed_tokens,
        swap_outs=job.swap_outs,
    )
