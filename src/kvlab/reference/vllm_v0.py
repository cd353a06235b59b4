"""docs/vllm-v0.md as a program: the scheduler of vLLM 0.6, real block lists, a loop over everything in every step.

The letters and numbers in the code are the sections of that page.
"""

from __future__ import annotations

from kvlab.core.config import Slo, VllmV0Config
from kvlab.core.records import StepRecord
from kvlab.core.request import Request, RequestSource
from kvlab.core.step_time import StepLoad
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.reference.log import Life, Log, ReferenceRun, Tables
from kvlab.reference.loop import deliver
from kvlab.reference.vllm_v1 import duration_ns
from kvlab.units import ceil_div


def run(
    config: VllmV0Config, source: RequestSource, window_ns: int | None, slo: Slo | None, tables_every: int
) -> ReferenceRun:
    """Steps until nothing is left to do, or nothing can move any more."""
    server = VllmV0(config)
    log = Log(tables_every)
    t_ns = 0
    while True:
        deliver(server, source, t_ns, log)  # "1."
        next_ns = source.next_arrival_ns()
        if server.is_empty():  # "2."
            if next_ns is None:
                break
            t_ns = next_ns
            continue
        step = server.step(t_ns, log)
        log.steps.append(step)
        for request in server.failed:
            source.ended(request, t_ns)
        for request_id in step.finished:
            source.ended(log.lives[request_id].request, step.t_ns)
        t_ns = step.t_ns
        next_ns = source.next_arrival_ns()
        if server.is_stuck:  # "6."
            if next_ns is None:
                break
            t_ns = max(t_ns, next_ns)
    return log.close(server.capacity_tokens, window_ns, slo)


class _Pool:
    """ "Blocks": a stack of free ones, its top at the end, and how many tables hold each."""

    def __init__(self, num_blocks: int) -> None:
        self.free = list(range(num_blocks))
        self.holders = [0] * num_blocks

    def take(self) -> int:
        block = self.free.pop()
        self.holders[block] = 1
        return block

    def release(self, block: int) -> None:
        self.holders[block] -= 1
        if self.holders[block] == 0:
            self.free.append(block)


