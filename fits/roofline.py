"""What share of its peak rates each kind of GPU reaches: the constants of the roofline, and how far it is off.

Four shares of a GPU, each a median over large operators: arithmetic of matrices (1,024 tokens or more), reading them
(up to 16 tokens), arithmetic of prompts' attention and reading of KV by decodes'. All-reduces: a straight line through
16 KiB to 64 MiB. What a layer takes beyond those, its small operators and what isn't at its peak, is one time per
layer: the median of what the decode steps of one fitted profile last longer.

The roofline is then tried on the other fitted profiles of that GPU, or on the same where there is no other, and its
errors are kept with it. A GPU that isn't here gets the medians of those that are, and the band that leaving out one
GPU in turn gives.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fits.data import PROFILES, need, rows
from fits.kernels import Kernels
from fits.shapes import Rates, Shape
from kvlab.core.step_time import AnyStepTime, RooflineStepTime, StepLoad, chunk_pairs
from kvlab.step_time.fit import errors_of, fit_relative
from kvlab.step_time.laws import predicted_ns
from kvlab.step_time.profiles import Profile, read_profile
from kvlab.step_time.roofline import Efficiency, ModelFigures, roofline_step_time

OUT = PROFILES.parent / "efficiencies.json"
AICONFIGURATOR = {
    "A100-SXM-80GB": ("a100", "a100_sxm_vllm0.14.0"),
    "H100-SXM-80GB": ("h100", "h100_sxm_vllm0.19.0"),
}
KERNELS = {
    "RTX-4090-24GB": ("RTX4090_Llama-3.1-8B_tp1", "meta-llama/Llama-3.1-8B", 1),
    "RTX-PRO-6000-96GB": ("RTXPRO6000_Llama-3.1-8B_tp1", "meta-llama/Llama-3.1-8B", 1),
}
NVLINK = {"a100": "a100_dgx", "h100": "h100_dgx"}
TRAINED_ON = {
    "A100-SXM-80GB": "a100-llama-3.1-8b",
    "H100-SXM-80GB": "h100-x4-qwen3-32b",
    "RTX-4090-24GB": "rtx-4090-llama-3.1-8b",
    "RTX-PRO-6000-96GB": "rtx-pro-6000-llama-3.1-8b",
}
"""GPU -> the profile whose steps tell what a layer takes beyond its matrices and attention."""


def main() -> None:
    """Writes the constants of every GPU, and of one that isn't known."""
    need("gpus.csv", "model_architectures.csv", "perf/vidur_collectives.csv")
    need(*(f"perf/gemm_ops/{name}_bf16.csv" for _, name in AICONFIGURATOR.values()))
    need(*(f"perf/llmservingsim_profile/{name}/dense.csv" for name, _, _ in KERNELS.values()))
    shares = {gpu: from_operators(gpu) for gpu in AICONFIGURATOR} | {gpu: from_kernels(gpu) for gpu in KERNELS}
    found = {gpu: replace(efficiency, per_layer_ns=layer_ns(gpu, efficiency)) for gpu, efficiency in shares.items()}
    assumed = middle(found.values())
    judged = {gpu: with_errors(gpu, efficiency) for gpu, efficiency in found.items()}
    band = max(leave_out(gpu, found) for gpu in found)
    document = {
        "gpus": {gpu: efficiency.to_dict() for gpu, efficiency in judged.items()},
        "unknown": assumed.to_dict(),
        "unknown_band_percent": band,
        "attribution": "ai-dynamo/aiconfigurator systems/data (095f58a), Apache-2.0; microsoft/vidur data/profiling"
        " (7d47513), MIT, Copyright (c) Microsoft Corporation; casys-kaist/LLMServingSim profiler/perf (5daddb2), MIT,"
        " Copyright (c) 2024, CASYS Lab at KAIST",
    }
    OUT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for gpu, efficiency in judged.items():
        print(gpu, efficiency)
    print("unknown", assumed, "band", band)


