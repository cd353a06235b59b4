"""Which setting mends the preemption lab? Try several on the same requests and look at four figures.

python examples/find_a_lever.py
"""

from __future__ import annotations

import kvlab
from kvlab.metrics import METRICS

LEVERS: dict[str, dict[str, object]] = {
    "as it is": {},
    "max_num_seqs = 48": {"max_num_seqs": 48},
    "headroom of 100 blocks": {"headroom_blocks": 100},
    "swap, not recompute": {"preemption_mode": "swap"},
    "95 % of the memory": {"gpu_memory_utilization": "95 %"},
    "KV cache in 8 bits": {"kv_cache_dtype": "fp8"},
}
FIGURES = {
    "preemptions_per_1000": "preempted/1,000",
    "max_gap_ns": "longest gap",
    "p95_ttft_ns": "TTFT p95",
    "throughput_tokens_per_s": "throughput",
}


def main() -> None:
    """Run each and print a line."""
    print(f"{'':24}" + "".join(f"{head:>16}" for head in FIGURES.values()))
    for label, settings in LEVERS.items():
        run = kvlab.simulate(kvlab.scenario("preemption-lab", **settings), record=kvlab.METRICS)
        values = (METRICS[name].format(getattr(run.metrics, name)) for name in FIGURES)
        print(f"{label:24}" + "".join(f"{value:>16}" for value in values))


if __name__ == "__main__":
    main()
