"""A profile from a user's own measurements, with what the measurements can't tell.

Step logs have the duration of each step: two affine laws, each fitted to its sort of step.

Results of `vllm bench serve` have means only. In a steady state with c requests at a time, prompts of P and answers of
O tokens, three things are known of the laws d (a step that only decodes) and x (a prefill token):

    median ITL = d(c, c x (P + O/2))                              where most steps only decode
    mean TPOT  = d(c, c x (P + O/2)) + x P (c - 1) / O            the prompts of the others come in between
    mean TTFT  = d(1, P) + x P                                    of one request at a time, which doesn't queue
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kvlab.core.step_time import AnyStepTime, DecodeLaw, KneeStepTime, MixedLaw, StepLoad, TwoLawStepTime
from kvlab.errors import ConfigError
from kvlab.step_time.fit import FOLDS, Fitter, Floats, errors_of, fit_knee, fit_relative, held_out, indistinct
from kvlab.step_time.laws import DECODE_FIGURES, MIXED_FIGURES, columns, decode_law, mixed_law, whole_ps
from kvlab.step_time.measurements import BenchResult, MeasuredStep, StepLog
from kvlab.step_time.profiles import FIGURES, Errors, Profile, Provenance

KINDS: Final = ("two-law", "knee")
_MOSTLY_DECODES: Final = 0.4
"""Largest share of steps with a prompt up to which the median gap is one of a step that only decodes."""
_CHUNK: Final = 2_048
"""Tokens of a step that a prompt is cut into, where the result doesn't say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the measurements were made of, as the user says."""

    name: str
    gpu: str = "unknown"
    model: str = "unknown"
    tp: int = 1
    engine: str = "vLLM"
    engine_version: str = "unknown"
    measured_in: int = 2000


@dataclass(frozen=True, slots=True)
class Calibration:
    """A profile, and what a reader must know about it."""

    profile: Profile
    num_decode_steps: int
    num_mixed_steps: int
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]


def calibrate(measurements: Sequence[StepLog | BenchResult], about: About, kind: str = "two-law") -> Calibration:
    """Fits a profile to step logs, or to benchmark results.

    Raises:
        ConfigError: both kinds of file at once, or too few measurements.
    """
    logs = [item for item in measurements if isinstance(item, StepLog)]
    results = [item for item in measurements if isinstance(item, BenchResult)]
    if logs and results:
        raise ConfigError("files", results[0].path, "step logs and benchmark results can't be fitted together")
    return _from_steps(logs, about, kind) if logs else _from_results(results, about)


def _from_steps(logs: Sequence[StepLog], about: About, kind: str) -> Calibration:
    steps = [step for log in logs for step in log.steps]
    decodes = [step for step in steps if step.load.prefill_tokens == 0]
    mixed = [step for step in steps if step.load.prefill_tokens > 0]
    absent = {name for log in logs for name in MIXED_FIGURES[1:] if name not in log.columns}
    without = tuple(name for name in MIXED_FIGURES if name in absent & {"num_prefills", "prefill_context"})
    warnings: list[str] = []
    errors: dict[str, Errors] = {}
    decode = decode_law(_fit(decodes, DECODE_FIGURES, (), fit_relative, "decode steps", warnings, errors)[0])
    laws = [_as_mixed(decode)]
    if mixed:
        fitter = partial(fit_knee, by=MIXED_FIGURES.index("prefill_tokens")) if kind == "knee" else fit_relative
        laws = [mixed_law(row) for row in _fit(mixed, MIXED_FIGURES, without, fitter, "mixed steps", warnings, errors)]
    else:
        warnings.append("no step has prefill tokens: a prompt costs nothing in this profile")
    step_time: AnyStepTime = TwoLawStepTime(decode=decode, mixed=laws[0])
    if kind == "knee":
        step_time = KneeStepTime(decode=(decode,), mixed=tuple(laws))
    assumptions = ["the chunks of a step are alike"] if mixed and "chunk_context" in absent else []
    if mixed and without:
        assumptions.append(f"{' and '.join(without)} cost nothing: the log has no such column")
    profile = Profile(
        **_labels(about),
        step_time=step_time,
        range=_range([step.load for step in steps]),
        errors=errors,
        provenance=_provenance(
            "durations of single steps",
            f"{len(decodes):,} decode-only and {len(mixed):,} mixed steps",
            f"each step, by a fit to the others: {FOLDS} folds, steps in turns",
        ),
    )
    return Calibration(profile, len(decodes), len(mixed), tuple(assumptions), tuple(warnings))


def _fit(
    steps: Sequence[MeasuredStep],
    figures: Sequence[str],
    without: Sequence[str],
    fitter: Fitter,
    label: str,
    warnings: list[str],
    errors: dict[str, Errors],
) -> Floats:
    """Coefficients, a row per law; what can't be told goes to `warnings`, the held-out error to `errors`."""
    matrix = columns([step.load for step in steps], figures, without)
    told = [number for number in range(len(figures)) if matrix[:, number].any()]
    if len(steps) < max(2, len(told)):
        raise ConfigError(
            label, len(steps), f"at least {max(2, len(told))} are needed for {max(2, len(told))} coefficients"
        )
    measured = np.array([float(step.duration_ns) for step in steps])
    vague = [figures[number] for number in indistinct(matrix[:, told], measured) for number in (told[number],)]
    if vague:
        names = ", ".join("the base" if name == "one" else name for name in vague)
        warnings.append(
            f"{label}: {names} can't be told apart: they grow together in these steps. Their sum is right where the"
            " load is alike, each by itself may not be. Measure steps in which they differ"
        )
    for name in figures:
        if name != "one" and name not in without and not columns([step.load for step in steps], (name,)).any():
            warnings.append(f"{label}: {name} is 0 in every step: it costs nothing in this profile")
    if len(steps) >= 2 * len(told) and len(steps) >= FOLDS:
        errors[label] = held_out(matrix, measured, fitter)
    else:
        warnings.append(f"{label}: {len(steps)} are too few to hold some out: the error is unknown")
    return np.atleast_2d(fitter(matrix, measured))


