"""How much work one request of a browser may ask for, checked before a run and again while it goes on.

Everything is refused by number, never by time: a setup that is accepted is accepted on every machine. Only a worker
that does not answer at all is stopped by the clock (`kvlab.web.pool`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvlab.core.config import PreemptionLabConfig, VllmV0Config, VllmV1Config
from kvlab.core.engine import Engine
from kvlab.core.memory import Stay
from kvlab.core.request import Request, RequestSource
from kvlab.errors import ConfigError, KvlabError
from kvlab.scenarios import Scenario
from kvlab.servers import VllmV1Server
from kvlab.sizing.models import model
from kvlab.workloads.lengths import Empirical, parse_lengths

MAX_REQUESTS: Final = 20_000
MAX_SAMPLES: Final = 40_000
"""Sequences of all requests of a run."""
MAX_STEPS: Final = 200_000
MAX_BLOCKS: Final = 2**18
"""Of the GPU's pool, and of the swap space."""
MAX_OUTPUT_TOKENS: Final = 100_000
"""Of one sample: a sequence alone takes a step for each."""
MAX_LOGGED_BLOCKS: Final = 5_000_000
"""Block-table entries in the log of the memory map."""
MAX_UPLOAD_BYTES: Final = 32 * 2**20
MAX_UNPACKED_BYTES: Final = 128 * 2**20
"""Of a gzip file."""
MAX_TRACE_ROWS: Final = 1_000_000
MAX_QUERY_CHARS: Final = 8_192


