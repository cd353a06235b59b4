"""MODEL.md, "Block-table lab", rule by rule. Comments in quotes are the rules' own words."""

from __future__ import annotations

from collections import deque

from kvlab.core.config import BlockTableLabConfig
from kvlab.core.records import StepRecord
from kvlab.core.request import Request
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.reference.log import Life, Log, Tables
from kvlab.reference.preemption_lab import check_lengths
from kvlab.units import ceil_div


class _Job:
    """A request and the KV of its samples."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.id = life.request.id
        self.prompt = life.request.prompt_tokens
        self.emitted = 0
        """By each live sample: they run in step."""
        self.live = list(range(len(life.request.output_tokens)))
        self.tables: dict[int, list[int]] = {}
        """Paged: live sample -> blocks."""
        self.starts: dict[int, int] = {}
        """Contiguous: live sample -> first token of its segment."""

    @property
    def context(self) -> int:
        """Prompt and emitted tokens of one live sample."""
        return self.prompt + self.emitted


class BlockTableLab:
    """The server of the block-table lab. `running` is in admission order."""

    def __init__(self, config: BlockTableLabConfig) -> None:
        self.config = config
        if config.allocator not in ("contiguous", "paged"):
            raise UnknownNameError("allocator", config.allocator, ["contiguous", "paged"])
        self.is_paged = config.allocator == "paged"
        self.capacity_tokens = config.num_blocks * config.block_size if self.is_paged else config.kv_tokens
        self.num_blocks = config.num_blocks if self.is_paged else 0
        self.free = deque(range(self.num_blocks))
        self.ref_count = [0] * self.num_blocks
        self.holes = [(0, config.kv_tokens)]
        """Contiguous: free (start, length), by address, never touching each other."""
        self.waiting: list[_Job] = []
        self.running: list[_Job] = []

    def check(self, request: Request) -> None:
        """Raise ConfigError for an output over `max_tokens`, "invalid input", or a length below one token."""
        check_lengths(request)
        longest = max(request.output_tokens)
        if longest > self.config.max_tokens:
            remedy = f"request {request.id}: at most max_tokens = {self.config.max_tokens}; cap it when it is drawn"
            raise ConfigError("output_tokens", longest, remedy)

    def can_never_run(self, request: Request) -> bool:
        """Whether an empty server could not finish it."""
        config, prompt, outputs = self.config, request.prompt_tokens, request.output_tokens
        if len(outputs) > config.max_num_seqs:
            return True
        if not self.is_paged:
            return len(outputs) * (prompt + config.max_tokens) > config.kv_tokens
        full = prompt // config.block_size
        own = sum(ceil_div(prompt + output - 1, config.block_size) - full for output in outputs)
        return full + own > config.num_blocks

    def enqueue(self, life: Life) -> None:
        """To the end of the waiting queue."""
        self.waiting.append(_Job(life))

    def is_empty(self) -> bool:
        """Nothing waits or runs."""
        return not (self.waiting or self.running)

    def step(self, t_ns: int, log: Log) -> StepRecord:
        """One step from `t_ns` on: rules 1 to 4 in their order."""
        preempted: list[tuple[int, str]] = []
        admitted: list[int] = []
        prefill_tokens = 0

        if self.is_paged:
            self._decode(preempted, log)
        if not preempted:
            prefill_tokens = self._admit(t_ns, admitted)
        if log.keeps_tables:
            self._check()
            log.tables.append(self._tables())
            log.cpu_tables.append({})  # nothing is swapped in this lab

        running = self._num_running()
        waiting = len(self.waiting)
        context_tokens = sum(job.context for job in self.running for _ in job.live)
        duration_ns = self._duration_ns(running, context_tokens, prefill_tokens)
        holders = sum(len(table) for job in self.running for table in job.tables.values())
        row = StepRecord(
            t_ns=t_ns + duration_ns,
            dur_ns=duration_ns,
            running=running,
            waiting=waiting,
            swapped=0,
            reserved_tokens=self._reserved_tokens(),
            used_tokens=self._used_tokens(),
            largest_hole_tokens=self._largest_hole_tokens(),
            saved_blocks=holders - (self.num_blocks - len(self.free)),
            prefill_tokens=prefill_tokens,
            admitted=tuple(admitted),
            resumed=(),
            preempted=tuple(preempted),
            finished=(),
        )
        return row._replace(finished=tuple(self._emit(row.t_ns)))

    def _num_running(self) -> int:
        """ "running samples" """
        return sum(len(job.live) for job in self.running)

    def _duration_ns(self, running: int, context_tokens: int, prefill_tokens: int) -> int:
        """Rule 3."""
        config = self.config
        raw = config.base_ns + config.per_seq_ns * running + config.per_context_token_ns * context_tokens
        if self.is_paged:
            # "1 + 0.6/block, applied as raw * (10*block + 6) // (10*block)"
            whole = config.paging_overhead_den * config.block_size
            raw = raw * (whole + config.paging_overhead_num) // whole
        return raw + config.per_prefill_token_ns * prefill_tokens

    def _decode(self, preempted: list[tuple[int, str]], log: Log) -> None:
        """Rule 1."""
        for job in list(self.running):
            for sample in job.live:
                if job not in self.running:
                    break
                table = job.tables[sample]
                entry = (job.context - 1) // self.config.block_size  # of "token index prompt + emitted - 1"
                is_shared = entry < len(table) and self.ref_count[table[entry]] > 1
                if entry < len(table) and not is_shared:
                    continue  # "the last holder writes in place"
                while not self.free and job in self.running:
                    victim = self.running[-1]  # "the most recently admitted request is preempted whole"
                    self._preempt(victim)
                    preempted.append((victim.id, "recompute"))
                if job not in self.running:
                    break
                fresh = self._take()
                if is_shared:  # "takes a fresh block first, then lets go of the shared one"
                    self._release(table[entry])
                    table[entry] = fresh
                    log.cow_copies += 1
                else:
                    table.append(fresh)

    def _preempt(self, job: _Job) -> None:
        """ "loses prompt + live x (emitted - 1) computed tokens and goes to the head of the waiting queue" """
        self.running.remove(job)
        for sample in job.live:
            self._free(job, sample)
        job.life.preemptions += 1
        job.life.recomputed_tokens += job.prompt + len(job.live) * (job.emitted - 1)
        self.waiting.insert(0, job)

    def _admit(self, t_ns: int, admitted: list[int]) -> int:
        """Rule 2. Returns the prefill tokens."""
        prefill_tokens = 0
        while self.waiting:
            job = self.waiting[0]
            if self._num_running() + len(job.live) > self.config.max_num_seqs:
                break
            if not (self._place_paged(job) if self.is_paged else self._place_contiguous(job)):
                break
            del self.waiting[0]
            self.running.append(job)
            job.life.admit(t_ns)
            admitted.append(job.id)
            prefill_tokens += job.prompt + len(job.live) * job.emitted
        return prefill_tokens

    def _place_paged(self, job: _Job) -> bool:
        """Take the blocks of all live samples, or none and return False."""
        block_size = self.config.block_size
        shared = job.prompt // block_size if job.emitted else ceil_div(job.prompt, block_size)
        own = ceil_div(job.context, block_size) - shared
        need = shared + len(job.live) * own
        watermark = self.config.watermark_blocks if self.running else 0  # "waived while nothing runs"
        if len(self.free) - need < watermark:
            return False
        common = [self._take() for _ in range(shared)]  # "Shared blocks are taken first"
        for block in common:
            self.ref_count[block] = len(job.live)
        job.tables = {sample: common + [self._take() for _ in range(own)] for sample in job.live}
        return True

    def _place_contiguous(self, job: _Job) -> bool:
        """Reserve a segment for every live sample, or none and return False."""
        holes_before = list(self.holes)
        length = job.prompt + self.config.max_tokens
        for sample in job.live:
            fitting = [i for i, (_, size) in enumerate(self.holes) if size >= length]
            if not fitting:
                self.holes = holes_before
                job.starts = {}
                return False
            start, size = self.holes[fitting[0]]  # "first fit by lowest address"
            job.starts[sample] = start
            self.holes[fitting[0] : fitting[0] + 1] = [(start + length, size - length)] if size > length else []
        return True

    def _take(self) -> int:
        block = self.free.popleft()
        self.ref_count[block] = 1
        return block

    def _release(self, block: int) -> None:
        self.ref_count[block] -= 1
        if self.ref_count[block] == 0:
            self.free.append(block)

    def _free(self, job: _Job, sample: int) -> None:
        """ "A freed sample releases its table from first to last"; "Freed ranges merge with free neighbours" """
        if self.is_paged:
            for block in job.tables.pop(sample):
                self._release(block)
            return
        freed = (job.starts.pop(sample), job.prompt + self.config.max_tokens)
        merged: list[tuple[int, int]] = []
        for start, length in sorted([*self.holes, freed]):
            if merged and merged[-1][0] + merged[-1][1] == start:
                start, length = merged[-1][0], merged.pop()[1] + length
            merged.append((start, length))
        self.holes = merged

    def _emit(self, t_ns: int) -> list[int]:
        """Rule 4. Returns the ids whose last sample ends, in admission order."""
        finished = []
        for job in list(self.running):
            job.emitted += 1
            for sample in list(job.live):
                job.life.token_times[sample].append(t_ns)
                if job.emitted == job.life.request.output_tokens[sample]:
                    job.live.remove(sample)
                    self._free(job, sample)
            if not job.live:
                self.running.remove(job)
                finished.append(job.id)
        return finished

    def _reserved_tokens(self) -> int:
        """ "tokens in taken blocks or segments" """
        if self.is_paged:
            return (self.num_blocks - len(self.free)) * self.config.block_size
        return self.config.kv_tokens - sum(length for _, length in self.holes)

    def _used_tokens(self) -> int:
        """ "prompt + emitted before this step, per live sample; a shared block counts once" """
        if not self.is_paged:
            return sum(job.context for job in self.running for _ in job.live)
        filled: dict[int, int] = {}
        for job in self.running:
            whole, rest = divmod(job.context, self.config.block_size)
            for table in job.tables.values():
                filled.update(zip(table, [self.config.block_size] * whole + [rest], strict=False))
        return sum(filled.values())

    def _largest_hole_tokens(self) -> int:
        """ "in paged mode, free blocks x block" """
        if self.is_paged:
            return len(self.free) * self.config.block_size
        return max((length for _, length in self.holes), default=0)

    def _tables(self) -> Tables:
        """Paged: block tables; contiguous: (start, length). In admission order, then sample order."""
        if self.is_paged:
            return {(job.id, sample): tuple(job.tables[sample]) for job in self.running for sample in job.live}
        length = self.config.max_tokens
        return {
            (job.id, sample): (job.starts[sample], job.prompt + length) for job in self.running for sample in job.live
        }

    def _check(self) -> None:
        references = [0] * self.num_blocks
        for job in self.running:
            for table in job.tables.values():
                for block in table:
                    references[block] += 1
        assert references == self.ref_count, "reference counts differ from the tables"
        assert sorted(self.free) == [block for block, count in enumerate(references) if count == 0]
        assert self._num_running() <= self.config.max_num_seqs
        assert all(a + size < b for (a, size), (b, _) in zip(self.holes, self.holes[1:], strict=False))
