"""Llama-2-70B on A100 and H100 as Splitwise measured whole steps in 2023: two affine laws each.

A step is either some prompts of one length or the tokens of as many sequences. The engine was that year's, and its
decode steps of 30 to 60 ms are mostly host time: use these to reproduce that paper, not to plan a server of today.
TP 2 with 64 prompts is left out: its prompt time is a ninth of that of 32.
"""

from __future__ import annotations

import numpy as np

from fits.data import need, rows
from fits.serving import range_of
from fits.write import write
from kvlab.core.step_time import StepLoad, TwoLawStepTime, chunk_pairs
from kvlab.step_time.fit import FOLDS, Floats, held_out
from kvlab.step_time.laws import DECODE_FIGURES, MIXED_FIGURES, columns, fit_decode, fit_mixed
from kvlab.step_time.profiles import Profile, Provenance

TABLE = "perf/splitwise_llama2-70b.csv"
GPUS = {"a100-80gb": "A100-SXM-80GB", "h100-80gb": "H100-SXM-80GB"}
PURE_PREFILL = ("num_decodes", "decode_context", "prefill_context")
"""What no measured step has."""


def main() -> None:
    """Writes six profiles."""
    need(TABLE)
    for gpu in GPUS:
        for tp in (2, 4, 8):
            write(fit(gpu, tp))


def fit(gpu: str, tp: int) -> Profile:
    """The profile of one kind of GPU at one tensor parallelism."""
    decodes, decode_ns, prompts, prompt_ns = measurements(gpu, tp)
    return Profile(
        name=f"{gpu.partition('-')[0]}-x{tp}-llama-2-70b-splitwise",
        gpu=GPUS[gpu],
        model="meta-llama/Llama-2-70b-hf",
        tp=tp,
        engine="vLLM and HuggingFace, by Splitwise",
        engine_version="2023",
        measured_in=2023,
        step_time=TwoLawStepTime(
            decode=fit_decode(decodes, decode_ns), mixed=fit_mixed(prompts, prompt_ns, PURE_PREFILL)
        ),
        range=range_of([*decodes, *prompts]),
        errors={
            "decode steps": held_out(columns(decodes, DECODE_FIGURES), decode_ns),
            "prompt steps": held_out(columns(prompts, MIXED_FIGURES, PURE_PREFILL), prompt_ns),
        },
        provenance=Provenance(
            measured="prompt and token times of whole steps, one factor at a time around prompt 512, batch 1",
            fitted_on="medians of about five repeats",
            held_out_on=f"sizes in turns, {FOLDS} folds",
            licence="MIT; Copyright (c) 2024 Pratyush Patel",
            attribution="Mutinifni/splitwise-sim data/perf_model.csv (8f99e7d)",
        ),
    )


def measurements(gpu: str, tp: int) -> tuple[list[StepLoad], Floats, list[StepLoad], Floats]:
    """Loads and median ns of steps that only decode, and of steps of prompts."""
    tokens: dict[StepLoad, list[float]] = {}
    prompts: dict[StepLoad, list[float]] = {}
    for row in rows(TABLE):
        size, batch, output = (int(row[name]) for name in ("prompt_size", "batch_size", "token_size"))
        if (row["hardware"], row["tensor_parallel"]) != (gpu, str(tp)) or (tp, batch) == (2, 64):
            continue
        decode = StepLoad(batch, batch, batch * (size + output // 2), 0, 0, 0, 0)
        prompt = StepLoad(batch, 0, 0, batch * size, 0, batch * chunk_pairs(size, 0), batch)
        tokens.setdefault(decode, []).append(1e6 * float(row["token_time"]))
        prompts.setdefault(prompt, []).append(1e6 * float(row["prompt_time"]))
    return list(tokens), _medians(tokens), list(prompts), _medians(prompts)


def _medians(found: dict[StepLoad, list[float]]) -> Floats:
    return np.array([float(np.median(times)) for times in found.values()])


if __name__ == "__main__":
    main()
