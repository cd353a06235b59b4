"""A plain simulator of the preemption lab, to compare the fast engine with.

One object per sequence and a loop over all running ones in every step: what one writes first, with the care that such
loops deserve (slots, no search, no copies) and no more books than the fast engine keeps for metrics. It knows
preemption by recompute only. It's apart from `kvlab.reference`, which logs every table and token and is slower.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from kvlab.core.config import PreemptionLabConfig
from kvlab.core.request import Request, RequestSource


class NaiveRun(NamedTuple):
    """The books of a run; fields mean what they do in `kvlab.core.records`."""

    steps: int
    end_ns: int
    finished: int
    output_tokens: int
    preemptions: int
    recomputed_tokens: int
    prefill_tokens: int
    reserved_token_ns: int
    used_token_ns: int
    running_ns: int
    waiting_ns: int
    gap: Counter[int]
    ttft: Counter[int]
    max_gap: Counter[int]


class _Seq:
    __slots__ = (
        "blocks", "computed", "emitted", "is_running", "last_token_ns", "max_gap_ns", "output", "prefilling", "prompt",
        "request",
    )  # fmt: skip

    def __init__(self, request: Request) -> None:
        self.request = request
        self.prompt = request.prompt_tokens
        self.output = request.output_tokens[0]
        self.emitted = 0
        self.computed = 0
        self.prefilling = False
        self.is_running = False
        self.blocks: list[int] = []
        self.last_token_ns = -1
        self.max_gap_ns = 0


def simulate(config: PreemptionLabConfig, source: RequestSource) -> NaiveRun:
    """Runs until every request has finished; all of them must fit."""
    assert config.preemption_mode == "recompute", "the naive simulator knows no swap space"
    block_size, budget_tokens = config.block_size, config.prefill_budget_tokens
    free = deque(range(config.num_gpu_blocks))
    waiting: deque[_Seq] = deque()
    running: list[_Seq] = []
    gap: Counter[int] = Counter()
    ttft: Counter[int] = Counter()
    max_gap: Counter[int] = Counter()
    now_ns = steps = finished = output_tokens = preemptions = recomputed_tokens = all_prefill_tokens = 0
    reserved_token_ns = used_token_ns = running_ns = waiting_ns = 0
    while True:
        while (arrival_ns := source.next_arrival_ns()) is not None and arrival_ns <= now_ns:
            waiting.append(_Seq(source.pop()))
        if not running and not waiting:
            if arrival_ns is None:
                break
            now_ns = arrival_ns
            continue

        has_preempted = False
        for seq in tuple(running):
            if seq.prefilling or not seq.is_running or seq.computed < len(seq.blocks) * block_size:
                continue
            while not free and seq.is_running:
                victim = running.pop()
                free.extend(victim.blocks)
                victim.blocks = []
                victim.is_running = victim.prefilling = False
                recomputed_tokens += victim.computed
                preemptions += 1
                victim.computed = 0
                waiting.appendleft(victim)
                has_preempted = True
            if seq.is_running:
                seq.blocks.append(free.popleft())
        if not has_preempted:
            while waiting and len(running) < config.max_num_seqs:
                seq = waiting[0]
                need = -(-(seq.prompt + seq.emitted) // block_size)
                if len(free) - need < (config.headroom_blocks if running else 0):
                    break
                waiting.popleft()
                seq.blocks = [free.popleft() for _ in range(need)]
                seq.is_running = seq.prefilling = True
                running.append(seq)

        emitting: list[_Seq] = []
        prefill_tokens = used_tokens = 0
        for seq in running:
            if seq.prefilling:
                chunk = min(seq.prompt + seq.emitted - seq.computed, budget_tokens - prefill_tokens)
                prefill_tokens += chunk
                seq.computed += chunk
                if seq.computed == seq.prompt + seq.emitted:
                    seq.prefilling = False
                    emitting.append(seq)
            else:
                seq.computed += 1
                emitting.append(seq)
            used_tokens += seq.computed

        dur_ns = config.base_ns + config.per_seq_ns * len(running) + config.per_prefill_token_ns * prefill_tokens
        now_ns += dur_ns
        steps += 1
        all_prefill_tokens += prefill_tokens
        output_tokens += len(emitting)
        reserved_token_ns += (config.num_gpu_blocks - len(free)) * block_size * dur_ns
        used_token_ns += used_tokens * dur_ns
        running_ns += len(running) * dur_ns
        waiting_ns += len(waiting) * dur_ns

        has_ended = False
        for seq in emitting:
            seq.emitted += 1
            if seq.last_token_ns < 0:
                ttft[now_ns - seq.request.arrival_ns] += 1
            else:
                gap_ns = now_ns - seq.last_token_ns
                gap[gap_ns] += 1
                if gap_ns > seq.max_gap_ns:
                    seq.max_gap_ns = gap_ns
            seq.last_token_ns = now_ns
            if seq.emitted == seq.output:
                has_ended = True
        if has_ended:
            for seq in running:
                if seq.emitted == seq.output:
                    seq.is_running = False
                    free.extend(seq.blocks)
                    finished += 1
                    max_gap[seq.max_gap_ns] += 1
                    source.ended(seq.request, now_ns)
            running = [seq for seq in running if seq.is_running]
    return NaiveRun(
        steps, now_ns, finished, output_tokens, preemptions, recomputed_tokens, all_prefill_tokens, reserved_token_ns,
        used_token_ns, running_ns, waiting_ns, gap, ttft, max_gap,
    )  # fmt: skip
