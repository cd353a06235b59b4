"""docs/vllm-v1.md as a program: the scheduler of vLLM's V1 engine, one token list and one block list per request.

The letters and numbers in the code are the sections of that page.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

from kvlab.core.config import Slo, VllmV1Config
from kvlab.core.records import RunRecord, StepRecord
from kvlab.core.request import Request, RequestSource
from kvlab.core.step_time import StepLoad, StepTime
from kvlab.errors import ConfigError
from kvlab.reference.log import Life, Log
from kvlab.units import ceil_div

HASHED_TOKENS: Final = 512
"""Tokens of a prompt that one of a trace's hash ids stands for."""
CHECK_EVERY: Final = 8
"""Steps from one check of everything that must hold to the next."""

Token = tuple[Hashable, int]
Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmReferenceRun:
    """A finished run of the reference."""

    record: RunRecord
    lines: list[Line]
    """One per step: everything that was decided, ids as numbers, times in ns."""
    token_times: dict[int, list[int]]
    """Request id -> ns of every token."""


class _Req:
    """A request inside the scheduler."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.request = life.request
        self.id = life.request.id
        self.tokens = _prompt(life.request)
        self.num_prompt = len(self.tokens)
        self.computed = 0
        self.blocks: list[int] = []
        self.keys: list[int] = []
        """Of the full blocks that anybody asked for so far."""
        self.lost = 0
        """Computed tokens that the last preemption threw away."""

    @property
    def num_outputs(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.num_prompt

    def is_decode(self, tokens: int) -> bool:
        """Whether a step that computes so many of its tokens is a decode."""
        return tokens == 1 and self.computed == len(self.tokens) and self.num_outputs > 0

    @property
    def urgency(self) -> tuple[int, int, int, int]:
        """The smallest is next, under the priority policy."""
        request = self.request
        return (request.priority, request.arrival_ns, request.rank, request.id)

    def next_token(self) -> Token:
        """What is generated next."""
        content = self.request.content
        segment = None if content is None else content.output
        return (("out", self.id) if segment is None else segment, self.num_outputs)


def _prompt(request: Request) -> list[Token]:
    if request.content is not None:
        return [(segment, first + k) for segment, first, count in request.content.prompt for k in range(count)]
    own = [(("in", request.id), k) for k in range(request.prompt_tokens)]
    hashed: list[Token] = [(_Prefix((hash_id,)), k) for hash_id in request.hash_ids for k in range(HASHED_TOKENS)]
    return [*hashed[: request.prompt_tokens], *own[len(hashed) :]]


class _Prefix(tuple[int]):
    """A segment whose name says what is before it, too."""

    __slots__ = ()


def run(
    config: VllmV1Config, source: RequestSource, *, window_ns: int | None = None, slo: Slo | None = None
) -> VllmReferenceRun:
    """Run `source` to its end, or until nothing can move any more; consumes it."""
    scheduler = _Scheduler(config)
    log = Log(tables_every=1 << 62)
    lines: list[Line] = []
    t_ns = 0
    while True:
        arrived = _deliver(scheduler, source, t_ns, log)  # "1."
        if not scheduler.running and not scheduler.waiting:  # "2."
            next_ns = source.next_arrival_ns()
            if next_ns is None:
                break
            t_ns = next_ns
            continue
        step = scheduler.step(t_ns, log)
        line = scheduler.line | {"step": len(lines), "t": t_ns, "arrived": arrived}
        lines.append(line)
        log.steps.append(step)
        for request_id in step.finished:
            source.ended(log.lives[request_id].request, step.t_ns)
        t_ns = step.t_ns
        next_ns = source.next_arrival_ns()
        if not line["sched"] and not line["preempted"]:  # "6.": nothing can move until another arrival
            if next_ns is None:
                break
            t_ns = max(t_ns, next_ns)
        elif scheduler.is_livelocked and next_ns is None:
            break
    done = log.close(config.usable_blocks * config.block_size, window_ns, slo)
    token_times = {life.request.id: life.token_times[0] for life in log.lives if not life.rejected}
    return VllmReferenceRun(record=done.record, lines=lines, token_times=token_times)


def _deliver(scheduler: _Scheduler, source: RequestSource, t_ns: int, log: Log) -> list[int]:
    arrived = []
    while (arrival_ns := source.next_arrival_ns()) is not None and arrival_ns <= t_ns:
        request = source.pop()
        assert request.id == len(log.lives), f"request {request.id} arrives as number {len(log.lives)}"
        if len(request.output_tokens) != 1 or min(request.output_tokens) < 1 or request.prompt_tokens < 0:
            raise ConfigError(f"request {request.id}", tuple(request[2:4]), "expected a prompt and one answer")
        longest = scheduler.config.max_model_len - request.prompt_tokens
        if request.prompt_tokens < 1 or longest < 1:
            log.begin(request).rejected = True
            source.ended(request, request.arrival_ns)
        else:
            served = request._replace(output_tokens=(min(request.output_tokens[0], longest),))
            scheduler.waiting.append(_Req(log.begin(served)))
            scheduler.vain_states = []
            arrived.append(request.id)
    return arrived


class _Scheduler:
    """Two lists of requests, a queue of free blocks and a prefix cache."""

    def __init__(self, config: VllmV1Config) -> None:
        self.config = config
        self.waiting: list[_Req] = []
        self.running: list[_Req] = []
        self.blocks = _Blocks(config)
        self.line: Line = {}
        self.vain_states: list[Any] = []
        """After each step that preempted, since anybody got a token or came."""

    @property
    def is_livelocked(self) -> bool:
        """The latest state is the same as after 1, 2, 4, ... steps in vain, whichever of them was last before it."""
        count = len(self.vain_states)
        if count < 2:
            return False
        return bool(self.vain_states[-1] == self.vain_states[(1 << (count - 1).bit_length() - 1) - 1])

    def step(self, t_ns: int, log: Log) -> StepRecord:
        """ "Scheduling one step", and what follows from it. Leaves the details in `line`."""
        self.blocks.evicted = 0
        sched: dict[int, int] = {}
        hits: dict[int, int] = {}
        preempted, budget = self._run_on(sched)
        first_times: list[int] = []
        admitted: list[int] = []
        if not preempted:
            first_times = self._admit(t_ns, budget, sched, hits, log)
            admitted = list(hits)
        scheduled = [req for req in self.running if req.id in sched]
        decodes = [req for req in scheduled if req.is_decode(sched[req.id])]
        chunks = [(req.computed - sched[req.id], sched[req.id]) for req in scheduled if req not in decodes]
        load = StepLoad(
            num_running=len(self.running),
            num_decodes=len(decodes),
            decode_context=sum(req.computed for req in decodes),
            prefill_tokens=sum(tokens for _, tokens in chunks),
            prefill_context=sum(before for before, _ in chunks),
            chunk_context=sum(tokens * before + tokens * (tokens + 1) // 2 for before, tokens in chunks),
            num_prefills=len(chunks),
        )
        dt_ns = duration_ns(self.config.step_time, load)
        stored = self._stored()
        free_mid, waiting, running = len(self.blocks.free), len(self.waiting), len(self.running)
        tables = {req.id: tuple(req.blocks) for req in self.running}
        if len(log.steps) % CHECK_EVERY == 0:
            self._check()
        emitting = [req for req in scheduled if req.computed == len(req.tokens)]
        finished = self._emit(emitting, t_ns + dt_ns)
        self._watch(preempted, emitted=bool(emitting))
        self.line = {
            "dt": dt_ns,
            "sched": sched,
            "preempted": [req.id for req in preempted],
            "new": first_times,
            "resumed": [request_id for request_id in admitted if request_id not in first_times],
            "finished": [req.id for req in finished],
            "emitted": [req.id for req in emitting],
            "decode": len(decodes),
            "prefill_tokens": load.prefill_tokens,
            "running": len(self.running),
            "waiting": waiting,
            "head": self._head().id if self.waiting else None,
            "free_mid": free_mid,
            "free": len(self.blocks.free),
            "tables": tables,
        }
        if self.config.enable_prefix_caching:
            self.line |= {"hits": hits, "evicted": self.blocks.evicted, "cached": len(self.blocks.cache)}
        return StepRecord(
            t_ns=t_ns + dt_ns,
            dur_ns=dt_ns,
            running=running,
            waiting=waiting,
            swapped=0,
            reserved_tokens=len(stored) * self.config.block_size,
            used_tokens=sum(stored.values()),
            largest_hole_tokens=free_mid * self.config.block_size,
            saved_blocks=sum(map(len, tables.values())) - len(stored),
            prefill_tokens=load.prefill_tokens,
            admitted=tuple(admitted),
            resumed=(),
            preempted=tuple((req.id, "recompute") for req in preempted),
            finished=tuple(req.id for req in finished),
        )

    def _cap(self) -> int | None:
        """Most tokens of one request in this step."""
        threshold = self.config.long_prefill_token_threshold
        return threshold if threshold and len(self.running) + len(self.waiting) > 1 else None

    def _run_on(self, sched: dict[int, int]) -> tuple[list[_Req], int]:
        """A. Running requests. Returns the victims and what is left of the budget."""
        cap = self._cap()
        budget = self.config.max_num_batched_tokens
        preempted: list[_Req] = []
        for req in list(self.running):
            if budget <= 0:
                break
            if req not in self.running:
                continue
            n = len(req.tokens) - req.computed
            n = min(n if cap is None else min(n, cap), budget, self.config.max_model_len - 1 - req.computed)
            if n == 0:
                continue
            while req in self.running and self._lacks(req, n):
                victim = self._victim()
                budget += sched.pop(victim.id, 0)
                self._preempt(victim)
                preempted.append(victim)
            if req in self.running:
                self.blocks.give(req, req.computed + n)
                sched[req.id] = n
                budget -= n
            elif self.config.policy == "fcfs":
                break
        for req in self.running:
            req.computed += sched.get(req.id, 0)
        return preempted, budget

    def _lacks(self, req: _Req, n: int) -> bool:
        need = ceil_div(req.computed + n, self.config.block_size) - len(req.blocks)
        return need > len(self.blocks.free)

    def _victim(self) -> _Req:
        if self.config.policy == "fcfs":
            return self.running[-1]
        return max(self.running, key=lambda req: (req.request.priority, req.request.arrival_ns))  # of equals, the first

    def _preempt(self, req: _Req) -> None:
        self.running.remove(req)
        self.blocks.take_back(req)
        req.life.preemptions += 1
        req.life.recomputed_tokens += req.computed
        req.lost = req.computed
        req.computed = 0
        self.waiting.insert(0, req)

    def _head(self) -> _Req:
        return self._in_order()[0]

    def _admit(self, t_ns: int, budget: int, sched: dict[int, int], hits: dict[int, int], log: Log) -> list[int]:
        """B. Waiting requests. Returns the ids of those that were never admitted before."""
        cap = self._cap()
        new = []
        while budget > 0 and self.waiting and len(self.running) < self.config.max_num_seqs:
            req = self._head()
            hit_blocks = self.blocks.hit(req)
            h = len(hit_blocks) * self.config.block_size
            n = len(req.tokens) - h
            n = n if cap is None else min(n, cap)
            if not self.config.enable_chunked_prefill and n > budget:
                break
            n = min(n, budget)
            idle = len([block for block in hit_blocks if not self.blocks.holders[block]])
            kept = self.config.watermark_blocks if self.running else 0
            known = len(req.tokens) if self.config.reserve_full_prompt else h + n
            need = ceil_div(max(known, h + n), self.config.block_size) - len(hit_blocks) + idle
            if need + kept > len(self.blocks.free):
                break
            self.waiting.remove(req)
            self.blocks.hold(req, hit_blocks)
            self.blocks.give(req, h + n)
            req.computed = h + n
            self.running.append(req)
            budget -= n
            sched[req.id] = n
            hits[req.id] = h
            if req.life.admitted_ns is None:
                new.append(req.id)
                req.life.cached_tokens = h
            log.cached_tokens += h
            log.queried_tokens += len(req.tokens) if self.config.enable_prefix_caching else 0
            req.life.recomputed_tokens -= min(h, req.lost)
            req.lost = 0
            req.life.admit(t_ns)
        return new

    def _emit(self, emitting: list[_Req], t_ns: int) -> list[_Req]:
        """ "5." Returns who finished."""
        finished = []
        for req in emitting:
            req.tokens.append(req.next_token())
            req.life.token_times[0].append(t_ns)
            if req.num_outputs == req.request.output_tokens[0]:
                self.running.remove(req)
                self.blocks.take_back(req)
                finished.append(req)
        return finished

    def _watch(self, preempted: list[_Req], *, emitted: bool) -> None:
        """ "Livelock": requests that preempt each other again and again, and nobody ever gets a token."""
        if emitted:
            self.vain_states = []
        elif preempted:
            running = [(req.id, req.computed) for req in self.running]
            keys = [self.blocks.key_of[block] for block in self.blocks.free if block in self.blocks.key_of]
            self.vain_states.append((running, [req.id for req in self._in_order()], keys))

    def _in_order(self) -> list[_Req]:
        """Who waits, the next to be admitted first."""
        return self.waiting if self.config.policy == "fcfs" else sorted(self.waiting, key=lambda req: req.urgency)

    def _stored(self) -> dict[int, int]:
        """Taken block -> tokens in it that have KV when the step ends."""
        size = self.config.block_size
        stored: dict[int, int] = {}
        for req in self.running:
            for place, block in enumerate(req.blocks):
                stored[block] = max(stored.get(block, 0), min(size, req.computed - place * size))
        return stored

    def _check(self) -> None:
        held: dict[int, int] = {}
        for req in self.running:
            for block in req.blocks:
                held[block] = held.get(block, 0) + 1
        assert sorted([*held, *self.blocks.free]) == list(range(1, self.config.num_gpu_blocks)), "blocks lost"
        assert all(self.blocks.holders[block] == count for block, count in held.items()), "holders"
        for blocks in self.blocks.cache.values():
            assert blocks, "a key without a block"


def duration_ns(step_time: StepTime, load: StepLoad) -> int:
    """A step in which everybody who runs decodes, or another one."""
    if load.num_decodes == load.num_running > 0:
        return step_time.decode_ns(load.num_running, load.decode_context)
    return step_time.mixed_ns(load)


class _Blocks:
    """ "Blocks", and "Prefix cache"."""

    def __init__(self, config: VllmV1Config) -> None:
        self._size = config.block_size
        self._caches = config.enable_prefix_caching
        self.free = list(range(1, config.num_gpu_blocks))
        self.holders = [0] * config.num_gpu_blocks
        self.cache: dict[int, list[int]] = {}
        """Key -> blocks with it, the one that entered first in front."""
        self.key_of: dict[int, int] = {}
        self.evicted = 0
        self._names: dict[Hashable, int] = {}

    def _key(self, before: int, tokens: tuple[Token, ...]) -> int:
        """A number for a full block: its tokens and, through the key before it, everything before them."""
        if all(isinstance(segment, _Prefix) for segment, _ in tokens):
            before = -1  # their names say what is before them
        return self._names.setdefault((before, tokens), len(self._names))

    def _keys(self, req: _Req, num_tokens: int) -> list[int]:
        """Keys of the blocks that `num_tokens` tokens fill."""
        keys = req.keys  # tokens never change once they are there
        for end in range((len(keys) + 1) * self._size, num_tokens + 1, self._size):
            keys.append(self._key(keys[-1] if keys else -1, tuple(req.tokens[end - self._size : end])))
        return keys[: num_tokens // self._size]

    def hit(self, req: _Req) -> list[int]:
        """Blocks in the cache that hold the start of the request's tokens, but never the last token."""
        found: list[int] = []
        if self._caches:
            for key in self._keys(req, len(req.tokens) - 1):
                if key not in self.cache:
                    break
                found.append(self.cache[key][0])
        return found

    def hold(self, req: _Req, blocks: list[int]) -> None:
        """Blocks of the cache become the start of the request's table."""
        for block in blocks:
            if not self.holders[block]:
                self.free.remove(block)
            self.holders[block] += 1
        req.blocks = list(blocks)

    def give(self, req: _Req, num_tokens: int) -> None:
        """New blocks for so many tokens; what they fill is in the cache at once."""
        while len(req.blocks) < ceil_div(num_tokens, self._size):
            block = self.free.pop(0)
            self._evict(block)
            self.holders[block] = 1
            req.blocks.append(block)
        if self._caches:
            for block, key in zip(req.blocks, self._keys(req, num_tokens), strict=False):
                if block not in self.key_of:
                    self.key_of[block] = key
                    self.cache.setdefault(key, []).append(block)

    def _evict(self, block: int) -> None:
        key = self.key_of.pop(block, None)
        if key is not None:
            self.evicted += 1
            self.cache[key].remove(block)
            if not self.cache[key]:
                del self.cache[key]

    def take_back(self, req: _Req) -> None:
        """The request's blocks, last to first: those without an entry to the front, the others to the back."""
        unheld = []
        for block in reversed(req.blocks):
            self.holders[block] -= 1
            if not self.holders[block]:
                unheld.append(block)
        self.free[:0] = [block for block in unheld if block not in self.key_of]
        self.free += [block for block in unheld if block in self.key_of]
        req.blocks = []
