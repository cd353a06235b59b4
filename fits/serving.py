"""Step times of vLLM 0.19 on an RTX 4090 and two RTX PRO 6000, from their kernels and, for the pair, one real run.

Kernel times say what one GPU does. What they leave out is the host's share and, on two GPUs, the all-reduces; with
async scheduling the host works while the GPU does, and the run on one GPU needs nothing added. The run on two GPUs
tells three more coefficients: a base of decode steps, and the all-reduce of a token in decode and in mixed steps.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from fits.data import need, rows
from fits.kernels import Kernels
from fits.replay import Arrival, Engine, Replay, replay
from fits.write import write
from kvlab.core.step_time import KneeStepTime, StepLoad, StepTime, chunk_pairs
from kvlab.step_time.fit import Floats, errors_of, fit_relative
from kvlab.step_time.laws import fit_decode, fit_mixed_knee, predicted_ns
from kvlab.step_time.profiles import Errors, Profile, Provenance

NS_PER_US = 1_000
LICENCE = "MIT; Copyright (c) 2024, CASYS Lab at KAIST"
ATTRIBUTION = "casys-kaist/LLMServingSim, profiler/perf and bench/examples (5daddb2)"
ONE_CHUNK = ("num_prefills",)
"""Kernels were timed with one chunk a step: what a further one costs isn't known."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One model on one kind of GPU, and the run of it, if there is one."""

    name: str
    gpu: str
    model: str
    tp: int
    layers: int
    kernels: str
    kv_tokens: int
    """About what fits: loads beyond it can't happen."""
    run: str | None = None
    engine: Engine | None = None


CASES = (
    Case(
        name="rtx-4090-llama-3.1-8b", gpu="RTX-4090-24GB", model="meta-llama/Llama-3.1-8B", tp=1, layers=32,
        kernels="RTX4090_Llama-3.1-8B_tp1", kv_tokens=41_408, run="RTX4090_Llama-3.1-8B",
        engine=Engine(num_gpu_blocks=2588, max_num_seqs=256),
    ),
    Case(
        name="rtx-pro-6000-llama-3.1-8b", gpu="RTX-PRO-6000-96GB", model="meta-llama/Llama-3.1-8B", tp=1, layers=32,
        kernels="RTXPRO6000_Llama-3.1-8B_tp1", kv_tokens=500_000,
    ),
    Case(
        name="rtx-pro-6000-x2-qwen3-32b", gpu="RTX-PRO-6000-96GB", model="Qwen/Qwen3-32B", tp=2, layers=64,
        kernels="RTXPRO6000_Qwen3-32B_tp2", kv_tokens=400_000, run="RTXPRO6000_Qwen3-32B",
        engine=Engine(num_gpu_blocks=30_000, max_num_seqs=128),
    ),
)  # fmt: skip


def main() -> None:
    """Writes the profiles of all cases."""
    need(*(f"perf/llmservingsim_profile/{case.kernels}/attention.csv" for case in CASES))
    need(*(f"runs/{case.run}/requests.csv" for case in CASES if case.run))
    for case in CASES:
        write(fit(case))


def fit(case: Case) -> Profile:
    """The profile of one case."""
    train, test = decodes(case, 1), decodes(case, 2)
    mixed_train, mixed_test = mixed(case, 1), mixed(case, 2)
    step_time = KneeStepTime(
        decode=(fit_decode(train, kernel_ns(case, train)),),
        mixed=fit_mixed_knee(mixed_train, kernel_ns(case, mixed_train), ONE_CHUNK, num_laws=3),
    )
    errors = {
        "kernel sums, decode steps": errors_of(predicted_ns(step_time, test), kernel_ns(case, test)),
        "kernel sums, mixed steps": errors_of(predicted_ns(step_time, mixed_test), kernel_ns(case, mixed_test)),
    }
    fitted_on = "sums of measured kernel times of 3,000 random steps that only decode and 3,000 mixed ones"
    held_out_on = "as many other random steps"
    if case.run is not None:
        if case.tp > 1:
            step_time = with_collectives(case, step_time)
            fitted_on += (
                "; base of decode steps and all-reduce per token from the 84 requests of the run that end in its first"
                " 40 % or last 10 %"
            )
        run_errors, totals = judge(case, step_time)
        errors |= run_errors
        held_out_on += f"; the {'other requests of the run' if case.tp > 1 else 'whole run'}. Replayed: {totals}"
    return Profile(
        name=case.name,
        gpu=case.gpu,
        model=case.model,
        tp=case.tp,
        engine="vLLM",
        engine_version="0.19.0",
        measured_in=2026,
        step_time=step_time,
        range=range_of([*train, *mixed_train]),
        errors=errors,
        provenance=Provenance(
            measured="kernel times of one GPU, vLLM 0.19.0, eager, bf16" + ("; one real run" if case.run else ""),
            fitted_on=fitted_on,
            held_out_on=held_out_on,
            licence=LICENCE,
            attribution=ATTRIBUTION,
        ),
    )


