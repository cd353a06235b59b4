"""The page: what comes near, and what misses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from importlib import resources
from typing import Any, Final

from kvlab.sizing.accuracy import Check, band, from_scratch, given_kv
from kvlab.step_time.profiles import profiles
from kvlab.units import GIB
from kvlab.validation.blocks import Block, Bullets, Heading, Picture, Table, Text
from kvlab.validation.numbers import AIM_PERCENT, CaseNumbers, Errors, Numbers, RunNumbers, Watermark
from kvlab.validation.watermark import NEAR_PERCENT, holds

AIMED_AT: Final = ("TTFT mean", "TPOT mean", "makespan")
BEFORE_A_RUN: Final = ("the pool that", "a roofline")
"""How labels of variants begin that take nothing from a real server."""
FOLDER: Final = "validation"
"""Of the pictures, beside the page."""
WATERMARK_PICTURE: Final = f"{FOLDER}/watermark.png"


def run_picture_path(run: RunNumbers) -> str:
    """Where the picture of a run lies, from the page."""
    return f"{FOLDER}/{run.key.lower()}.png"


def build(numbers: Numbers) -> list[Block]:
    """The whole page."""
    blocks: list[Block] = [
        Heading(1, "Validation"),
        Text(
            "What the simulator says against what real servers did, with what misses. `kvlab validate` rebuilds this "
            "page: without the recordings from numbers that come with the package, with them (`--data`) from runs that "
            "are simulated anew. Nothing that others recorded is in this repository, only figures computed from it."
        ),
        *_summary(numbers),
        Heading(2, "Two real runs"),
        *_runs_intro(),
    ]
    for run in numbers.runs:
        blocks += _run(run)
    blocks += _in_flight(numbers.runs)
    if numbers.watermark is not None:
        blocks += _watermark(numbers.watermark)
    blocks += [*_cases(numbers.cases), *_capacity(), *_step_times(), *_sources()]
    return blocks


def _summary(numbers: Numbers) -> list[Block]:
    rows = []
    for run in numbers.runs:
        errors = [run.figure(name).error_percent for name in AIMED_AT]
        met = all(abs(error) <= AIM_PERCENT for error in errors)
        rows.append([run.title, *map(percent, errors), "met" if met else "missed"])
    hold = sum(case.holds for case in numbers.cases)
    items = [f"**{hold} of {len(numbers.cases)} public cases hold** in all they expect; the others say what misses."]
    if numbers.watermark is not None:
        near = sum(map(holds, numbers.watermark.rows))
        items.append(
            f"**{near} of {len(numbers.watermark.rows)} reported counts of preemptions** are in or near the range."
        )
    errors_found = band(from_scratch())
    items.append(
        f"**{errors_found.count} logged KV capacities**: half within {share(errors_found.median)}, four of five within "
        f"{share(errors_found.four_fifths)}, worst {share(errors_found.worst)}."
    )
    found = [error for run in numbers.runs for error in run.variants if error.label.startswith(BEFORE_A_RUN)]
    if found:
        worst = max(abs(value) for e in found for value in (e.ttft_percent, e.tpot_percent, e.end_percent))
        items.append(
            "**Before a server has run**, its pool and its step times are computed, not measured: then these means "
            f'are up to {worst:.0f} % off, see "one thing changed at a time".'
        )
    return [
        Table(["run", *AIMED_AT, f"aim: within {AIM_PERCENT:g} %"], rows),
        Bullets(tuple(items)),
    ]


def _runs_intro() -> list[Block]:
    return [
        Text(
            "Each run has 300 requests, about ten a second for 29 s, and then drains. The simulator gets the time at "
            "which each request was queued in the engine, its prompt's length and its answer's length, and nothing "
            "else of the run. Percentiles are by nearest rank; an error above 0 means that the simulation is longer."
        ),
    ]


def _run(run: RunNumbers) -> list[Block]:
    figures = [
        [f.name, f.unit, number(f.real), number(f.simulated), percent(f.error_percent)] for f in run.figures
    ]  # fmt: skip
    lines = [
        [line.name, *map(number, (line.real_mean, line.simulated_mean, line.mean_difference)),
         *map(number, (line.real_peak, line.simulated_peak))]
        for line in run.over_time
    ]  # fmt: skip
    blocks: list[Block] = [
        Heading(3, run.title),
        Bullets((*run.settings, f"fitted to this run: {run.fitted}")),
        Picture(run_picture_path(run), f"{run.title}: requests, KV, TTFT and TPOT, real and simulated"),
        Table(["figure", "unit", "real", "simulated", "error"], figures),
        Text("Over time, once a second:"),
        Table(["", "mean, real", "simulated", "mean difference", "peak, real", "simulated"], lines),
        Text("Where the errors are, by quarter of the requests in order of arrival (the end is their last token):"),
        _errors_table(run.parts),
        Text("With one thing changed at a time:"),
        _errors_table(run.variants),
    ]
    if run.split is not None:
        blocks += [
            Text("With a step time that saw the first half of the run only, and is judged by the second:"),
            _errors_table((run.split,)),
        ]
    return [*blocks, Bullets(run.notes)]


def _errors_table(errors: Sequence[Errors]) -> Table:
    rows = [[e.label, percent(e.ttft_percent), percent(e.tpot_percent), percent(e.end_percent)] for e in errors]
    return Table(["", "mean TTFT", "mean TPOT", "end"], rows)


def _in_flight(runs: Sequence[RunNumbers]) -> list[Block]:
    text = (resources.files("kvlab.validation") / "in-flight.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    rows = []
    for run in runs:
        for depth, found in document[run.key].items():
            errors = [
                found[name] for name in ("ttft_percent", "tpot_percent", "end_percent", "first_quarter_ttft_percent")
            ]
            rows.append([run.title, depth, *map(percent, errors), f"{found['wait_ms']:.0f} ms"])
    return [
        Heading(3, "What is left, and why"),
        Text(
            "vLLM 0.19 schedules asynchronously: a step is decided when the one before it begins, so who arrives or "
            "ends in between is seen one step later. The simulator decides when the step before has ended. A replay "
            "that has both forms (`python -m fits.halves`; arrivals by the client's clock) gives with one step in "
            "flight the simulator's errors, and with two the runs' waits from admission to the first token:"
        ),
        Table(
            [
                "run",
                "steps in flight",
                "mean TTFT",
                "mean TPOT",
                "makespan",
                "TTFT, first quarter",
                "admission to first token",
            ],
            rows,
        ),
        Bullets(
            (
                "**Start-up.** On the RTX 4090 the first step takes 0.45 s longer than a step of its size "
                "(compilation, the first launch of each kernel). No step time here has that.",
                "**Prompts on two RTX PRO 6000.** While the queue is short, TTFT is a few seconds and comes out 9 % "
                "short: full steps of 2,048 prompt tokens take 0.36 s in the run and 0.35 s in the step time, whose "
                "all-reduce was fitted to decode times. In the mean over the run it hardly shows.",
                "**Whole prompts.** Whether 0.19.0 admits a request only with room for its whole prompt, the recording "
                "doesn't say. With room for the first chunk alone, the 99th percentile from admission to first token "
                "on the RTX 4090 would be 1.8 s; it was 0.6 s, so the whole prompt is taken to be needed. The means "
                "differ by less than half a per cent.",
                "**CUDA graphs.** Batches are padded to the next captured size, sums of kernels are not; that may be "
                "the 1 % by which TPOT is short on the RTX 4090.",
            )
        ),
    ]


def _watermark(table: Watermark) -> list[Block]:
    rows = [
        [f"{row.percent:g} %", f"{row.reported_preemptions:,}", span(row.preemptions),
         f"{sum(row.preemptions) / len(row.preemptions):,.0f}", f"{row.reported_tokens_per_s:,.0f}",
         span(row.tokens_per_s), span(row.ttft_p50_s, 1), span(row.gap_p99_ms, 1), "holds" if holds(row) else "misses"]
        for row in table.rows
    ]  # fmt: skip
    heads = ["watermark", "preemptions, reported", f"range of {len(table.seeds)} seeds", "mean", "tokens/s, reported",
             "range", "TTFT p50 (s)", "ITL p99 (ms)", "verdict"]  # fmt: skip
    return [
        Heading(2, "Watermark and preemptions (U01)"),
        Text(
            "vllm-project/vllm#44594 reports preemptions of Qwen2.5-7B-Instruct on a GB200 for watermarks from 0 to 15 "
            "%. " + table.how
        ),
        Picture(WATERMARK_PICTURE, "Preemptions by watermark: reported, and the range over seeds"),
        Table(heads, rows),
        Text(
            f"A count holds if it lies in the range over seeds or within {NEAR_PERCENT:g} % of it. The report's TTFT "
            "p50 is 6.6, 11.8 and 11.2 s at 0, 2 and 5 %: the first is in the range, the others are not; its ITL p99 "
            "is 40.6, 18.8 and 17.7 ms: the fall comes out, its depth follows from the line we took for step times."
        ),
    ]


def _cases(cases: Sequence[CaseNumbers]) -> list[Block]:
    blocks: list[Block] = [
        Heading(2, "Public cases"),
        Text(
            "Reports of people who run LLM servers, with what a correct tool should show. Where a report leaves a "
            "setting out, it is ours and said so; a case whose step time was fitted to one of its figures proves "
            "nothing about that one."
        ),
        Table(["case", "what it is", "verdict"], [[f"[{c.id}](#{c.id.lower()})", c.title, c.verdict] for c in cases]),
    ]
    for case in cases:
        rows = [
            [check.what, check.expected, check.obtained, check.tolerance, "holds" if check.holds else "**misses**"]
            for check in case.checks
        ]
        blocks += [
            Heading(3, case.id),
            Text(f"{case.title}. Source: {case.source}. {case.how}"),
            Table(["", "expected", "obtained", "tolerance", ""], rows),
        ]
        if case.why:
            blocks.append(Text(f"What misses: {case.why}"))
    return blocks


def _capacity() -> list[Block]:
    tables: list[Block] = []
    for checks, title in (
        (given_kv(), "From the logged KV memory"),
        (from_scratch(), "From model, GPU and settings alone"),
    ):
        compared = [check for check in checks if check.error is not None]
        rows = [[c.model, c.gpu, c.version, *_logged(c), "yes" if c.fitted else ""] for c in compared]
        apart = [f"{c.model} on {c.gpu}: {c.why}" for c in checks if c.error is None]
        tables += [Text(f"{title}:"), Table(["model", "GPU", "engine", "logged", "computed", "error", "fitted"], rows)]
        if apart:
            tables.append(Text("Not compared: " + "; ".join(apart) + "."))
    return [
        Heading(2, "KV capacity"),
        Text(
            "Capacities that engines logged against `kvlab capacity`; [capacity.md](capacity.md) has the rules. Where "
            '"fitted" says yes, a constant was fitted to that very log.'
        ),
        *tables,
    ]


def _logged(check: Check) -> list[str]:
    assert check.logged is not None, "nothing to compare"
    assert check.computed is not None, "nothing to compare"
    assert check.error is not None, "nothing to compare"
    shown = [f"{n:,}" if check.unit == "tokens" else f"{n / GIB:.2f} GiB" for n in (check.logged, check.computed)]
    return [*shown, percent(float(check.error * 100))]


def _step_times() -> list[Block]:
    rows = [
        [f"`{found.name}`", name, f"{errors.points:,}", f"{errors.mean_percent:g} %", f"{errors.p95_percent:g} %",
         percent(errors.bias_percent)]
        for found in profiles().values()
        for name, errors in found.errors.items()
    ]  # fmt: skip
    return [
        Heading(2, "Step times"),
        Text(
            'Errors of every fitted profile on measurements that its fit has not seen, unless the name says "fitted"; '
            "[step-time.md](step-time.md) has laws, ranges and sources."
        ),
        Table(["profile", "what is predicted", "points", "mean error", "p95", "bias"], rows),
    ]


def _sources() -> list[Block]:
    return [
        Heading(2, "Sources"),
        Bullets(
            (
                "Real runs and kernel times of the RTX 4090 and RTX PRO 6000: casys-kaist/LLMServingSim, "
                "bench/examples and profiler/perf (5daddb2). MIT; Copyright (c) 2024, CASYS Lab at KAIST.",
                "Operator times: microsoft/vidur (7d47513), MIT; Copyright (c) Microsoft Corporation. "
                "Mutinifni/splitwise-sim (8f99e7d), MIT; Copyright (c) 2024 Pratyush Patel. ai-dynamo/aiconfigurator "
                "(095f58a), Apache License 2.0.",
                "Logged capacities: facts, each with its source in `kvlab/sizing/tables/kv_capacity_facts.csv`.",
                "Cases: public reports, in our own words, each with its source above.",
            )
        ),
        Text(
            "The MIT permission notice and the Apache License 2.0 apply to the data, which is not in this repository: "
            "this page and the package hold coefficients, errors, means and pictures computed from it."
        ),
    ]


def number(value: float) -> str:
    """Four significant digits."""
    return f"{float(f'{value:.4g}'):,}".removesuffix(".0")


def percent(value: float) -> str:
    """Signed, with one digit after the point."""
    return f"{value:+.1f} %".replace("-0.0 %", "0.0 %").replace("+0.0 %", "0.0 %")


def share(value: Fraction) -> str:
    """Of 1, as per cent."""
    return f"{float(100 * value):.1f} %"


def span(values: Sequence[float], digits: int = 0) -> str:
    """Smallest to largest; one number if they look the same."""
    low, high = (f"{end:,.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
