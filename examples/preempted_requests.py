"""Who pays for preemptions? The per-request columns of one run, as numpy arrays.

python examples/preempted_requests.py
"""

from __future__ import annotations

import numpy as np

import kvlab


def main() -> None:
    """Compare requests that were preempted with the others."""
    run = kvlab.simulate(kvlab.scenario("preemption-lab"))
    columns = run.requests
    preempted = columns["preemptions"] > 0
    for label, chosen in (("preempted", preempted), ("never preempted", ~preempted)):
        longest_ms = np.median(columns["max_gap_ns"][chosen]) / 1e6
        output = np.median(columns["output_tokens"][chosen])
        print(
            f"{label:16} {chosen.sum():4} requests: median answer {output:.0f} tokens, longest gap {longest_ms:.0f} ms"
        )
    again = columns["recomputed_tokens"].sum() / (columns["prompt_tokens"].sum() + columns["output_tokens"].sum())
    print(f"computed twice: {again:.1%} of all tokens, for {preempted.mean():.0%} of the requests")


if __name__ == "__main__":
    main()
