"""When requests arrive: processes on operational time, which a rate curve maps to the clock.

A process is drawn once at unit rate. Moving the rate or adding a burst moves the same arrivals (time change).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import repeat
from typing import Final

import numpy as np

from kvlab.workloads.exact_math import exponential_quantile
from kvlab.workloads.gamma import gamma_quantile
from kvlab.workloads.rates import UNITS_PER_GAP
from kvlab.workloads.streams import CHUNK, Floats, Ints, Stream

Gaps = Callable[[int, Decimal], Iterator[Ints]]
"""(seed, burstiness) -> chunks of gaps between arrivals of a unit-rate process, in units of 2^-40 of the mean gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalProcess:
    """An entry of `ARRIVALS`."""

    summary: str
    gaps: Gaps | None
    """None: when a request arrives depends on the server."""
    follows_rate: bool = True
    """Whether request_rate and rate events move its arrivals."""


def _poisson(seed: int, burstiness: Decimal) -> Iterator[Ints]:
    stream = Stream(seed, "arrivals")
    while True:
        yield _in_units(exponential_quantile(stream.take(CHUNK)))


def _gamma(seed: int, burstiness: Decimal) -> Iterator[Ints]:
    stream = Stream(seed, "arrivals")
    while True:
        yield _in_units(gamma_quantile(stream.take(CHUNK), float(burstiness)))


def _constant(seed: int, burstiness: Decimal) -> Iterator[Ints]:
    first = np.full(CHUNK, UNITS_PER_GAP, dtype=np.int64)
    first[0] = 0  # the first request comes at once, so that 10 s at 4/s are 40 requests
    yield first
    yield from repeat(np.full(CHUNK, UNITS_PER_GAP, dtype=np.int64))


def _all_at_once(seed: int, burstiness: Decimal) -> Iterator[Ints]:
    yield from repeat(np.zeros(CHUNK, dtype=np.int64))


def _in_units(gaps: Floats) -> Ints:
    return np.floor(gaps * float(UNITS_PER_GAP)).astype(np.int64)


ARRIVALS: Final[dict[str, ArrivalProcess]] = {
    "poisson": ArrivalProcess(summary="independent users: exponential gaps", gaps=_poisson),
    "gamma": ArrivalProcess(summary="gamma gaps: burstiness below 1 is burstier than Poisson", gaps=_gamma),
    "constant": ArrivalProcess(summary="equal gaps, the first at 0", gaps=_constant),
    "all-at-once": ArrivalProcess(summary="num_requests requests at 0", gaps=_all_at_once, follows_rate=False),
    "closed-loop": ArrivalProcess(
        summary="max_concurrency users, each sends its next request when the last one has finished",
        gaps=None,
        follows_rate=False,
    ),
}
"""Name of an arrival process, as in scenarios -> the process."""


def operational_times(process: Gaps, seed: int, burstiness: Decimal) -> Iterator[list[int]]:
    """Chunks of arrival times of the unit-rate process; exact, as Python integers don't overflow."""
    done = 0
    for gaps in process(seed, burstiness):
        times = [done + w for w in np.cumsum(gaps).tolist()] if done else np.cumsum(gaps).tolist()
        done = times[-1]
        yield times
