"""Complete logs of a run, and the sums over them once it has ended: every sum is one obvious expression."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from kvlab.core.config import Slo
from kvlab.core.records import PAUSE_NS, RequestRecord, RunRecord, StepRecord, Totals
from kvlab.core.request import Request
from kvlab.core.tally import Tally

Tables = dict[tuple[int, int], tuple[int, ...]]
"""(request id, sample) -> block ids; contiguous: (first token, length). Iterates in the order of the rules."""


class Life:
    """What happened to one request so far."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.rejected = False
        self.admitted_ns: int | None = None
        self.token_times: list[list[int]] = [[] for _ in request.output_tokens]
        """ns, per sample."""
        self.preemptions = 0
        self.recomputed_tokens = 0
        self.swap_outs = 0
        self.cached_tokens = 0

    def admit(self, t_ns: int) -> None:
        """A step that begins at `t_ns` admits it; only the first time counts."""
        if self.admitted_ns is None:
            self.admitted_ns = t_ns

    @property
    def has_finished(self) -> bool:
        """Whether every sample has emitted its last token."""
        return [len(times) for times in self.token_times] == list(self.request.output_tokens)

    @property
    def first_token_ns(self) -> int:
        """Of any sample."""
        return min(times[0] for times in self.token_times)

    @property
    def finish_ns(self) -> int:
        """Last token of the last sample."""
        return max(times[-1] for times in self.token_times)

    @property
    def gaps(self) -> list[int]:
        """ns, of all samples."""
        return [later - earlier for times in self.token_times for earlier, later in pairwise(times)]

    @property
    def tpot_ns(self) -> int | None:
        """Mean gap, rounded down; None without gaps."""
        return sum(self.gaps) // len(self.gaps) if self.gaps else None

    def record(self) -> RequestRecord:
        """The frozen record of a life."""
        request = self.request
        return RequestRecord(
            id=request.id,
            arrival_ns=request.arrival_ns,
            prompt_tokens=request.prompt_tokens,
            output_tokens=sum(request.output_tokens),
            num_samples=len(request.output_tokens),
            rejected=self.rejected,
            admitted_ns=self.admitted_ns,
            first_token_ns=self.first_token_ns if any(self.token_times) else None,
            finish_ns=self.finish_ns if self.has_finished else None,
            tpot_ns=self.tpot_ns if self.has_finished else None,
            max_gap_ns=max(self.gaps, default=0),
            preemptions=self.preemptions,
            recomputed_tokens=self.recomputed_tokens,
            swap_outs=self.swap_outs,
            cached_tokens=self.cached_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRun:
    """A finished run of the reference."""

    record: RunRecord
    """Everything recorded, except `stays`: `tables` hold whole tables instead."""
    tables: list[Tables]
    """Block tables after admission of steps 0, n, 2n, ..., n = `tables_every`; in admission order."""
    cpu_tables: list[Tables]
    """The same of the swap space, in the order of swap-in."""
    token_times: dict[tuple[int, int], list[int]]
    """(request id, sample) -> ns of every token."""


class Log:
    """Everything that happened in a run so far."""

    def __init__(self, tables_every: int) -> None:
        self.lives: list[Life] = []
        self.steps: list[StepRecord] = []
        self.tables: list[Tables] = []
        self.cpu_tables: list[Tables] = []
        self.swap_ins = 0
        self.swapped_tokens = 0
        self.swap_ns = 0
        self.cow_copies = 0
        self.cached_tokens = 0
        self.queried_tokens = 0
        self._tables_every = tables_every

    def begin(self, request: Request) -> Life:
        """A request has arrived."""
        life = Life(request)
        self.lives.append(life)
        return life

    @property
    def keeps_tables(self) -> bool:
        """Whether the step in progress is one whose tables are kept."""
        return len(self.steps) % self._tables_every == 0

    def close(self, capacity_tokens: int, window_ns: int | None, slo: Slo | None) -> ReferenceRun:
        """Sum up: nothing waits, runs or is swapped any more, or nothing can move."""
        served = [life for life in self.lives if life.has_finished and not life.rejected]
        record = RunRecord(
            totals=self._totals(served, window_ns, slo),
            capacity_tokens=capacity_tokens,
            rejected=tuple(life.request.id for life in self.lives if life.rejected),
            ttft=_tally([life.first_token_ns - life.request.arrival_ns for life in served]),
            gap=_tally([gap for life in self.lives for gap in life.gaps]),
            tpot=_tally([life.tpot_ns for life in served]),
            e2e=_tally([life.finish_ns - life.request.arrival_ns for life in served]),
            queue_time=_tally([_queue_time_ns(life) for life in served]),
            requests=tuple(life.record() for life in self.lives),
            steps=tuple(self.steps),
            stays=(),
            interrupted=False,
        )
        token_times = {
            (life.request.id, sample): times
            for life in self.lives
            if not life.rejected
            for sample, times in enumerate(life.token_times)
        }
        return ReferenceRun(record=record, tables=self.tables, cpu_tables=self.cpu_tables, token_times=token_times)

    def _totals(self, served: list[Life], window_ns: int | None, slo: Slo | None) -> Totals:
        steps = self.steps
        times = [t_ns for life in self.lives for sample in life.token_times for t_ns in sample]
        rejected = len([life for life in self.lives if life.rejected])
        return Totals(
            arrived=len(self.lives),
            finished=len(served),
            rejected=rejected,
            unfinished=len(self.lives) - rejected - len(served),
            steps=len(steps),
            end_ns=steps[-1].t_ns if steps else 0,
            busy_ns=sum(step.dur_ns for step in steps),
            output_tokens=len(times),
            output_tokens_in_window=len([t_ns for t_ns in times if window_ns is None or t_ns <= window_ns]),
            good=len([life for life in served if slo is None or _meets(life, slo)]),
            paused=len([life for life in served if max(life.gaps, default=0) > PAUSE_NS]),
            preemptions=sum(len(step.preempted) for step in steps),
            prefill_tokens=sum(step.prefill_tokens for step in steps),
            recomputed_tokens=sum(life.recomputed_tokens for life in self.lives),
            swap_outs=sum(life.swap_outs for life in self.lives),
            swap_ins=self.swap_ins,
            swapped_tokens=self.swapped_tokens,
            swap_ns=self.swap_ns,
            cow_copies=self.cow_copies,
            reserved_token_steps=sum(step.reserved_tokens for step in steps),
            used_token_steps=sum(step.used_tokens for step in steps),
            reserved_token_ns=sum(step.reserved_tokens * step.dur_ns for step in steps),
            used_token_ns=sum(step.used_tokens * step.dur_ns for step in steps),
            largest_hole_token_ns=sum(step.largest_hole_tokens * step.dur_ns for step in steps),
            saved_block_ns=sum(step.saved_blocks * step.dur_ns for step in steps),
            running_ns=sum(step.running * step.dur_ns for step in steps),
            waiting_ns=sum(step.waiting * step.dur_ns for step in steps),
            peak_running=max((step.running for step in steps), default=0),
            peak_waiting=max((step.waiting for step in steps), default=0),
            peak_reserved_tokens=max((step.reserved_tokens for step in steps), default=0),
            cached_tokens=self.cached_tokens,
            queried_tokens=self.queried_tokens,
        )


def _queue_time_ns(life: Life) -> int:
    assert life.admitted_ns is not None, f"request {life.request.id} ended without an admission"
    return life.admitted_ns - life.request.arrival_ns


def _meets(life: Life, slo: Slo) -> bool:
    arrival_ns = life.request.arrival_ns
    return slo.met(
        ttft_ns=life.first_token_ns - arrival_ns,
        tpot_ns=life.tpot_ns or 0,
        gap_ns=max(life.gaps, default=0),
        e2e_ns=life.finish_ns - arrival_ns,
    )


def _tally(values: list[int] | list[int | None]) -> Tally:
    tally = Tally(limit=None)
    for value in values:
        if value is not None:
            tally.add(value)
    return tally