class LimitError(KvlabError):
    """More work than the page's server takes on.

    Attributes:
        field: the setting that is too large, as in links.
        value: how much was asked for.
        limit: the most that is accepted.
    """

    def __init__(self, field: str, value: object, limit: int, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.value = value
        self.limit = limit


def check_size(scenario: Scenario) -> None:
    """What can be known before the run.

    Raises:
        LimitError: too many requests, samples or blocks.
        ConfigError: lengths from a file of the server, or a server that can't work.
    """
    traffic = scenario.traffic
    for field in ("prompt_tokens", "output_tokens"):
        text = getattr(traffic, field)
        if isinstance(parse_lengths(text, field), Empirical):
            raise ConfigError(field, text, "the page reads no files; drop a trace on it, or use histogram(...)")
    if traffic.trace is None:
        _check_requests(scenario)
    config = scenario.engine_config()
    if isinstance(config, PreemptionLabConfig):
        _check_blocks("gpu_memory_bytes", config.num_gpu_blocks)
        _check_blocks("swap_space_bytes", config.num_cpu_blocks)
    elif isinstance(config, VllmV1Config | VllmV0Config):
        _check_blocks("block_size", config.num_gpu_blocks)
    elif config.allocator == "paged":
        _check_blocks("kv_memory_bytes", config.num_blocks)


def check_names(scenario: Scenario) -> None:
    """The page reads no files of this machine: models and step times are those of the tables.

    Raises:
        ConfigError: a file.
        UnknownNameError: no such model.
    """
    server = scenario.server
    if not isinstance(server, VllmV1Server):
        return
    model(server.model)
    if "/" in server.step_time or "\\" in server.step_time or server.step_time.endswith(".json"):
        raise ConfigError("step_time", server.step_time, "the page reads no files; `kvlab run` does")


def _check_requests(scenario: Scenario) -> None:
    traffic = scenario.traffic
    if traffic.num_requests is not None:
        field, expected = "num_requests", traffic.num_requests
    elif traffic.max_concurrency is not None:
        field, expected = "max_concurrency", traffic.max_concurrency  # at least so many; the rest shows in the run
    else:
        field, expected = "request_rate", round(traffic.rate_curve().expected(traffic.duration_ns))
    if expected > MAX_REQUESTS:
        raise LimitError(
            field,
            expected,
            MAX_REQUESTS,
            f"{field}: about {expected:,} requests would arrive, the page simulates at most {MAX_REQUESTS:,}. "
            "Lower the rate or the duration, or use `kvlab run`, which has no such limit",
        )
    samples = expected * traffic.num_samples
    if samples > MAX_SAMPLES:
        raise LimitError(
            "num_samples",
            samples,
            MAX_SAMPLES,
            f"num_samples: about {samples:,} samples of {expected:,} requests, the page simulates at most "
            f"{MAX_SAMPLES:,}. Lower num_samples or the rate, or use `kvlab run`",
        )


def _check_blocks(field: str, blocks: int) -> None:
    if blocks > MAX_BLOCKS:
        raise LimitError(
            field,
            blocks,
            MAX_BLOCKS,
            f"{field}: makes {blocks:,} blocks, the page shows at most {MAX_BLOCKS:,}. "
            "Raise block_size or lower the memory",
        )


def _entries(stay: Stay) -> int:
    """Entries of the memory map; those of a stay that goes on in another come again there, and only take room."""
    return len(stay.blocks) // 8 if stay.end == "grown" else len(stay.blocks)


class Watch:
    """Keeps a run within its limits, and ends it when nobody wants its result any more."""

    def __init__(self, source: RequestSource, stopped: Callable[[], None]) -> None:
        self._inner = source
        self._stopped = stopped
        self._samples = 0
        self._logged = self._num_stays = 0
        self.engine: Engine | None = None
        """To be set before the run."""

    def monitor(self, t_ns: int, ended: int) -> bool:
        """See `kvlab.core.engine.Monitor`; raises instead of saying stop, as there is nothing to show."""
        self._stopped()
        self._check_engine()
        return False

    def next_arrival_ns(self) -> int | None:
        """See `RequestSource`."""
        return self._inner.next_arrival_ns()

    def pop(self) -> Request:
        """See `RequestSource`.

        Raises:
            LimitError: one request too many, or one that is too long.
        """
        request = self._inner.pop()
        self._stopped()
        self._check_engine()
        self._samples += len(request.output_tokens)
        if request.id >= MAX_REQUESTS:
            raise LimitError(
                "num_requests",
                request.id + 1,
                MAX_REQUESTS,
                f"more than {MAX_REQUESTS:,} requests arrive, the page simulates no more. Set num_requests or "
                "trace_until_ns, or use `kvlab run`, which has no such limit",
            )
        if self._samples > MAX_SAMPLES:
            raise LimitError(
                "num_samples",
                self._samples,
                MAX_SAMPLES,
                f"more than {MAX_SAMPLES:,} samples are asked for, the page simulates no more. Lower num_samples, set "
                "num_requests or trace_until_ns, or use `kvlab run`, which has no such limit",
            )
        longest = max(request.output_tokens)
        if longest > MAX_OUTPUT_TOKENS:
            raise LimitError(
                "output_tokens",
                longest,
                MAX_OUTPUT_TOKENS,
                f"request {request.id:,} has an answer of {longest:,} tokens, the page simulates at most "
                f"{MAX_OUTPUT_TOKENS:,}. Cap them, as in exponential(250, max=1500)",
            )
        return request

    def ended(self, request: Request, t_ns: int) -> None:
        """See `RequestSource`."""
        self._check_engine()
        self._inner.ended(request, t_ns)

    def _check_engine(self) -> None:
        assert self.engine is not None
        if self.engine.step > MAX_STEPS:
            raise LimitError(
                "duration_ns",
                self.engine.step,
                MAX_STEPS,
                f"the run takes more than {MAX_STEPS:,} steps, the page simulates no more. Shorten the duration or the "
                "answers, lower the rate, or use `kvlab run`, which has no such limit",
            )
        stays = self.engine.scheduler.stays
        if stays is not None and len(stays) > self._num_stays:
            self._logged += sum(map(_entries, stays[self._num_stays :]))
            self._num_stays = len(stays)
            if self._logged > MAX_LOGGED_BLOCKS:
                raise LimitError(
                    "block_size",
                    self._logged,
                    MAX_LOGGED_BLOCKS,
                    f"the memory map would have more than {MAX_LOGGED_BLOCKS:,} block-table entries. "
                    "Raise block_size, or use `kvlab run`, which has no such limit",
                )