@cache
def kernels_of(case: Case) -> Kernels:
    """The tables of a case, read once."""
    return Kernels.read(case.kernels, case.layers)


def kernel_ns(case: Case, loads: list[StepLoad]) -> Floats:
    """Sums of measured kernel times."""
    kernels = kernels_of(case)
    return np.array(
        [
            NS_PER_US
            * (
                kernels.mixed_us(load)
                if load.prefill_tokens
                else kernels.decode_us(load.num_decodes, load.decode_context)
            )
            for load in loads
        ]
    )


def decodes(case: Case, seed: int, count: int = 3_000) -> list[StepLoad]:
    """Random steps that only decode: up to 256 sequences, contexts of up to 8,192, as far as the KV holds them."""
    rng = random.Random(f"decodes {seed}")
    found = decode_edges(case.kv_tokens)
    while len(found) < count:
        n, context = _log_uniform(rng, 1, 256), _log_uniform(rng, 64, 8_192)
        if n * context <= case.kv_tokens:
            found.append(StepLoad(n, n, n * context, 0, 0, 0, 0))
    return found


def decode_edges(kv_tokens: int) -> list[StepLoad]:
    """The largest batch, and 32 sequences that fill the KV: a server's steps come up to both."""
    return [StepLoad(256, 256, 256 * 64, 0, 0, 0, 0), StepLoad(32, 32, kv_tokens, 0, 0, 0, 0)]


def mixed(case: Case, seed: int, count: int = 3_000, budget: int = 2_048) -> list[StepLoad]:
    """Random steps with one chunk in a token budget, half of them at the start of a prompt."""
    rng = random.Random(f"mixed {seed}")
    found = [StepLoad(1, 0, 0, budget, 0, chunk_pairs(budget, 0), 1)]  # the largest of a server's steps
    while len(found) < count:
        n = 0 if rng.random() < 0.1 else _log_uniform(rng, 1, 128)
        context = _log_uniform(rng, 64, 8_192)
        chunk = _log_uniform(rng, 1, budget - n) if rng.random() < 0.5 else rng.randint(1, budget - n)
        before = 0 if rng.random() < 0.5 else _log_uniform(rng, 16, 8_192)
        if n * context + before + chunk <= case.kv_tokens:
            found.append(StepLoad(n + 1, n, n * context, chunk, before, chunk_pairs(chunk, before), 1))
    return found


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(float(low * (high / low) ** rng.random()))


def range_of(loads: list[StepLoad]) -> dict[str, tuple[int, int]]:
    """Smallest and largest of each figure; how many run or prefill at once was not varied by itself."""
    names = ("num_decodes", "decode_context", "prefill_tokens", "prefill_context", "chunk_context")
    return {
        name: (min(getattr(load, name) for load in loads), max(getattr(load, name) for load in loads)) for name in names
    }


