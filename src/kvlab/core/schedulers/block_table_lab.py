"""The rules of MODEL.md, "Block-table lab": contiguous reservations or paged blocks, sharing, copy on write.

The numbers in the code are the steps of that section; 3 and 4 are the clock loop's (engine.py).
"""

from __future__ import annotations

from kvlab.core.allocators import ALLOCATORS, Allocator, PagedMemory
from kvlab.core.config import BlockTableLabConfig
from kvlab.core.cost import context_cost
from kvlab.core.decode import DecodeBatch
from kvlab.core.memory import Copied, Stay
from kvlab.core.prefill import PREFILL_RULES
from kvlab.core.queues import WAITING_ORDERS
from kvlab.core.request import Request
from kvlab.core.schedulers.base import Decisions, LabRules, stay_of
from kvlab.core.sequence import NEVER, Job, Seq
from kvlab.core.victims import VICTIM_POLICIES
from kvlab.errors import ConfigError, UnknownNameError


class BlockTableLab(LabRules):
    """See `kvlab.core.schedulers.base.Scheduler`. Admission, preemption and limits are by whole requests."""

    def __init__(self, config: BlockTableLabConfig, *, log_memory: bool) -> None:
        if config.allocator not in ALLOCATORS:
            raise UnknownNameError("allocator", config.allocator, ALLOCATORS)
        super().__init__()
        self.config = config
        self.cost = context_cost(config)
        self.memory: Allocator = ALLOCATORS[config.allocator](config)
        self.space = self.memory.space
        self.tokens_per_unit = self.memory.tokens_per_unit
        self.capacity_tokens = self.memory.capacity_tokens
        self.batch = DecodeBatch(self.memory.block_size)
        self.waiting = WAITING_ORDERS["fcfs"]()
        self.running: dict[int, Job] = {}
        self.num_running = 0
        self.num_swapped = self.swap_ins = 0  # there is no swap space
        self.context_tokens = 0
        self.shared_tokens = 0
        self.saved_blocks = 0
        self.cow_copies = 0
        self.is_settled = False
        self.stays: list[Stay] | None = [] if log_memory else None
        self._decisions = Decisions()
        self._admissions = 0
        self._writes_shared: list[Job] = []  # their samples write into a block they share, in the next step
        self._prefills_now = PREFILL_RULES["whole-prompt"]
        self._choose_victim = VICTIM_POLICIES["latest-admitted"]

    @property
    def has_work(self) -> bool:
        """Whether anything is waiting or running."""
        return bool(self.running or self.waiting)

    @property
    def largest_hole(self) -> int:
        """Tokens of the biggest free range."""
        return self.memory.largest_hole

    def can_ever_run(self, request: Request) -> bool:
        """Whether the samples are few enough, and fit into empty memory."""
        longest = max(request.output_tokens)
        if longest > self.config.max_tokens:
            raise ConfigError(f"output of request {request.id}", longest, f"max_tokens is {self.config.max_tokens}")
        return len(request.output_tokens) <= self.config.max_num_seqs and self.memory.can_ever_hold(request)

    def schedule(self, step: int) -> Decisions:
        """Steps 1 and 2."""
        decisions = self._decisions
        decisions.prefill_tokens = 0
        if decisions.has_moves:
            decisions.clear()
        self.context_tokens += self.batch.num_seqs
        if self._writes_shared or not self.grow(step):
            self._decode_one_by_one(step)
        if self.waiting and not decisions.preempted:
            self._admit(step)
        # who waits was asked and did not fit, unless this step preempted somebody
        self.is_settled = not (self._writes_shared or decisions.preempted)
        return decisions

    def grow(self, step: int) -> bool:
        """One block for each table that is full in this step; False, and nothing done, if they don't suffice."""
        return not isinstance(self.memory, PagedMemory) or self.batch.grow(step, self.memory.pool)

    def _decode_one_by_one(self, step: int) -> None:
        """1. In admission order, each sample that lacks a block or writes into a shared one takes one."""
        assert isinstance(self.memory, PagedMemory)
        pool = self.memory.pool
        full = self.batch.phases[step % self.memory.block_size]
        writers = self._writes_shared
        running = [seq for job in self.running.values() for seq in job.live]
        turns = [(seq, seq.job in writers) for seq in running if seq.order in full or seq.job in writers]
        for job in self._writes_shared:
            self._unshare_last_block(job)
        self._writes_shared = []
        for seq, writes_shared in turns:
            entry = seq.job.request.prompt_tokens // self.memory.block_size
            if writes_shared and seq.order >= 0 and not pool.is_shared(seq.table[entry]):
                continue  # the last holder writes in place
            while seq.order >= 0 and not pool.num_free:
                self._preempt(self._choose_victim(self.running), step)
            if seq.order >= 0:
                block = pool.take(1)[0]
                if writes_shared:
                    self._copy_on_write(seq, Copied(step, entry, seq.table[entry]), block)
                else:
                    seq.table.append(block)

    def _copy_on_write(self, seq: Seq, copied: Copied, block: int) -> None:
        """The sample's table names its own copy, then lets go of the shared block."""
        assert isinstance(self.memory, PagedMemory)
        seq.table[copied.entry] = block
        self.memory.pool.give_back([copied.source])
        seq.copied = copied
        self.cow_copies += 1

    def _unshare_last_block(self, job: Job) -> None:
        """On the books: from their first own token on, samples share only the full blocks of the prompt."""
        assert self.memory.block_size is not None
        self._book_sharing(job, -1)
        job.shared_blocks -= 1
        job.shared_tokens = job.shared_blocks * self.memory.block_size
        self._book_sharing(job, +1)

    def _book_sharing(self, job: Job, sign: int) -> None:
        """Adds or takes away what the job's live samples share: counted once per sample, held once."""
        others = len(job.live) - 1
        if others > 0:
            self.shared_tokens += sign * others * job.shared_tokens
            self.saved_blocks += sign * others * job.shared_blocks

    def _preempt(self, job: Job, step: int) -> None:
        """All live samples lose their memory; the request goes to the head of the queue."""
        live = len(job.live)
        job.known = known = job.known_at(step)
        job.paused_decode_step = job.decode_step
        job.preemptions += 1
        computed = job.request.prompt_tokens + live * (known - job.request.prompt_tokens - 1)
        job.recomputed_tokens += computed
        self._decisions.recomputed_tokens += computed
        self._book_sharing(job, -1)
        self.context_tokens -= live * known
        self.num_running -= live
        for seq in job.live:
            self.batch.leave(seq)
            self._release(seq, step, "recompute")
        del self.running[job.id]
        job.decode_step = NEVER
        self.waiting.add_preempted(job)
        self._decisions.preempted.append((job, "recompute"))
        self._decisions.has_moves = True

    def _release(self, seq: Seq, end_step: int, why: str) -> None:
        """Frees the sample's memory and closes its stay in the log."""
        if self.stays is not None:
            self.stays.append(self._stay(seq, end_step, why))
        self.memory.release(seq)
        seq.order = -1
        seq.copied = None
        seq.growth_step = NEVER

    def _stay(self, seq: Seq, end_step: int, why: str) -> Stay:
        block_size = self.memory.block_size
        if block_size is not None:
            return stay_of(seq, end_step, block_size, why)
        start, length = seq.table
        return stay_of(seq, end_step, 1, why)._replace(blocks=(), segment=(start, length))

    def _admit(self, step: int) -> None:
        """2. The head of the queue comes in while it fits, and prefills in this very step."""
        while self.waiting:
            job = self.waiting.head()
            samples = len(job.live)
            if self.num_running + samples > self.config.max_num_seqs:
                return
            if not self.memory.has_room(job, nothing_runs=not self.running):
                return
            self.waiting.take_head()
            self.memory.place(job)
            job.start_step = step
            for seq in job.live:
                self._admissions += 1
                seq.order = self._admissions
            self.running[job.id] = job
            self.num_running += samples
            self.context_tokens += samples * job.known
            self._book_sharing(job, +1)
            if samples > 1 and job.shared_tokens % (self.memory.block_size or 1):
                self._writes_shared.append(job)
            todo = job.request.prompt_tokens + samples * (job.known - job.request.prompt_tokens)
            self._decisions.prefill_tokens += self._prefills_now(todo, todo)
            self.batch.join(job, step)
            self._decisions.has_moves = True
            self._decisions.starting.append(job)
            self._decisions.admitted.append(job)

    def end(self, seq: Seq, step: int) -> None:
        """A sample emitted its last token at the end of `step`; the request leaves with its last sample."""
        job = seq.job
        self.num_running -= 1
        self.context_tokens -= job.known_at(step)
        self._book_sharing(job, -1)
        job.live.remove(seq)
        self._book_sharing(job, +1)
        self.batch.leave(seq)
        self._release(seq, step + 1, "finished")
        if not job.live:
            del self.running[job.id]
            if job in self._writes_shared:
                self._writes_shared.remove(job)

    def swapped_jobs(self) -> list[Job]:
        """None: this lab has no swap space."""
        return []

    def close(self, step: int) -> None:
        """Writes open stays into the log: the run was stopped before `step`."""
        if self.stays is not None:
            self.stays += [self._stay(seq, step, "open") for job in self.running.values() for seq in job.live]

    def check(self, step: int) -> None:
        """Asserts every invariant of the whole state, as it is before `step`."""
        running = [seq for job in self.running.values() for seq in job.live]
        self.memory.check(running)
        assert len(running) == self.num_running <= self.config.max_num_seqs, f"{len(running)} running"
        assert [seq.order for seq in running] == sorted(seq.order for seq in running), "admission order"
        tokens = sum(seq.job.known_at(step) - 1 for seq in running)
        assert tokens == self.context_tokens, f"{self.context_tokens} tokens on the books, {tokens} in tables"
        if isinstance(self.memory, PagedMemory):
            entries = sum(len(seq.table) for seq in running)
            assert entries - self.memory.pool.num_taken == self.saved_blocks, f"{self.saved_blocks} blocks saved"
            assert all(len(s.table) * self.memory.block_size >= s.job.known_at(step) - 1 for s in running), (
                "short table"
            )
