"""The clock loop: deliver arrivals, schedule a step, charge its time, emit its tokens.

After a full step come *quiet* ones: while nobody arrives, ends, prefills, lacks a block or was preempted, a step only
moves the decode clock, so `_quiet_steps` runs many of them in a loop of a few operations, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvlab.core.config import METRICS, LabConfig, Recording, Slo
from kvlab.core.ledger import Ledger
from kvlab.core.recent_max import RecentMax
from kvlab.core.records import RunRecord, StepRecord
from kvlab.core.request import RequestSource
from kvlab.core.schedulers import scheduler_for
from kvlab.core.schedulers.base import Decisions, Scheduler
from kvlab.core.sequence import NEVER, Job

Monitor = Callable[[int, int], bool]
"""(clock in ns, requests ended so far) -> whether to stop. Called every `MONITOR_STEPS` full steps."""

MONITOR_STEPS: Final = 1024
QUIET_STEPS: Final = 4096  # in one go, so that a monitor is asked in good time


def simulate(
    config: LabConfig,
    source: RequestSource,
    *,
    recording: Recording = METRICS,
    window_ns: int | None = None,
    slo: Slo | None = None,
    monitor: Monitor | None = None,
    check: bool = False,
) -> RunRecord:
    """Runs until every request has finished or was rejected, or until `monitor` says stop.

    Args:
        config: its type chooses the set of rules.
        source: requests; consumed.
        window_ns: tokens emitted up to then are counted apart.
        slo: what a good request meets.
        check: assert every invariant of the whole state before each step; slow.
    """
    engine = Engine(config, source, recording=recording, window_ns=window_ns, slo=slo)
    return engine.run(monitor, check=check)


class Engine:
    """One run. The state is public to tests; results are what `run` returns."""

    def __init__(
        self,
        config: LabConfig,
        source: RequestSource,
        *,
        recording: Recording = METRICS,
        window_ns: int | None = None,
        slo: Slo | None = None,
    ) -> None:
        self.scheduler: Scheduler = scheduler_for(config, log_memory=recording.memory)
        self.ledger = Ledger(recording, slo)
        self.step = 0
        self.now_ns = 0
        self._source = source
        self._next_arrival_ns = _or_never(source.next_arrival_ns())
        self._window_ns = NEVER if window_ns is None else window_ns
        self._recent_ns = RecentMax()  # step durations, for the longest gap of each request

    def run(self, monitor: Monitor | None, *, check: bool) -> RunRecord:
        """See `simulate`."""
        countdown = MONITOR_STEPS
        while self._deliver():
            if check:
                self.scheduler.check(self.step)
            if not self._full_step():
                self._quiet_steps()
            countdown -= 1
            if countdown == 0:
                countdown = MONITOR_STEPS
                if monitor is not None and monitor(self.now_ns, self.ledger.finished + self.ledger.rejected):
                    return self._close(stopped=True)
        return self._close(stopped=False)

    def _deliver(self) -> bool:
        """Arrivals up to now join the queue; an idle clock jumps to the next one. False when the run is over."""
        while True:
            while self._next_arrival_ns <= self.now_ns:
                request = self._source.pop()
                self.ledger.arrived += 1
                if self.scheduler.can_ever_run(request):
                    self.scheduler.waiting.add(Job(request))
                else:
                    self.ledger.book_rejected(request)
                    self._source.ended(request, request.arrival_ns)
                self._next_arrival_ns = _or_never(self._source.next_arrival_ns())
            if self.scheduler.has_work:
                return True
            if self._next_arrival_ns == NEVER:
                return False
            self.now_ns = self._next_arrival_ns

    def _full_step(self) -> bool:
        """One step in full. Returns whether the next one may be of another kind than a plain decode."""
        scheduler = self.scheduler
        step = self.step
        decisions = scheduler.schedule(step, self.now_ns)
        for job, _ in decisions.preempted:
            self._pause(job)
        dur_ns = scheduler.cost.duration_ns(
            scheduler.num_running, scheduler.context_tokens, decisions.prefill_tokens, decisions.swap_ns
        )
        assert dur_ns > 0, f"step {step} takes {dur_ns} ns"
        self.now_ns += dur_ns
        self._recent_ns.push(step, dur_ns)
        self.ledger.book_step(scheduler, decisions, self.now_ns, dur_ns)
        self._emit(decisions, dur_ns)
        ended = self._end_sequences()
        self.step = step + 1
        self.ledger.steps += 1
        return ended or not scheduler.is_settled()

    def _emit(self, decisions: Decisions, dur_ns: int) -> None:
        """6. Those that decoded in the last step too have a gap of this step; the others start or start again."""
        num_seqs = num_decoding = self.scheduler.batch.num_seqs
        for job in decisions.starting:
            num_seqs -= len(job.live)
            if job.first_token_ns < 0:
                job.first_token_ns = self.now_ns
            else:
                gap_ns = self.now_ns - job.last_token_ns
                self.ledger.gap.add(gap_ns, len(job.live))
                job.max_gap_ns = max(job.max_gap_ns, gap_ns)
        if num_seqs:
            self.ledger.gap.add(dur_ns, num_seqs)
        self._count_tokens(num_decoding)

    def _count_tokens(self, count: int) -> None:
        ledger = self.ledger
        if self.now_ns > self._window_ns and ledger.output_tokens_in_window is None:
            ledger.output_tokens_in_window = ledger.output_tokens
        ledger.output_tokens += count

    def _pause(self, job: Job) -> None:
        """A preempted job emits no more for a while; its gaps were the steps after the first of its stay."""
        if job.paused_decode_step != NEVER:
            job.max_gap_ns = max(job.max_gap_ns, self._recent_ns.since(job.paused_decode_step + 1))
            job.last_token_ns = self.now_ns

    def _end_sequences(self) -> bool:
        """Sequences that emitted their last token leave, in admission order."""
        scheduler = self.scheduler
        batch = scheduler.batch
        if batch.next_end() != self.step:
            self.ledger.close_step([])
            return False
        finished = []
        while batch.next_end() == self.step:
            seq = batch.pop_ended()
            job = seq.job
            job.span_ns += self.now_ns - job.first_token_ns
            gap_ns = self._recent_ns.since(job.decode_step + 1)
            if gap_ns > job.max_gap_ns:
                job.max_gap_ns = gap_ns
            scheduler.end(seq, self.step)
            if not job.live:
                finished.append(job)
        self.ledger.close_step(finished)
        for job in finished:
            self.ledger.book_finished(job, self.now_ns)
            self._source.ended(job.request, self.now_ns)
        if finished:
            self._next_arrival_ns = _or_never(self._source.next_arrival_ns())
        return True

    def _quiet_steps(self) -> None:
        """Plain decode steps, up to the next arrival, the next end, the next shortage or the end of the window."""
        scheduler = self.scheduler
        ledger = self.ledger
        cost = scheduler.cost
        rows = ledger.step_rows
        num_seqs = scheduler.batch.num_seqs
        first = step = self.step
        start_ns = now_ns = self.now_ns
        until_ns = self._next_arrival_ns
        if ledger.output_tokens_in_window is None:
            until_ns = min(until_ns, self._window_ns)
        last = min(scheduler.batch.next_end(), step + QUIET_STEPS)
        reserved_steps = reserved_ns = used_steps = used_ns = 0
        run_ns = run_steps = 0  # a run of steps of one duration
        while step < last and now_ns < until_ns and scheduler.grow(step):
            scheduler.context_tokens += num_seqs
            dur_ns = cost.duration_ns(num_seqs, scheduler.context_tokens, 0, 0)
            now_ns += dur_ns
            reserved = scheduler.reserved_tokens
            used = scheduler.context_tokens - scheduler.shared_tokens
            reserved_steps += reserved
            reserved_ns += reserved * dur_ns
            used_steps += used
            used_ns += used * dur_ns
            if dur_ns != run_ns:
                self._book_gaps(step, run_ns, run_steps * num_seqs)
                run_ns, run_steps = dur_ns, 0
            run_steps += 1
            step += 1
            if rows is not None:
                rows.append(
                    StepRecord(
                        now_ns,
                        dur_ns,
                        num_seqs,
                        len(scheduler.waiting),
                        scheduler.num_swapped,
                        reserved,
                        used,
                        scheduler.largest_hole,
                        scheduler.saved_blocks,
                        0,
                        (),
                        (),
                        (),
                        (),
                    )  # fmt: skip
                )
        if step == first:
            return
        self._book_gaps(step, run_ns, run_steps * num_seqs)
        ledger.book_quiet_steps(scheduler, now_ns - start_ns, reserved_steps, reserved_ns, used_steps, used_ns)
        ledger.steps += step - first
        ledger.output_tokens += num_seqs * (step - first - 1)
        self.step = step
        self.now_ns = now_ns
        self._count_tokens(num_seqs)  # of the last step, which may end after the window

    def _book_gaps(self, next_step: int, dur_ns: int, count: int) -> None:
        """`count` gaps of `dur_ns`, in a run of such steps that ended before `next_step`."""
        if count:
            self.ledger.gap.add(dur_ns, count)
            self._recent_ns.push(next_step - 1, dur_ns)

    def _close(self, *, stopped: bool) -> RunRecord:
        scheduler = self.scheduler
        unfinished = [*scheduler.running.values(), *scheduler.swapped_jobs(), *scheduler.waiting]
        scheduler.close(self.step)
        return self.ledger.close(scheduler, unfinished, self.now_ns, interrupted=stopped)


def _or_never(t_ns: int | None) -> int:
    return NEVER if t_ns is None else t_ns