class _Group:
    """A request with its samples, which run in step."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.id = life.request.id
        self.prompt = life.request.prompt_tokens
        self.emitted = 0
        """By each live sample."""
        self.live = list(range(len(life.request.output_tokens)))
        self.tables: dict[int, list[int]] = {}
        """Live sample -> blocks: of the GPU, or while it is swapped out of the swap space."""

    @property
    def known(self) -> int:
        """Prompt and emitted tokens of one live sample."""
        return self.prompt + self.emitted

    @property
    def blocks(self) -> set[int]:
        """All that its tables hold."""
        return {block for table in self.tables.values() for block in table}

    def shared_blocks(self, block_size: int) -> int:
        """What all samples of an admission share: the whole prompt at first, later its full blocks."""
        return self.prompt // block_size if self.emitted else ceil_div(self.prompt, block_size)

    @property
    def prefill_tokens(self) -> int:
        """Computed when it is admitted: the prompt once, and what each live sample has emitted."""
        return self.prompt + len(self.live) * self.emitted


class VllmV0:
    """The server. `running` is in order of admission, `swapped` in order of swapping out."""

    def __init__(self, config: VllmV0Config) -> None:
        if config.preemption_mode not in ("auto", "recompute", "swap"):
            raise UnknownNameError("preemption_mode", config.preemption_mode, ["auto", "recompute", "swap"])
        self.config = config
        self.capacity_tokens = config.num_gpu_blocks * config.block_size
        self.gpu = _Pool(config.num_gpu_blocks)
        self.cpu = _Pool(config.num_cpu_blocks)
        self.waiting: list[_Group] = []
        self.running: list[_Group] = []
        self.swapped: list[_Group] = []
        self.failed: list[Request] = []
        """In the latest step."""
        self.is_stuck = False

    def check(self, request: Request) -> None:
        """Raise ConfigError for an answer without a token."""
        if not request.output_tokens or min(request.output_tokens) < 1 or request.prompt_tokens < 0:
            raise ConfigError(f"request {request.id}", tuple(request[2:4]), "expected a prompt and answers")

    def can_never_run(self, request: Request) -> bool:
        """ "Turned away" """
        config = self.config
        return (
            not 0 < request.prompt_tokens < config.max_model_len
            or len(request.output_tokens) > config.max_num_seqs
            or self._is_never(ceil_div(request.prompt_tokens, config.block_size))
        )

    def _is_never(self, need: int) -> bool:
        """`NEVER` of `can_allocate`."""
        return self.config.num_gpu_blocks - need < self.config.watermark_blocks

    def enqueue(self, life: Life) -> None:
        """To the end of the waiting queue, with answers that end at `max_model_len`."""
        longest = self.config.max_model_len - life.request.prompt_tokens
        outputs = tuple(min(output, longest) for output in life.request.output_tokens)
        life.request = life.request._replace(output_tokens=outputs)
        self.waiting.append(_Group(life))

    def is_empty(self) -> bool:
        """Nothing waits, runs or is swapped."""
        return not (self.waiting or self.running or self.swapped)

    def step(self, t_ns: int, log: Log) -> StepRecord:
        """One step from `t_ns` on."""
        self.failed = []
        preempted: list[tuple[int, str]] = []
        resumed: list[_Group] = []
        swap_ns = 0
        admitted = [] if self.swapped else self._prefill(t_ns)  # A
        if not admitted:
            swap_ns = self._decode(preempted, log)  # B
            if not preempted:
                swap_ns += self._swap_in(resumed, log)  # C
        emitting = list(admitted or self.running)
        self.is_stuck = not (emitting or preempted or self.failed)
        if log.keeps_tables:
            self._check()
            log.tables.append(_tables(self.running))
            log.cpu_tables.append(_tables(self.swapped))
        load = self._load(admitted)
        dt_ns = duration_ns(self.config.step_time, load) + swap_ns
        log.swap_ns += swap_ns
        free = len(self.gpu.free)
        stored = self._stored(emitting)
        row = StepRecord(
            t_ns=t_ns + dt_ns,
            dur_ns=dt_ns,
            running=load.num_running,
            waiting=len(self.waiting),
            swapped=len(self.swapped),
            reserved_tokens=(self.config.num_gpu_blocks - free) * self.config.block_size,
            used_tokens=sum(stored.values()),
            largest_hole_tokens=free * self.config.block_size,
            saved_blocks=sum(len(table) for group in self.running for table in group.tables.values()) - len(stored),
            prefill_tokens=load.prefill_tokens,
            admitted=tuple(group.id for group in admitted),
            resumed=tuple(group.id for group in resumed),
            preempted=tuple(preempted),
            finished=(),
        )
        return row._replace(finished=tuple(self._emit(emitting, row.t_ns)))  # "5."

    def _num_running(self) -> int:
        return sum(len(group.live) for group in self.running)

    def _load(self, admitted: list[_Group]) -> StepLoad:
        """4. A step prefills, or it decodes everybody who runs."""
        running = self._num_running()
        if not admitted:
            context = sum(len(group.live) * group.known for group in self.running)
            return StepLoad(running, running, context, 0, 0, 0, 0)
        chunks = [group.prefill_tokens for group in admitted]
        pairs = sum(tokens * (tokens + 1) // 2 for tokens in chunks)
        return StepLoad(running, 0, 0, sum(chunks), 0, pairs, len(chunks))

    def _prefill(self, t_ns: int) -> list[_Group]:
        """A. Who is admitted."""
        config = self.config
        budget = config.max_num_batched_tokens
        admitted: list[_Group] = []
        while self.waiting:
            group = self.waiting[0]
            shared = group.shared_blocks(config.block_size)
            own = ceil_div(group.known, config.block_size) - shared
            need = shared + len(group.live) * own
            if self._is_never(need):
                self.failed.append(self.waiting.pop(0).life.request)
                continue
            if len(self.gpu.free) - need < config.watermark_blocks:
                break
            tokens = min(group.prefill_tokens, config.max_num_batched_tokens)
            if tokens > budget or self._num_running() + len(group.live) > config.max_num_seqs:
                break
            budget -= tokens
            self.running.append(self.waiting.pop(0))
            common = [self.gpu.take() for _ in range(shared)]
            for block in common:
                self.gpu.holders[block] = len(group.live)
            group.tables = {sample: common + [self.gpu.take() for _ in range(own)] for sample in group.live}
            group.life.admit(t_ns)
            admitted.append(group)
        return admitted

    def _decode(self, preempted: list[tuple[int, str]], log: Log) -> int:
        """B. Returns what swapping out costs."""
        swap_ns = 0
        for group in list(self.running):
            while group in self.running and len(self.gpu.free) < len(group.live):
                victim = self.running[-1]
                fate, cost_ns = self._preempt(victim, log)
                preempted.append((victim.id, fate))
                swap_ns += cost_ns
            if group in self.running:
                self._append_slots(group, log)
        return swap_ns

    def _append_slots(self, group: _Group, log: Log) -> None:
        """A place for the newest token of each live sample."""
        for sample in group.live:
            table = group.tables[sample]
            if ceil_div(group.known, self.config.block_size) > len(table):
                table.append(self.gpu.take())
            elif self.gpu.holders[table[-1]] > 1:
                shared, table[-1] = table[-1], self.gpu.take()
                self.gpu.release(shared)
                log.cow_copies += 1

    def _preempt(self, group: _Group, log: Log) -> tuple[str, int]:
        """What became of the victim, and the cost in ns."""
        self.running.remove(group)
        group.life.preemptions += 1
        mode = self.config.preemption_mode
        wants_swap = mode == "swap" or (mode == "auto" and len(group.live) > 1)
        if wants_swap and len(group.blocks) <= len(self.cpu.free):
            cost_ns = self._copy_ns(group, log)
            _move(group, self.gpu, self.cpu)
            group.life.swap_outs += 1
            self.swapped.append(group)
            return "swap", cost_ns
        for sample in group.live:
            for block in group.tables.pop(sample):
                self.gpu.release(block)
        group.life.recomputed_tokens += group.prefill_tokens - len(group.live)
        self.waiting.insert(0, group)
        return "recompute", 0

    def _copy_ns(self, group: _Group, log: Log) -> int:
        """For all blocks of a group, and the tokens in them."""
        tokens = sum(self._filled([group], newest=False).values())
        log.swapped_tokens += tokens
        return self.config.swap_per_token_ns * tokens + self.config.swap_per_block_ns * len(group.blocks)

    def _swap_in(self, resumed: list[_Group], log: Log) -> int:
        """C. Returns what copying back costs."""
        swap_ns = 0
        while self.swapped:
            group = self.swapped[0]
            need = len(group.blocks) + len(group.live)
            if need > self.config.num_gpu_blocks:
                for table in self.swapped.pop(0).tables.values():
                    for block in table:
                        self.cpu.release(block)
                self.failed.append(group.life.request)
                continue
            if len(self.gpu.free) - need < self.config.watermark_blocks:
                break
            if self._num_running() + len(group.live) > self.config.max_num_seqs:
                break
            swap_ns += self._copy_ns(group, log)
            _move(group, self.cpu, self.gpu)
            log.swap_ins += 1
            self.running.append(self.swapped.pop(0))
            self._append_slots(group, log)
            resumed.append(group)
        return swap_ns

    def _emit(self, emitting: list[_Group], t_ns: int) -> list[int]:
        """5. Returns the ids whose last sample ends."""
        finished = []
        for group in emitting:
            group.emitted += 1
            for sample in list(group.live):
                group.life.token_times[sample].append(t_ns)
                if group.emitted == group.life.request.output_tokens[sample]:
                    group.live.remove(sample)
                    for block in group.tables.pop(sample):
                        self.gpu.release(block)
            if not group.live:
                self.running.remove(group)
                finished.append(group.id)
        return finished

    def _filled(self, groups: list[_Group], *, newest: bool) -> dict[int, int]:
        """Block -> tokens with KV in it; with or without the newest token of each sample."""
        size = self.config.block_size
        filled: dict[int, int] = {}
        for group in groups:
            tokens = group.known if newest else group.known - 1
            for table in group.tables.values():
                for place, block in enumerate(table):
                    filled[block] = min(size, tokens - place * size)
        return filled

    def _stored(self, emitting: list[_Group]) -> dict[int, int]:
        """Taken block -> tokens with KV when the step ends: those who pause have none for their newest."""
        paused = [group for group in self.running if group not in emitting]
        return self._filled(emitting, newest=True) | self._filled(paused, newest=False)

    def _check(self) -> None:
        for pool, groups in ((self.gpu, self.running), (self.cpu, self.swapped)):
            held = [0] * len(pool.holders)
            for group in groups:
                for table in group.tables.values():
                    for block in table:
                        held[block] += 1
            assert held == pool.holders, "holders differ from the tables"
            assert sorted(pool.free) == [block for block, count in enumerate(held) if not count], "blocks lost"
        assert self._num_running() <= self.config.max_num_seqs


def _move(group: _Group, source: _Pool, target: _Pool) -> None:
    """Table by table, block by block: a new one is taken for each that is not yet copied, the old one let go."""
    copies: dict[int, int] = {}
    for table in group.tables.values():
        for place, block in enumerate(table):
            if block in copies:
                target.holders[copies[block]] += 1
            else:
                copies[block] = target.take()
            table[place] = copies[block]
            source.release(block)


def _tables(groups: list[_Group]) -> Tables:
    """In the order of the list, then of samples."""
    return {(group.id, sample): tuple(group.tables[sample]) for group in groups for sample in group.live}
