"""Everything that the fast engine decides under the vLLM V1 rules, a line per step: for goldens and tests.

Every step is decided in full: quiet steps, which only move the decode clock, write no line of their own.
"""

from __future__ import annotations

from typing import Any

from kvlab.core.config import EVERYTHING, VllmV1Config
from kvlab.core.engine import Engine
from kvlab.core.records import RunRecord
from kvlab.core.request import Request, RequestSource
from kvlab.core.schedulers.base import Decisions
from kvlab.core.schedulers.vllm_v1 import VllmV1
from kvlab.core.sequence import NEVER

Line = dict[str, Any]


def core_lines(config: VllmV1Config, source: RequestSource) -> tuple[list[Line], RunRecord]:
    """Runs to the end. Lines have ids as numbers, times in ns, and block tables whole."""
    engine = _LineEngine(config, source)
    record = engine.run(None, check=True)
    return engine.lines, record


class _Watched(VllmV1):
    """Writes down each decision."""

    line: Line

    def schedule(self, step: int) -> Decisions:
        """See `VllmV1`. The next step is always one to decide."""
        decoding_before = {
            job.id for job in self.running.values() if job.decode_step != NEVER and job.decode_step < step
        }
        evicted = 0 if self.prefix is None else self.prefix.evicted
        decisions = super().schedule(step)
        chunks = {job.id: tokens for job, tokens in self.chunks}
        sched, emitted = {}, []
        for job in self.running.values():
            if job.id in chunks:
                sched[job.id] = chunks[job.id]
            elif job.id in decoding_before:
                sched[job.id] = 1
            if job.decode_step != NEVER:
                emitted.append(job.id)
        preempted = [job for job, _ in decisions.preempted]
        self.line = {
            "step": step,
            "sched": sched,
            "emitted": emitted,
            "preempted": [job.id for job in preempted],
            "new": [job.id for job in decisions.admitted if job.admitted_ns < 0],
            "resumed": [job.id for job in decisions.admitted if job.admitted_ns >= 0],
            "prefill_tokens": decisions.prefill_tokens,
            "decode": sum(sched.values()) - decisions.prefill_tokens,
            "free_mid": self.pool.num_free,
            "tables": {job.id: tuple(job.live[0].table) for job in self.running.values()},
        }
        if self.prefix is not None:
            hits = {job.id: job.computed - chunks[job.id] for job in decisions.admitted}
            self.line |= {
                "hits": hits, "evicted": self.prefix.evicted - evicted, "cached": self.prefix.num_keys,
            }  # fmt: skip
        self.is_settled = False
        return decisions


class _LineEngine(Engine):
    def __init__(self, config: VllmV1Config, source: RequestSource) -> None:
        super().__init__(config, source, recording=EVERYTHING)
        self.scheduler = self._watched = _Watched(config, log_memory=True)
        self.lines: list[Line] = []
        self._arrived: list[int] = []

    def _receive(self, request: Request) -> None:
        waiting = len(self.scheduler.waiting)
        super()._receive(request)
        if len(self.scheduler.waiting) > waiting:
            self._arrived.append(request.id)

    def _full_step(self) -> bool:
        start_ns, arrived = self.now_ns, self._arrived
        self._arrived = []
        super()._full_step()
        rest = self._watched.waiting
        self.lines.append(
            self._watched.line
            | {
                "t": start_ns,
                "dt": self.now_ns - start_ns,
                "arrived": arrived,
                "finished": list(self.ledger.rows[-1][-1]),
                "running": len(self._watched.running),
                "waiting": len(rest),
                "head": rest.head().id if rest else None,
                "free": self._watched.pool.num_free,
            }
        )
        return True
