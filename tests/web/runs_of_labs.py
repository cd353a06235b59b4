"""Short runs of all tabs that bring about everything the page shows."""

from __future__ import annotations

import atexit
import json
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import kvlab
from kvlab.core.engine import simulate
from kvlab.results import Run

_FOLDER = tempfile.TemporaryDirectory()
atexit.register(_FOLDER.cleanup)
_TURNS = 3
"""Of each conversation in the trace."""


def _conversations() -> str:
    """A trace in Mooncake's form: 20 users whose every turn begins as all of theirs before, with one system prompt."""
    path = Path(_FOLDER.name, "conversations.jsonl")
    rows = [
        {"timestamp": 6_000 * turn + 190 * user, "input_length": 512 * (2 + turn) + 100, "output_length": 40 + user,
         "hash_ids": [0, *(100 * (user + 1) + block for block in range(turn + 1)), 100 * (user + 1) + 50 + turn]}
        for turn in range(_TURNS) for user in range(20)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


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
    "server": ("vllm-v1", {"num_gpu_blocks_override": 1500}),
    "server-uncached": ("vllm-v1", {"num_gpu_blocks_override": 1500, "enable_prefix_caching": "off",
                                    "max_num_batched_tokens": "256"}),
    "server-stalled": ("vllm-v1", {"num_gpu_blocks_override": 1100}),
    "conversations": ("vllm-v1", {"num_gpu_blocks_override": 1100, "trace": _conversations(),
                                  "trace_until_ns": "20 s"}),
    "contiguous-samples": ("block-table-lab", {"allocator": "contiguous", "num_samples": 2}),
}  # fmt: skip


ENGINE: Final[dict[str, dict[str, Any]]] = {
    "server-stalled": {"enable_chunked_prefill": False, "max_num_batched_tokens": 1024},
}
"""What no server would start with, and the scheduler knows all the same."""


@cache
def run_of(name: str) -> Run:
    lab, settings = SETUPS[name]
    length = {} if "trace" in settings else {"duration_ns": "20 s"}
    scenario = kvlab.scenario(lab, **length, **settings)
    if name not in ENGINE:
        return kvlab.simulate(scenario)
    config = replace(scenario.engine_config(), **ENGINE[name])
    record = simulate(config, scenario.source(), recording=kvlab.EVERYTHING, window_ns=scenario.window_ns)
    return Run(
        scenario=scenario,
        record=record,
        config=config,
        window_ns=scenario.window_ns,
        kv_bytes_per_token=scenario.kv_bytes_per_token,
    )


def scenario_of(name: str) -> kvlab.Scenario:
    scenario = run_of(name).scenario
    assert isinstance(scenario, kvlab.Scenario)
    return scenario
