"""Who holds which block? The pool of a small block-table lab at a few instants, one character per block.

python examples/memory_map.py
"""

from __future__ import annotations

import kvlab

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WIDTH = 64


def main() -> None:
    """Four samples per request share the blocks of their prompt (capital letters) and write into their own."""
    scenario = kvlab.scenario(
        "block-table-lab", kv_memory_bytes="384 MiB", num_samples=4, num_requests=12, request_rate=4, seed=3
    )
    run = kvlab.simulate(scenario)
    for t_ms in (500, 1_500, 3_000):
        memory = run.memory_at(t_ns=t_ms * 1_000_000)
        print(f"{t_ms:,} ms, step {memory.step}: {memory.num_free} of {len(memory.owner)} blocks are free")
        text = "".join(
            "." if owner < 0 else LETTERS[owner % 26].upper() if shared else LETTERS[owner % 26]
            for owner, shared in zip(memory.owner.tolist(), memory.shared.tolist(), strict=True)
        )
        for start in range(0, len(text), WIDTH):
            print("  " + text[start : start + WIDTH])


if __name__ == "__main__":
    main()
