"""The scheduler of vLLM's V1 engine (docs/vllm-v1.md): one token budget for decodes and chunks of prefill alike.

The letters in the code are the sections of that page. Requests that decode run on the decode clock
(`kvlab.core.decode`); those that prefill are *partial*: a handful at most times. A step in which blocks run short is
played request by request. The budget always reaches everybody who runs: what a request takes of it only falls from one
step to the next, unless the budget itself was its limit, and then nobody was admitted behind it.
"""

from __future__ import annotations

from itertools import islice

from kvlab.core.block_keys import BlockKeys
from kvlab.core.config import VllmV1Config
from kvlab.core.cost import DecodeCost
from kvlab.core.decode import DecodeBatch
from kvlab.core.memory import Stay
from kvlab.core.prefix_pool import PrefixPool, StackPool
from kvlab.core.queues import WAITING_ORDERS, Queue
from kvlab.core.request import Request
from kvlab.core.schedulers.base import Decisions, stay_of
from kvlab.core.sequence import NEVER, Job, Seq
from kvlab.core.step_time import StepLoad, StepTime
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.units import ceil_div


def _least_urgent(job: Job) -> tuple[int, int]:
    return (job.request.priority, job.request.arrival_ns)


class VllmV1:
    """See `kvlab.core.schedulers.base.Scheduler`. Requests have one sample each."""

    def __init__(self, config: VllmV1Config, *, log_memory: bool) -> None:
        if config.policy not in WAITING_ORDERS:
            raise UnknownNameError("policy", config.policy, WAITING_ORDERS)
        self.config = config
        self.block_size = config.block_size
        self._step_time: StepTime = config.step_time
        self.cost = DecodeCost(config.step_time)
        self._is_fcfs = config.policy == "fcfs"
        self.prefix = PrefixPool(config.usable_blocks) if config.enable_prefix_caching else None
        self.space = self.pool = self.prefix or StackPool(config.usable_blocks)
        self._keys = BlockKeys(config.block_size)
        self.tokens_per_unit = config.block_size
        self.capacity_tokens = config.usable_blocks * config.block_size
        self.batch = DecodeBatch(config.block_size)
        self.waiting: Queue = WAITING_ORDERS[config.policy]()
        self.running: dict[int, Job] = {}
        self.partial: dict[int, Job] = {}
        """Running requests that are not in the decode batch, by admission order, in that order."""
        self.num_running = 0
        self.num_swapped = self.swap_ins = self.cow_copies = 0
        self.context_tokens = 0
        self.cached_tokens = self.queried_tokens = 0
        self.turns_empty_prompts_away = True
        self.is_settled = False
        self.is_stuck = False
        """Nothing was scheduled and nobody preempted: nothing can move before the next arrival."""
        self.is_livelocked = False
        """Requests preempt each other, or one itself, again and again, and nobody ever gets a token."""
        self.stays: list[Stay] | None = [] if log_memory else None
        self.chunks: list[tuple[Job, int]] = []
        """Tokens that this step computes of partial requests, in list order."""
        self._answers_repeat = False
        """Whether somebody may have tokens in the prompt that somebody else's answer consists of."""
        self._vain_steps = 0
        """Those that preempted since anybody got a token or came."""
        self._vain_state: tuple[object, ...] | None = None
        """After one of them."""
        self._lacked_blocks = False
        self._decisions = Decisions()
        self._admissions = 0
        self._load: StepLoad | None = None

    @property
    def has_work(self) -> bool:
        """Whether anything is waiting or running."""
        return bool(self.running or self.waiting)

    @property
    def shared_tokens(self) -> int:
        """Tokens of shared blocks, once for each holder beyond the first."""
        return 0 if self.prefix is None else self.prefix.num_shared * self.block_size

    @property
    def saved_blocks(self) -> int:
        """Block-table entries beyond the blocks taken."""
        return 0 if self.prefix is None else self.prefix.num_shared

    @property
    def largest_hole(self) -> int:
        """All free blocks: any of them can follow any other in a table."""
        return self.pool.num_free * self.block_size

    @property
    def holds_back_newcomers(self) -> bool:
        """Whether who arrives now waits behind somebody that does not fit."""
        return self._is_fcfs and bool(self.waiting)

    def can_ever_run(self, request: Request) -> bool:
        """Whether the front door lets it in: a prompt that leaves room for a token within `max_model_len`."""
        if len(request.output_tokens) != 1:
            raise ConfigError(f"samples of request {request.id}", len(request.output_tokens), "expected one")
        return 0 < request.prompt_tokens < self.config.max_model_len

    def job(self, request: Request) -> Job:
        """The request, with an answer that ends at `max_model_len`."""
        self._forget_vain_steps()
        if request.content is not None and request.content.output is not None:
            self._answers_repeat = True
        longest = self.config.max_model_len - request.prompt_tokens
        if request.output_tokens[0] > longest:
            request = request._replace(output_tokens=(longest,))
        return Job(request)

    def schedule(self, step: int) -> Decisions:
        """A, then B unless A preempted somebody."""
        decisions = self._decisions
        decisions.prefill_tokens = 0
        if decisions.has_moves:
            decisions.clear()
        threshold = self.config.long_prefill_token_threshold
        cap = threshold if threshold and self.num_running + len(self.waiting) > 1 else NEVER
        budget = self.config.max_num_batched_tokens
        chunks: list[tuple[Job, int]] = []
        self.chunks = chunks
        if self.partial:
            budget = self._run_on(step, budget, cap)
        elif self._decode_all(step):
            budget -= self.batch.num_seqs
        else:
            budget = self._run_one_by_one(step, budget, cap)
        num_decodes = self.batch.num_seqs
        self.context_tokens += num_decodes
        self._lacked_blocks = False
        if self.waiting and budget > 0 and not decisions.preempted and self.num_running < self.config.max_num_seqs:
            self._admit(step, budget, cap)
        self._load = None
        if chunks:
            self._compute(step, num_decodes)
        self.is_stuck = not (num_decodes or chunks or decisions.preempted)
        self._watch_progress()
        self.is_settled = not (self.partial or self.is_stuck or decisions.preempted) and self._stays_refused()
        return decisions

    def _stays_refused(self) -> bool:
        """Whether nobody who waits can be admitted as long as all that happens is decoding."""
        config = self.config
        return (
            not self.waiting
            or self.num_running >= config.max_num_seqs
            or self.batch.num_seqs >= config.max_num_batched_tokens
            or (self._lacked_blocks and not self._may_gain_hits())
        )

    def _may_gain_hits(self) -> bool:
        """Whether the head of the queue may need fewer blocks after steps that only decode.

        What is decoded can be hit where somebody repeats answers. And where a first chunk is all that must fit, an
        eviction at the start of what the head hits makes that chunk smaller.
        """
        return self.prefix is not None and (self._answers_repeat or not self.config.reserve_full_prompt)

    def _watch_progress(self) -> None:
        """Requests may preempt each other, or one itself, again and again, and nobody ever gets a token.

        Steps that preempted since the last token are compared with one of them, which is replaced after 1, 2, 4, ...
        """
        if self.batch.num_seqs:
            if self._vain_steps:
                self._forget_vain_steps()
        elif self._decisions.preempted:
            state = self._state()
            self.is_livelocked = state == self._vain_state
            self._vain_steps += 1
            if self._vain_steps & (self._vain_steps - 1) == 0:
                self._vain_state = state

    def _state(self) -> tuple[object, ...]:
        """What decides about the future."""
        running = [(job.id, job.computed) for job in self.running.values()]
        free = None if self.prefix is None else self.prefix.free_keys()
        return running, [job.id for job in self.waiting], free

    def _forget_vain_steps(self) -> None:
        """Somebody got a token, or somebody new has come."""
        self._vain_steps = 0
        self._vain_state = None
        self.is_livelocked = False

    def duration_ns(self, decisions: Decisions) -> int:
        """How long the step lasts that was just decided."""
        load = self._load
        if load is None:
            if self.batch.num_seqs == self.num_running > 0:
                return self._step_time.decode_ns(self.num_running, self.context_tokens)
            load = StepLoad(self.num_running, self.batch.num_seqs, self._decode_context(), 0, 0, 0, 0)
        elif load.num_decodes == load.num_running:
            return self._step_time.decode_ns(load.num_running, load.decode_context)
        return self._step_time.mixed_ns(load)

    def _decode_context(self) -> int:
        """Tokens with KV of the requests that are on the decode clock."""
        return self.context_tokens - sum([job.computed for job in self.partial.values()])

    def grow(self, step: int) -> bool:
        """Blocks for full tables in a step that only decodes; False, and nothing done, if they don't suffice."""
        if self.prefix is None:
            return self.batch.grow(step, self.pool)
        growing = self.batch.phases[step % self.block_size]
        if len(growing) > self.pool.num_free:
            return False
        for order in growing:
            self._enter_filled(self.running[order])
        self.pool.extend_each(growing.values())
        return True

    def _decode_all(self, step: int) -> bool:
        """A, where everybody decodes. Blocks that this step fills enter the cache."""
        if not self.grow(step):
            return False
        if self.prefix is not None:
            for order in self.batch.phases[(step + 1) % self.block_size]:
                self._enter_filled(self.running[order])
        return True

    def _enter_filled(self, job: Job) -> None:
        """The whole table is full, and only its last block may not be in the cache yet."""
        self._enter(job, len(job.live[0].table))

    def _enter(self, job: Job, num_blocks: int) -> None:
        """The first `num_blocks` blocks of the table are full: those without an entry get one."""
        prefix = self.prefix
        if prefix is None or job.entered >= num_blocks:
            return
        self._keys.extend(job.request, job.keys, num_blocks)
        new = slice(job.entered, num_blocks)
        prefix.enter(job.live[0].table[new], job.keys[new])
        job.entered = num_blocks

    def _run_on(self, step: int, budget: int, cap: int) -> int:
        """A, where somebody is partial. Returns what is left of the budget."""
        partial = self.partial
        jobs = list(partial.values())
        tail = [*islice(reversed(self.running), len(jobs))]
        if tail[::-1] != [*partial]:  # not all of them stand behind those who decode
            return self._run_one_by_one(step, budget, cap)
        left = budget - self.batch.num_seqs
        need = len(self.batch.phases[step % self.block_size])
        chunks = []
        for job in jobs:
            tokens = min(job.known - job.computed, cap, left)
            left -= tokens
            need += ceil_div(job.computed + tokens, self.block_size) - len(job.live[0].table)
            chunks.append((job, tokens))
        if need > self.pool.num_free:
            return self._run_one_by_one(step, budget, cap)
        self._decode_all(step)
        for job, tokens in chunks:
            self._extend(job, job.computed + tokens, step)
        self.chunks += chunks
        return left

    def _run_one_by_one(self, step: int, budget: int, cap: int) -> int:
        """A, in list order, with preemptions where blocks run short. Returns what is left of the budget."""
        scheduled: dict[int, int] = {}
        growing = self.batch.phases[step % self.block_size]
        for order, job in list(self.running.items()):
            if order not in self.running:
                continue
            seq = job.live[0]
            decodes = job.decode_step != NEVER
            tokens = 1 if decodes else min(job.known - job.computed, cap, budget)
            total = job.known_at(step) if decodes else job.computed + tokens
            need = (order in growing) if decodes else ceil_div(total, self.block_size) - len(seq.table)
            while need > self.pool.num_free and order in self.running:
                victim = self._victim()
                budget += scheduled.pop(victim.live[0].order, 0)
                self._preempt(victim, step)
            if order not in self.running:
                if self._is_fcfs:
                    break
                continue
            if not decodes:
                self._extend(job, total, step)
            else:
                if need:
                    self._enter_filled(job)
                    seq.table += self.pool.take(1)
                self._enter(job, total // self.block_size)
            scheduled[order] = tokens
            budget -= tokens
        assert scheduled.keys() == self.running.keys(), "somebody runs that the budget did not reach"
        self.chunks += [(job, scheduled[order]) for order, job in self.partial.items()]
        return budget

    def _stop_decoding(self, job: Job, step: int) -> None:
        job.known = job.known_at(step)
        job.computed = job.known - 1
        job.paused_decode_step = job.decode_step
        job.decode_step = NEVER
        self.batch.leave(job.live[0])

    def _victim(self) -> Job:
        if self._is_fcfs:
            return next(reversed(self.running.values()))
        return max(self.running.values(), key=_least_urgent)  # of equals, the first of the list

    def _preempt(self, job: Job, step: int) -> None:
        """All its blocks are free, its tokens are kept, and it waits again."""
        seq = job.live[0]
        self._log_stay(job, step, "recompute")
        if job.decode_step != NEVER:
            self._stop_decoding(job, step)
        else:
            job.paused_decode_step = NEVER
            del self.partial[seq.order]
        self._enter(job, min(job.computed // self.block_size, len(seq.table)))
        self.context_tokens -= job.computed
        self._leave(job)
        job.preemptions += 1
        job.recomputed_tokens += job.computed
        job.lost_tokens = job.computed
        self._decisions.recomputed_tokens += job.computed
        job.computed = 0
        self._decisions.preempted.append((job, "recompute"))
        self._decisions.has_moves = True
        self.waiting.add_preempted(job)

    def _leave(self, job: Job) -> None:
        """The job leaves the running list and frees its blocks."""
        seq = job.live[0]
        self.pool.give_back(seq.table, job.entered)
        del self.running[seq.order]
        self.num_running -= 1
        job.entered = 0
        seq.order = -1
        seq.growth_step = NEVER

    def _extend(self, job: Job, num_tokens: int, step: int) -> None:
        """Blocks for a partial job's first `num_tokens` tokens; those that are full enter the cache."""
        seq = job.live[0]
        need = ceil_div(num_tokens, self.block_size) - len(seq.table)
        if need > 0:
            self._split_stay(job, step)
            seq.table += self.pool.take(need)
            seq.initial_blocks = len(seq.table)
        self._enter(job, num_tokens // self.block_size)

    def _split_stay(self, job: Job, step: int) -> None:
        """From this step on, the job's table grows in another way: the log has one record for each."""
        seq = job.live[0]
        self._log_stay(job, step, "grown")
        job.start_step = step
        seq.initial_blocks = len(seq.table)
        seq.growth_step = NEVER

    def _log_stay(self, job: Job, end_step: int, why: str) -> None:
        if self.stays is not None and (job.start_step < end_step or why != "grown"):
            self.stays.append(stay_of(job.live[0], end_step, self.block_size, why))

    def _admit(self, step: int, budget: int, cap: int) -> None:
        """B. The head of the queue comes in while it fits."""
        config, waiting, pool, size = self.config, self.waiting, self.pool, self.block_size
        hits: list[int] = []
        idle = 0
        while budget > 0 and waiting and self.num_running < config.max_num_seqs:
            job = waiting.head()
            known = job.known
            if self.prefix is not None:
                hits = self._lookup(job)
                idle = self.prefix.num_idle(hits)
            hit_tokens = len(hits) * size
            tokens = min(known - hit_tokens, cap)
            if tokens > budget:
                if not config.enable_chunked_prefill:
                    return
                tokens = budget
            blocks = ceil_div(hit_tokens + tokens, size) - len(hits)
            need = ceil_div(known, size) - len(hits) if config.reserve_full_prompt else blocks
            if need + idle + (config.watermark_blocks if self.running else 0) > pool.num_free:
                self._lacked_blocks = True
                return
            waiting.take_head()
            if hits:
                assert self.prefix is not None
                self.prefix.hold(hits)
            self._enter_running(job, hits, blocks, step)
            self._enter(job, (hit_tokens + tokens) // size)
            self.chunks.append((job, tokens))
            budget -= tokens

    def _lookup(self, job: Job) -> list[int]:
        """Blocks of the cache with the start of the job's tokens, but never the last token."""
        assert self.prefix is not None
        most = (job.known - 1) // self.block_size
        self._keys.extend(job.request, job.keys, most)
        return self.prefix.lookup(islice(job.keys, most))

    def _enter_running(self, job: Job, hits: list[int], blocks: int, step: int) -> None:
        """The job joins the end of the running list, with `blocks` blocks behind those it hit."""
        seq = job.live[0]
        seq.table = hits + self.pool.take(blocks)
        seq.initial_blocks = len(seq.table)
        self._admissions += 1
        seq.order = self._admissions
        self.running[seq.order] = self.partial[seq.order] = job
        self.num_running += 1
        job.start_step = step
        job.entered = len(hits)
        job.computed = hit_tokens = len(hits) * self.block_size
        self.context_tokens += hit_tokens
        if self.prefix is not None:
            self.queried_tokens += job.known
            self.cached_tokens += hit_tokens
            if job.admitted_ns < 0:
                job.cached_tokens = hit_tokens
            spared = min(hit_tokens, job.lost_tokens)
            job.recomputed_tokens -= spared
            self._decisions.recomputed_tokens -= spared
            job.lost_tokens = 0
        self._decisions.admitted.append(job)
        self._decisions.has_moves = True

    def _compute(self, step: int, num_decodes: int) -> None:
        """The chunks of this step; who has no more to compute gets a token at its end."""
        decisions = self._decisions
        prefilled = prefill_context = pairs = num_chunks = 0
        decode_context = 0
        completed = []
        for job, tokens in self.chunks:
            before = job.computed
            job.computed = computed = before + tokens
            self.context_tokens += tokens
            if computed == job.known:
                completed.append(job)
            if tokens == 1 and computed == job.known > job.request.prompt_tokens:
                num_decodes += 1
                decode_context += computed
            else:
                num_chunks += 1
                prefilled += tokens
                prefill_context += before
                pairs += tokens * before + tokens * (tokens + 1) // 2
        decode_context += self._decode_context()
        decisions.prefill_tokens = prefilled
        self._load = StepLoad(
            self.num_running, num_decodes, decode_context, prefilled, prefill_context, pairs, num_chunks
        )
        for job in completed:
            del self.partial[job.live[0].order]
            self.batch.join(job, step)
        if completed:
            decisions.starting += completed
            decisions.has_moves = True

    def end(self, seq: Seq, step: int) -> None:
        """The sequence emitted its last token at the end of `step`: it leaves and frees its blocks."""
        job = seq.job
        computed = job.known_at(step)
        self._enter(job, computed // self.block_size)
        self.context_tokens -= computed
        self.batch.leave(seq)
        self._log_stay(job, step + 1, "finished")
        self._leave(job)
        job.live.clear()

    def swapped_jobs(self) -> list[Job]:
        """Nobody is ever swapped."""
        return []

    def close(self, step: int) -> None:
        """Writes open stays into the log: the run was stopped before `step`."""
        for job in self.running.values():
            self._log_stay(job, step, "open")

    def check(self, step: int) -> None:
        """Asserts every invariant of the whole state, as it is before `step`."""
        holders: dict[int, int] = {}
        tokens = 0
        for order, job in self.running.items():
            seq = job.live[0]
            assert seq.order == order, f"request {job.id} is filed under {order}"
            assert (order in self.partial) == (job.decode_step == NEVER), f"request {job.id}: partial or not"
            computed = job.computed if order in self.partial else job.known_at(step) - 1
            assert len(seq.table) == ceil_div(computed, self.block_size), f"request {job.id}: {len(seq.table)} blocks"
            tokens += computed
            for block in seq.table:
                holders[block] = holders.get(block, 0) + 1
        free = self.pool.free_blocks()
        assert len(free) == self.pool.num_free, f"{len(free)} free, {self.pool.num_free} on the books"
        assert sorted([*holders, *free]) == list(range(1, self.config.num_gpu_blocks)), "blocks lost or doubled"
        assert tokens == self.context_tokens, f"{self.context_tokens} tokens on the books, {tokens} in tables"
        assert sum(holders.values()) - len(holders) == self.saved_blocks, "shared blocks"
        assert [*self.partial] == sorted(self.partial), "partial requests out of order"
