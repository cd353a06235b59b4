"""What a worker does: runs for the page and for searches, the life of one request, a look at a trace. Bytes out, or a
refusal.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kvlab.core.config import EVERYTHING, METRICS, EngineConfig, Recording
from kvlab.core.engine import Engine
from kvlab.core.records import RunRecord
from kvlab.errors import KvlabError, TraceError
from kvlab.results import Run
from kvlab.scenarios import Scenario
from kvlab.sweeps.outcome import outcome_of
from kvlab.web.detail import detail
from kvlab.web.errors import NOT_FOUND, Refusal, RefusedError, refusal_of
from kvlab.web.limits import MAX_TRACE_ROWS, MAX_UNPACKED_BYTES, LimitError, Watch, check_size
from kvlab.web.payload import encode
from kvlab.web.verdicts import verdicts
from kvlab.workloads.traces import reading
from kvlab.workloads.traces.describe import describe
from kvlab.workloads.traces.rows import TraceRow

_KEPT_RUNS: Final = 3
"""For clicks on their requests."""
_PACK_LEVEL: Final = 6
_BLOCK_BYTES: Final = 2**18

Stopped = Callable[[], None]
"""Raises when nobody wants the result any more."""
Answer = bytes | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """A run as the page's payload."""

    scenario: Scenario
    shown: Scenario
    """The same as the page is told: a trace has the name that its owner gave it."""
    trace: str | None = None
    """The token that links have for it."""
    packed: bool = False
    """Whether to compress the payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailJob:
    """One request of a run at one moment."""

    scenario: Scenario
    request_id: int
    t_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A first look at an uploaded trace."""

    path: str
    format: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeJob:
    """The metrics of a run, for a search: JSON of `kvlab.sweeps.outcome`. Nothing else is kept."""

    scenario: Scenario


Job = RunJob | DetailJob | TraceJob | OutcomeJob


class Desk:
    """Does jobs one after the other, and keeps the latest runs."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Scenario, Run] = OrderedDict()

    def do(self, job: Job, stopped: Stopped) -> Answer:
        """The answer to a job. What a user's input causes is a refusal; a stop passes through."""
        try:
            if isinstance(job, RunJob):
                return self._payload(job, stopped)
            if isinstance(job, DetailJob):
                return self._detail(job, stopped)
            if isinstance(job, OutcomeJob):
                return _outcome(job.scenario, stopped)
            return _look_at(job, stopped)
        except RefusedError as error:
            return error.refusal
        except KvlabError as error:
            return refusal_of(error)

    def tidy(self) -> None:
        """Forgets older runs; to be called when nobody waits, as it takes milliseconds."""
        while len(self._runs) > _KEPT_RUNS:
            self._runs.popitem(last=False)

    def _payload(self, job: RunJob, stopped: Stopped) -> bytes:
        run = self._run(job.scenario, stopped)
        stopped()
        data = encode(run, job.shown, verdicts(job.scenario, run.metrics), trace=job.trace)
        return gzip.compress(data, _PACK_LEVEL, mtime=0) if job.packed else data

    def _detail(self, job: DetailJob, stopped: Stopped) -> bytes:
        run = self._run(job.scenario, stopped)
        found = detail(run, job.request_id, job.t_ns)
        if found is None:
            count = len(run.record.requests)
            message = f"no request {job.request_id:,}: the run has {count:,}, counted from 0"
            raise RefusedError(
                Refusal(status=NOT_FOUND, message=message, field="id", value=job.request_id, limit=count - 1)
            )
        return json.dumps(found).encode()

    def _run(self, scenario: Scenario, stopped: Stopped) -> Run:
        run = self._runs.get(scenario)
        if run is None:
            run = simulate(scenario, stopped)
            self._runs[scenario] = run
        self._runs.move_to_end(scenario)
        return run


def simulate(scenario: Scenario, stopped: Stopped) -> Run:
    """The run with everything recorded, within the page's limits.

    Raises:
        LimitError: it turns out to be too much work.
        KvlabError: the scenario or its trace can't be used.
    """
    config = scenario.engine_config()
    return Run(
        scenario=scenario,
        record=_watched(scenario, config, EVERYTHING, stopped),
        config=config,
        window_ns=scenario.window_ns,
        kv_bytes_per_token=scenario.kv_bytes_per_token,
    )


def _outcome(scenario: Scenario, stopped: Stopped) -> bytes:
    """Only what the page could show is a result: a search has the same limits."""
    check_size(scenario)
    record = _watched(scenario, scenario.engine_config(), METRICS, stopped)
    return outcome_of(scenario, record).to_json().encode()


def _watched(scenario: Scenario, config: EngineConfig, recording: Recording, stopped: Stopped) -> RunRecord:
    watch = Watch(scenario.source(), stopped)
    watch.engine = Engine(config, watch, recording=recording, window_ns=scenario.window_ns, slo=scenario.slo)
    try:
        return watch.engine.run(watch.monitor, check=False)
    finally:
        watch.engine = None  # each knows the other: only the garbage collector would find them


def _look_at(job: TraceJob, stopped: Stopped) -> bytes:
    """Reads a trace whole, so that every broken row is named before anything is simulated."""
    _unpack(job.path, stopped)
    with reading(job.path, job.format) as (name, rows):
        summary = describe(_bounded(rows, stopped))
    return json.dumps({"format": name, "requests": summary.num_requests, "describe": summary.to_dict()}).encode()


def _bounded(rows: Iterator[TraceRow], stopped: Stopped) -> Iterator[TraceRow]:
    for number, row in enumerate(rows):
        if number % 4096 == 0:
            stopped()
        if number >= MAX_TRACE_ROWS:
            message = f"a trace of more than {MAX_TRACE_ROWS:,} requests: cut it first, with kvlab trace cut"
            raise LimitError("trace", number + 1, MAX_TRACE_ROWS, message)
        yield row


def _unpack(path: str, stopped: Stopped) -> None:
    """A gzip file is replaced by what is in it, as far as that has a sensible size: runs then read it faster."""
    with open(path, "rb") as packed:
        if packed.read(2) != b"\x1f\x8b":
            return
    plain, size = path + ".plain", 0
    try:
        with gzip.open(path, "rb") as packed, open(plain, "wb") as file:
            while block := packed.read(_BLOCK_BYTES):
                stopped()
                size += len(block)
                if size > MAX_UNPACKED_BYTES:
                    message = f"the gzip file holds more than {MAX_UNPACKED_BYTES // 2**20} MiB: cut the trace first"
                    raise LimitError("trace", size, MAX_UNPACKED_BYTES, message)
                file.write(block)
        os.replace(plain, path)
    except EOFError:
        raise TraceError(path, "the gzip data ends too early: was the file copied whole?") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(path, f"damaged gzip data ({error}): copy the file again") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(plain)
