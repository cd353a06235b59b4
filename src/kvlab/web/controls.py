"""What the page lets a person change and read, per lab: a new knob or tile is a row here."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, Final, Literal

from kvlab.core.config import PreemptionLabConfig
from kvlab.metrics import METRICS
from kvlab.metrics.catalog import Metric
from kvlab.results import Run
from kvlab.scenarios import Scenario, preset
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB, SETTINGS
from kvlab.settings import DURATION, SIZE, SWITCH
from kvlab.units import GIB, NS_PER_S, parse_bytes

Kind = Literal["range", "choice", "switch"]
Group = Literal["server", "traffic", "event"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One knob. Its values are the texts that links hold."""

    name: str
    """A setting of the scenario."""
    label: str
    kind: Kind
    group: Group
    unit: str = ""
    values: tuple[str, ...] = ()
    """Every stop, in order."""
    labels: tuple[str, ...] = ()
    """What the page shows for each; empty: the values themselves."""
    on: str | None = None
    off: str | None = None
    """Of a switch."""

    def to_dict(self, default: str, more: Iterable[str] = ()) -> dict[str, Any]:
        """Ready for JSON.

        Args:
            more: further stops, which a mission needs.
        """
        values, labels = self._stops(more)
        return {
            "name": self.name,
            "label": self.label,
            "kind": self.kind,
            "unit": self.unit,
            "help": SETTINGS[self.name].help,
            "group": self.group,
            "values": values,
            "labels": labels,
            "on": self.on,
            "off": self.off,
            "default": default,
        }

    def _stops(self, more: Iterable[str]) -> tuple[list[str], list[str]]:
        shown = dict(zip(self.values, self.labels or self.values, strict=True))
        if self.kind == "range":
            parse = SETTINGS[self.name].parse
            for text in more:
                shown.setdefault(text, self._label(text))
            shown = {text: shown[text] for text in sorted(shown, key=lambda text: Decimal(str(parse(text))))}
        return list(shown), list(shown.values())

    def _label(self, text: str) -> str:
        if self.unit == "%":
            return _percent(text)
        return f"{parse_bytes(text, self.name) / GIB:g}" if self.unit == _GIB else text


def _percent(text: str) -> str:
    return f"{float(text) * 100:g}"


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, values))


