"""Searches: hundreds of runs for one question. They never slow a run that somebody waits for.

A search runs in a thread of its own, and gives its runs to workers of the pool that nobody else has a use for. It
leaves one of them free, and one more for every job that somebody waits for: when such a job comes and too many workers
search, the latest of those runs is stopped at once, and done again later. Searches take turns, run by run.

What was found is kept by everything that decides a run: a second search on the same setup asks for little.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final

from kvlab.scenarios import Scenario
from kvlab.sweeps.outcome import Outcome, key_of
from kvlab.sweeps.workers import Task
from kvlab.web.errors import BUG, BUSY, Refusal, RefusedError
from kvlab.web.jobs import Answer, OutcomeJob
from kvlab.web.pool import Pool

MOST_SEARCHES: Final = 4
"""At the same time."""
_AT_ONCE: Final = 16
"""Runs that a search asks for ahead: more than there are workers, so that none waits for the search's thread."""
_MOST_KEPT: Final = 4_096
"""Outcomes, of about two kilobytes each."""


class StoppedError(Exception):
    """Ends the thread of a search that is over."""


_Found = SimpleQueue[tuple[int, Outcome] | RefusedError | None]
"""What comes back to the thread; None: the search is over."""


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """A run that a search asks for."""

    number: int
    scenario: Scenario
    key: str
    found: _Found


class Search:
    """One search. Its thread uses `executor` and `check`; everything else is the event loop's."""

    def __init__(self, background: Background) -> None:
        self.num_done = 0
        """Runs whose outcome the thread has."""
        self.todo: deque[_Wanted] = deque()
        self._background = background
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._open: set[_Found] = set()

    def check(self) -> None:
        """
        Raises:
            StoppedError: the search is over.
        """
        if self._stopped.is_set():
            raise StoppedError

    def executor(self, tasks: Iterable[Task]) -> Iterator[tuple[int, Outcome]]:
        """See `kvlab.sweeps.workers.Executor`. A run beyond the page's limits is one that could not be run.

        Raises:
            StoppedError: the search is over.
            RefusedError: a bug.
        """
        found: _Found = SimpleQueue()
        self._open.add(found)
        flying, rest = 0, iter(tasks)
        try:
            while True:
                while flying < _AT_ONCE and (task := next(rest, None)) is not None:
                    number, scenario = task
                    self.check()
                    key = key_of(scenario)
                    outcome = self._background.known(key)
                    if outcome is None:
                        self._tell(self._background.want, self, _Wanted(number, scenario, key, found))
                        flying += 1
                    else:
                        self.num_done += 1
                        yield number, outcome
                if not flying:
                    return
                result = found.get()
                self.check()
                if isinstance(result, RefusedError):
                    raise result
                assert result is not None, "only the end of the search says that"
                flying -= 1
                self.num_done += 1
                yield result
        finally:
            self._open.discard(found)
            if flying:
                self._tell(self._background.drop, self, found)

    def stop(self) -> None:
        """Ends it: its thread is told as soon as it asks for anything."""
        self._stopped.set()
        for found in tuple(self._open):
            found.put(None)
        self._background.close(self)

    def _tell(self, call: object, *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)  # type: ignore[arg-type]
        except RuntimeError:  # the loop has ended, and the search with it
            raise StoppedError from None


class Background:
    """What all searches share. To be used from the event loop of its pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._searches: deque[Search] = deque()
        """The next one to have its turn first."""
        self._running: dict[asyncio.Task[Answer], tuple[Search, _Wanted]] = {}
        """In the order in which they began."""
        self._kept = _Outcomes()
        pool.when_wanted = self._make_way
        pool.when_idle.append(self._next)

    def open(self) -> Search:
        """A new search, to be ended with `stop`.

        Raises:
            RefusedError: there are too many.
        """
        if len(self._searches) >= MOST_SEARCHES:
            message = f"{MOST_SEARCHES} searches are going on already; stop one, or try again when one has ended"
            raise RefusedError(Refusal(status=BUSY, message=message, limit=MOST_SEARCHES))
        search = Search(self)
        self._searches.append(search)
        return search

    def known(self, key: str) -> Outcome | None:
        """The outcome of a run that was done before. From any thread."""
        data = self._kept.get(key)
        return None if data is None else Outcome.from_json(data.decode())

    def want(self, search: Search, wanted: _Wanted) -> None:
        """Has a run done when its turn comes."""
        if search in self._searches:
            search.todo.append(wanted)
            self._next()

    def drop(self, search: Search, found: _Found | None = None) -> None:
        """Nobody wants a search's runs any more: those of one `found`, or all."""
        search.todo = deque(each for each in search.todo if found not in (each.found, None))
        for task, (other, wanted) in tuple(self._running.items()):
            if other is search and found in (wanted.found, None):
                del self._running[task]
                task.cancel()
        self._next()

    def close(self, search: Search) -> None:
        """The search is over."""
        if search in self._searches:
            self._searches.remove(search)
            self.drop(search)

    def end(self) -> None:
        """Ends all searches: the pool is to be closed."""
        for search in tuple(self._searches):
            search.stop()

    def _next(self) -> None:
        """Has as many runs done as there are workers to spare."""
        while len(self._running) < self._pool.spare and (turn := self._take()) is not None:
            search, wanted = turn
            task = asyncio.create_task(self._pool.do(OutcomeJob(scenario=wanted.scenario), aside=True))
            self._running[task] = (search, wanted)
            task.add_done_callback(self._finished)

    def _take(self) -> tuple[Search, _Wanted] | None:
        for _ in range(len(self._searches)):
            search = self._searches[0]
            self._searches.rotate(-1)
            if search.todo:
                return search, search.todo.popleft()
        return None

    def _make_way(self) -> None:
        """Somebody waits: what has a worker too many is stopped, the latest first, and done again later."""
        while len(self._running) > self._pool.spare:
            task, (search, wanted) = self._running.popitem()
            search.todo.appendleft(wanted)
            task.cancel()

    def _finished(self, task: asyncio.Task[Answer]) -> None:
        begun = self._running.pop(task, None)
        if begun is not None and not task.cancelled():
            wanted = begun[1]
            answer = task.result()
            if not isinstance(answer, Refusal):
                self._kept.put(wanted.key, answer)
                wanted.found.put((wanted.number, Outcome.from_json(answer.decode())))
            elif answer.status == BUG:
                wanted.found.put(RefusedError(answer))
            else:
                wanted.found.put((wanted.number, Outcome(metrics=None, error=answer.message)))
        self._next()


class _Outcomes:
    """The latest outcomes by key, for any thread."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            data = self._kept.get(key)
            if data is not None:
                self._kept.move_to_end(key)
            return data

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._kept[key] = data
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
