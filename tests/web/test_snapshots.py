"""The memory map over time says at every moment what `Run.memory_at` says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.web.decode import decode

import kvlab
from kvlab.results import Run
from kvlab.web.payload import encode
from kvlab.web.series import Moments
from kvlab.web.snapshots import COPIED, SHARED

SETUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "recompute": ("preemption-lab", {"gpu_memory_utilization": "0.42"}),
    "swap": ("preemption-lab", {"gpu_memory_utilization": "0.42", "preemption_mode": "swap"}),
    "little-swap": ("preemption-lab", {"gpu_memory_utilization": "0.42", "preemption_mode": "swap",
                                       "swap_space_bytes": "512 MiB"}),
    "idle": ("preemption-lab", {"request_rate": "0.05"}),
    "paged": ("block-table-lab", {"kv_memory_bytes": "1 GiB"}),
    "samples": ("block-table-lab", {"kv_memory_bytes": "1 GiB", "num_samples": 4}),
    "tiny-blocks": ("block-table-lab", {"kv_memory_bytes": "512 MiB", "block_size": 1}),
    "large-blocks": ("block-table-lab", {"kv_memory_bytes": "1 GiB", "block_size": 256, "num_samples": 3}),
}  # fmt: skip


def run_of(lab: str, settings: dict[str, Any], duration: str = "20 s") -> tuple[Run, kvlab.Scenario]:
    scenario = kvlab.scenario(lab, duration_ns=duration, **settings)
    return kvlab.simulate(scenario), scenario


@pytest.mark.parametrize(("lab", "settings"), SETUPS.values(), ids=SETUPS)
def test_every_moment_shows_the_memory_map(lab: str, settings: dict[str, Any]) -> None:
    run, scenario = run_of(lab, settings)
    payload = decode(encode(run, scenario, {}))
    moments = Moments(run.timeline, run.record.totals.end_ns)
    maps = [run.memory_at(t_ns=int(t_ns)) for t_ns in moments.times_ns]
    for memory, shown in zip(maps, payload.owners("snap", payload.header["num_blocks"]), strict=True):
        expected = [
            (owner + 1 << 2) | (SHARED if shared else 0)
            for owner, shared in zip(memory.owner, memory.shared, strict=True)
        ]
        assert [word & ~COPIED for word in shown] == expected
    if payload.header["num_cpu_blocks"]:
        for memory, shown in zip(maps, payload.owners("cpu", payload.header["num_cpu_blocks"]), strict=True):
            assert shown == [owner + 1 << 2 for owner in memory.cpu_owner]