def _hundredths(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{value / 100:g}" for value in range(first, last + 1))


def _tenths(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{value / 10:g}" for value in range(first, last + 1))


_GIB: Final = "GiB"
_SEQS: Final = _texts([1, 2, *range(4, 132, 4), *range(144, 257, 16)])
_UTILIZATIONS: Final = _hundredths(40, 99)
_SWAP_GIB: Final = (0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_KV_GIB: Final = (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9, 10, 12, 14, 16)
_HEADROOMS: Final = (0, 10, 20, 35, 50, 75, 100, 125, 150, 175, 200, 250, 300, 350, 400, 500, 600, 700, 850, 1000)


def _sizes(gib: Iterable[float]) -> tuple[str, ...]:
    """As scenarios show them."""
    setting = SETTINGS["swap_space_bytes"]
    return tuple(setting.show(setting.parse(f"{size} GiB")) for size in gib)


_RATE: Final = Control(
    name="request_rate", label="Arrival rate", kind="range", group="traffic", unit="requests/s", values=_tenths(5, 80)
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
            values=_UTILIZATIONS, labels=tuple(map(_percent, _UTILIZATIONS)),
        ),
        _CAP,
        Control(
            name="headroom_blocks", label="Admission headroom", kind="range", group="server", unit="blocks",
            values=_texts(_HEADROOMS),
        ),
        Control(
            name="swap_space_bytes", label="CPU swap space", kind="range", group="server", unit=_GIB,
            values=_sizes(_SWAP_GIB), labels=_texts(_SWAP_GIB),
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
            values=_texts([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
        ),
        Control(
            name="kv_memory_bytes", label="KV memory", kind="range", group="server", unit=_GIB,
            values=_sizes(_KV_GIB), labels=_texts(_KV_GIB),
        ),
        Control(
            name="max_tokens", label="Longest answer allowed", kind="range", group="server", unit="tokens",
            values=_texts([128, 256, 384, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 4096, 8192]),
        ),
        _CAP,
        _RATE,
        Control(name="num_samples", label="Parallel sampling, 4 each", kind="switch", group="event", on="4", off="1"),
        Control(
            name="long_report_users", label="Long-report users", kind="switch", group="event", on="on", off="off"
        ),
        _BURST,
    ),
}  # fmt: skip
"""By lab, in the order of the page."""


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


def used_ratio(run: Run) -> Fraction | None:
    """`USED_RATIO` of a run."""
    totals = run.record.totals
    whole = run.record.capacity_tokens * totals.end_ns
    return Fraction(totals.used_token_ns, whole) if whole else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure of the page."""

    name: str
    """Of the glossary."""
    label: str
    main: bool = False
    """One of the three that a phone shows while a slider moves."""
    metric: Metric
    value: Callable[[Run], Fraction | int | None]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        unit = "s" if self.metric.unit == "ns" else self.metric.unit
        return {
            "name": self.name,
            "label": self.label,
            "unit": unit,
            "better": self.metric.better,
            "main": self.main,
        }

    def show(self, run: Run) -> dict[str, Any]:
        """The figure of a run: a plain number (seconds, bytes, a ratio of 0..1, a count), and as a person reads it."""
        value = self.value(run)
        scale = NS_PER_S if self.metric.unit == "ns" else 1
        plain = None if value is None else float(Fraction(value) / scale)
        return {"value": plain, "text": self.metric.format(value)}


def _tile(name: str, label: str, *, main: bool = False) -> Tile:
    return Tile(name=name, label=label, main=main, metric=METRICS[name], value=lambda run: getattr(run.metrics, name))


def _throughput(run: Run) -> Fraction | None:
    """In the window; of an uncut trace, which has none, to the last token."""
    metrics = run.metrics
    return metrics.throughput_tokens_per_s if run.window_ns is None else metrics.throughput_in_window_tokens_per_s


_THROUGHPUT: Final = Tile(
    name="throughput_in_window_tokens_per_s",
    label="Throughput",
    main=True,
    metric=METRICS["throughput_in_window_tokens_per_s"],
    value=_throughput,
)
_TTFT: Final = _tile("p95_ttft_ns", "First token, p95", main=True)

TILES: Final[dict[str, tuple[Tile, ...]]] = {
    PREEMPTION_LAB: (
        _THROUGHPUT,
        _TTFT,
        _tile("p99_gap_ns", "Gap between tokens, p99", main=True),
        _tile("preemptions_per_1000", "Preemptions per 1,000"),
        _tile("paused_ratio", "Paused over 1 s"),
        _tile("recomputed_tokens", "Recomputed"),
        _tile("kv_capacity_tokens", "KV capacity"),
    ),
    BLOCK_TABLE_LAB: (
        Tile(
            name=USED_RATIO.name, label="Memory that holds tokens", main=True, metric=USED_RATIO, value=used_ratio
        ),
        _tile("waste_ratio", "Internal waste"),
        _tile("mean_largest_hole_tokens", "Largest hole"),
        _tile("mean_running", "Running, mean"),
        _tile("peak_running", "Running, peak"),
        _THROUGHPUT,
        _TTFT,
        _tile("preemptions", "Preemptions"),
        _tile("mean_saved_blocks", "Saved by sharing"),
    ),
}  # fmt: skip
"""By lab, in the order of the page."""


@cache
def base(lab: str) -> Scenario:
    """The lab's preset."""
    return preset(lab)


def defaults(lab: str) -> dict[str, str]:
    """The text of each control's setting in the lab's preset."""
    settings = base(lab).settings()
    return {control.name: SETTINGS[control.name].show(settings[control.name]) for control in CONTROLS[lab]}


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


_FLAGS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    PREEMPTION_LAB: (
        ("gpu_memory_utilization", "--gpu-memory-utilization"),
        ("kv_cache_dtype", "--kv-cache-dtype"),
        ("max_num_seqs", "--max-num-seqs"),
        ("block_size", "--block-size"),
    ),
    BLOCK_TABLE_LAB: (
        ("kv_memory_bytes", "--kv-cache-memory-bytes"),
        ("max_num_seqs", "--max-num-seqs"),
        ("block_size", "--block-size"),
    ),
}


def vllm_flags(scenario: Scenario) -> str:
    """What `vllm serve` takes for the same server; swap is of vLLM before V1, a watermark of 0.24 and later."""
    settings: Mapping[str, Any] = scenario.settings()
    words = [f"{flag} {_plain(name, settings[name])}" for name, flag in _FLAGS[scenario.rules]]
    config = scenario.engine_config()
    if isinstance(config, PreemptionLabConfig) and config.headroom_blocks:
        words.append(f"--watermark {_watermark(config.headroom_blocks, config.num_gpu_blocks)}")
    if settings.get("preemption_mode") == "swap":
        words.append(f"--preemption-mode swap --swap-space {float(settings['swap_space_bytes']) / 2**30:g}")
    return " ".join(words)


def _watermark(blocks: int, pool: int) -> str:
    """The shortest ratio of which vLLM makes that many blocks: int(ratio x pool)."""
    for digits in range(1, 20):
        ratio = -(-blocks * 10**digits // pool)
        if ratio * pool // 10**digits == blocks:
            break
    return f"{Decimal(ratio).scaleb(-digits):f}"


def _plain(name: str, value: object) -> str:
    return str(value) if SETTINGS[name].kind is SIZE else SETTINGS[name].show(value)
