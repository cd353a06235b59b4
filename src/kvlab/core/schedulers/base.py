"""What the clock loop needs from a set of rules, and what every set of rules keeps."""

from __future__ import annotations

from typing import Protocol

from kvlab.core.allocators import Space
from kvlab.core.cost import StepCost
from kvlab.core.decode import DecodeBatch
from kvlab.core.memory import Stay
from kvlab.core.queues import Queue
from kvlab.core.request import Request
from kvlab.core.sequence import NEVER, Job, Seq


class Decisions:
    """What one step decided. Lists are in the order in which things happened."""

    __slots__ = (
        "admitted", "failed", "has_moves", "only_prefills", "preempted", "prefill_tokens", "recomputed_tokens",
        "resumed", "starting", "swap_ns", "swapped_tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.prefill_tokens = 0
        self.recomputed_tokens = 0
        self.swap_ns = 0
        self.swapped_tokens = 0
        self.starting: list[Job] = []
        """Jobs that emit the first token of their stay at the end of this step."""
        self.admitted: list[Job] = []
        self.resumed: list[Job] = []
        self.preempted: list[tuple[Job, str]] = []
        self.failed: list[Job] = []
        """Jobs that came back and no longer fit, ever: they leave unfinished."""
        self.only_prefills = False
        """Nobody decodes in this step: who could waits for the prefills."""
        self.has_moves = False
        """Whether any of the lists has an entry."""

    def clear(self) -> None:
        """Empties the lists, and what comes with them: one object serves all steps, as most decide nothing."""
        self.has_moves = False
        self.starting.clear()
        self.admitted.clear()
        self.recomputed_tokens = 0
        if self.resumed or self.preempted or self.failed:
            self.resumed.clear()
            self.failed.clear()
            self.preempted.clear()
            self.swap_ns = self.swapped_tokens = 0


class Scheduler(Protocol):
    """One set of rules: `schedule` decides a step, `end` takes back what a sequence held."""

    batch: DecodeBatch
    running: dict[int, Job]
    """In admission order."""
    tokens_per_unit: int
    """Tokens in one of the units that `space` counts."""
    capacity_tokens: int
    num_running: int
    """Running sequences: one per live sample."""
    context_tokens: int
    """Tokens of running sequences that have KV when the step ends; shared ones count once per sample."""
    num_swapped: int
    """Requests in the CPU swap space."""
    is_settled: bool
    """Whether the next steps only decode, as long as nobody arrives, ends or lacks a block."""
    stays: list[Stay] | None
    cow_copies: int
    swap_ins: int
    cached_tokens: int
    """Tokens that admissions found in the prefix cache."""
    queried_tokens: int
    """Tokens that admissions looked for there."""
    turns_empty_prompts_away: bool
    """Whether a prompt without a token is rejected; elsewhere it is invalid input."""
    is_stuck: bool
    """The step did nothing, and nothing can change before the next arrival."""
    is_livelocked: bool
    """What runs will never end, unless somebody new changes it."""

    @property
    def waiting(self) -> Queue:
        """Who is not admitted yet, or not again."""

    @property
    def shared_tokens(self) -> int:
        """Of `context_tokens`, counted more than once: the rest is what memory holds."""

    @property
    def saved_blocks(self) -> int:
        """Block-table entries beyond the blocks taken."""

    @property
    def cost(self) -> StepCost:
        """How long steps last."""

    @property
    def space(self) -> Space:
        """What is free on the GPU, in units."""

    @property
    def has_work(self) -> bool:
        """Whether anything is waiting, running or swapped."""

    @property
    def largest_hole(self) -> int:
        """Tokens of the biggest free range."""

    def can_ever_run(self, request: Request) -> bool:
        """Whether the request fits into an empty server."""

    def job(self, request: Request) -> Job:
        """The request as it waits."""

    @property
    def holds_back_newcomers(self) -> bool:
        """Whether who arrives now waits behind somebody that does not fit."""

    def schedule(self, step: int) -> Decisions:
        """Decides one step. The object is good until the next call."""

    def duration_ns(self, decisions: Decisions) -> int:
        """How long the step lasts that was just decided."""

    def grow(self, step: int) -> bool:
        """One block for each table that is full in this step; False, and nothing done, if they don't suffice."""

    def end(self, seq: Seq, step: int) -> None:
        """Frees the memory of a sequence that emitted its last token at the end of `step`."""

    def swapped_jobs(self) -> list[Job]:
        """Requests in the CPU swap space, in the order in which they would come back; then those that failed."""

    def close(self, step: int) -> None:
        """Writes open stays into the log: the run was stopped before `step`."""

    def check(self, step: int) -> None:
        """Asserts every invariant of the whole state, as it is before `step`."""


class LabRules:
    """What both labs have in common: first come, first served, and nobody is let in who can never run."""

    waiting: Queue
    num_running: int
    context_tokens: int
    cost: StepCost

    def __init__(self) -> None:
        self.cached_tokens = self.queried_tokens = 0  # there is no prefix cache
        self.turns_empty_prompts_away = False
        self.is_stuck = self.is_livelocked = False

    def job(self, request: Request) -> Job:
        """The request as it waits."""
        return Job(request)

    @property
    def holds_back_newcomers(self) -> bool:
        """Whether somebody waits already: then he doesn't fit, and newcomers stand behind him."""
        return bool(self.waiting)

    def duration_ns(self, decisions: Decisions) -> int:
        """How long the step lasts that was just decided."""
        return self.cost.duration_ns(self.num_running, self.context_tokens, decisions.prefill_tokens, decisions.swap_ns)


def stay_of(seq: Seq, end_step: int, block_size: int, end: str) -> Stay:
    """The record of a sequence's time on the GPU."""
    job = seq.job
    return Stay(
        request_id=job.id,
        sample=seq.sample,
        order=seq.order,
        arrival_ns=job.request.arrival_ns,
        on_cpu=False,
        start_step=job.start_step,
        end_step=end_step,
        decode_step=None if job.decode_step == NEVER else job.decode_step,
        initial_blocks=seq.initial_blocks,
        growth_step=seq.growth_step,
        block_size=block_size,
        blocks=tuple(seq.table),
        copied=seq.copied,
        segment=None,
        end=end,
    )