@dataclass(frozen=True)
class Run:
    """A real run: columns of its requests, times in seconds since the first request."""

    arrivals: list[Arrival]
    arrival: Floats
    first: Floats
    last: Floats
    outputs: Floats

    @classmethod
    def read(cls, name: str) -> Run:
        """From the data."""
        found = list(rows(f"runs/{name}/requests.csv"))
        column = {key: np.array([float(row[key]) for row in found]) for key in found[0]}
        arrivals = [
            Arrival(round(float(row["arrival_s"]) * 1e9), int(row["prompt_tokens"]), int(row["output_tokens"]))
            for row in found
        ]
        return cls(
            arrivals, column["arrival_s"], column["first_token_s"], column["last_token_s"], column["output_tokens"]
        )

    @property
    def fitted(self) -> npt.NDArray[np.bool_]:
        """Requests that coefficients may be fitted to: those that end in the first 40 % or the last 10 % of the run."""
        share = self.last / self.last.max()
        chosen: npt.NDArray[np.bool_] = (share < 0.4) | (share > 0.9)
        return chosen


def with_collectives(
    case: Case, step_time: KneeStepTime, rounds: int = 4, chosen: npt.NDArray[np.bool_] | None = None
) -> KneeStepTime:
    """Adds what the run shows beyond the kernels of one GPU: three coefficients, in a few rounds of replay and fit.

    A request's decode time is the sum of the steps from its first token to its last. The replay says which steps those
    are; what they lack is a base per decode step, and a share per token of decode steps and of mixed ones.

    Args:
        chosen: the requests to fit to; None for those of `Run.fitted`.
    """
    assert case.run is not None
    assert case.engine is not None
    run = Run.read(case.run)
    if chosen is None:
        chosen = run.fitted
    added = step_time
    for _ in range(rounds):
        done = replay(run.arrivals, case.engine, added)
        figures = np.array(
            [
                (predicted, *((0, 0, tokens) if step.load.prefill_tokens else (1, tokens, 0)))
                for step, predicted in zip(
                    done.steps, predicted_ns(step_time, [step.load for step in done.steps]), strict=True
                )
                for tokens in [step.load.num_decodes + step.load.prefill_tokens]
            ]
        )
        sums = between(done, figures)[chosen]
        measured = 1e9 * (run.last - run.first)[chosen]
        base, per_decode, per_token = (round(1e3 * x) for x in fit_relative(sums[:, 1:], measured - sums[:, 0]))
        (law,) = step_time.decode
        added = KneeStepTime(
            decode=(replace(law, base_ps=law.base_ps + base, per_seq_ps=law.per_seq_ps + per_decode),),
            mixed=tuple(
                replace(
                    law,
                    per_decode_ps=law.per_decode_ps + per_token,
                    per_prefill_token_ps=law.per_prefill_token_ps + per_token,
                )
                for law in step_time.mixed
            ),
        )
    return added


def between(done: Replay, figures: Floats) -> Floats:
    """Figures of steps, summed for each request over those after its first token, up to its last."""
    ends = np.array([step.end_ns for step in done.steps])
    sums = np.vstack([np.zeros(figures.shape[1]), np.cumsum(figures, axis=0)])
    first, last = (np.searchsorted(ends, times) + 1 for times in (done.first_ns, done.last_ns))
    difference: Floats = sums[last] - sums[first]
    return difference


def judge(case: Case, step_time: StepTime) -> tuple[dict[str, Errors], str]:
    """How far a replay of the run is off: decode times of requests not fitted to, and the run's means in words."""
    assert case.run is not None
    assert case.engine is not None
    run = Run.read(case.run)
    done = replay(run.arrivals, case.engine, step_time)
    first, last = np.array(done.first_ns) / 1e9, np.array(done.last_ns) / 1e9
    chosen = ~run.fitted if case.tp > 1 else np.ones(len(first), dtype=bool)
    errors = errors_of((last - first)[chosen], (run.last - run.first)[chosen])
    pairs = {
        "mean TTFT": ((first - run.arrival).mean(), (run.first - run.arrival).mean()),
        "mean TPOT": (
            ((last - first) / (run.outputs - 1)).mean(),
            ((run.last - run.first) / (run.outputs - 1)).mean(),
        ),
        "makespan": (last.max(), run.last.max()),
    }
    words = ", ".join(f"{name} {100 * (ours / theirs - 1):+.1f} %" for name, (ours, theirs) in pairs.items())
    return {"real run, decode time of a request": errors}, words


if __name__ == "__main__":
    main()
