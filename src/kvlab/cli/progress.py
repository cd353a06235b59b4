"""How far a run has come, on stderr and only when a person looks; and Ctrl-C that keeps what was computed."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from kvlab.scenarios import Scenario
from kvlab.units import format_duration

if TYPE_CHECKING:
    from kvlab.sweeps.outcome import Outcome
    from kvlab.sweeps.workers import Executor, Task

_FIRST_AFTER_S: Final = 0.4
_EVERY_S: Final = 0.1
_ONE_PRESS_S: Final = 1
"""Signals this close together are one Ctrl-C: a terminal and a wrapper may each send it."""
_BAR: Final = 24
_LINE_FORMATS: Final = (".csv", ".jsonl")


class Progress:
    """The monitor of a run: draws a bar, and says stop once the user has pressed Ctrl-C."""

    def __init__(self, scenario: Scenario, *, visible: bool) -> None:
        self.stopped = False
        self._visible = visible
        self._window_ns = scenario.window_ns
        self._num_requests = scenario.traffic.num_requests
        if visible and self._window_ns is None and scenario.traffic.trace is not None:
            self._num_requests = _num_lines(Path(scenario.traffic.trace))
        self._next_s = time.monotonic() + _FIRST_AFTER_S
        self._drawn = False

    def monitor(self, t_ns: int, ended: int) -> bool:
        """See `kvlab.core.engine.Monitor`."""
        if self._visible and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _EVERY_S
            self._draw(t_ns, ended)
        return self.stopped

    def close(self) -> None:
        """Takes the bar away."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False

    def _draw(self, t_ns: int, ended: int) -> None:
        done = self._done_ratio(t_ns, ended)
        text = f"{ended:,} requests, {format_duration(t_ns)} simulated"
        if done is not None:
            filled = int(done * _BAR)
            text = f"[{'#' * filled}{'.' * (_BAR - filled)}] {int(done * 100):3d} %  {text}"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
        self._drawn = True

    def _done_ratio(self, t_ns: int, ended: int) -> float | None:
        if self._num_requests:
            return min(ended / self._num_requests, 0.99)
        return None if not self._window_ns else min(t_ns / self._window_ns, 0.99)


class RunCount:
    """An executor that passes on to another, and counts its runs on stderr."""

    def __init__(self, inner: Executor, *, quiet: bool) -> None:
        self._inner = inner
        self._visible = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._next_s = 0.0
        self._runs = 0

    def __enter__(self) -> Executor:
        return self._run

    def __exit__(self, *_: object) -> None:
        if self._visible and self._runs:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _run(self, tasks: Iterable[Task]) -> Iterator[tuple[int, Outcome]]:
        for found in self._inner(tasks):
            self._runs += 1
            if self._visible and time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + _EVERY_S
                sys.stderr.write(f"\r\x1b[K{self._runs:,} runs")
                sys.stderr.flush()
            yield found


def _num_lines(path: Path) -> int | None:
    """Lines of a text file: about as many requests. None where lines say nothing, or the file can't be read."""
    if path.suffix not in _LINE_FORMATS:
        return None
    try:
        with path.open("rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(2**20), b""))
    except OSError:
        return None  # the run itself will say why


@contextmanager
def watched(scenario: Scenario, *, quiet: bool) -> Iterator[Progress]:
    """A progress whose `stopped` is set by the first Ctrl-C; another one raises KeyboardInterrupt.

    A stopped run leaves its handler in place, so that the rest of a press can't cost the results.
    """
    progress = Progress(scenario, visible=not quiet and sys.stderr is not None and sys.stderr.isatty())
    if threading.current_thread() is not threading.main_thread():
        yield progress
        return
    before = signal.getsignal(signal.SIGINT)
    pressed_s = 0.0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal pressed_s
        if not progress.stopped:
            progress.stopped, pressed_s = True, time.monotonic()
        elif time.monotonic() > pressed_s + _ONE_PRESS_S:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield progress
    finally:
        progress.close()
        if not progress.stopped:
            signal.signal(signal.SIGINT, before)
