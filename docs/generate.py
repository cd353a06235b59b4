"""Writes what is made from the code: metrics.md, settings.md, tables of other pages; a picture on request.

python -m docs.generate [--picture] [--cases]     # with them also pictures, and the public cases advised on anew
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import kvlab
from docs.pages.advice import advice_page
from docs.pages.flags import flags_page
from docs.pages.lab import lab_page
from docs.pages.markdown import DOCS
from docs.pages.measured import capacity_page, step_time_page
from docs.pages.reference import metrics_page, settings_page
from kvlab.advice.crossover import crossover
from kvlab.sweeps.workers import local
from kvlab.validation import advised
from kvlab.validation.advised import FILE, QUESTIONS, ask, to_json

PAGES = {
    "metrics.md": metrics_page,
    "settings.md": settings_page,
    "lab.md": lab_page,
    "capacity.md": capacity_page,
    "step-time.md": step_time_page,
    "advice.md": advice_page,
    "flags.md": flags_page,
}


def main(arguments: Iterable[str]) -> None:
    """Write the pages."""
    if "--cases" in arguments:
        with local() as run:
            said = [ask(question, run) for question in QUESTIONS]
        Path(advised.__file__).with_name(FILE).write_text(to_json(said), encoding="utf-8")
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    if "--picture" in arguments:
        kvlab.simulate(kvlab.scenario("preemption-lab")).plot(DOCS / "preemption-lab.png")
        crossover(kvlab.scenario("vllm-v0", gpu="H100", swap_per_block_ns="20 us")).plot(DOCS / "crossover.png")


if __name__ == "__main__":
    main(sys.argv[1:])
