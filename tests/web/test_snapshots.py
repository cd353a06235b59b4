"""The memory map over time says at every moment what `Run.memory_at` says."""

from __future__ import annotations

import numpy as np
import pytest
from tests.web.decode import decode
from tests.web.runs_of_labs import SETUPS, run_of, scenario_of

from kvlab.core.memory import gpu_stays_at
from kvlab.memory_map import FREE, NOT_USED
from kvlab.web.payload import encode
from kvlab.web.series import Moments, step_lines
from kvlab.web.snapshots import CACHED, COPIED, KEPT, SHARED

SERVERS = [name for name, (lab, _) in SETUPS.items() if lab == "vllm-v1"]
SEGMENTS = [name for name, (_, settings) in SETUPS.items() if settings.get("allocator") == "contiguous"]
BLOCKS = [name for name in SETUPS if name not in (*SERVERS, *SEGMENTS)]


@pytest.mark.parametrize("name", BLOCKS)
def test_every_moment_shows_the_blocks_of_the_memory_map(name: str) -> None:
    run = run_of(name)
    payload = decode(encode(run, scenario_of(name), {}))
    moments = Moments(step_lines(run.record.steps), run.record.totals.end_ns)
    maps = [run.memory_at(t_ns=int(t_ns)) for t_ns in moments.times_ns]
    for memory, shown in zip(maps, payload.owners("snap", payload.header["num_blocks"]), strict=True):
        assert np.array_equal(shown & ~COPIED, (memory.owner + 1 << 2) | (SHARED * memory.shared))
    if payload.header["num_cpu_blocks"]:
        for memory, shown in zip(maps, payload.owners("cpu", payload.header["num_cpu_blocks"]), strict=True):
            assert np.array_equal(shown, memory.cpu_owner + 1 << 2)


@pytest.mark.parametrize("name", SERVERS)
def test_every_moment_shows_who_holds_a_server_s_blocks(name: str) -> None:
    """Of several holders of a block one is shown, and that there are several."""
    run = run_of(name)
    payload = decode(encode(run, scenario_of(name), {}))
    moments = Moments(step_lines(run.record.steps), run.record.totals.end_ns)
    seen: set[int] = set()
    for t_ns, shown in zip(moments.times_ns, payload.owners("snap", payload.header["num_blocks"]), strict=True):
        memory = run.memory_at(t_ns=int(t_ns))
        assert memory.owner[0] == NOT_USED
        assert shown[0] == KEPT
        held = memory.owner >= 0
        assert np.array_equal(shown >= 4, held)
        assert set(shown[memory.owner == FREE].tolist()) <= {0, CACHED}
        assert np.array_equal(shown[held] & SHARED, memory.shared[held])
        alone = held & ~memory.shared
        assert np.array_equal(shown[alone] >> 2, memory.owner[alone] + 1)
        if memory.shared.any():
            assert memory.step is not None
            stays = gpu_stays_at(run.record.stays, memory.step)
            tables = {stay.request_id: set(stay.table_at(memory.step)) for stay in stays}
            assert all(block in tables[(shown[block] >> 2) - 1] for block in np.flatnonzero(memory.shared).tolist())
            seen.add(SHARED)
        seen.update(shown[shown < 4].tolist())
    caches = SETUPS[name][1].get("enable_prefix_caching") != "off"
    assert (CACHED in seen) == caches
    assert (SHARED in seen) == (name == "conversations" or CACHED in seen)


@pytest.mark.parametrize("name", SEGMENTS)
def test_every_moment_shows_the_segments_of_the_memory_map(name: str) -> None:
    run = run_of(name)
    payload = decode(encode(run, scenario_of(name), {}))
    moments = Moments(step_lines(run.record.steps), run.record.totals.end_ns)
    for t_ns, shown in zip(moments.times_ns, payload.segments(), strict=True):
        memory = run.memory_at(t_ns=int(t_ns))
        assert shown == [[s.start, s.reserved, s.used, s.owner + 1 << 2] for s in memory.segments]


@pytest.mark.parametrize("name", ["samples", "large-blocks"])
def test_a_copy_on_write_flashes_at_the_first_moment_that_shows_it(name: str) -> None:
    run = run_of(name)
    payload = decode(encode(run, scenario_of(name), {}))
    moments = Moments(step_lines(run.record.steps), run.record.totals.end_ns)
    flashing = [
        set(np.flatnonzero(shown & COPIED).tolist()) for shown in payload.owners("snap", payload.header["num_blocks"])
    ]
    expected: list[set[int]] = [set() for _ in flashing]
    for stay in run.record.stays:
        if stay.copied is None:
            continue
        for number, step in enumerate(moments.steps.tolist()):
            if step >= stay.copied.step:
                if step < stay.end_step:
                    expected[number].add(stay.blocks[stay.copied.entry])
                break
    assert flashing == expected
    assert run.metrics.cow_copies >= sum(map(len, expected)) > 0


def test_what_did_not_change_is_not_sent() -> None:
    payload = decode(encode(run_of("idle"), scenario_of("idle"), {}))
    before = np.zeros(payload.header["num_blocks"], np.int64)
    offset, runs = payload.sections["snap_offset"], payload.sections["runs"].reshape(-1, 3)
    for number, shown in enumerate(payload.owners("snap", len(before))):
        sent = [
            block
            for start, length, _ in runs[offset[number] : offset[number + 1]].tolist()
            for block in range(start, start + length)
        ]
        assert sent == np.flatnonzero(before != shown).tolist()
        before = shown
