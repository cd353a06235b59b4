"""A replay of the vLLM V1 scheduler with its asynchronous engine loop: enough of it to compare a run with its replay.

A fit needs nothing but who computes what in which step, so this keeps no tables and no metrics; `kvlab.core` is the
simulator. Rules: FCFS, chunked prefill, preemption by recomputation, blocks with a prefix cache of a request's own
earlier blocks (prompts of these runs share none), and up to two steps in flight: a step is scheduled when the one
before it begins, so who arrives or finishes meanwhile is seen one step later.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from kvlab.core.step_time import StepLoad, StepTime, chunk_pairs


class Arrival(NamedTuple):
    """One request of a run."""

    at_ns: int
    prompt: int
    output: int


class Step(NamedTuple):
    """One step of the replay."""

    start_ns: int
    end_ns: int
    load: StepLoad


@dataclass(eq=False, slots=True)
class _Seq:
    id: int
    at_ns: int
    prompt: int
    output: int
    known: int
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    first_ns: int = -1
    last_ns: int = -1
    scheduled_ns: int = -1
    done: int = 0
    """Tokens that came out."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Times of each request, in arrival order, and all steps."""

    scheduled_ns: list[int]
    first_ns: list[int]
    last_ns: list[int]
    steps: list[Step]
    preemptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Settings, by vLLM's names."""

    num_gpu_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int = 2048
    block_size: int = 16
    depth: int = 2
    """Steps in flight: 2 with async scheduling, 1 without."""
    reserve_full_prompt: bool = False


def replay(arrivals: list[Arrival], engine: Engine, step_time: StepTime) -> Replay:
    """What the engine does with the requests when its steps last that long."""
    return _Loop(arrivals, engine, step_time).run()


class _Loop:
    def __init__(self, arrivals: list[Arrival], engine: Engine, step_time: StepTime) -> None:
        self.engine = engine
        self.step_time = step_time
        self.seqs = [_Seq(i, a.at_ns, a.prompt, a.output, a.prompt) for i, a in enumerate(arrivals)]
        self.waiting: deque[_Seq] = deque()
        self.running: list[_Seq] = []
        self.free: OrderedDict[int, None] = OrderedDict((i, None) for i in range(1, engine.num_gpu_blocks))
        self.key_of: dict[int, tuple[int, int]] = {}
        self.block_of: dict[tuple[int, int], int] = {}
        self.preemptions = 0

    def run(self) -> Replay:
        """See `replay`."""
        now, busy_until, arrived = 0, 0, 0
        flying: deque[tuple[int, list[_Seq]]] = deque()
        steps: list[Step] = []
        while True:
            while arrived < len(self.seqs) and self.seqs[arrived].at_ns <= now:
                self.waiting.append(self.seqs[arrived])
                arrived += 1
            scheduled = self._schedule(now)
            if scheduled:
                load = self._load(scheduled)
                pure = load.prefill_tokens == 0 and load.num_decodes == load.num_running
                ns = (
                    self.step_time.decode_ns(load.num_decodes, load.decode_context)
                    if pure
                    else self.step_time.mixed_ns(load)
                )
                start = max(now, busy_until)
                busy_until = start + ns
                steps.append(Step(start, busy_until, load))
                emitting = [seq for seq, _ in scheduled if seq.computed == seq.known]
                for seq in emitting:
                    seq.known += 1
                flying.append((busy_until, emitting))
                if len(flying) < self.engine.depth:
                    continue
            if flying:
                now, emitting = flying.popleft()
                self._emit(now, emitting)
            elif arrived < len(self.seqs):
                now = self.seqs[arrived].at_ns
            else:
                break
        return Replay(
            [s.scheduled_ns for s in self.seqs], [s.first_ns for s in self.seqs], [s.last_ns for s in self.seqs],
            steps, self.preemptions,
        )  # fmt: skip

    def _emit(self, now: int, emitting: list[_Seq]) -> None:
        for seq in emitting:
            seq.done += 1
            if seq.first_ns < 0:
                seq.first_ns = now
            if seq.done == seq.output:
                seq.last_ns = now
                if seq in self.running:
                    self.running.remove(seq)
                else:
                    self.waiting.remove(seq)
                self._release(seq)

    def _load(self, scheduled: list[tuple[_Seq, int]]) -> StepLoad:
        decodes = context = prefill = before = pairs = chunks = 0
        for seq, n in scheduled:
            if n == 1 and seq.computed == seq.known and seq.known > seq.prompt:
                decodes += 1
                context += seq.computed
            else:
                prefill += n
                before += seq.computed - n
                pairs += chunk_pairs(n, seq.computed - n)
                chunks += 1
        return StepLoad(len(self.running), decodes, context, prefill, before, pairs, chunks)

    def _schedule(self, now: int) -> list[tuple[_Seq, int]]:
        size = self.engine.block_size
        budget = self.engine.max_num_batched_tokens
        scheduled: list[tuple[_Seq, int]] = []
        preempted = False
        i = 0
        while i < len(self.running) and budget:
            seq = self.running[i]
            n = min(seq.known - seq.computed, budget)
            if n == 0 or seq.known - seq.prompt >= seq.output:
                i += 1
                continue
            while (missing := -(-(seq.computed + n) // size) - len(seq.blocks)) > len(self.free):
                victim = self.running.pop()
                self._release(victim)
                victim.computed = 0
                self.waiting.appendleft(victim)
                self.preemptions += 1
                preempted = True
                if victim is seq:
                    break
            else:
                self._give(seq, missing, n)
                scheduled.append((seq, n))
                budget -= n
                i += 1
                continue
            break
        while not preempted and self.waiting and budget and len(self.running) < self.engine.max_num_seqs:
            seq = self.waiting[0]
            hits = self._hits(seq)
            n = min(seq.known - len(hits) * size, budget)
            reach = seq.known if self.engine.reserve_full_prompt else len(hits) * size + n
            idle = sum(block in self.free for block in hits)
            if -(-reach // size) - len(hits) + idle > len(self.free):
                break
            self.waiting.popleft()
            for block in hits:
                self.free.pop(block, None)
            seq.blocks = hits
            seq.computed = len(hits) * size
            if seq.scheduled_ns < 0:
                seq.scheduled_ns = now
            self._give(seq, -(-(seq.computed + n) // size) - len(hits), n)
            self.running.append(seq)
            scheduled.append((seq, n))
            budget -= n
        return scheduled

    def _hits(self, seq: _Seq) -> list[int]:
        found = []
        for index in range((seq.known - 1) // self.engine.block_size):
            block = self.block_of.get((seq.id, index))
            if block is None:
                break
            found.append(block)
        return found

    def _give(self, seq: _Seq, count: int, n: int) -> None:
        """Blocks for the next `n` tokens; full ones become known to the cache."""
        for _ in range(count):
            block, _ = self.free.popitem(last=False)
            if block in self.key_of:
                del self.block_of[self.key_of.pop(block)]
            seq.blocks.append(block)
        before = seq.computed // self.engine.block_size
        seq.computed += n
        for index in range(before, seq.computed // self.engine.block_size):
            key = (seq.id, index)
            if key not in self.block_of:
                self.block_of[key] = seq.blocks[index]
                self.key_of[seq.blocks[index]] = key

    def _release(self, seq: _Seq) -> None:
        for block in reversed(seq.blocks):
            self.free[block] = None
            if block not in self.key_of:
                self.free.move_to_end(block, last=False)
        seq.blocks = []
