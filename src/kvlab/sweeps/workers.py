"""Who runs scenarios: this process, or a crew of processes that is kept between calls.

Processes are started as programs of their own and not as copies of the caller, so that a sweep works from a script, a
notebook and a shell alike. They end with their crew, and at once when their parent is gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, Final, Self

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario
from kvlab.sweeps.outcome import Outcome, run_one

Task = tuple[int, Scenario]
Executor = Callable[[Iterable[Task]], Iterator[tuple[int, Outcome]]]
"""Runs tasks, and gives back each task's number with its outcome, in any order."""

MAX_WORKERS: Final = 256
LIVES: Final = 3
"""So many workers may die of a scenario before it is given up."""


class Crew(ABC):
    """An executor that may be called again and again, and is closed in the end: `with local(2) as run: ...`.

    A call takes tasks as it needs them. Processes work for one call at a time: a new one ends the one before it.
    """

    @abstractmethod
    def __call__(self, tasks: Iterable[Task]) -> Iterator[tuple[int, Outcome]]:
        """See `Executor`."""

    @abstractmethod
    def close(self) -> None:
        """Ends what works for it, and a call that is still going."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_workers(workers: object) -> None:
    """Raises `ConfigError` unless this is a number of workers, or None."""
    is_whole = isinstance(workers, int) and not isinstance(workers, bool)
    if workers is not None and not (is_whole and 1 <= workers <= MAX_WORKERS):  # type: ignore[operator]
        raise ConfigError("workers", workers, f"must be a whole number from 1 to {MAX_WORKERS}")


def local(workers: int | None = None) -> Crew:
    """Processes on this machine: one per processor, or as many as asked for; 1 runs in this process.

    Raises:
        ConfigError: not a whole number between 1 and `MAX_WORKERS`.
    """
    check_workers(workers)
    count = os.cpu_count() or 1 if workers is None else workers
    return _ThisProcess() if count == 1 else _Processes(count)


@contextlib.contextmanager
def at_work(executor: Executor | None) -> Iterator[Executor]:
    """The executor that was given; or, for None, a crew of processes that is closed afterwards."""
    if executor is not None:
        yield executor
        return
    with local() as crew:
        yield crew


def gave_up() -> Outcome:
    """Of a scenario that workers die of."""
    return Outcome(metrics=None, error=f"{LIVES} workers died of it, the last one perhaps for lack of memory")


class _ThisProcess(Crew):
    def __call__(self, tasks: Iterable[Task]) -> Iterator[tuple[int, Outcome]]:
        for number, scenario in tasks:
            yield number, run_one(scenario)

    def close(self) -> None:
        pass


class _Processes(Crew):
    def __init__(self, count: int) -> None:
        self._hands = [_Hand() for _ in range(count)]
        self._round: _Round | None = None
        self._end = weakref.finalize(self, _end_all, self._hands)  # also when nobody closes it

    def __call__(self, tasks: Iterable[Task]) -> Iterator[tuple[int, Outcome]]:
        if not self._end.alive:
            raise RuntimeError("this executor was closed")
        if self._round is not None:
            self._round.stop()
        self._round = this = _Round(tasks, self._hands)
        try:
            yield from this.outcomes()
        finally:
            this.stop()

    def close(self) -> None:
        if self._round is not None:
            self._round.stop()
        self._end()


def _end_all(hands: Iterable[_Hand]) -> None:
    for hand in hands:
        hand.end()


class _Round:
    """One call of a crew: a thread for each of its processes hands out the tasks."""

    def __init__(self, tasks: Iterable[Task], hands: Iterable[_Hand]) -> None:
        self._tasks = iter(tasks)
        self._next: Task | BaseException | None = None
        """Made ahead, while processes compute; or why it couldn't be made."""
        self._lock = threading.Lock()
        self._done: SimpleQueue[tuple[int, Outcome] | BaseException | None] = SimpleQueue()
        self._hands = hands
        self._threads: list[threading.Thread] = []
        self.is_open = True

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """As they come. No more processes are started than there are tasks."""
        for hand in self._hands:
            task = self._take()
            if task is None:
                break
            thread = threading.Thread(target=self._work, args=(hand, task), daemon=True)
            self._threads.append(thread)
            thread.start()
        left = len(self._threads)
        while left:
            found = self._done.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                left -= 1
            else:
                yield found

    def stop(self) -> None:
        """Hands out nothing more; a process in the middle of a scenario is killed, so that no outcome comes late."""
        if not self.is_open:
            return
        self.is_open = False
        struck = [hand for hand in self._hands if hand.interrupt()]
        for thread in self._threads:
            thread.join()
        for hand in struck:
            hand.bury()
        self._done.put(RuntimeError("another call of this executor has ended this one"))

    def _take(self) -> Task | None:
        """The next task; None when there is none left."""
        with self._lock:
            if not self.is_open:
                return None
            if self._next is None:
                return next(self._tasks, None)
            task, self._next = self._next, None
        if isinstance(task, BaseException):
            raise task
        return task

    def look_ahead(self) -> None:
        """Makes the next task, for whichever process is free first."""
        with self._lock:
            if self.is_open and self._next is None:
                try:
                    self._next = next(self._tasks, None)
                except BaseException as error:  # for whoever takes it
                    self._next = error

    def _work(self, hand: _Hand, task: Task | None) -> None:
        try:
            while task is not None:
                number, scenario = task
                outcome = hand.outcome(scenario, self)
                if outcome is None:
                    return
                self._done.put((number, outcome))
                task = self._take()
            self._done.put(None)
        except BaseException as error:  # the caller's thread raises it
            self._done.put(error)


