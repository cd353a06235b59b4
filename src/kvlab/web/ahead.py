"""Work ahead: while a person looks at a run, those that the next move of the same knob would ask for.

The page says which they are, in a header of its request: `X-Ahead: request_rate=2.9&request_rate=2.8`, likeliest first;
when a slider gets the focus, in a request of its own.
One run at a time is worked on, on a worker that nobody else has a use for, and it makes way for any job that has to
wait. Whoever asks for a run that is being worked on gets that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

from kvlab.web.jobs import Answer, RunJob
from kvlab.web.pool import Pool

AFTER_S: Final = 0.002
"""After the request that brings the plan: the answer to that goes first."""
LONGEST_S: Final = 0.5
"""A run that takes longer is given up, and with it what was planned after it: that is the most that a move costs."""
MOST_RUNS: Final = 3
"""Per move."""
_MAX_CHARS: Final = 512

Keep = Callable[[RunJob, Answer], None]
"""Told of every run that was finished ahead."""


def neighbours(header: str, fields: Mapping[str, str]) -> list[dict[str, str]]:
    """The fields of a query with one of them changed, per entry of the header. None where a trace is run."""
    if len(header) > _MAX_CHARS or "trace" in fields:
        return []
    return [{**fields, name: text} for name, text in parse_qsl(header)[:MOST_RUNS]]


class Ahead:
    """Runs that may be asked for next. To be used from the event loop of its pool."""

    def __init__(self, pool: Pool, keep: Keep) -> None:
        self._pool = pool
        self._keep = keep
        self._planned: list[RunJob] = []
        self._job: RunJob | None = None
        self._task: asyncio.Task[Answer] | None = None
        """What is being worked on for nobody yet."""
        self._is_closed = False
        pool.when_full = self.stop
        pool.when_idle.append(self._next)

    def plan(self, jobs: Sequence[RunJob]) -> None:
        """What is likely next, likeliest first, in place of what was planned before."""
        self._planned = [job for job in jobs if job != self._job]
        if self._job not in jobs:
            self._drop()
        self._next()

    def take(self, job: RunJob) -> asyncio.Task[Answer] | None:
        """The run, if it is being worked on: it belongs to the caller now."""
        if self._task is None or job != self._job:
            return None
        task, self._job, self._task = self._task, None, None
        return task

    def stop(self) -> None:
        """Workers are needed for what somebody waits for."""
        self._planned = []
        self._drop()

    def close(self) -> None:
        """Nothing more is worked on: the pool is to be closed."""
        self._is_closed = True
        self.stop()

    def _drop(self) -> None:
        task, self._job, self._task = self._task, None, None
        if task is not None:
            task.cancel()

    def _next(self) -> None:
        if self._task is None and self._planned and self._pool.is_quiet and not self._is_closed:
            self._job = self._planned.pop(0)
            task = self._task = asyncio.create_task(self._pool.do(self._job))
            task.add_done_callback(self._finished)
            asyncio.get_running_loop().call_later(LONGEST_S, self._give_up, task)

    def _give_up(self, task: asyncio.Task[Answer]) -> None:
        if task is self._task:
            self.stop()

    def _finished(self, task: asyncio.Task[Answer]) -> None:
        if task is self._task:
            assert self._job is not None
            job, self._job, self._task = self._job, None, None
            if not task.cancelled() and task.exception() is None:
                self._keep(job, task.result())
            self._next()
