"""What an operator can move, and the steps worth trying: from the setting as it is, each further than the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from kvlab.errors import KvlabError
from kvlab.scenarios import Scenario
from kvlab.servers import VllmServer
from kvlab.setting_table import settings_of
from kvlab.settings import Value
from kvlab.units import GIB

_FULLEST: Final = Decimal("0.97")
"""The largest gpu_memory_utilization that is advised."""
_OF_KERNELS: Final = (16, 32)
"""Block sizes that every attention kernel of vLLM has."""
Ladder = Callable[[Any], Sequence[Value]]
"""The current value -> values to try, nearest first."""


def _lower(*percents: int) -> Ladder:
    return lambda now: [now * percent // 100 for percent in percents]


def _raise_to(*values: Value) -> Ladder:
    return lambda now: [value for value in values if value > now]


def _other(*values: Value) -> Ladder:
    return lambda now: [value for value in values if value != now]


def _plus(*steps: int) -> Ladder:
    return lambda now: [now + step for step in steps]


def _and_less(more: Ladder) -> Ladder:
    """Also three quarters of it, half, a quarter, none: what is kept free can be too much."""
    return lambda now: [
        *more(now),
        *(now * quarters // 4 if isinstance(now, int) else now * quarters / 4 for quarters in (3, 2, 1, 0)),
    ]


def _nearest(*values: int) -> Ladder:
    """By their ratio to what is set."""
    return lambda now: sorted(values, key=lambda value: max(value / now, now / value))


def _utilization(now: Decimal) -> list[Value]:
    """Up in steps of 1 %, from 10 on of 5."""
    return [
        now + Decimal(step) / 100
        for step in (*range(1, 10), *range(10, 100, 5))
        if now + Decimal(step) / 100 <= _FULLEST
    ]


def _less_rate(now: Decimal) -> list[Value]:
    """Down in steps of 0.5 requests/s, and on in steps of a tenth of what is set."""
    steps = [now - step * Decimal("0.5") for step in range(1, 9)]
    tenths = [now * tenth / 10 for tenth in range(9, 0, -1)]
    return [*(rate for rate in steps if rate > 0), *(rate for rate in tenths if rate < steps[-1])]


def _seqs(now: int) -> list[int]:
    """Down in steps of about an eighth; and up, as a limit may be too low."""
    return [*_fewer_seqs(now), now * 3 // 2, *(now * 2**power for power in range(1, 6))]


def _fewer_seqs(now: int) -> list[int]:
    percents = (90, 80, 70, 62, 55, 48, 42, 37, 32, 28, 24, 20, 16, 12, 9, 6)
    return [now * percent // 100 for percent in percents if now * percent >= 100]


def _seqs_beside(limit: int, peak: int) -> list[int]:
    """Where a limit doesn't bind: down from what runs; and up, if it would bind once another lever makes room."""
    more = [limit * 3 // 2, limit * 2, limit * 4] if 2 * peak >= limit else []
    return [*_fewer_seqs(peak), *more]


LADDERS: Final[dict[str, Ladder]] = {
    "preemption_mode": _other("recompute", "swap"),
    "allocator": _other("paged"),
    "block_size": _other(16, 32, 8, 64, 128),
    "max_num_seqs": _seqs,
    "headroom_blocks": _and_less(_plus(16, 32, 64, 128, 256, 512)),
    "watermark": _and_less(_raise_to(*map(Decimal, ("0.01", "0.02", "0.03", "0.05", "0.1", "0.15", "0.2", "0.3")))),
    "gpu_memory_utilization": _utilization,
    "kv_memory_bytes": _plus(*(step * GIB // 2 for step in range(1, 17))),
    "kv_cache_memory_bytes": _plus(*(step * GIB for step in (1, 2, 4, 8, 16))),
    "swap_space_bytes": _plus(4 * GIB, 8 * GIB, 16 * GIB),
    "kv_cache_dtype": _other("fp8"),
    "max_tokens": lambda now: [now * 3 // 4, now // 2, now // 4, now // 8, now // 16],
    "max_num_batched_tokens": _nearest(512, 1024, 2048, 4096, 8192, 16384),
    "prefill_budget_tokens": _nearest(128, 256, 512, 1024, 2048),
    "long_prefill_token_threshold": _other(2048, 1024, 512),
    "scheduler_reserve_full_isl": _other(True),
    "enable_prefix_caching": _other(True),
    "tensor_parallel_size": lambda now: [now * 2, now * 4],
    "request_rate": _less_rate,
    "trace_speed": lambda now: [now * percent / 100 for percent in range(90, 0, -10)],
    "max_concurrency": _lower(90, 80, 70, 60, 50, 40, 30, 20, 10),
}
"""Setting -> its ladder. Every one of them has a price in `kvlab.prices`."""
FINEST: Final[dict[str, int | Decimal]] = {
    "max_num_seqs": 1,
    "headroom_blocks": 1,
    "watermark": Decimal("0.001"),
    "gpu_memory_utilization": Decimal("0.005"),
    "kv_memory_bytes": GIB // 8,
    "kv_cache_memory_bytes": GIB // 4,
    "swap_space_bytes": GIB,
    "max_tokens": 32,
    "max_num_batched_tokens": 256,
    "prefill_budget_tokens": 64,
    "long_prefill_token_threshold": 256,
    "request_rate": Decimal("0.1"),
    "trace_speed": Decimal("0.01"),
    "max_concurrency": 1,
}
"""Setting -> the smallest difference worth telling; the others go in steps of their ladders only."""


def levers(scenario: Scenario, peak_running: int | None = None) -> dict[str, tuple[Value, ...]]:
    """Setting -> values to try that this scenario can have, and that change something in it.

    Args:
        peak_running: sequences that ran at once, at most; a max_num_seqs between it and the one set does nothing.
    """
    now = in_force(scenario)
    alike = scenario.engine_config()
    found = {}
    for name in [setting.name for setting in settings_of(scenario.rules) if setting.name in LADDERS]:
        if now[name] is None or not _acts(now, name):
            continue
        tried = LADDERS[name](now[name])
        if name == "max_num_seqs" and peak_running is not None and peak_running < scenario.server.max_num_seqs:
            tried = _seqs_beside(scenario.server.max_num_seqs, peak_running)
        values = tuple(
            value
            for value in dict.fromkeys(tried)
            if value != now[name] and _is_fair(scenario, name, value) and _can_be(scenario, name, value, alike)
        )
        if values:
            found[name] = values
    return found


def in_force(scenario: Scenario) -> dict[str, Any]:
    """Settings; the token budget that is left to the engine as the engine has it."""
    settings = scenario.settings()
    if isinstance(scenario.server, VllmServer) and settings["max_num_batched_tokens"] is None:
        settings["max_num_batched_tokens"] = scenario.server.capacity().plan.batch.max_num_batched_tokens
    return settings


def _is_fair(scenario: Scenario, name: str, value: Value) -> bool:
    """With a fixed number of blocks, blocks of other bytes would be another memory; not all kernels have all sizes."""
    if name not in ("block_size", "kv_cache_dtype") or not isinstance(scenario.server, VllmServer):
        return True
    return scenario.server.num_gpu_blocks_override is None and not (name == "block_size" and value not in _OF_KERNELS)


def _acts(now: Mapping[str, object], name: str) -> bool:
    """A trace has a speed; a rate has neither a trace nor users who wait."""
    if name == "trace_speed":
        return now["trace"] is not None
    return name != "request_rate" or (now["trace"] is None and now["arrivals"] != "closed-loop")


def _can_be(scenario: Scenario, name: str, value: Value, alike: object) -> bool:
    """Whether there is such a server, or such traffic, and it is another than before."""
    try:
        changed = scenario.replace(**{name: value})
        return changed.engine_config() != alike or changed.traffic != scenario.traffic
    except KvlabError:
        return False