class _Hand:
    """A process that runs one scenario at a time; started when there is one, and again when it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_busy = self._is_over = False
        self._lock = threading.Lock()

    def outcome(self, scenario: Scenario, call: _Round) -> Outcome | None:
        """None once the call was stopped."""
        for _ in range(LIVES):
            with self._lock:
                if self._is_over or not call.is_open:
                    return None
                process = self._running()
                self._is_busy = True
            answer: Outcome | RuntimeError | None = None
            try:
                answer = _exchange(process, scenario, call.look_ahead)
            except (EOFError, OSError, pickle.UnpicklingError):
                continue  # it died
            finally:
                self._is_busy = False
                if answer is None:
                    self.bury()
            if isinstance(answer, RuntimeError):
                raise answer
            return answer
        return gave_up()

    def interrupt(self) -> bool:
        """Kills the process if it is in the middle of a scenario, and says whether it did."""
        with self._lock:
            if not self._is_busy or self._process is None:
                return False
            self._process.kill()
            return True

    def end(self) -> None:
        """Ends the process, and starts no other."""
        self._is_over = True
        self.bury()

    def bury(self) -> None:
        """Ends the process, whatever it does."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    assert stream is not None
                    stream.close()

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


def _exchange(
    process: subprocess.Popen[bytes], scenario: Scenario, meanwhile: Callable[[], None]
) -> Outcome | RuntimeError:
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump(scenario, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()
    meanwhile()
    answer: Outcome | RuntimeError = pickle.load(process.stdout)
    return answer


def serve() -> None:
    """A worker's life: scenarios come in on standard input, outcomes go out on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not come between outcomes
    orders: SimpleQueue[Scenario] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()
    while True:
        pickle.dump(answer(orders.get()), sink, protocol=pickle.HIGHEST_PROTOCOL)
        sink.flush()


def _listen(source: BinaryIO, orders: SimpleQueue[Scenario]) -> None:
    """Takes in what comes; when the parent is gone, there is nobody left to work for, even in the middle of a run."""
    try:
        while True:
            orders.put(pickle.load(source))
    finally:
        os._exit(0)


def answer(scenario: Scenario) -> Outcome | RuntimeError:
    """What goes back to the caller: an outcome, or the error that is raised there."""
    try:
        return run_one(scenario)
    except MemoryError:
        raise
    except Exception:  # a bug: the caller hears of it, as it would from its own process
        return RuntimeError(traceback.format_exc())
