"""The tab of a real server: its knobs, its figures, and which settings do something only beside others."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from kvlab.metrics.catalog import Metric
from kvlab.scenarios import Scenario
from kvlab.servers import LINEAR, VllmV1Server
from kvlab.settings import NOT_SET
from kvlab.sizing.dtypes import WEIGHT_DTYPES
from kvlab.sizing.gpus import gpu_names
from kvlab.sizing.models import model_names
from kvlab.sizing.result import Capacity
from kvlab.web.parts import THROUGHPUT, TTFT, Control, Figures, Tile, hundredths, percent, texts, tile

_MODELS: Final = tuple(sorted(model_names(), key=str.lower))
_DTYPES: Final = ("auto", *WEIGHT_DTYPES)
_UTILIZATIONS: Final = hundredths(50, 98)
_WATERMARKS: Final = hundredths(0, 20)
_SEQS: Final = texts(
    [1, 2, 4, 6, 7, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 120, 128, 160, 192, 224, 256, 384, 512, 1024]
)
_BUDGETS: Final = texts([512, 1024, 2048, 4096, 8192, 16384, 32768])
_CONTEXTS: Final = texts([2048, 4096, 8192, 16384, 32768, 40960, 65536, 131072])
_RATES: Final = tuple(f"{rate / 10:g}" for rate in (*range(1, 10), *range(10, 105, 5), *range(110, 310, 10)))
_USERS: Final = texts([1, 2, 4, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 72, 80, 96, 128, 192, 256, 384, 512])
_PROMPTS: Final = ("1000", "uniform(200, 1500)", "lognormal(p50=600, p95=3000, max=6000)")
_ANSWERS: Final = ("200", "exponential(250, max=1500)", "lognormal(p50=250, p95=900, max=2000)")

SERVER_CONTROLS: Final = (
    Control(name="model", label="Model", kind="select", group="server", values=_MODELS),
    Control(
        name="weight_dtype", label="Weights", kind="select", group="server", values=_DTYPES,
        labels=("as published", *WEIGHT_DTYPES),
    ),
    Control(name="gpu", label="GPU", kind="select", group="server", values=gpu_names()),
    Control(
        name="tensor_parallel_size", label="Tensor parallel", kind="range", group="server",
        values=("1", "2", "4", "8"), labels=("1 GPU", "2 GPUs", "4 GPUs", "8 GPUs"),
    ),
    Control(
        name="gpu_memory_utilization", label="Memory utilisation", kind="range", group="server", unit="%",
        values=_UTILIZATIONS, labels=tuple(map(percent, _UTILIZATIONS)),
    ),
    Control(
        name="max_model_len", label="Longest request", kind="range", group="server", unit="tokens", values=_CONTEXTS,
        unset="of the model",
    ),
    Control(
        name="max_num_seqs", label="Most running sequences", kind="range", group="server", unit="sequences",
        values=_SEQS,
    ),
    Control(
        name="max_num_batched_tokens", label="Tokens per step", kind="range", group="server", unit="tokens",
        values=(NOT_SET, *_BUDGETS), labels=("engine\'s default", *_BUDGETS), unset="engine\'s default",
    ),
    Control(
        name="watermark", label="Watermark", kind="range", group="server", unit="%", values=_WATERMARKS,
        labels=tuple(map(percent, _WATERMARKS)),
    ),
    Control(
        name="long_prefill_token_threshold", label="Most of one request per step", kind="range", group="server",
        unit="tokens", values=("0", *texts([128, 256, 512, 1024, 2048, 4096])),
        labels=("no limit", *texts([128, 256, 512, 1024, 2048, 4096])),
    ),
    Control(
        name="block_size", label="Block size", kind="range", group="server", unit="tokens",
        values=texts([1, 8, 16, 32, 64, 128]),
    ),
    Control(name="kv_cache_dtype", label="FP8 KV cache", kind="switch", group="server", on="fp8", off="auto"),
    Control(name="enable_prefix_caching", label="Prefix caching", kind="switch", group="server", on="on", off="off"),
    Control(name="enable_chunked_prefill", label="Chunked prefill", kind="switch", group="server", on="on", off="off"),
    Control(
        name="scheduler_reserve_full_isl", label="Room for whole prompts", kind="switch", group="server", on="on",
        off="off",
    ),
    Control(
        name="step_time", label="Step times", kind="select", group="server", values=("auto", "roofline", LINEAR),
        labels=("measured, else estimated", "estimated from the GPU", "a straight line"),
    ),
    Control(
        name="arrivals", label="Arrivals", kind="select", group="traffic",
        values=("poisson", "closed-loop", "all-at-once"),
        labels=("at a rate (Poisson)", "users who wait for answers", "all at once"),
        brings={"closed-loop": {"max_concurrency": "64"}, "all-at-once": {"num_requests": "100"}},
    ),
    Control(
        name="request_rate", label="Arrival rate", kind="range", group="traffic", unit="requests/s", values=_RATES
    ),
    Control(
        name="max_concurrency", label="Users", kind="range", group="traffic", unit="users", values=_USERS, unset="–"
    ),
    Control(name="prompt_tokens", label="Prompt lengths", kind="text", group="traffic", unit="tokens", values=_PROMPTS),
    Control(name="output_tokens", label="Answer lengths", kind="text", group="traffic", unit="tokens", values=_ANSWERS),
    Control(name="burst", label="Burst, 40-70 s", kind="switch", group="event", on="2.5", off="1"),
    Control(name="longer_answers", label="Longer answers", kind="switch", group="event", on="2", off="1"),
)  # fmt: skip
"""In the order of the page."""

_RATED: Final = {"arrivals": ("poisson", "gamma", "constant")}
_CLOSED: Final = {"arrivals": ("closed-loop",)}
_LINEAR: Final = {"step_time": (LINEAR,)}
_OF_ENGINE: Final = {"num_gpu_blocks_override": (NOT_SET,)}
ACTS_ONLY: Final[dict[str, Mapping[str, tuple[str, ...]]]] = {
    "gpu_memory_utilization": {"kv_cache_memory_bytes": (NOT_SET,), **_OF_ENGINE},
    "kv_cache_memory_bytes": _OF_ENGINE,
    "base_ns": _LINEAR,
    "per_seq_ns": _LINEAR,
    "per_prefill_token_ns": _LINEAR,
    "request_rate": _RATED,
    "burst": _RATED,
    "rate_events": _RATED,
    "max_concurrency": _CLOSED,
    "think_time_ns": _CLOSED,
}
"""Setting -> other settings, and the values of those beside which it does something. A scenario refuses the rest."""


@lru_cache(maxsize=8)
def fits(server: VllmV1Server) -> Capacity:
    """What the server holds: asked for by every figure of a run."""
    return server.capacity()


def _max_concurrency(scenario: Scenario, _: Figures) -> Fraction | None:
    """As the engine logs it."""
    assert isinstance(scenario.server, VllmV1Server)
    return fits(scenario.server).max_concurrency


MAX_CONCURRENCY: Final = Metric(
    name="max_model_len_concurrency",
    label="Longest requests at once",
    unit="requests",
    better="higher",
    group="KV cache",
    formula="num_gpu_blocks / blocks of a request of max_model_len: the worst case, not a limit",
    source="docs/capacity.md",
    engines={"vLLM": '"Maximum concurrency for N tokens per request" in the log of its start'},
)
"""Of the page alone."""

SERVER_TILES: Final = (
    THROUGHPUT,
    TTFT,
    tile("p95_tpot_ns", "Per token, p95", main=True),
    tile("p99_gap_ns", "Gap between tokens, p99"),
    tile("preemptions_per_1000", "Preemptions per 1,000"),
    tile("paused_ratio", "Paused over 1 s"),
    tile("peak_kv_usage_ratio", "KV usage, peak"),
    tile("kv_capacity_tokens", "KV capacity"),
    Tile(name=MAX_CONCURRENCY.name, label=MAX_CONCURRENCY.label, metric=MAX_CONCURRENCY, value=_max_concurrency),
    tile("prefix_hit_ratio", "Prefix cache hits"),
)
"""In the order of the page."""
