"""MODEL.md, "Preemption lab", rule by rule. Comments in quotes are the rules' own words."""

from __future__ import annotations

from collections import deque

from kvlab.core.config import PreemptionLabConfig
from kvlab.core.records import StepRecord
from kvlab.core.request import Request
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.reference.log import Life, Log, Tables
from kvlab.units import ceil_div


class _Seq:
    """A request and the KV that it has on the GPU or in the swap space."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.id = life.request.id
        self.arrival_ns = life.request.arrival_ns
        self.emitted = 0
        self.computed = 0
        self.prefilling = False
        self.blocks: list[int] = []
        self.cpu_blocks: list[int] = []

    @property
    def known(self) -> int:
        return self.life.request.prompt_tokens + self.emitted

    @property
    def has_ended(self) -> bool:
        return self.emitted == self.life.request.output_tokens[0]


class PreemptionLab:
    """The server of the preemption lab. `running` is in admission order."""

    def __init__(self, config: PreemptionLabConfig) -> None:
        self.config = config
        if config.preemption_mode not in ("recompute", "swap"):
            raise UnknownNameError("preemption_mode", config.preemption_mode, ["recompute", "swap"])
        self.capacity_tokens = config.num_gpu_blocks * config.block_size
        self.free = deque(range(config.num_gpu_blocks))
        self.cpu_free = deque(range(config.num_cpu_blocks))
        self.waiting: list[_Seq] = []
        self.running: list[_Seq] = []
        self.swapped: list[_Seq] = []

    def check(self, request: Request) -> None:
        """Raise ConfigError unless the request has one sample and whole lengths of at least one token."""
        check_lengths(request)
        if len(request.output_tokens) != 1:
            remedy = f"request {request.id}: the preemption lab runs one sample per request"
            raise ConfigError("num_samples", len(request.output_tokens), remedy)

    def can_never_run(self, request: Request) -> bool:
        """Whether the whole pool is too small. The KV of the last token is never written: hence - 1."""
        most_tokens = request.prompt_tokens + request.output_tokens[0] - 1
        return ceil_div(most_tokens, self.config.block_size) > self.config.num_gpu_blocks

    def enqueue(self, life: Life) -> None:
        """To the end of the waiting queue."""
        self.waiting.append(_Seq(life))

    def is_empty(self) -> bool:
        """Nothing waits, runs or is swapped."""
        return not (self.waiting or self.running or self.swapped)

    def step(self, t_ns: int, log: Log) -> StepRecord:
        """One step from `t_ns` on: rules 1 to 6 in their order."""
        config = self.config
        preempted: list[tuple[int, str]] = []
        resumed: list[int] = []
        admitted: list[int] = []

        swap_ns = self._decode(preempted, log)
        if not preempted:
            swap_ns += self._swap_in(resumed, log)
        if not preempted and not self.swapped:
            self._admit(t_ns, admitted)
        decoding = [seq for seq in self.running if not seq.prefilling]
        if log.keeps_tables:
            self._check()
            log.tables.append(self._tables())
            log.cpu_tables.append(self._cpu_tables())
        running, waiting, swapped = len(self.running), len(self.waiting), len(self.swapped)
        free = len(self.free)

        prefill_tokens, prefilled = self._prefill()
        duration_ns = config.base_ns + config.per_seq_ns * running + config.per_prefill_token_ns * prefill_tokens
        duration_ns += swap_ns
        log.swap_ns += swap_ns
        for seq in decoding:
            seq.computed += 1
        used_tokens = sum(seq.computed for seq in self.running)
        finished = self._emit(t_ns + duration_ns, decoding + prefilled)
        return StepRecord(
            t_ns=t_ns + duration_ns,
            dur_ns=duration_ns,
            running=running,
            waiting=waiting,
            swapped=swapped,
            reserved_tokens=(config.num_gpu_blocks - free) * config.block_size,
            used_tokens=used_tokens,
            largest_hole_tokens=free * config.block_size,
            saved_blocks=0,
            prefill_tokens=prefill_tokens,
            admitted=tuple(admitted),
            resumed=tuple(resumed),
            preempted=tuple(preempted),
            finished=tuple(finished),
        )

    def _decode(self, preempted: list[tuple[int, str]], log: Log) -> int:
        """Rule 1. Returns what swapping out costs."""
        swap_ns = 0
        for seq in list(self.running):  # "in admission order"
            if seq.prefilling or seq not in self.running:
                continue
            if ceil_div(seq.computed + 1, self.config.block_size) <= len(seq.blocks):
                continue
            while not self.free and seq in self.running:
                victim = self.running[-1]  # "the most recently admitted running sequence"
                fate, cost_ns = self._preempt(victim, log)
                preempted.append((victim.id, fate))
                swap_ns += cost_ns
            if seq in self.running:
                seq.blocks.append(self.free.popleft())
        return swap_ns

    def _preempt(self, seq: _Seq, log: Log) -> tuple[str, int]:
        """ "Preempting a sequence frees its GPU blocks." Returns what became of it, and the cost in ns."""
        self.running.remove(seq)
        self.free.extend(seq.blocks)
        seq.blocks = []
        seq.life.preemptions += 1
        num_blocks = ceil_div(seq.computed, self.config.block_size)
        if self.config.preemption_mode == "swap" and 1 <= num_blocks <= len(self.cpu_free):
            seq.cpu_blocks = [self.cpu_free.popleft() for _ in range(num_blocks)]
            seq.life.swap_outs += 1
            log.swapped_tokens += seq.computed
            self.swapped.append(seq)
            return "swap", self._copy_ns(seq)
        seq.life.recomputed_tokens += seq.computed
        seq.computed = 0
        seq.prefilling = False
        self.waiting.insert(0, seq)
        return "recompute", 0

    def _copy_ns(self, seq: _Seq) -> int:
        return self.config.swap_per_token_ns * seq.computed + self.config.swap_per_block_ns * len(seq.cpu_blocks)

    def _fits(self, need: int) -> bool:
        """Whether `need` blocks may be taken by a sequence that joins the running ones now."""
        headroom = self.config.headroom_blocks if self.running else 0
        return len(self.free) - need >= headroom

    def _swap_in(self, resumed: list[int], log: Log) -> int:
        """Rule 2. Returns what copying back costs."""
        swap_ns = 0
        for seq in self._swap_in_order():
            need = ceil_div(seq.known, self.config.block_size)
            if len(self.running) >= self.config.max_num_seqs or not self._fits(need):
                break
            swap_ns += self._copy_ns(seq)
            log.swap_ins += 1
            log.swapped_tokens += seq.computed
            self.cpu_free.extend(seq.cpu_blocks)
            seq.cpu_blocks = []
            seq.blocks = [self.free.popleft() for _ in range(need)]
            self.swapped.remove(seq)
            self.running.append(seq)
            resumed.append(seq.id)
        return swap_ns

    def _swap_in_order(self) -> list[_Seq]:
        """ "earliest arrival first", "equal arrivals by id" """
        return sorted(self.swapped, key=lambda seq: (seq.arrival_ns, seq.id))

    def _admit(self, t_ns: int, admitted: list[int]) -> None:
        """Rule 3."""
        while self.waiting and len(self.running) < self.config.max_num_seqs:
            seq = self.waiting[0]
            need = ceil_div(seq.known, self.config.block_size)
            if not self._fits(need):
                break
            del self.waiting[0]
            seq.blocks = [self.free.popleft() for _ in range(need)]
            seq.prefilling = True
            seq.life.admit(t_ns)
            self.running.append(seq)
            admitted.append(seq.id)

    def _prefill(self) -> tuple[int, list[_Seq]]:
        """Rule 4. Returns the tokens computed and the sequences whose prefill completes."""
        budget = self.config.prefill_budget_tokens
        completed = []
        for seq in self.running:
            if seq.prefilling:
                chunk = min(seq.known - seq.computed, budget)
                budget -= chunk
                seq.computed += chunk
                if seq.computed == seq.known:
                    seq.prefilling = False
                    completed.append(seq)
        return self.config.prefill_budget_tokens - budget, completed

    def _emit(self, t_ns: int, emitting: list[_Seq]) -> list[int]:
        """Rule 6. Returns the ids that end, in admission order."""
        for seq in emitting:
            seq.emitted += 1
            seq.life.token_times[0].append(t_ns)
        ended = [seq for seq in self.running if seq.has_ended]
        for seq in ended:
            self.running.remove(seq)
            self.free.extend(seq.blocks)
        return [seq.id for seq in ended]

    def _tables(self) -> Tables:
        """GPU block tables, in admission order."""
        return {(seq.id, 0): tuple(seq.blocks) for seq in self.running}

    def _cpu_tables(self) -> Tables:
        """Block tables in the swap space, in the order of rule 2."""
        return {(seq.id, 0): tuple(seq.cpu_blocks) for seq in self._swap_in_order()}

    def _check(self) -> None:
        held = [block for seq in self.running for block in seq.blocks]
        assert sorted([*held, *self.free]) == list(range(self.config.num_gpu_blocks)), "GPU blocks lost or doubled"
        held = [block for seq in self.swapped for block in seq.cpu_blocks]
        assert sorted([*held, *self.cpu_free]) == list(range(self.config.num_cpu_blocks)), "CPU blocks lost or doubled"
        assert len(self.running) <= self.config.max_num_seqs
        assert all(seq.computed <= seq.known <= len(seq.blocks) * self.config.block_size for seq in self.running)


def check_lengths(request: Request) -> None:
    """Raise ConfigError unless the prompt and every output have at least one token."""
    if request.prompt_tokens < 1:
        raise ConfigError("prompt_tokens", request.prompt_tokens, f"request {request.id}: must be at least 1")
    for output_tokens in request.output_tokens or (0,):
        if output_tokens < 1:
            raise ConfigError("output_tokens", output_tokens, f"request {request.id}: must be at least 1")
