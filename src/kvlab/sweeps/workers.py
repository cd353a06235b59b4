"""Processes that run scenarios: one at a time each, replaced when they die.

They are started as programs of their own and not as copies of the caller, so that a sweep works from a script, a
notebook and a shell alike.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, Final

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario
from kvlab.sweeps.outcome import Outcome, run_one

Task = tuple[int, Scenario]
Executor = Callable[[Iterable[Task]], Iterator[tuple[int, Outcome]]]
"""Runs tasks, and gives back each task's number with its outcome, in any order."""

MAX_WORKERS: Final = 256
_LIVES: Final = 3
"""So many workers may die of a scenario before it is given up."""


def local(workers: int | None = None) -> Executor:
    """Processes on this machine: one per processor, or as many as asked for; 1 runs in this process.

    Raises:
        ConfigError: not between 1 and `MAX_WORKERS`.
    """
    count = os.cpu_count() or 1 if workers is None else workers
    if not 1 <= count <= MAX_WORKERS:
        raise ConfigError("workers", count, f"must be from 1 to {MAX_WORKERS}")
    return _in_this_process if count == 1 else lambda tasks: _in_processes(tasks, count)


def _in_this_process(tasks: Iterable[Task]) -> Iterator[tuple[int, Outcome]]:
    for number, scenario in tasks:
        yield number, run_one(scenario)


def _in_processes(tasks: Iterable[Task], count: int) -> Iterator[tuple[int, Outcome]]:
    done: SimpleQueue[tuple[int, Outcome] | BaseException | None] = SimpleQueue()
    rest = _Shared(tasks)
    crew = [_Worker(rest, done) for _ in range(count)]
    try:
        for worker in crew:
            worker.start()
        left = count
        while left:
            found = done.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        rest.close()
        for worker in crew:
            worker.kill()
        for worker in crew:
            if worker.ident is not None:
                worker.join()


class _Shared:
    """Tasks that several threads take from."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = iter(tasks)
        self._lock = threading.Lock()
        self._is_open = True

    def take(self) -> Task | None:
        """The next task; None when there is none left."""
        with self._lock:
            return next(self._tasks, None) if self._is_open else None

    def close(self) -> None:
        """Nothing more is handed out."""
        self._is_open = False


class _Worker(threading.Thread):
    """A thread, and the process that works for it."""

    def __init__(self, tasks: _Shared, done: SimpleQueue[tuple[int, Outcome] | BaseException | None]) -> None:
        super().__init__(daemon=True)
        self._tasks = tasks
        self._done = done
        self._process: subprocess.Popen[bytes] | None = None
        self._was_killed = False

    def run(self) -> None:
        """Hands tasks to the process until there are none."""
        try:
            while (task := self._tasks.take()) is not None:
                number, scenario = task
                outcome = self._outcome(scenario)
                if outcome is None:
                    return
                self._done.put((number, outcome))
            self._done.put(None)
        except BaseException as error:  # the caller's thread raises it
            self._done.put(error)
        finally:
            self._bury()

    def _outcome(self, scenario: Scenario) -> Outcome | None:
        """None once it was killed on purpose."""
        for _ in range(_LIVES):
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump(scenario, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                outcome: Outcome = pickle.load(process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError):
                self._bury()
                if self._was_killed:
                    return None
                continue
            return outcome
        return Outcome(metrics=None, error=f"{_LIVES} workers died of it, the last one perhaps for lack of memory")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            root = str(Path(__file__).parents[2])
            path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from kvlab.sweeps.workers import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        return self._process

    def kill(self) -> None:
        """Ends the process, whatever it does."""
        self._was_killed = True
        process = self._process
        if process is not None:
            process.kill()

    def _bury(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    assert stream is not None
                    stream.close()


def serve() -> None:
    """A worker's life: scenarios come in on standard input, outcomes go out on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not come between outcomes
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(sys.stdin.buffer, sink)


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    while True:
        pickle.dump(run_one(pickle.load(source)), sink, protocol=pickle.HIGHEST_PROTOCOL)
        sink.flush()
