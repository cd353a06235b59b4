"""The worker processes, as the event loop sees them: give a job, await bytes; cancel the wait, and the job stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from kvlab.web.errors import BUSY, TOO_LARGE, Refusal
from kvlab.web.jobs import Answer, Job
from kvlab.web.worker import Order, Reply, Stop

JOB_S: Final = 60.0
"""A worker that has not answered after that long is put down. The limits of `kvlab.web.limits` are far below it."""
_MAX_WAITING: Final = 64
_PIPE_BYTES: Final = 2**20
"""Where the system lets pipes have a size: a payload then passes in one go."""
_ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",  # workers are many; their numpy needs no threads
    "OMP_NUM_THREADS": "1",
    # glibc gives every array over 128 KiB back at once, and fetching its pages anew took a third of the encoding
    "MALLOC_MMAP_THRESHOLD_": str(64 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
}


def num_workers() -> int:
    """Two at least, so that a slow run does not hold up everybody; no more than processors."""
    return max(2, min(os.cpu_count() or 1, 8))


def _nothing() -> None:
    """Nobody wants to know."""


class _Process:
    """One worker process. `exchange` blocks and runs in the worker's own thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._writes = threading.Lock()
        self.thread = ThreadPoolExecutor(1, "kvlab-worker")
        self.number = 0
        """Of the latest order."""

    def start(self) -> None:
        """Starts it, if it doesn't run."""
        if self._process is None or self._process.poll() is not None:
            root = str(Path(__file__).parents[2])
            path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from kvlab.web.worker import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pipesize=_PIPE_BYTES,
                env=os.environ | {"PYTHONPATH": path} | _ENVIRONMENT,
            )

    def exchange(self, order: Order) -> Answer | None:
        """The answer to a job; None when it was stopped, or the worker died of it."""
        self.start()
        process = self._process
        assert process is not None
        assert process.stdout is not None
        try:
            self._send(process, order)
            reply: Reply = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self._bury(process)
            return None
        assert reply.number == order.number, f"the answer to {reply.number}, not to {order.number}"
        return reply.answer

    def stop(self, number: int) -> None:
        """Nobody wants that order any more. It may not have been sent yet: then the worker will not begin."""
        if self._process is not None:
            with contextlib.suppress(OSError):  # it is gone, and so is the job
                self._send(self._process, Stop(number))

    def _send(self, process: subprocess.Popen[bytes], message: Order | Stop) -> None:
        assert process.stdin is not None
        with self._writes:
            process.stdin.write(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))
            process.stdin.flush()

    def kill(self) -> None:
        """Puts it down, whatever it does; the next job starts another."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Ends it, and its thread."""
        self.kill()
        self.thread.shutdown(wait=True)
        if self._process is not None:
            self._bury(self._process)

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what was not sent yet can't be
                assert stream is not None
                stream.close()
        self._process = None


class Pool:
    """Workers that take turns. To be used from one event loop."""

    def __init__(self, size: int | None = None) -> None:
        self._all = [_Process() for _ in range(size or num_workers())]
        self._idle: asyncio.LifoQueue[_Process] = asyncio.LifoQueue()
        self._waiting = self._wanted = self._aside = 0
        self.when_wanted: Callable[[], None] = _nothing
        """Called when a job comes that somebody waits for."""
        self.when_full: Callable[[], None] = _nothing
        """Called when such a job has to wait for a worker."""
        self.when_idle: list[Callable[[], None]] = []
        """Called, in this order, when a worker has nothing to do any more."""
        for process in self._all:
            self._idle.put_nowait(process)

    @property
    def is_quiet(self) -> bool:
        """Whether a worker is free, at most one works, nobody waits, and nothing is searched."""
        return not self._waiting and not self._aside and self._idle.qsize() >= max(1, len(self._all) - 1)

    @property
    def spare(self) -> int:
        """How many workers may work aside now: all but one, less one for every job that somebody waits for.

        A pool of one has one while nobody waits. So whoever waits never waits for what is done aside.
        """
        return max(0, len(self._all) - 1 - self._wanted) if self._wanted else max(1, len(self._all) - 1)

    def start(self) -> None:
        """Starts all processes, without waiting until they are ready."""
        for process in self._all:
            process.start()

    async def do(self, job: Job, *, aside: bool = False) -> Answer:
        """The answer to a job. Cancelling the wait stops the job.

        A worker that dies or hangs is replaced; the answer then says so.

        Args:
            aside: nobody waits for this one; to be given only while fewer than `spare` are.
        """
        if self._waiting >= _MAX_WAITING:
            message = f"{self._waiting} runs are waiting already; try again in a moment"
            return Refusal(status=BUSY, message=message, limit=_MAX_WAITING)
        self._count(1, aside)
        if not aside:
            self.when_wanted()
            if self._idle.qsize() <= self._waiting:
                self.when_full()
        self._waiting += 1
        try:
            process = await self._idle.get()
        except asyncio.CancelledError:
            self._count(-1, aside)
            raise
        finally:
            self._waiting -= 1
        process.number += 1
        order = Order(process.number, job)
        future = asyncio.get_running_loop().run_in_executor(process.thread, process.exchange, order)
        future.add_done_callback(lambda _: self._release(process, aside))
        try:
            answer = await asyncio.wait_for(asyncio.shield(future), JOB_S)
        except asyncio.CancelledError:
            process.stop(order.number)
            raise
        except TimeoutError:
            process.kill()
            message = f"this takes more than {JOB_S:g} s; use `kvlab run`, which has no such limit"
            return Refusal(status=TOO_LARGE, message=message, limit=JOB_S)
        if answer is None:
            return Refusal(
                status=TOO_LARGE, message="the worker died of this run; use `kvlab run`, which has no limits"
            )
        return answer

    def _release(self, process: _Process, aside: bool) -> None:
        self._count(-1, aside)
        self._idle.put_nowait(process)
        if not self._waiting:
            for tell in self.when_idle:
                tell()

    def _count(self, more: int, aside: bool) -> None:
        if aside:
            self._aside += more
        else:
            self._wanted += more

    def close(self) -> None:
        """Ends all workers, whatever they do."""
        for process in self._all:
            process.close()
