"""What the page lets a person change and read, per tab: a new knob or tile is a row here, or in `your_server`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from kvlab.metrics.catalog import Metric
from kvlab.scenarios import Scenario, preset
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB, SETTINGS, VLLM_V1
from kvlab.settings import DURATION, SIZE, SWITCH
from kvlab.web.parts import (
    GIB_UNIT,
    THROUGHPUT,
    TTFT,
    Control,
    Figure,
    Figures,
    Tile,
    hundredths,
    percent,
    tenths,
    texts,
    tile,
)
from kvlab.web.your_server import ACTS_ONLY, SERVER_CONTROLS, SERVER_TILES

_SEQS: Final = texts([1, 2, *range(4, 132, 4), *range(144, 257, 16)])
_UTILIZATIONS: Final = hundredths(40, 99)
_SWAP_GIB: Final = (0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_KV_GIB: Final = (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9, 10, 12, 14, 16)
_HEADROOMS: Final = (0, 10, 20, 35, 50, 75, 100, 125, 150, 175, 200, 250, 300, 350, 400, 500, 600, 700, 850, 1000)


def _sizes(gib: Iterable[float]) -> tuple[str, ...]:
    """As scenarios show them."""
    setting = SETTINGS["swap_space_bytes"]
    return tuple(setting.show(setting.parse(f"{size} GiB")) for size in gib)


_RATE: Final = Control(
    name="request_rate", label="Arrival rate", kind="range", group="traffic", unit="requests/s", values=tenths(5, 80)
)
_CAP: Final = Control(
    name="max_num_seqs", label="Most running sequences", kind="range", group="server", unit="sequences", values=_SEQS
)
_BURST: Final = Control(
    name="burst", label="Burst, 40-70 s", kind="switch", group="event", on="2.5", off="1"
)  # fmt: skip

CONTROLS: Final[dict[str, tuple[Control, ...]]] = {
    PREEMPTION_LAB: (
        Control(
            name="preemption_mode", label="A preempted request", kind="choice", group="server",
            values=("recompute", "swap"), labels=("Recompute", "Swap"),
        ),
        Control(
            name="gpu_memory_utilization", label="Memory utilisation", kind="range", group="server", unit="%",
            values=_UTILIZATIONS, labels=tuple(map(percent, _UTILIZATIONS)),
        ),
        _CAP,
        Control(
            name="headroom_blocks", label="Admission headroom", kind="range", group="server", unit="blocks",
            values=texts(_HEADROOMS),
        ),
        Control(
            name="swap_space_bytes", label="CPU swap space", kind="range", group="server", unit=GIB_UNIT,
            values=_sizes(_SWAP_GIB), labels=texts(_SWAP_GIB),
        ),
        Control(
            name="kv_cache_dtype", label="FP8 KV cache", kind="switch", group="server", on="fp8", off="auto"
        ),
        _RATE,
        Control(name="longer_answers", label="Longer answers", kind="switch", group="event", on="2", off="1"),
        _BURST,
        Control(name="slow_pcie", label="Slow PCIe", kind="switch", group="event", on="5", off="1"),
    ),
    BLOCK_TABLE_LAB: (
        Control(
            name="allocator", label="Allocator", kind="choice", group="server",
            values=("contiguous", "paged"), labels=("Contiguous", "Paged"),
        ),
        Control(
            name="block_size", label="Block size", kind="range", group="server", unit="tokens",
            values=texts([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
        ),
        Control(
            name="kv_memory_bytes", label="KV memory", kind="range", group="server", unit=GIB_UNIT,
            values=_sizes(_KV_GIB), labels=texts(_KV_GIB),
        ),
        Control(
            name="max_tokens", label="Longest answer allowed", kind="range", group="server", unit="tokens",
            values=texts([128, 256, 384, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 4096, 8192]),
        ),
        _CAP,
        _RATE,
        Control(name="num_samples", label="Parallel sampling, 4 each", kind="switch", group="event", on="4", off="1"),
        Control(
            name="long_report_users", label="Long-report users", kind="switch", group="event", on="on", off="off"
        ),
        _BURST,
    ),
    VLLM_V1: SERVER_CONTROLS,
}  # fmt: skip
"""By tab, in the order of the page."""


USED_RATIO: Final = Metric(
    name="mean_used_ratio",
    label="Memory that holds tokens",
    unit="ratio",
    better="higher",
    group="KV cache",
    formula="sum over steps of used tokens x duration / (KV capacity x end of the last step)",
    source='MODEL.md, "Block-table lab", memory at a step',
)
"""Of the page alone: KV usage without what is reserved and empty."""


def used_ratio(_: Scenario, figures: Figures) -> Figure:
    """`USED_RATIO` of a run."""
    usage, waste, capacity = (
        figures[name] for name in ("mean_kv_usage_ratio", "mean_waste_tokens", "kv_capacity_tokens")
    )
    return None if usage is None or waste is None or not capacity else usage - waste / capacity


TILES: Final[dict[str, tuple[Tile, ...]]] = {
    PREEMPTION_LAB: (
        THROUGHPUT,
        TTFT,
        tile("p99_gap_ns", "Gap between tokens, p99", main=True),
        tile("preemptions_per_1000", "Preemptions per 1,000"),
        tile("paused_ratio", "Paused over 1 s"),
        tile("recomputed_tokens", "Recomputed"),
        tile("kv_capacity_tokens", "KV capacity"),
    ),
    BLOCK_TABLE_LAB: (
        Tile(
            name=USED_RATIO.name, label="Memory that holds tokens", main=True, metric=USED_RATIO, value=used_ratio
        ),
        tile("waste_ratio", "Internal waste"),
        tile("mean_largest_hole_tokens", "Largest hole"),
        tile("mean_running", "Running, mean"),
        tile("peak_running", "Running, peak"),
        THROUGHPUT,
        TTFT,
        tile("preemptions", "Preemptions"),
        tile("mean_saved_blocks", "Saved by sharing"),
    ),
    VLLM_V1: SERVER_TILES,
}  # fmt: skip
"""By tab, in the order of the page."""


@cache
def base(lab: str) -> Scenario:
    """The lab's preset."""
    return preset(lab)


def acts_only(lab: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Settings that act only beside some values of others: setting -> other setting -> those values."""
    return ACTS_ONLY if lab == VLLM_V1 else {}


def defaults(lab: str) -> dict[str, str]:
    """The text of each control's setting in the lab's preset, and of the settings that controls depend on."""
    settings = base(lab).settings()
    others = (other for needs in acts_only(lab).values() for other in needs)
    names = dict.fromkeys([*(control.name for control in CONTROLS[lab]), *others])
    return {name: SETTINGS[name].show(settings[name]) for name in names}


def changes_as_text(scenario: Scenario) -> dict[str, str]:
    """What differs from the lab's preset, as a link holds it."""
    before = base(scenario.rules).settings()
    return {name: SETTINGS[name].show(value) for name, value in scenario.settings().items() if value != before[name]}


def command(scenario: Scenario) -> str:
    """The command line that gives the same numbers."""
    words = ["kvlab", "run", scenario.rules]
    for name, text in changes_as_text(scenario).items():
        setting = SETTINGS[name]
        if setting.kind is SWITCH:
            words.append(setting.flag if text == "on" else f"--no-{setting.flag[2:]}")
        else:
            words += [setting.flag, text.replace(" ", "") if setting.kind in (SIZE, DURATION) else text]
    return shlex.join(words)
