"""The clock loop: deliver arrivals, schedule a step, charge its time, emit its tokens.

After a full step come *quiet* ones: while nobody arrives, ends, prefills, lacks a block or was preempted, a step only
moves the decode clock. Where such steps all last the same, `_leap_quietly` takes many at once; where each has a row of
its own or lasts longer than the one before, `_step_quietly` runs them in a loop of a few operations.

`step` is the decode clock. Under rules whose prefills have steps of their own it stands still in these, and what they
last is part of the next gap of everybody who waits for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kvlab.core.config import METRICS, EngineConfig, Recording, Slo
from kvlab.core.ledger import Ledger
from kvlab.core.recent_max import RecentMax
from kvlab.core.records import RunRecord
from kvlab.core.request import Request, RequestSource
from kvlab.core.schedulers import scheduler_for
from kvlab.core.schedulers.base import Decisions, Scheduler
from kvlab.core.sequence import NEVER, Job
from kvlab.errors import ConfigError
from kvlab.units import ceil_div

Monitor = Callable[[int, int], bool]
"""(clock in ns, requests ended so far) -> whether to stop. Called every `MONITOR_STEPS` full steps."""

MONITOR_STEPS: Final = 1024
QUIET_STEPS: Final = 4096  # in one go, so that a monitor is asked in good time


def simulate(
    config: EngineConfig,
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
    Raises:
        ConfigError: a policy that isn't known, or a request that the rules do not describe.
    """
    engine = Engine(config, source, recording=recording, window_ns=window_ns, slo=slo)
    return engine.run(monitor, check=check)


