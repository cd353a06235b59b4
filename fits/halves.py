"""For docs/validation.md: what is fitted to a run, fitted to its first half alone; and what async scheduling changes.

The first half are the requests whose last token came before half the makespan. The step time that they give goes to
`kvlab.validation`, which simulates the run with it and judges the requests of the second half. The simulator schedules
a step when the one before it has ended; what changes with two steps in flight, a replay says.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fits.data import need
from fits.replay import replay
from fits.serving import CASES, ONE_CHUNK, Case, Run, decodes, kernel_ns, mixed, with_collectives
from kvlab.core.step_time import KneeStepTime, to_dict
from kvlab.step_time.laws import fit_decode, fit_mixed_knee
from kvlab.step_time.profiles import profile

PLACE = Path(__file__).parents[1] / "src" / "kvlab" / "validation"


def main() -> None:
    """Writes the step time of a first half, and what a second step in flight changes."""
    need(*(f"runs/{case.run}/requests.csv" for case in CASES if case.run))
    found = {}
    for case in CASES:
        if case.run is None:
            continue
        if case.tp > 1:
            write(f"{case.name}-first-half.json", to_dict(first_half(case)))
        found[case.run] = {str(depth): errors(case, depth) for depth in (1, 2)}
    write("in-flight.json", found)


def write(name: str, document: dict[str, Any]) -> None:
    """One file beside those who read it."""
    (PLACE / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def errors(case: Case, depth: int) -> dict[str, float]:
    """Errors in per cent with so many steps in flight, and the simulated wait from admission to first token in ms."""
    assert case.run is not None
    assert case.engine is not None
    run = Run.read(case.run)
    engine = replace(case.engine, depth=depth, reserve_full_prompt=True)
    done = replay(run.arrivals, engine, profile(case.name).step_time)
    admitted, first, last = (np.array(t) / 1e9 for t in (done.scheduled_ns, done.first_ns, done.last_ns))
    quarter = slice(len(first) // 4)
    pairs = {
        "ttft_percent": ((first - run.arrival).mean(), (run.first - run.arrival).mean()),
        "tpot_percent": ((last - first) @ (1 / (run.outputs - 1)), (run.last - run.first) @ (1 / (run.outputs - 1))),
        "end_percent": (last.max(), run.last.max()),
        "first_quarter_ttft_percent": (
            (first - run.arrival)[quarter].mean(),
            (run.first - run.arrival)[quarter].mean(),
        ),
    }
    found = {name: round(100 * float(ours / theirs - 1), 2) for name, (ours, theirs) in pairs.items()}
    return {**found, "wait_ms": round(1000 * float((first - admitted).mean()), 1)}


def first_half(case: Case) -> KneeStepTime:
    """Kernels, and what the requests of the first half show beyond them."""
    assert case.run is not None
    run = Run.read(case.run)
    train, mixed_train = decodes(case, 1), mixed(case, 1)
    kernels = KneeStepTime(
        decode=(fit_decode(train, kernel_ns(case, train)),),
        mixed=fit_mixed_knee(mixed_train, kernel_ns(case, mixed_train), ONE_CHUNK, num_laws=3),
    )
    return with_collectives(case, kernels, chosen=run.last < run.last.max() / 2)


if __name__ == "__main__":
    main()
