"""Scenarios on a Ray cluster. Ray is an optional extra: `pip install "kvlab[ray]"`.

What a scenario reads, its trace and its model's config, has to be on every node under the same path.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import signal
import socket
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from time import monotonic
from typing import Any, Final

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario
from kvlab.sweeps.outcome import Outcome
from kvlab.sweeps.workers import LIVES, Crew, Task, answer, check_workers, gave_up
from kvlab.version import __version__

HERE: Final = "local"
"""The address of a Ray of one's own, on this machine, for as long as it is needed."""
_CLIENT: Final = "ray://"
_CONNECT_S: Final = 5.0
_STORE_BYTES: Final = 128 * 2**20
"""Of the Ray that is started here: outcomes are small."""
_MOST_AT_ONCE: Final = 16
"""Scenarios in one task of Ray, once a sweep is long: a task costs some milliseconds, a small scenario no more."""
_LONG_ENOUGH_S: Final = 0.2
"""A task that took so long gives back what it has, and what is left of it goes into others: no outcome waits long."""
_SHARE: Final = 2
"""A task has at most half of what a processor has done so far: the last ones end at about the same time."""
_LOOK_EVERY: Final = 16
"""Outcomes, and then it is asked how large the cluster is."""
_LEAST_IN_FLIGHT: Final = 16
"""Tasks handed to a cluster, so that one that grows on demand sees a demand."""
_NO_RAY: Final = "can't connect to Ray there (a cluster that asks for a token needs RAY_AUTH_MODE=token here)"
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""No telemetry, no warnings of what is to come, nothing sent to the nodes but scenarios."""


def ray_executor(address: str | None = None, workers: int | None = None) -> Crew:
    """A crew on Ray, connected. In a process that is connected to a Ray already, that one is used and left alone.

    Args:
        address: "host:port" on a node of a cluster, "ray://host:port" from outside, "auto" for the one that runs
            here; by default what RAY_ADDRESS says, else "local": one of its own on this machine.
        workers: tasks at a time; by default as many as the cluster has processors.
    Raises:
        ConfigError: Ray isn't installed, there is none at that address, or workers are no number of workers.
    """
    check_workers(workers)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise ConfigError("executor", "ray", 'Ray is not installed: pip install "kvlab[ray]"') from None
    place = address or os.environ.get("RAY_ADDRESS") or HERE
    is_own = not ray.is_initialized()
    if is_own:
        _connect(ray, place, workers)
    if is_own and place == HERE:  # with as many processors as there are workers, and never more
        return _Cluster(ray, place, is_own=True)
    return _Cluster(ray, place, workers, _LEAST_IN_FLIGHT, is_own=is_own)


def _connect(ray: Any, address: str, workers: int | None) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == HERE:
        ray.init(address=HERE, num_cpus=workers, include_dashboard=False, object_store_memory=_STORE_BYTES, **quiet)
        return
    check_reachable(address)
    try:
        ray.init(address=address, **quiet)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        said = " ".join(str(error).split())
        raise ConfigError("address", address, f"{_NO_RAY}: {said}") from None


def check_reachable(address: str) -> None:
    """Raises `ConfigError` for an address where nothing answers: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix(_CLIENT).rpartition(":")
    if address == "auto":
        return
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ConfigError("address", address, "expected host:port, ray://host:port, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except OSError as error:
        why = error.strerror or str(error)
        remedy = f"nothing answers there ({why}): start Ray with `ray start --head`, or check host and port"
        raise ConfigError("address", address, remedy) from None


class _Queue:
    """What is still to be handed out, in order: what tasks gave back goes first."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._rest = iter(tasks)
        self._left: deque[Task] = deque()
        self._suspects: deque[Task] = deque()

    def take(self, most: int) -> list[Task]:
        """Up to so many; none once there is nothing left."""
        if self._suspects:
            return [self._suspects.popleft()]
        left = [self._left.popleft() for _ in range(min(most, len(self._left)))]
        return left or list(islice(self._rest, most))

    def put_back(self, some: Iterable[Task]) -> None:
        """They were not begun."""
        self._left.extend(some)

    def suspect(self, some: Iterable[Task]) -> None:
        """A worker died of one of them: each is taken alone from now on."""
        self._suspects.extend(some)


class _Cluster(Crew):
    def __init__(
        self, ray: Any, address: str, workers: int | None = None, least_in_flight: int = 1, *, is_own: bool
    ) -> None:
        self._ray = ray
        self._address = address
        self._workers = workers
        self._least_in_flight = least_in_flight
        self._task = ray.remote(num_cpus=1, max_retries=0)(_work)
        self._end = weakref.finalize(self, ray.shutdown) if is_own else None

    def close(self) -> None:
        if self._end is not None:
            self._end()

    def __call__(self, tasks: Iterable[Task]) -> Iterator[tuple[int, Outcome]]:
        queue = _Queue(tasks)
        deaths: Counter[int] = Counter()
        pending: dict[Any, list[Task]] = {}
        done, slots = 0, self._slots()
        try:
            while True:
                while len(pending) < (self._workers or max(self._least_in_flight, 2 * slots)):
                    some = queue.take(min(_MOST_AT_ONCE, 1 + done // (_SHARE * slots)))
                    if not some:
                        break
                    pending[self._submit(some)] = some
                if not pending:
                    return
                (ready, *_), _ = self._ray.wait(list(pending), num_returns=1)
                some = pending.pop(ready)
                outcomes = self._outcomes(ready)
                if outcomes is None:
                    deaths.update(number for number, _ in some)
                    queue.suspect(task for task in some if deaths[task[0]] < LIVES)
                    yield from ((number, gave_up()) for number, _ in some if deaths[number] == LIVES)
                    continue
                count = len(outcomes)
                queue.put_back(some[count:])
                if done // _LOOK_EVERY != (done := done + count) // _LOOK_EVERY:
                    slots = self._slots()  # a cluster grows and shrinks
                for (number, _), outcome in zip(some, outcomes, strict=False):
                    yield number, outcome
        finally:
            for ref in pending:
                with contextlib.suppress(Exception):
                    self._ray.cancel(ref, force=True)

    def _slots(self) -> int:
        """Tasks that can run at a time."""
        return self._workers or max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def _submit(self, some: Sequence[Task]) -> Any:
        message = pickle.dumps([scenario for _, scenario in some], protocol=pickle.HIGHEST_PROTOCOL)
        return self._task.remote(message, __version__, os.getcwd())

    def _outcomes(self, ref: Any) -> list[Outcome] | None:
        """None if the worker died."""
        try:
            answers: list[Outcome | RuntimeError] = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, MemoryError):
                return None
            raise self._unfit(error) from None
        except self._ray.exceptions.RaySystemError as error:  # the function itself can't be read there
            raise self._unfit(error) from None
        except self._ray.exceptions.RayError:
            return None
        outcomes = []
        for one in answers:
            if isinstance(one, RuntimeError):
                raise one
            outcomes.append(one)
        return outcomes

    def _unfit(self, error: Exception) -> ConfigError:
        said = str(getattr(error, "cause", None) or error).strip().splitlines()[-1]
        return ConfigError("address", self._address, f"needs kvlab {__version__} on every node: {said}")


def _work(message: bytes, version: str, folder: str) -> list[Outcome | RuntimeError]:
    """`run_some` in a process of Ray. Ctrl-C is the caller's business; Ray crashes where it reaches a task as well."""
    with contextlib.suppress(ValueError):  # in a thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return run_some(message, version, folder)


def run_some(message: bytes, version: str, folder: str) -> list[Outcome | RuntimeError]:
    """What a task of Ray does: scenarios in order, from the caller's folder where there is such a one.

    Returns:
        The outcomes of all of them, or of the first ones when those took long enough.
    """
    if version != __version__:
        raise RuntimeError(f"a node has kvlab {__version__}")
    with contextlib.suppress(OSError):
        os.chdir(folder)
    scenarios: list[Scenario] = pickle.loads(message)
    begun = monotonic()
    answers = []
    for scenario in scenarios:
        answers.append(answer(scenario))
        if monotonic() - begun > _LONG_ENOUGH_S:
            break
    return answers
