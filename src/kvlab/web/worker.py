"""A worker process: jobs come in on standard input, answers go out on standard output.

A thread reads the input, so that a run can be stopped while it goes on: the check costs one comparison.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import queue
import sys
import threading
from dataclasses import dataclass
from typing import BinaryIO, Final

from kvlab.web.errors import BUG, TOO_LARGE, Refusal
from kvlab.web.jobs import Answer, Desk, Job

_MAX_BYTES: Final = 3 * 2**30
"""Memory of a worker: an upload may unfold to more than the limits of its bytes and rows tell."""
_NICE: Final = 5
"""On a small machine the browser comes first: what is computed is of no use before it is painted."""
_QUIET_S: Final = 0.25
_JOBS_PER_SWEEP: Final = 64
"""Without a quiet moment in between."""


@dataclass(frozen=True, slots=True)
class Order:
    """A job with its number."""

    number: int
    job: Job


@dataclass(frozen=True, slots=True)
class Stop:
    """Nobody wants the answer to that order any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to an order; None: it was stopped."""

    number: int
    answer: Answer | None


class _StoppedError(Exception):
    """Ends a job that nobody wants any more."""


class Worker:
    """Does orders one by one until its input ends."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._stopped = -1
        self._desk = Desk()

    def run(self) -> None:
        """The life of the process."""
        threading.Thread(target=self._read, daemon=True).start()
        # a run makes many tuples and hardly a cycle: collecting while it goes on costs a tenth of its time
        gc.collect()
        gc.freeze()
        gc.disable()
        unswept = 0
        while True:
            try:
                order = self._orders.get(timeout=_QUIET_S if unswept else None)
            except queue.Empty:
                gc.collect()
                unswept = 0
                continue
            if order is None:
                return
            self._send(Reply(order.number, self._answer(order)))
            self._desk.tidy()
            unswept += 1
            if unswept >= _JOBS_PER_SWEEP:
                gc.collect()
                unswept = 0

    def _read(self) -> None:
        while True:
            try:
                message = pickle.load(self._source)
            except (EOFError, OSError, pickle.UnpicklingError):
                self._stopped = sys.maxsize
                self._orders.put(None)
                return
            if isinstance(message, Stop):
                self._stopped = max(self._stopped, message.number)
            else:
                self._orders.put(message)

    def _answer(self, order: Order) -> Answer | None:
        def stopped() -> None:
            if self._stopped >= order.number:
                raise _StoppedError

        try:
            stopped()
            return self._desk.do(order.job, stopped)
        except _StoppedError:
            return None
        except MemoryError:
            gc.collect()
            message = (
                f"this takes more than {_MAX_BYTES // 2**30} GiB of memory; use `kvlab run`, which has no such limit"
            )
            return Refusal(status=TOO_LARGE, message=message, limit=_MAX_BYTES)
        except Exception as error:
            if os.environ.get("KVLAB_TRACEBACK"):
                sys.excepthook(type(error), error, error.__traceback__)
            kind = type(error).__name__
            return Refusal(status=BUG, message=f"this is a bug in kvlab: {kind}. Please report the link that shows it")

    def _send(self, reply: Reply) -> None:
        pickle.dump(reply, self._sink, protocol=pickle.HIGHEST_PROTOCOL)
        self._sink.flush()


def _bound_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows; or the user set less
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MAX_BYTES, _MAX_BYTES))


def main() -> None:
    """Serves the parent process; Ctrl-C is the parent's business."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _bound_memory()
    with contextlib.suppress(AttributeError, OSError):  # not on Windows
        os.nice(_NICE)
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not come between answers
    with contextlib.suppress(BrokenPipeError):
        Worker(sys.stdin.buffer, sink).run()
    os._exit(0)  # the reader may still wait for input
