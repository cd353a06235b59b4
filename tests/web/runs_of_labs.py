"""Short runs of both labs that bring about everything the page shows."""

from __future__ import annotations

from functools import cache
from typing import Any

import kvlab
from kvlab.results import Run

SETUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "recompute": ("preemption-lab", {"gpu_memory_utilization": "0.42"}),
    "swap": ("preemption-lab", {"gpu_memory_utilization": "0.42", "preemption_mode": "swap"}),
    "little-swap": ("preemption-lab", {"gpu_memory_utilization": "0.42", "preemption_mode": "swap",
                                       "swap_space_bytes": "512 MiB"}),
    "idle": ("preemption-lab", {"request_rate": "0.2"}),
    "nobody": ("preemption-lab", {"request_rate": "0.000001"}),
    "none-fits": ("preemption-lab", {"gpu_memory_utilization": "0.33"}),
    "paged": ("block-table-lab", {"kv_memory_bytes": "1 GiB"}),
    "samples": ("block-table-lab", {"kv_memory_bytes": "1 GiB", "num_samples": 4}),
    "tiny-blocks": ("block-table-lab", {"kv_memory_bytes": "512 MiB", "block_size": 1}),
    "large-blocks": ("block-table-lab", {"kv_memory_bytes": "1 GiB", "block_size": 256, "num_samples": 3}),
    "contiguous": ("block-table-lab", {"allocator": "contiguous"}),
    "contiguous-samples": ("block-table-lab", {"allocator": "contiguous", "num_samples": 2}),
}  # fmt: skip


@cache
def run_of(name: str) -> Run:
    lab, settings = SETUPS[name]
    return kvlab.simulate(kvlab.scenario(lab, duration_ns="20 s", **settings))


def scenario_of(name: str) -> kvlab.Scenario:
    scenario = run_of(name).scenario
    assert isinstance(scenario, kvlab.Scenario)
    return scenario