def from_operators(gpu: str) -> Efficiency:
    """From tables of operators by size."""
    short, name = AICONFIGURATOR[gpu]
    rates = Rates.read(gpu)
    compute, memory = [], []
    for row in rows(f"perf/gemm_ops/{name}_bf16.csv"):
        m, n, k = (int(row[key]) for key in "mnk")
        seconds = float(row["latency_ms"]) / 1e3
        if n * k >= 16e6 and m >= 1_024:
            compute.append(2 * m * n * k / seconds / rates.flops)
        if n * k >= 16e6 and m <= 16:
            memory.append(2 * n * k / seconds / rates.bytes_per_s)
    reading, arithmetic = [], []
    for row in rows(f"perf/attention_ops/{name}_generation_bf16.csv"):
        count = int(row["batch_size"]) * (int(row["isl"]) + int(row["step"]))
        if count >= 65_536 and row["num_key_value_heads"] == "8" and row["num_heads"] in ("32", "64"):
            moved = count * 4 * int(row["num_key_value_heads"]) * int(row["head_dim"])
            reading.append(moved / (float(row["latency_ms"]) / 1e3) / rates.bytes_per_s)
    for row in rows(f"perf/attention_ops/{name}_context_bf16.csv"):
        isl, batch = int(row["isl"]), int(row["batch_size"])
        if 1_024 <= isl <= 8_192 and row["num_key_value_heads"] == "8" and row["num_heads"] in ("32", "64"):
            flops = 4 * int(row["num_heads"]) * int(row["head_dim"]) * batch * chunk_pairs(isl, 0)
            arithmetic.append(flops / (float(row["latency_ms"]) / 1e3) / rates.flops)
    latency, rate = collective(NVLINK[short])
    return Efficiency(
        gemm_compute_permille=_permille(compute),
        gemm_memory_permille=_permille(memory),
        attention_compute_permille=_permille(arithmetic),
        attention_memory_permille=_permille(reading),
        per_layer_ns=0,
        collective_ns=latency,
        collective_bytes_per_s=rate,
    )


def from_kernels(gpu: str) -> Efficiency:
    """From the kernels of one model."""
    folder, model, tp = KERNELS[gpu]
    rates, shape = Rates.read(gpu), Shape.read(model)
    kernels = Kernels.read(folder, shape.layers)
    matrices = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")

    def gemms_s(tokens: int) -> float:
        return sum(float(np.interp(tokens, *kernels.dense[name])) for name in matrices) / 1e6

    per_layer = shape.layer_params / shape.layers / tp
    compute = [2 * per_layer * m / gemms_s(m) / rates.flops for m in (1_024, 1_536, 2_048)]
    memory = [2 * per_layer / gemms_s(m) / rates.bytes_per_s for m in (1, 2, 4, 8, 16)]
    kv_bytes = shape.kv_bytes_per_token / shape.layers / tp
    reading = [
        n * context * kv_bytes / (us / 1e6) / rates.bytes_per_s
        for (n, context), us in kernels.decode.items()
        if n * context >= 32_768
    ]
    arithmetic = [
        4 * shape.attention_width / tp * chunk_pairs(chunk, before) / (us / 1e6) / rates.flops
        for (chunk, before), us in kernels.prefill.items()
        if chunk >= 512 and before <= 2_048
    ]
    return Efficiency(
        gemm_compute_permille=_permille(compute),
        gemm_memory_permille=_permille(memory),
        attention_compute_permille=_permille(arithmetic),
        attention_memory_permille=_permille(reading),
        per_layer_ns=0,
        collective_ns=20_000,
        collective_bytes_per_s=16 * 10**9,  # over PCIe: what the run on two RTX PRO 6000 shows per token
    )


def collective(topology: str) -> tuple[int, int]:
    """Latency in ns and bytes/s of an all-reduce inside a server: the line with the least relative errors."""
    sizes, times = [], []
    for row in rows("perf/vidur_collectives.csv"):
        inside = row["topology"] == topology and row["num_workers"] == row["devices_per_node"]
        if inside and 2**14 <= int(row["size"]) <= 2**26:
            sizes.append(int(row["size"]))
            times.append(1e6 * float(row["median_ms"]))
    latency, per_byte = fit_relative(np.column_stack([np.ones(len(sizes)), sizes]), np.array(times))
    return round(float(latency)), round(1e9 / float(per_byte))


def _permille(shares: Iterable[float]) -> int:
    return min(1_000, round(1_000 * float(np.median(list(shares)))))