def _as_mixed(decode: DecodeLaw) -> MixedLaw:
    return MixedLaw(
        base_ps=decode.base_ps,
        per_decode_ps=decode.per_seq_ps,
        per_decode_context_token_ps=decode.per_context_token_ps,
    )


def _from_results(results: Sequence[BenchResult], about: About) -> Calibration:
    """See the formulas at the top of this module: base, sequence, context token, prefill token."""
    if len({result.concurrency for result in results}) < 2:
        raise ConfigError("files", len(results), "benchmark results of at least 2 concurrencies are needed")
    warnings: list[str] = []
    rows: list[tuple[float, float, float, float]] = []
    measured: list[float] = []
    owner: list[int] = []
    for number, result in enumerate(results):
        for row, ns in _equations(result):
            rows.append(row)
            measured.append(ns)
            owner.append(number)
    matrix, target = np.array(rows), np.array(measured)
    if len({round(result.prompt_tokens + result.output_tokens / 2, -1) for result in results}) < 2:
        matrix[:, 2] = 0.0
        warnings.append(
            "all runs have prompts and answers of one length: a sequence and its context can't be told apart, and the"
            " coefficient per sequence holds for this length only. Add runs with longer prompts"
        )
    if not matrix[:, 3].any():
        raise ConfigError("files", len(results), "nothing is known of prefill: add a run, such as one of concurrency 1")
    base, per_seq, per_context, per_token = fit_relative(matrix, target)
    vague = [_BENCH_NAMES[number] for number in indistinct(matrix, target) if matrix[:, number].any()]
    if vague:
        warnings.append(f"{', '.join(vague)} can't be told apart in these runs; add other concurrencies or lengths")
    errors: dict[str, Errors] = {}
    if len(results) > 2:
        errors["latencies of a run"] = _without_each(matrix, target, np.array(owner))
    else:
        warnings.append("2 runs are too few to hold one out: the error is unknown")
    decode = decode_law(np.array([base, per_seq, per_context]))
    profile = Profile(
        **_labels(about),
        step_time=TwoLawStepTime(decode=decode, mixed=_with_prefill(decode, per_token)),
        range=_bench_range(results),
        errors=errors,
        provenance=_provenance(
            f"means of {len(results)} runs of vllm bench serve",
            "median ITL, mean TPOT, and mean TTFT of one request at a time",
            "each run, by a fit to the others",
        ),
    )
    assumptions = (
        "each run is in a steady state, with as many requests all the time",
        "a step with prompts lasts as long as its decodes and a share per prefill token: base and context of chunks"
        " aren't in these files",
    )
    return Calibration(profile, 0, 0, assumptions, tuple(warnings))


_BENCH_NAMES: Final = ("the base", "sequences", "context", "prefill tokens")


def _equations(result: BenchResult) -> list[tuple[tuple[float, float, float, float], float]]:
    """What one result says: (weights of base, sequence, context token, prefill token), ns."""
    users, prompt, output = float(result.concurrency), float(result.prompt_tokens), float(result.output_tokens)
    context = users * (prompt + output / 2)
    found = [((1.0, users, context, prompt * max(0.0, users - 1) / output), float(result.tpot_ns))]
    if result.itl_p50_ns is not None and max(1.0, prompt / _CHUNK) * users / output <= _MOSTLY_DECODES:
        found.append(((1.0, users, context, 0.0), float(result.itl_p50_ns)))
    if users == 1:
        found.append(((1.0, 0.0, 0.0, prompt), float(result.ttft_ns)))
    return found


def _with_prefill(decode: DecodeLaw, per_token_ns: float) -> MixedLaw:
    return MixedLaw(
        base_ps=decode.base_ps,
        per_decode_ps=decode.per_seq_ps,
        per_decode_context_token_ps=decode.per_context_token_ps,
        per_prefill_token_ps=whole_ps(np.array([per_token_ns]))[0],
    )


def _without_each(matrix: Floats, target: Floats, owner: npt.NDArray[np.int64]) -> Errors:
    predicted = np.zeros(len(target))
    for number in range(int(owner.max()) + 1):
        chosen = owner == number
        predicted[chosen] = matrix[chosen] @ fit_relative(matrix[~chosen], target[~chosen])
    return errors_of(predicted, target)


def _bench_range(results: Sequence[BenchResult]) -> dict[str, tuple[int, int]]:
    users = [round(result.concurrency) for result in results]
    contexts = [round(r.concurrency * (r.prompt_tokens + r.output_tokens / 2)) for r in results]
    return {"num_decodes": (min(users), max(users)), "decode_context": (min(contexts), max(contexts))}


def _range(loads: Sequence[StepLoad]) -> dict[str, tuple[int, int]]:
    return {
        name: (min(values), max(values))
        for name in FIGURES
        if name != "num_running" and any(values := [getattr(load, name) for load in loads])
    }


def _labels(about: About) -> dict[str, Any]:
    return {item.name: getattr(about, item.name) for item in fields(about)}


def _provenance(measured: str, fitted_on: str, held_out_on: str) -> Provenance:
    return Provenance(
        measured=measured,
        fitted_on=fitted_on,
        held_out_on=held_out_on,
        licence="the user's own",
        attribution="kvlab calibrate",
    )
