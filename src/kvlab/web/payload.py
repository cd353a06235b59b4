"""A run as the bytes that the page draws: a JSON header, and arrays it reads in place.

    "KVL1" | header length, u32 | header, UTF-8, padded with spaces | the sections that the header lists, in order

All numbers are little-endian and every section starts at a multiple of 4 bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kvlab.core.config import BlockTableLabConfig, EngineConfig, PreemptionLabConfig, VllmV0Config, VllmV1Config
from kvlab.metrics import METRICS
from kvlab.results import Run
from kvlab.scenarios import Scenario
from kvlab.units import NS_PER_S
from kvlab.vllm_print import vllm_flags
from kvlab.web.bands import bands
from kvlab.web.cached import unowned
from kvlab.web.controls import TILES, changes_as_text, command
from kvlab.web.lanes import lanes
from kvlab.web.series import MAX_SNAPSHOTS, Moments, series, step_lines
from kvlab.web.snapshots import changes, segments
from kvlab.web.stays import stay_columns
from kvlab.web.story import story
from kvlab.web.waterfall import waterfall

MAGIC: Final = b"KVL1"
_TYPES: Final[dict[str, np.dtype[Any]]] = {"f32": np.dtype("<f4"), "u32": np.dtype("<u4"), "u16": np.dtype("<u2")}

Section = npt.NDArray[Any]


def encode(run: Run, scenario: Scenario, missions: Mapping[str, Any], *, trace: str | None = None) -> bytes:
    """The payload of a run that recorded everything.

    Args:
        scenario: what the header tells of it: a trace is named as the user named it.
        missions: verdicts by mission, ready for JSON.
        trace: what links have in place of its name.
    """
    sections = _sections(run)
    header = _header(run, scenario, missions)
    if trace is not None:
        header["changes"]["trace"] = trace
    header["sections"] = [_description(name, section) for name, section in sections.items()]
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    parts = [_aligned(section.astype(_TYPES[_type_of(section)]).tobytes()) for section in sections.values()]
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *parts])


def _aligned(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)


def _sections(run: Run) -> dict[str, Section]:
    record, capacity = run.record, run.record.capacity_tokens
    timeline = step_lines(record.steps)
    may_share = record.totals.saved_block_ns > 0
    on_gpu = stay_columns([stay for stay in record.stays if not stay.on_cpu], may_share=may_share)
    moments = Moments(timeline, record.totals.end_ns, MAX_SNAPSHOTS)
    found: dict[str, Section] = {
        **series(timeline, run.preemptions, capacity, record.totals.end_ns),
        "snap_t": (moments.times_ns / NS_PER_S).astype(np.float32),
        "snap_usage": (moments.values(timeline["reserved_tokens"]) / capacity).astype(np.float32),
        "snap_queue": moments.values(timeline["waiting"]).astype(np.float32),
    }
    if isinstance(run.config, BlockTableLabConfig) and run.config.allocator == "contiguous":
        held = segments(on_gpu, moments, run.config.max_tokens)
        found |= {"seg_offset": held.offset, "segments": held.runs}
    else:
        others = unowned(record, run.config, on_gpu, moments) if isinstance(run.config, VllmV1Config) else None
        gpu = changes(on_gpu, moments, others)
        found |= {"snap_offset": gpu.offset, "runs": gpu.runs}
    if isinstance(run.config, PreemptionLabConfig):
        cpu = changes(stay_columns([stay for stay in record.stays if stay.on_cpu], may_share=False), moments)
        found |= {"cpu_offset": cpu.offset, "cpu_runs": cpu.runs}
    found["lanes"] = lanes(record, on_gpu, timeline).to_words()
    return found


def _type_of(section: Section) -> str:
    """The narrowest type that holds every number."""
    if section.dtype.kind == "f":
        return "f32"
    return "u16" if not len(section) or section.max() < 2**16 else "u32"


def _description(name: str, section: Section) -> dict[str, Any]:
    return {"name": name, "type": _type_of(section), "count": len(section)}


def _header(run: Run, scenario: Scenario, missions: Mapping[str, Any]) -> dict[str, Any]:
    num_blocks, num_cpu_blocks, block_size = _pools(run.config)
    contiguous = isinstance(run.config, BlockTableLabConfig) and run.config.allocator == "contiguous"
    figures = run.metrics.values()
    return {
        "lab": scenario.rules,
        "changes": changes_as_text(scenario),
        "tiles": {tile.name: tile.show(scenario, figures) for tile in TILES[scenario.rules]},
        "story": story(run),
        "accounting": accounting(run),
        "end_s": run.record.totals.end_ns / NS_PER_S,
        "full_s": None if run.full_ns is None else run.full_ns / NS_PER_S,
        "window_s": None if run.window_ns is None else run.window_ns / NS_PER_S,
        "bands": bands(scenario),
        "num_blocks": num_blocks,
        "num_cpu_blocks": num_cpu_blocks,
        "block_size": block_size,
        "unit": "token" if contiguous else "block",
        "contiguous": contiguous,
        "snapshot_times": MAX_SNAPSHOTS if run.record.totals.end_ns else 1,
        "waterfall": waterfall(scenario.server),
        "command": command(scenario),
        "flags": vllm_flags(scenario),
        "missions": dict(missions),
    }


def _pools(config: EngineConfig) -> tuple[int, int, int]:
    """Units on the GPU, blocks of the swap space, tokens per unit."""
    if isinstance(config, PreemptionLabConfig | VllmV0Config):
        return config.num_gpu_blocks, config.num_cpu_blocks, config.block_size
    if isinstance(config, VllmV1Config):
        return config.num_gpu_blocks, 0, config.block_size
    if config.allocator == "contiguous":
        return config.kv_tokens, 0, 1
    return config.num_blocks, 0, config.block_size


def accounting(run: Run) -> str:
    """Every request that came, and what became of it."""
    arrived, finished, rejected, unfinished = (
        METRICS[name].format(getattr(run.metrics, name)) for name in ("arrived", "finished", "rejected", "unfinished")
    )
    text = f"{arrived} arrived = {finished} finished + {rejected} rejected"
    return f"{text} + {unfinished} that never finish" if run.metrics.unfinished else text
