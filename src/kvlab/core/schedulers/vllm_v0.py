"""The scheduler of vLLM 0.6 (docs/vllm-v0.md): whole prompts in steps of their own, recompute, or swap for groups.

The letters in the code are the sections of that page; 4 and 5 are the clock loop's (engine.py). `step` is the decode
clock, which stands still in steps that prefill: `step + _pauses` is the number of the step in the log.

Running requests need a free block for each sample before they decode, full table or not. So a step is only quiet while
more blocks stay free than any request has samples; the others are played request by request.
"""

from __future__ import annotations

from collections import deque

from kvlab.core.blocks import BlockPool, StackBlockPool
from kvlab.core.config import VllmV0Config
from kvlab.core.cost import DecodeCost
from kvlab.core.decode import DecodeBatch
from kvlab.core.memory import Copied, Stay
from kvlab.core.preemption import GROUP_PREEMPTION_MODES
from kvlab.core.queues import WAITING_ORDERS
from kvlab.core.request import Request
from kvlab.core.schedulers.base import Decisions, stay_of
from kvlab.core.sequence import NEVER, Job, Seq
from kvlab.core.step_time import StepLoad, StepTime
from kvlab.errors import UnknownNameError
from kvlab.units import ceil_div


class VllmV0:
    """See `kvlab.core.schedulers.base.Scheduler`. The samples of a request come, run and go together."""

    def __init__(self, config: VllmV0Config, *, log_memory: bool) -> None:
        if config.preemption_mode not in GROUP_PREEMPTION_MODES:
            raise UnknownNameError("preemption_mode", config.preemption_mode, GROUP_PREEMPTION_MODES)
        self.config = config
        self.block_size = config.block_size
        self._step_time: StepTime = config.step_time
        self.cost = DecodeCost(config.step_time)
        self._is_swapped_out = GROUP_PREEMPTION_MODES[config.preemption_mode]
        self.space = self.gpu = StackBlockPool(config.num_gpu_blocks)
        self.cpu = StackBlockPool(config.num_cpu_blocks)
        self.tokens_per_unit = config.block_size
        self.capacity_tokens = config.num_gpu_blocks * config.block_size
        self.batch = DecodeBatch(config.block_size)
        self.waiting = WAITING_ORDERS["fcfs"]()
        self.running: dict[int, Job] = {}
        self.swapped: deque[Job] = deque()
        """In order of swapping out. Tables of their samples name blocks of the swap space."""
        self.failed: list[Job] = []
        self.num_running = 0
        self.context_tokens = self.shared_tokens = 0
        self.saved_blocks = self.cow_copies = self.swap_ins = 0
        self.cached_tokens = self.queried_tokens = 0  # there is no prefix cache
        self.turns_empty_prompts_away = True
        self.is_settled = False
        self.is_stuck = False
        """Nothing ran and nothing was preempted: nothing can move before the next arrival."""
        self.is_livelocked = False  # every admission and every swap-in brings a token
        self.stays: list[Stay] | None = [] if log_memory else None
        self._decisions = Decisions()
        self._admissions = 0
        self._pauses = 0
        """Steps so far in which nobody decoded."""
        self._most_samples = 1
        """Of any request that was admitted."""
        self._writes_shared: set[int] = set()
        """Ids of running requests whose samples write into a block that they share, when they next decode."""
        self._cpu_stays = 0
        self._load: StepLoad | None = None

    @property
    def has_work(self) -> bool:
        """Whether anything is waiting, running or swapped."""
        return bool(self.running or self.waiting or self.swapped)

    @property
    def num_swapped(self) -> int:
        """Requests in the swap space."""
        return len(self.swapped)

    @property
    def largest_hole(self) -> int:
        """All free blocks: any of them can follow any other in a table."""
        return self.gpu.num_free * self.block_size

    @property
    def holds_back_newcomers(self) -> bool:
        """Whether who arrives now waits behind somebody that does not fit."""
        return bool(self.waiting or self.swapped)

    def can_ever_run(self, request: Request) -> bool:
        """Whether it is not turned away."""
        config = self.config
        return (
            0 < request.prompt_tokens < config.max_model_len
            and len(request.output_tokens) <= config.max_num_seqs
            and not self._is_never(ceil_div(request.prompt_tokens, self.block_size))
        )

    def _is_never(self, need: int) -> bool:
        """Whether so many blocks would not even leave the watermark of an empty pool."""
        return self.config.num_gpu_blocks - need < self.config.watermark_blocks

    def job(self, request: Request) -> Job:
        """The request, with answers that end at `max_model_len`."""
        longest = self.config.max_model_len - request.prompt_tokens
        if max(request.output_tokens) > longest:
            outputs = tuple([min(output, longest) for output in request.output_tokens])
            request = request._replace(output_tokens=outputs)
        return Job(request)

    def schedule(self, step: int) -> Decisions:
        """A; if it admits nobody B, and C unless B preempted somebody."""
        decisions = self._decisions
        decisions.prefill_tokens = 0
        decisions.only_prefills = False
        if decisions.has_moves:
            decisions.clear()
        self._load = None
        if self.waiting and not self.swapped:
            self._prefill(step)
        if decisions.only_prefills:
            self.is_settled = self.is_stuck = False
            return decisions
        self.context_tokens += self.batch.num_seqs
        if self._writes_shared or not self.grow(step):
            self._decode_one_by_one(step)
        if self.swapped and not decisions.preempted:
            self._swap_in(step)
        self.is_stuck = not (self.running or decisions.preempted or decisions.failed)
        self.is_settled = (
            not decisions.has_moves and bool(self.running) and self.gpu.num_free >= self._most_samples
        )  # who waits or is swapped was asked and did not fit
        return decisions

    def duration_ns(self, decisions: Decisions) -> int:
        """4."""
        running = self.num_running
        if self._load is not None:
            return self._step_time.mixed_ns(self._load)
        if running:
            return self._step_time.decode_ns(running, self.context_tokens) + decisions.swap_ns
        return self._step_time.mixed_ns(StepLoad(0, 0, 0, 0, 0, 0, 0)) + decisions.swap_ns

    def grow(self, step: int) -> bool:
        """B, where blocks abound: one for each full table. False, and nothing done, if anybody may lack one."""
        growing = self.batch.phases[step % self.block_size]
        if self.gpu.num_free - len(growing) < self._most_samples:
            return False
        if growing:
            self.gpu.extend_each(growing.values())
        return True

    def _prefill(self, step: int) -> None:
        """A. The head of the queue comes in while its whole prompt fits, and emits a token at the end of this step."""
        config, decisions, waiting, size = self.config, self._decisions, self.waiting, self.block_size
        budget = config.max_num_batched_tokens
        chunks: list[int] = []
        while waiting:
            job = waiting.head()
            shared = self._shared_now(job)
            own = ceil_div(job.known, size) - shared
            need = shared + len(job.live) * own
            if self._is_never(need):
                self._fail(waiting.take_head())
                continue
            tokens = job.request.prompt_tokens + len(job.live) * (job.known - job.request.prompt_tokens)
            counted = min(tokens, config.max_num_batched_tokens)
            if self.gpu.num_free - need < config.watermark_blocks or counted > budget:
                break
            if self.num_running + len(job.live) > config.max_num_seqs:
                break
            if not chunks:
                self._split_stays(step)
                self._pauses += 1
            budget -= counted
            chunks.append(tokens)
            self._place(waiting.take_head(), shared, own, step)
        if chunks:
            decisions.only_prefills = True
            decisions.prefill_tokens = total = sum(chunks)
            pairs = sum([tokens * (tokens + 1) // 2 for tokens in chunks])
            self._load = StepLoad(self.num_running, 0, 0, total, 0, pairs, len(chunks))

    def _shared_now(self, job: Job) -> int:
        """Blocks that all live samples share: the whole prompt at first, its full blocks once they wrote their own."""
        prompt = job.request.prompt_tokens
        return ceil_div(prompt, self.block_size) if job.known == prompt else prompt // self.block_size

    def _place(self, job: Job, shared: int, own: int, step: int) -> None:
        """Shared blocks first, then each sample's own; the last decodes count as its first."""
        prefix = self.gpu.take(shared)
        self.gpu.share(prefix, len(job.live) - 1)
        for seq in job.live:
            seq.table = prefix + self.gpu.take(own)
        job.shared_blocks = shared
        job.shared_tokens = min(shared * self.block_size, job.request.prompt_tokens)
        self._enter_running(job, step - 1)
        self.context_tokens += len(job.live) * job.known
        self._decisions.admitted.append(job)

    def _enter_running(self, job: Job, step: int) -> None:
        """The job, with tables, joins the end of the running list and emits at the end of `step`."""
        samples = len(job.live)
        self._most_samples = max(self._most_samples, samples)
        for seq in job.live:
            self._admissions += 1
            seq.order = self._admissions
            seq.initial_blocks = len(seq.table)
            seq.logged = ()
        self.running[job.id] = job
        self.num_running += samples
        self._book_sharing(job, +1)
        if samples > 1 and job.shared_tokens % self.block_size:
            self._writes_shared.add(job.id)
        self.batch.join(job, step)
        job.start_step = step + self._pauses
        job.stay_step = step
        self._decisions.starting.append(job)
        self._decisions.has_moves = True

    def _book_sharing(self, job: Job, sign: int) -> None:
        """Adds or takes away what the job's live samples share: counted once per sample, held once."""
        others = len(job.live) - 1
        if others > 0:
            self.shared_tokens += sign * others * job.shared_tokens
            self.saved_blocks += sign * others * job.shared_blocks

    def _decode_one_by_one(self, step: int) -> None:
        """B, in list order: who has fewer free blocks than samples makes the last of the list go."""
        for job in list(self.running.values()):
            while job.id in self.running and self.gpu.num_free < len(job.live):
                self._preempt(next(reversed(self.running.values())), step)
            if job.id in self.running:
                self._append_slots(job, step)

    def _append_slots(self, job: Job, step: int) -> None:
        """A place for the newest token of each live sample: a new block for a full table, a copy of a shared one."""
        known = job.known_at(step)
        writes_shared = job.id in self._writes_shared
        for seq in job.live:
            if known > len(seq.table) * self.block_size:
                seq.table += self.gpu.take(1)
            elif writes_shared and self.gpu.is_shared(seq.table[-1]):
                self._copy_on_write(seq, step)
        if writes_shared:
            self._writes_shared.remove(job.id)
            self._book_sharing(job, -1)
            job.shared_blocks -= 1
            job.shared_tokens = job.shared_blocks * self.block_size
            self._book_sharing(job, +1)

    def _copy_on_write(self, seq: Seq, step: int) -> None:
        """The sample's table names its own copy, then lets go of the shared block."""
        source = seq.table[-1]
        seq.copied = Copied(step + self._pauses, len(seq.table) - 1, source)
        seq.table[-1] = self.gpu.take(1)[0]
        seq.logged = ()
        self.gpu.give_back([source])
        self.cow_copies += 1

    def _preempt(self, job: Job, step: int) -> None:
        """The job leaves the running list: its blocks are copied to the swap space, or thrown away."""
        decisions = self._decisions
        live = len(job.live)
        job.known = known = job.known_at(step)
        job.paused_decode_step = job.decode_step
        blocks = self._num_blocks(job)
        swaps = self._is_swapped_out(live, blocks, self.cpu.num_free)
        outcome = "swap" if swaps else "recompute"
        for seq in job.live:
            self.batch.leave(seq)
            self._log_stay(seq, step, outcome)
        job.decode_step = NEVER
        del self.running[job.id]
        self._writes_shared.discard(job.id)
        self._book_sharing(job, -1)
        self.num_running -= live
        self.context_tokens -= live * known
        job.preemptions += 1
        decisions.preempted.append((job, outcome))
        decisions.has_moves = True
        if swaps:
            self._charge_copy(job, blocks)
            self._move(job, self.gpu, self.cpu)
            job.swap_step = step + self._pauses
            job.swap_outs += 1
            self.swapped.append(job)
        else:
            for seq in job.live:
                self.gpu.give_back(seq.table)
            prompt = job.request.prompt_tokens
            lost = prompt + live * (known - prompt - 1)
            job.recomputed_tokens += lost
            decisions.recomputed_tokens += lost
            self.waiting.add_preempted(job)
        for seq in job.live:
            seq.order = -1
            seq.copied = None
            seq.growth_step = NEVER

    def _num_blocks(self, job: Job) -> int:
        """Different blocks in the tables of its samples."""
        return sum([len(seq.table) for seq in job.live]) - (len(job.live) - 1) * job.shared_blocks

    def _charge_copy(self, job: Job, blocks: int) -> None:
        live = len(job.live)
        tokens = live * (job.known - 1) - (live - 1) * job.shared_tokens
        self._decisions.swap_ns += self.config.swap_per_token_ns * tokens + self.config.swap_per_block_ns * blocks
        self._decisions.swapped_tokens += tokens

    def _move(self, job: Job, source: BlockPool, target: BlockPool) -> None:
        """All tables, sample by sample; what samples share is copied once."""
        extra = len(job.live) - 1
        shared: list[int] = []
        for seq in job.live:
            old = seq.table
            if not shared:
                shared = target.take(job.shared_blocks)
                target.share(shared, extra)
            seq.table = shared + target.take(len(old) - len(shared))
            source.give_back(old)

    def _swap_in(self, step: int) -> None:
        """C. Who was swapped out first comes back, and decodes in this very step."""
        config, decisions = self.config, self._decisions
        while self.swapped:
            job = self.swapped[0]
            blocks = self._num_blocks(job)
            need = blocks + len(job.live)
            if need > config.num_gpu_blocks:
                self._log_cpu_stay(self.swapped.popleft(), step, "failed")
                for seq in job.live:
                    self.cpu.give_back(seq.table)
                self._fail(job)
                continue
            if self.gpu.num_free - need < config.watermark_blocks:
                return
            if self.num_running + len(job.live) > config.max_num_seqs:
                return
            self.swapped.popleft()
            self._log_cpu_stay(job, step, "resumed")
            self._charge_copy(job, blocks)
            self._move(job, self.cpu, self.gpu)
            self.swap_ins += 1
            if len(job.live) > 1 and job.shared_tokens % self.block_size:
                self._writes_shared.add(job.id)
            self._book_sharing(job, +1)
            self._append_slots(job, step)
            self._book_sharing(job, -1)  # `_enter_running` books it
            for seq in job.live:
                seq.copied = None  # before anybody saw the table
            self._enter_running(job, step)
            self.context_tokens += len(job.live) * job.known
            decisions.resumed.append(job)

    def _fail(self, job: Job) -> None:
        """What it needs now would not fit into an empty pool."""
        self.failed.append(job)
        self._decisions.failed.append(job)
        self._decisions.has_moves = True

    def _split_stays(self, step: int) -> None:
        """Decodes pause from this step on: the log has one record of a stay before, and one after."""
        if self.stays is None:
            return
        for job in self.running.values():
            if job.stay_step < step:  # it has emitted since its record began
                for seq in job.live:
                    self._log_stay(seq, step, "paused")
                    seq.initial_blocks = len(seq.table)
                    seq.copied = None
                    if seq.phase >= 0:
                        seq.growth_step = step + (seq.phase - step) % self.block_size
                job.start_step = step + self._pauses
                job.stay_step = step

    def _log_stay(self, seq: Seq, end_step: int, why: str) -> None:
        """The record of a sample's stay, from decode steps to steps of the log."""
        if self.stays is None:
            return
        job, pauses, growth_step = seq.job, self._pauses, seq.growth_step
        if len(seq.logged) != len(seq.table):
            seq.logged = tuple(seq.table)
        self.stays.append(
            Stay(  # not by `stay_of` and a change: there are as many as decodes that pause
                job.id,
                seq.sample,
                seq.order,
                job.request.arrival_ns,
                False,
                job.start_step,
                end_step + pauses,
                job.stay_step + pauses if job.stay_step < end_step else None,
                seq.initial_blocks,
                NEVER if growth_step == NEVER else growth_step + pauses,
                self.block_size,
                seq.logged,
                seq.copied,
                None,
                why,
            )
        )

    def _log_cpu_stay(self, job: Job, step: int, why: str) -> None:
        """Records of the samples' time in the swap space."""
        if self.stays is None:
            return
        for seq in job.live:
            self._cpu_stays += 1  # they end in the order in which they began
            self.stays.append(
                stay_of(seq, step + self._pauses, self.block_size, why)._replace(
                    order=self._cpu_stays,
                    on_cpu=True,
                    start_step=job.swap_step,
                    decode_step=None,
                    initial_blocks=len(seq.table),
                )
            )

    def end(self, seq: Seq, step: int) -> None:
        """A sample emitted its last token at the end of `step`; the request leaves with its last sample."""
        job = seq.job
        self.num_running -= 1
        self.context_tokens -= job.known_at(step)
        self._book_sharing(job, -1)
        job.live.remove(seq)
        self._book_sharing(job, +1)
        self.batch.leave(seq)
        self._log_stay(seq, step + 1, "finished")
        self.gpu.give_back(seq.table)
        seq.order = -1
        seq.growth_step = NEVER
        if not job.live:
            del self.running[job.id]
            self._writes_shared.discard(job.id)

    def swapped_jobs(self) -> list[Job]:
        """Requests in the swap space, then those that failed."""
        return [*self.swapped, *self.failed]

    def close(self, step: int) -> None:
        """Writes open stays into the log: the run was stopped before `step`."""
        for job in self.running.values():
            for seq in job.live:
                self._log_stay(seq, step, "open")
        for job in self.swapped:
            self._log_cpu_stay(job, step, "open")

    def check(self, step: int) -> None:
        """Asserts every invariant of the whole state, as it is before `step`."""
        for pool, jobs in ((self.gpu, [*self.running.values()]), (self.cpu, [*self.swapped])):
            holders: dict[int, int] = {}
            for job in jobs:
                for seq in job.live:
                    for block in seq.table:
                        holders[block] = holders.get(block, 0) + 1
            free = pool.free_blocks()
            assert len(free) == pool.num_free, f"{len(free)} free, {pool.num_free} on the books"
            assert sorted([*holders, *free]) == list(range(pool.num_blocks)), "blocks lost or doubled"
            for block, count in holders.items():
                assert pool.num_holders(block) == count, f"block {block}: {count} tables hold it"
        running = [seq for job in self.running.values() for seq in job.live]
        assert len(running) == self.num_running <= self.config.max_num_seqs, f"{len(running)} running"
        assert [seq.order for seq in running] == sorted(seq.order for seq in running), "admission order"
        tokens = sum(seq.job.known_at(step) - 1 for seq in running)
        assert tokens == self.context_tokens, f"{self.context_tokens} tokens on the books, {tokens} in tables"
        entries = sum(len(seq.table) for seq in running)
        assert entries - self.gpu.num_taken == self.saved_blocks, f"{self.saved_blocks} blocks saved"
        for seq in running:
            assert len(seq.table) == ceil_div(seq.job.known_at(step) - 1, self.block_size), f"request {seq.job.id}"