class Engine:
    """One run. The state is public to tests; results are what `run` returns."""

    def __init__(
        self,
        config: EngineConfig,
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
        self._idle_ns = 0
        self._full_steps = 0
        self._steps_at_jump = -1
        self._pause_ns = 0  # steps without a decode since the last one with
        self._fresh: list[Job] = []  # who began to decode in these
        self._last_end_ns = 0  # when the clock last began to jump
        self._next_arrival_ns = _or_never(source.next_arrival_ns())
        self._window_ns = NEVER if window_ns is None else window_ns
        self._recent_ns = RecentMax()  # step durations, for the longest gap of each request
        self._duration_ns = self.scheduler.cost.duration_ns

    def run(self, monitor: Monitor | None, *, check: bool) -> RunRecord:
        """See `simulate`."""
        countdown = MONITOR_STEPS
        scheduler = self.scheduler
        must_decide = True
        while True:
            if self._next_arrival_ns <= self.now_ns or not scheduler.running:
                must_decide = must_decide or not scheduler.holds_back_newcomers
                if not self._may_go_on() or not self._deliver():
                    return self._close(stopped=False)
            if check:
                scheduler.check(self.step)
            if must_decide:
                must_decide = self._full_step()
                if scheduler.is_livelocked and self._next_arrival_ns == NEVER:
                    return self._close(stopped=False)
            if not must_decide:
                must_decide = self._quiet_steps()
            countdown -= 1
            if countdown == 0:
                countdown = MONITOR_STEPS
                self.ledger.digest()
                if monitor is not None and monitor(self.now_ns, self.ledger.finished + self.ledger.rejected):
                    return self._close(stopped=True)

    def _may_go_on(self) -> bool:
        """Where nothing can move, the clock jumps to the next arrival. False when there is none."""
        if not self.scheduler.is_stuck:
            return True
        if self._next_arrival_ns == NEVER:
            return False
        if self._next_arrival_ns > self.now_ns:
            self._idle_ns += self._next_arrival_ns - self.now_ns
            self.now_ns = self._next_arrival_ns
        return True

    def _deliver(self) -> bool:
        """Arrivals up to now join the queue; an idle clock jumps to the next one. False when the run is over."""
        while True:
            while self._next_arrival_ns <= self.now_ns:
                self._receive(self._source.pop())
                self._next_arrival_ns = _or_never(self._source.next_arrival_ns())
            if self.scheduler.has_work:
                return True
            if self._next_arrival_ns == NEVER:
                return False
            if self._full_steps != self._steps_at_jump:
                self._steps_at_jump = self._full_steps
                self._last_end_ns = self.now_ns
            self._idle_ns += self._next_arrival_ns - self.now_ns
            self.now_ns = self._next_arrival_ns

    def _receive(self, request: Request) -> None:
        least = 0 if self.scheduler.turns_empty_prompts_away else 1
        if request.prompt_tokens < least or not request.output_tokens or min(request.output_tokens) < 1:
            raise ConfigError(
                f"request {request.id}", tuple(request[2:4]), "prompt and outputs must be at least 1 token"
            )
        self.ledger.arrived += 1
        if self.scheduler.can_ever_run(request):
            self.scheduler.waiting.add(self.scheduler.job(request))
        else:
            self.ledger.book_rejected(request)
            self._source.ended(request, request.arrival_ns)

    def _full_step(self) -> bool:
        """One step in full. Returns whether the next one may be of another kind than a plain decode."""
        scheduler, ledger = self.scheduler, self.ledger
        step, start_ns = self.step, self.now_ns
        decisions = scheduler.schedule(step)
        self._full_steps += 1
        if decisions.only_prefills:
            return self._prefill_step(decisions)
        batch = scheduler.batch
        emitting = gaps = batch.num_seqs
        prefill_tokens = decisions.prefill_tokens
        dur_ns = scheduler.duration_ns(decisions)
        self.now_ns = now_ns = start_ns + dur_ns
        if now_ns > self._window_ns:
            self._close_window(0)
        if decisions.has_moves:
            gaps -= self._move(decisions, start_ns)
        if self._pause_ns:
            self._end_pause(dur_ns, gaps)
            gaps = 0
        else:
            self._recent_ns.push(step, dur_ns)
        row = self._row(now_ns, dur_ns, prefill_tokens, emitting, gaps)
        ends = batch.ends
        has_ends = bool(ends) and ends[0][0] == step
        finished = self._end_sequences(step) if has_ends else []
        if ledger.keeps_steps:
            row += _ids(decisions, finished)
        ledger.rows.append(row)
        self.step = step + 1
        return has_ends or not scheduler.is_settled

    def _prefill_step(self, decisions: Decisions) -> bool:
        """A step in which nobody decodes. The next one has to be decided, too."""
        scheduler, ledger = self.scheduler, self.ledger
        start_ns = self.now_ns
        dur_ns = scheduler.duration_ns(decisions)
        self.now_ns = now_ns = start_ns + dur_ns
        if now_ns > self._window_ns:
            self._close_window(0)
        emitting = self._move(decisions, start_ns)
        for job in decisions.starting:
            job.last_token_ns = now_ns
        self._pause_ns += dur_ns
        self._fresh += decisions.starting
        row = self._row(now_ns, dur_ns, decisions.prefill_tokens, emitting, 0)
        finished = self._end_sequences(self.step - 1)  # as if their token came with the last decodes
        if ledger.keeps_steps:
            row += _ids(decisions, finished)
        ledger.rows.append(row)
        if not scheduler.batch.num_seqs:
            self._pause_ns = 0
            self._fresh.clear()
        return True

    def _end_pause(self, dur_ns: int, num_seqs: int) -> None:
        """The first decodes after steps without: a longer gap for all, a less long one for who began in these steps.

        Args:
            dur_ns: of the step that decodes.
            num_seqs: sequences that emitted before it and emit in it.
        """
        gap_ns = dur_ns + self._pause_ns
        self._recent_ns.push(self.step, gap_ns)
        for job in self._fresh:
            if job.live and job.decode_step == self.step - 1:
                own_gap_ns = self.now_ns - job.last_token_ns
                job.max_gap_ns = max(job.max_gap_ns, own_gap_ns)
                job.decode_step = self.step  # the gaps up to it are booked
                self.ledger.gap.add(own_gap_ns, len(job.live))
                num_seqs -= len(job.live)
        if num_seqs:
            self.ledger.gap.add(gap_ns, num_seqs)
        self._pause_ns = 0
        self._fresh.clear()

    def _row(self, now_ns: int, dur_ns: int, prefill_tokens: int, emitting: int, gaps: int) -> tuple[Any, ...]:
        """A step as `kvlab.core.ledger.ROW` has it, without the ids."""
        scheduler = self.scheduler
        return (
            now_ns, dur_ns, scheduler.num_running, len(scheduler.waiting), scheduler.num_swapped,
            scheduler.space.num_free, scheduler.context_tokens - scheduler.shared_tokens, scheduler.saved_blocks,
            0 if scheduler.batch.grows else scheduler.largest_hole, prefill_tokens, emitting, gaps,
        )  # fmt: skip

    def _move(self, decisions: Decisions, start_ns: int) -> int:
        """Requests came and went. Returns how many sequences emit without a gap of one step."""
        for job, _ in decisions.preempted:
            self._pause(job, start_ns)
        if decisions.failed:
            for job in decisions.failed:
                self._source.ended(job.request, start_ns)
            self._next_arrival_ns = _or_never(self._source.next_arrival_ns())
        self.ledger.book_moves(decisions, start_ns)
        num_seqs = 0
        for job in decisions.starting:
            num_seqs += len(job.live)
            if job.first_token_ns < 0:
                job.first_token_ns = self.now_ns
            else:
                gap_ns = self.now_ns - job.last_token_ns
                self.ledger.gap.add(gap_ns, len(job.live))
                job.max_gap_ns = max(job.max_gap_ns, gap_ns)
        return num_seqs

    def _close_window(self, late: int) -> None:
        """A step ends after the window for the first time; `late` of the tokens on the books are its tokens."""
        self._window_ns = NEVER
        self.ledger.digest()
        self.ledger.output_tokens_in_window = self.ledger.output_tokens - late

    def _pause(self, job: Job, start_ns: int) -> None:
        """A preempted job emits no more for a while; its gaps were the steps after the first of its stay."""
        if job.paused_decode_step != NEVER:
            job.max_gap_ns = max(job.max_gap_ns, self._recent_ns.since(job.paused_decode_step + 1))
            if job not in self._fresh:
                job.last_token_ns = start_ns - self._pause_ns

    def _end_sequences(self, step: int) -> list[Job]:
        """Sequences that emitted their last token leave, in admission order. Returns the jobs that are done."""
        scheduler, ledger, now_ns = self.scheduler, self.ledger, self.now_ns
        batch = scheduler.batch
        finished = []
        while (seq := batch.pop_ended(step)) is not None:
            job = seq.job
            job.span_ns += now_ns - job.first_token_ns
            gap_ns = self._recent_ns.since(job.decode_step + 1)
            if gap_ns > job.max_gap_ns:
                job.max_gap_ns = gap_ns
            scheduler.end(seq, step)
            if not job.live:
                finished.append(job)
                ledger.book_finished(job, now_ns)
        for job in finished:
            self._source.ended(job.request, now_ns)
        self._next_arrival_ns = _or_never(self._source.next_arrival_ns())
        return finished

    def _quiet_steps(self) -> bool:
        """Plain decode steps, up to the next arrival, the next end, the next shortage or the end of the window.

        Returns whether the next step has something to decide: an end or a shortage, not just an arrival.
        """
        batch = self.scheduler.batch
        end_step = batch.next_end()
        if end_step == self.step or self._next_arrival_ns <= self.now_ns:
            return end_step == self.step
        last = min(end_step, self.step + QUIET_STEPS)
        until_ns = min(self._next_arrival_ns, self._window_ns + 1)  # a step that crosses the window is the last
        if self.scheduler.cost.grows_with_context or self.ledger.keeps_steps:
            is_short = self._step_quietly(last, until_ns)
        else:
            is_short = self._leap_quietly(last, until_ns)
        if self.now_ns > self._window_ns:
            self._close_window(batch.num_seqs)
        return is_short or self.step == end_step

    def _step_quietly(self, last: int, until_ns: int) -> bool:
        """Quiet steps one by one, each with a row of its own. Returns whether blocks ran short."""
        scheduler, rows = self.scheduler, self.ledger.rows
        batch, duration_ns = scheduler.batch, self._duration_ns
        phases, num_phases = batch.phases, len(batch.phases)
        num_seqs, context_tokens, shared = batch.num_seqs, scheduler.context_tokens, scheduler.shared_tokens
        before = (scheduler.num_running, len(scheduler.waiting), scheduler.num_swapped)
        after = (scheduler.saved_blocks, 0 if batch.grows else scheduler.largest_hole, 0, num_seqs, num_seqs)
        if self.ledger.keeps_steps:
            after += ((), (), (), ())  # type: ignore[assignment] # rows have the ids only then
        free = scheduler.space.num_free
        step, now_ns, dur_ns, is_short = self.step, self.now_ns, 0, False
        while step < last and now_ns < until_ns:
            if phases[step % num_phases]:
                if not scheduler.grow(step):
                    is_short = True
                    break
                free = scheduler.space.num_free
            context_tokens += num_seqs
            dur_ns = duration_ns(num_seqs, context_tokens, 0, 0)
            now_ns += dur_ns
            rows.append((now_ns, dur_ns, *before, free, context_tokens - shared, *after))
            step += 1
        if dur_ns:
            self._recent_ns.push(step - 1, dur_ns)  # the longest of them, as context only grows
        scheduler.context_tokens = context_tokens
        self.step, self.now_ns = step, now_ns
        if len(rows) > QUIET_STEPS:
            self.ledger.digest()
        return is_short

    def _leap_quietly(self, last: int, until_ns: int) -> bool:
        """Quiet steps of one duration, in leaps from one growing table to the next, booked as one run."""
        scheduler = self.scheduler
        batch, space = scheduler.batch, scheduler.space
        phases, num_phases = batch.phases, len(batch.phases)
        num_seqs, context_tokens = batch.num_seqs, scheduler.context_tokens
        dur_ns = self._duration_ns(num_seqs, context_tokens, 0, 0)
        last = min(last, self.step + ceil_div(until_ns - self.now_ns, dur_ns))
        free_sum, is_short = 0, False
        first = step = self.step
        while step < last:
            if phases[step % num_phases] and not scheduler.grow(step):
                is_short = True
                break
            after = step + 1
            while after < last and not phases[after % num_phases]:
                after += 1
            free_sum += space.num_free * (after - step)
            step = after
        steps = step - first
        if steps:
            used = (context_tokens - scheduler.shared_tokens) * steps + num_seqs * steps * (steps + 1) // 2
            self.ledger.book_run(scheduler, steps, dur_ns, free_sum, used)
            self._recent_ns.push(step - 1, dur_ns)
            scheduler.context_tokens = context_tokens + num_seqs * steps
            self.step, self.now_ns = step, self.now_ns + steps * dur_ns
        return is_short

    def _close(self, *, stopped: bool) -> RunRecord:
        scheduler, ledger = self.scheduler, self.ledger
        ledger.digest()
        scheduler.close(self.step)
        if self._full_steps == self._steps_at_jump:  # nothing ran after the last jump
            self._idle_ns -= self.now_ns - self._last_end_ns
            self.now_ns = self._last_end_ns
        unfinished = [*scheduler.running.values(), *scheduler.swapped_jobs(), *scheduler.waiting]
        return ledger.close(scheduler, unfinished, self.now_ns, self._idle_ns, interrupted=stopped)


def _or_never(t_ns: int | None) -> int:
    return NEVER if t_ns is None else t_ns


def _ids(decisions: Decisions, finished: list[Job]) -> tuple[tuple[Any, ...], ...]:
    """The last columns of a row: who was admitted, resumed, preempted and finished."""
    ended = tuple([job.id for job in finished]) if finished else ()
    if not decisions.has_moves:
        return ((), (), (), ended)
    admitted = tuple([job.id for job in decisions.admitted])
    resumed = tuple([job.id for job in decisions.resumed])
    preempted = tuple([(job.id, outcome) for job, outcome in decisions.preempted])
    return (admitted, resumed, preempted, ended)
