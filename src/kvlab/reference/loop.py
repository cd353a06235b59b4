"""MODEL.md, "What holds in both labs": how requests arrive, and when a run ends."""

from __future__ import annotations

from typing import Protocol

from kvlab.core.config import Slo
from kvlab.core.records import StepRecord
from kvlab.core.request import Request, RequestSource
from kvlab.reference.log import Life, Log, ReferenceRun


class Lab(Protocol):
    """One set of rules and the state of its server."""

    capacity_tokens: int

    def check(self, request: Request) -> None:
        """Raise ConfigError for a request that the rules do not describe."""

    def can_never_run(self, request: Request) -> bool:
        """Whether even an empty server could not finish it."""

    def enqueue(self, life: Life) -> None:
        """To the end of the waiting queue."""

    def is_empty(self) -> bool:
        """Nothing waits, runs or is swapped."""

    def step(self, t_ns: int, log: Log) -> StepRecord:
        """One step from `t_ns` on."""


def run(lab: Lab, source: RequestSource, window_ns: int | None, slo: Slo | None, tables_every: int) -> ReferenceRun:
    """Steps until nothing is left to do."""
    log = Log(tables_every)
    t_ns = 0
    while True:
        deliver(lab, source, t_ns, log)
        if lab.is_empty():
            # "the clock jumps to the next arrival and this starts again (no step, no log row)"
            next_arrival_ns = source.next_arrival_ns()
            if next_arrival_ns is None:
                break
            t_ns = next_arrival_ns
            continue
        step = lab.step(t_ns, log)
        assert step.t_ns > t_ns, f"step {len(log.steps)} ends at {step.t_ns}, it began at {t_ns}"
        assert step.running > 0, f"step {len(log.steps)} runs nothing, so nothing will ever change"
        log.steps.append(step)
        t_ns = step.t_ns
        for request_id in step.finished:
            source.ended(log.lives[request_id].request, t_ns)
    assert all(life.rejected or life.has_finished for life in log.lives), "a request was forgotten"
    return log.close(lab.capacity_tokens, window_ns, slo)


def deliver(lab: Lab, source: RequestSource, t_ns: int, log: Log) -> None:
    """ "all requests with arrival <= t, in order of arrival ...; one that can never run is rejected there" """
    while (arrival_ns := source.next_arrival_ns()) is not None and arrival_ns <= t_ns:
        request = source.pop()
        assert request.id == len(log.lives), f"request {request.id} arrives as number {len(log.lives)}"
        lab.check(request)
        life = log.begin(request)
        if lab.can_never_run(request):
            life.rejected = True
            source.ended(request, request.arrival_ns)
        else:
            lab.enqueue(life)
