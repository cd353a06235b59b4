"""The rules of MODEL.md, "Preemption lab": paged memory, chunked prefill, recompute or swap.

The numbers in the code are the steps of that section; 5 and 6 are the clock loop's (engine.py).
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter

from kvlab.core.admission import ADMISSION_RULES
from kvlab.core.blocks import BlockPool
from kvlab.core.config import PreemptionLabConfig
from kvlab.core.cost import linear_cost
from kvlab.core.decode import DecodeBatch
from kvlab.core.memory import Stay
from kvlab.core.preemption import PREEMPTION_MODES
from kvlab.core.prefill import PREFILL_RULES
from kvlab.core.queues import WAITING_ORDERS
from kvlab.core.request import Request
from kvlab.core.schedulers.base import Decisions, LabRules, stay_of
from kvlab.core.sequence import NEVER, Job, Seq
from kvlab.core.victims import VICTIM_POLICIES
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.units import ceil_div

_by_arrival = attrgetter("request.arrival_ns", "id")


class PreemptionLab(LabRules):
    """See `kvlab.core.schedulers.base.Scheduler`. Requests have one sample each."""

    def __init__(self, config: PreemptionLabConfig, *, log_memory: bool) -> None:
        if config.preemption_mode not in PREEMPTION_MODES:
            raise UnknownNameError("preemption_mode", config.preemption_mode, PREEMPTION_MODES)
        super().__init__()
        self.config = config
        self._max_num_seqs = config.max_num_seqs
        self._prefill_budget = config.prefill_budget_tokens
        self._headroom_blocks = config.headroom_blocks
        self.cost = linear_cost(config)
        self.block_size = config.block_size
        self.space = self.gpu = BlockPool(config.num_gpu_blocks)
        self.tokens_per_unit = config.block_size
        self.cpu = BlockPool(config.num_cpu_blocks)
        self.capacity_tokens = config.num_gpu_blocks * config.block_size
        self.batch = DecodeBatch(config.block_size)
        self.waiting = WAITING_ORDERS["fcfs"]()
        self.running: dict[int, Job] = {}
        self.prefilling: dict[int, Job] = {}  # in admission order, as all who join are the newest
        self.swapped: list[Job] = []  # earliest arrival first
        self.num_running = 0
        self.num_swapped = 0
        self.context_tokens = 0
        self.shared_tokens = self.saved_blocks = self.cow_copies = 0  # one sample shares nothing
        self.swap_ins = 0
        self.is_settled = False
        self.stays: list[Stay] | None = [] if log_memory else None
        self._decisions = Decisions()
        self._admissions = 0
        self._may_admit = ADMISSION_RULES["keep-reserve"]
        self._prefills_now = PREFILL_RULES["chunked"]
        self._choose_victim = VICTIM_POLICIES["latest-admitted"]
        self._is_swapped_out = PREEMPTION_MODES[config.preemption_mode]

    @property
    def has_work(self) -> bool:
        """Whether anything is waiting, running or swapped."""
        return bool(self.running or self.waiting or self.swapped)

    @property
    def largest_hole(self) -> int:
        """All free blocks: any of them can follow any other in a table."""
        return self.gpu.num_free * self.block_size

    def can_ever_run(self, request: Request) -> bool:
        """Whether all tokens that get KV fit into an empty pool; the last one emitted gets none."""
        if len(request.output_tokens) != 1:
            raise ConfigError(f"samples of request {request.id}", len(request.output_tokens), "this lab knows only one")
        stored = request.prompt_tokens + request.output_tokens[0] - 1
        return ceil_div(stored, self.block_size) <= self.gpu.num_blocks

    def schedule(self, step: int) -> Decisions:
        """Steps 1 to 4."""
        decisions = self._decisions
        decisions.prefill_tokens = 0
        if decisions.has_moves:
            decisions.clear()
        self.context_tokens += self.batch.num_seqs
        if not self.batch.grow(step, self.gpu):
            self._grow_by_preempting(step)
        has_preempted = bool(decisions.preempted)
        if not has_preempted:
            if self.swapped:
                self._swap_in(step)
            if self.waiting and not self.swapped and self.num_running < self._max_num_seqs:
                self._admit(step)
        if self.prefilling:
            self._prefill(step)
        # who waits or is swapped was asked and did not fit, unless this step preempted somebody
        self.is_settled = not self.prefilling and not has_preempted
        return decisions

    def grow(self, step: int) -> bool:
        """1. A block for each decoding sequence whose table is full; False, and nothing done, if they don't suffice."""
        return self.batch.grow(step, self.gpu)

    def _grow_by_preempting(self, step: int) -> None:
        """1, when blocks run short: in admission order, each takes a block, if need be from the newest."""
        full = self.batch.phases[step % self.block_size]
        by_order = {job.live[0].order: job.live[0] for job in self.running.values()}
        for seq in [by_order[order] for order in full]:
            while seq.order >= 0 and not self.gpu.num_free:
                self._preempt(self._choose_victim(self.running), step)
            if seq.order >= 0:
                seq.table += self.gpu.take(1)

    def _preempt(self, job: Job, step: int) -> None:
        seq = job.live[0]
        job.known = known = job.known_at(step)
        job.paused_decode_step = job.decode_step
        if job.decode_step != NEVER:
            self.batch.leave(seq)
            self.context_tokens -= known
            job.computed = known - 1
        else:
            del self.prefilling[job.id]
            self.context_tokens -= job.computed
        del self.running[job.id]
        self.num_running -= 1
        job.preemptions += 1
        cpu_blocks = ceil_div(job.computed, self.block_size)
        swaps = self._is_swapped_out(cpu_blocks, self.cpu.num_free)
        outcome = "swap" if swaps else "recompute"
        self._decisions.preempted.append((job, outcome))
        self._decisions.has_moves = True
        self._release(seq, step, outcome)
        if swaps:
            job.cpu_blocks = self.cpu.take(cpu_blocks)
            job.swap_step = step
            job.swap_outs += 1
            self._charge_copy(job)
            insort(self.swapped, job, key=_by_arrival)
            self.num_swapped += 1
        else:
            job.recomputed_tokens += job.computed
            self._decisions.recomputed_tokens += job.computed
            job.computed = 0
            job.decode_step = NEVER
            self.waiting.add_preempted(job)

    def _charge_copy(self, job: Job) -> None:
        config = self.config
        copy_ns = config.swap_per_token_ns * job.computed + config.swap_per_block_ns * len(job.cpu_blocks)
        self._decisions.swap_ns += copy_ns
        self._decisions.swapped_tokens += job.computed

    def _release(self, seq: Seq, end_step: int, why: str) -> None:
        """Frees the sequence's blocks, first to last, and closes its stay in the log."""
        if self.stays is not None:
            self.stays.append(stay_of(seq, end_step, self.block_size, why))
        self.gpu.give_back(seq.table)
        seq.order = -1
        seq.growth_step = NEVER

    def _enter(self, job: Job, need: int, step: int) -> None:
        """The job joins the running set, as the newest, with blocks for all its known tokens."""
        seq = job.live[0]
        seq.table = self.gpu.take(need)
        seq.initial_blocks = need
        self._admissions += 1
        seq.order = self._admissions
        job.start_step = step
        self.running[job.id] = job
        self.num_running += 1
        self._decisions.has_moves = True

    def _swap_in(self, step: int) -> None:
        """2. Swapped sequences come back, earliest arrival first, up to the first that does not fit."""
        while self.swapped and self.num_running < self._max_num_seqs:
            job = self.swapped[0]
            need = ceil_div(job.known, self.block_size)
            if not self._may_admit(need, self.gpu.num_free, self._headroom_blocks, not self.running):
                return
            del self.swapped[0]
            self.num_swapped -= 1
            self._log_cpu_stay(job, step, "resumed")
            self.cpu.give_back(job.cpu_blocks)
            self._charge_copy(job)
            job.cpu_blocks = []
            self.swap_ins += 1
            self._enter(job, need, step)
            self._decisions.resumed.append(job)
            if job.decode_step != NEVER:  # it was decoding, and does so in this very step
                self.context_tokens += job.known
                self.batch.join(job, step)
                self._decisions.starting.append(job)
            else:
                self.context_tokens += job.computed
                self.prefilling[job.id] = job

    def _log_cpu_stay(self, job: Job, step: int, why: str) -> None:
        if self.stays is not None:
            blocks = tuple(job.cpu_blocks)
            self.stays.append(
                Stay(
                    request_id=job.id,
                    sample=0,
                    order=-1,
                    arrival_ns=job.request.arrival_ns,
                    on_cpu=True,
                    start_step=job.swap_step,
                    end_step=step,
                    decode_step=None,
                    initial_blocks=len(blocks),
                    growth_step=NEVER,
                    block_size=self.block_size,
                    blocks=blocks,
                    copied=None,
                    segment=None,
                    end=why,
                )
            )

    def _admit(self, step: int) -> None:
        """3. The head of the queue comes in while it fits; all blocks of its known tokens at once."""
        waiting = self.waiting
        while waiting and self.num_running < self._max_num_seqs:
            job = waiting.head()
            need = ceil_div(job.known, self.block_size)
            if not self._may_admit(need, self.gpu.num_free, self._headroom_blocks, not self.running):
                return
            waiting.take_head()
            self._enter(job, need, step)
            self.prefilling[job.id] = job
            self._decisions.admitted.append(job)

    def _prefill(self, step: int) -> None:
        """4. Chunks in admission order; who completes its prefill emits a token at the end of this step."""
        budget = self._prefill_budget
        completed = []
        for job in self.prefilling.values():
            todo = job.known - job.computed
            tokens = self._prefills_now(todo, budget)
            job.computed += tokens
            budget -= tokens
            if tokens == todo:
                completed.append(job)
            if not budget:
                break
        decisions = self._decisions
        decisions.prefill_tokens = prefilled = self._prefill_budget - budget
        self.context_tokens += prefilled
        if completed:
            for job in completed:
                del self.prefilling[job.id]
                self.batch.join(job, step)
            decisions.starting += completed
            decisions.has_moves = True

    def end(self, seq: Seq, step: int) -> None:
        """The sequence emitted its last token at the end of `step`: it leaves and frees its blocks."""
        job = seq.job
        self.context_tokens -= job.known_at(step)
        self.batch.leave(seq)
        self._release(seq, step + 1, "finished")
        job.live.clear()
        del self.running[job.id]
        self.num_running -= 1

    def swapped_jobs(self) -> list[Job]:
        """Requests in the CPU swap space, in the order in which they would come back."""
        return self.swapped

    def close(self, step: int) -> None:
        """Writes open stays into the log: the run was stopped before `step`."""
        if self.stays is not None:
            for job in self.running.values():
                self.stays.append(stay_of(job.live[0], step, self.block_size, "open"))
            for job in self.swapped:
                self._log_cpu_stay(job, step, "open")

    def check(self, step: int) -> None:
        """Asserts every invariant of the whole state, as it is before `step`."""
        tables = [job.live[0].table for job in self.running.values()]
        held = sorted(block for table in tables for block in table)
        assert sorted(held + self.gpu.free_blocks()) == list(range(self.gpu.num_blocks)), "GPU blocks lost or doubled"
        copied = [block for job in self.swapped for block in job.cpu_blocks]
        assert sorted(copied + self.cpu.free_blocks()) == list(range(self.cpu.num_blocks)), "CPU blocks lost or doubled"
        assert len(self.running) == self.num_running <= self._max_num_seqs, f"{self.num_running} running"
        tokens = 0
        for job in self.running.values():
            computed = job.known_at(step) - 1 if job.is_decoding else job.computed
            assert computed <= job.known_at(step), f"request {job.id}: {computed} computed"
            assert len(job.live[0].table) * self.block_size >= computed, f"request {job.id}: table too short"
            tokens += computed
        assert tokens == self.context_tokens, f"{self.context_tokens} tokens on the books, {tokens} in tables"
        assert [*self.swapped] == sorted(self.swapped, key=_by_arrival), "swap order"