def middle(efficiencies: Iterable[Efficiency]) -> Efficiency:
    """The median of each constant; of all-reduces the slowest, as links differ most."""
    known = list(efficiencies)
    constants: dict[str, Any] = {
        name: round(float(np.median([getattr(item, name) for item in known])))
        for name in Efficiency.CONSTANTS
        if not name.startswith("collective")
    }
    slowest = min(known, key=lambda item: item.collective_bytes_per_s)
    return replace(
        known[0],
        **constants,
        collective_ns=slowest.collective_ns,
        collective_bytes_per_s=slowest.collective_bytes_per_s,
    )


@dataclass(frozen=True)
class Trial:
    """A fitted profile that the roofline can be compared with."""

    profile: Profile
    figures: ModelFigures
    rates: Rates


def trials(gpu: str) -> list[Trial]:
    """The fitted profiles of a GPU; those of 2023 are of another software."""
    found = []
    for path in sorted(PROFILES.glob("*.json")):
        profile = read_profile(path)
        if profile.gpu == gpu and profile.measured_in > 2023:
            found.append(Trial(profile, figures_of(Shape.read(profile.model)), Rates.read(gpu)))
    return found


def figures_of(shape: Shape) -> ModelFigures:
    """The plain numbers of a 16-bit model."""
    return ModelFigures(
        layers=shape.layers,
        hidden_size=shape.hidden,
        attention_width=shape.attention_width,
        layer_params=shape.layer_params,
        head_params=shape.hidden * shape.vocabulary,
        kv_bytes_per_token=shape.kv_bytes_per_token,
    )


def relative_errors(trial: Trial, efficiency: Efficiency) -> list[float]:
    """Of the roofline against the profile, on random steps inside its range."""
    step_time: AnyStepTime = roofline_of(trial, efficiency)
    loads = loads_of(trial.profile)
    return list(predicted_ns(step_time, loads) / predicted_ns(trial.profile.step_time, loads) - 1)


def roofline_of(trial: Trial, efficiency: Efficiency) -> RooflineStepTime:
    """The roofline of the trial's model on its GPUs."""
    return roofline_step_time(
        trial.figures,
        efficiency,
        trial.profile.tp,
        peak_flops=trial.rates.flops,
        peak_bytes_per_s=trial.rates.bytes_per_s,
    )


def loads_of(profile: Profile, count: int = 400) -> list[StepLoad]:
    """Steps such as servers have: up to 128 sequences of up to 4,096 tokens, half of them with a chunk."""
    rng = random.Random(f"trial {profile.name}")
    found: list[StepLoad] = []
    while len(found) < count:
        n, context = round(128 ** rng.random()), rng.randint(128, 4_096)
        chunk = rng.randint(128, 2_048 - n) if len(found) % 2 else 0
        load = StepLoad(n + bool(chunk), n, n * context, chunk, 0, chunk_pairs(chunk, 0), int(chunk > 0))
        if not profile.extrapolated(load):
            found.append(load)
    return found


def layer_ns(gpu: str, efficiency: Efficiency) -> int:
    """What a layer of the profile trained on takes beyond matrices, attention and all-reduces: a median; at least 0."""
    (trial,) = (trial for trial in trials(gpu) if trial.profile.name == TRAINED_ON[gpu])
    loads = [load for load in loads_of(trial.profile) if load.prefill_tokens == 0]
    left = predicted_ns(trial.profile.step_time, loads) - predicted_ns(roofline_of(trial, efficiency), loads)
    return max(0, round(float(np.median(left)) / trial.figures.layers))


def with_errors(gpu: str, efficiency: Efficiency) -> Efficiency:
    """The constants with their errors on the profiles of that GPU."""
    others = [trial for trial in trials(gpu) if trial.profile.name != TRAINED_ON[gpu]]
    errors = np.array([error for trial in others or trials(gpu) for error in relative_errors(trial, efficiency)])
    return efficiency.with_errors(errors_of(1 + errors, np.ones(len(errors))))


def leave_out(gpu: str, found: dict[str, Efficiency]) -> int:
    """How far the medians of the other GPUs are off on this one: the 95th percentile, in whole per cent."""
    others = middle(efficiency for name, efficiency in found.items() if name != gpu)
    own = replace(
        others,
        collective_ns=found[gpu].collective_ns,
        collective_bytes_per_s=found[gpu].collective_bytes_per_s,
    )
    errors = np.abs([error for trial in trials(gpu) for error in relative_errors(trial, own)])
    return int(np.ceil(100 * float(np.percentile(errors, 95))))


if __name__ == "__main__":
    main()
