"""Step times on A100 and H100 as sums of operators: matrices, attention, all-reduces, each measured by itself.

Matrices and small operators of Llama and CodeLlama come from vidur; those of Qwen3-32B on the H100 from tables of
matrix multiplications by size. Attention: ai-dynamo/aiconfigurator. Collectives: vidur, plain NCCL; an engine's own
all-reduce of small tensors is faster. The head is a matrix multiplication.

A chunk behind earlier tokens costs what a fresh prompt with as many (query, key) pairs does, and a mixed step the sum
of its chunk's and its decodes' attention: kernels that do both at once take up to a few times longer for the decodes.
Host time is known for Qwen3-32B only: from measurements of whole servers with four GPUs, tried on those with two and
eight.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from fits.data import need, rows
from fits.kernels import Grid, interpolate
from fits.serving import NS_PER_US, ONE_CHUNK, decode_edges, range_of
from fits.shapes import Shape
from fits.write import write
from kvlab.core.step_time import PS_PER_NS, KneeStepTime, StepLoad, chunk_pairs
from kvlab.step_time.fit import Floats, errors_of
from kvlab.step_time.laws import fit_decode, fit_mixed_knee, predicted_ns
from kvlab.step_time.profiles import Errors, Profile, Provenance

Curve = tuple[list[float], list[float]]
AI = {"a100": "a100_sxm_vllm0.14.0", "h100": "h100_sxm_vllm0.19.0"}
GPUS = {"a100": "A100-SXM-80GB", "h100": "H100-SXM-80GB"}
ONCE = ("emb_ms",)


@dataclass(frozen=True)
class Case:
    """A model on some GPUs."""

    gpu: str
    model: str
    tp: int
    kv_tokens: int
    """About what fits: loads beyond it can't happen."""

    @property
    def name(self) -> str:
        """Of the profile."""
        model = self.model.rpartition("/")[2].lower().removesuffix("-hf").removesuffix("-instruct")
        return f"{self.gpu}{f'-x{self.tp}' if self.tp > 1 else ''}-{model}"


CASES = (
    Case("a100", "meta-llama/Llama-3.1-8B", 1, 400_000),
    Case("a100", "meta-llama/Llama-2-70b-hf", 4, 450_000),
    Case("a100", "meta-llama/Llama-2-70b-hf", 8, 1_300_000),
    Case("a100", "codellama/CodeLlama-34b-Instruct-hf", 2, 350_000),
    Case("h100", "meta-llama/Llama-2-70b-hf", 4, 450_000),
    Case("h100", "meta-llama/Llama-2-70b-hf", 8, 1_300_000),
    Case("h100", "codellama/CodeLlama-34b-Instruct-hf", 2, 350_000),
    Case("h100", "meta-llama/Llama-3.1-8B", 1, 400_000),
    Case("h100", "Qwen/Qwen3-32B", 2, 280_000),
    Case("h100", "Qwen/Qwen3-32B", 4, 800_000),
    Case("h100", "Qwen/Qwen3-32B", 8, 1_800_000),
)
VIDUR = {"meta-llama/Llama-3.1-8B": "meta-llama/Meta-Llama-3-8B"}
"""Same shape under another name."""
SERVED = "Qwen/Qwen3-32B"


def main() -> None:
    """Writes the profiles of all cases."""
    need("perf/vidur_dense_ops.csv", "perf/vidur_collectives.csv", "perf/serving_points.csv", "gpus.csv")
    need("model_architectures.csv", *(f"perf/gemm_ops/{name}_bf16.csv" for name in AI.values()))
    need(*(f"perf/attention_ops/{name}_{kind}_bf16.csv" for name in AI.values() for kind in ("context", "generation")))
    fitted = {case: fit(case) for case in CASES}
    host_ps = host_share(next(profile for case, profile in fitted.items() if (case.model, case.tp) == (SERVED, 4)))
    for case, profile in fitted.items():
        write(with_host(profile, host_ps) if case.model == SERVED else profile)


def fit(case: Case) -> Profile:
    """The profile of one case, without the host's share."""
    sums = Operators.read(case)
    decode_train, decode_test = decodes(case, 1), decodes(case, 2)
    mixed_train, mixed_test = mixed(case, 1), mixed(case, 2)
    step_time = KneeStepTime(
        decode=(fit_decode(decode_train, sums.ns(decode_train)),),
        mixed=fit_mixed_knee(mixed_train, sums.ns(mixed_train), ONE_CHUNK),
    )
    dense = "vidur's operators" if sums.from_vidur else "sums of matrix multiplications"
    licence = "MIT (vidur); Apache-2.0 (aiconfigurator)"
    return Profile(
        name=case.name,
        gpu=GPUS[case.gpu],
        model=case.model,
        tp=case.tp,
        engine="vLLM kernels",
        engine_version=AI[case.gpu].rpartition("vllm")[2],
        measured_in=2024 if sums.from_vidur else 2025,
        step_time=step_time,
        range=range_of([*decode_train, *mixed_train]),
        errors={
            "operator sums, decode steps": errors_of(predicted_ns(step_time, decode_test), sums.ns(decode_test)),
            "operator sums, mixed steps": errors_of(predicted_ns(step_time, mixed_test), sums.ns(mixed_test)),
        },
        provenance=Provenance(
            measured=f"operators of one GPU: {dense}, attention and head of vLLM, NCCL all-reduces; no host time",
            fitted_on="sums of measured operator times of 2,000 random steps that only decode and 2,000 mixed ones",
            held_out_on="as many other random steps",
            licence=licence + "; Copyright (c) Microsoft Corporation (vidur)",
            attribution="microsoft/vidur data/profiling (7d47513); ai-dynamo/aiconfigurator systems/data (095f58a)",
        ),
    )


@dataclass(frozen=True)
class Operators:
    """Measured operator times of one case, in ms."""

    case: Case
    shape: Shape
    from_vidur: bool
    dense: Curve
    """All layers: tokens, times."""
    head: Curve
    """Sequences, times."""
    decode: Grid
    """(sequences, context of each) -> attention of one layer."""
    prompt: Curve
    """(query, key) pairs of a fresh prompt -> attention of one layer."""
    reduce: Curve | None
    """Bytes -> one all-reduce."""

    @classmethod
    def read(cls, case: Case) -> Operators:
        """From the tables of the data."""
        shape = Shape.read(case.model)
        dense = _vidur_dense(case, shape)
        heads, kv_heads = shape.query_heads // case.tp, max(1, shape.kv_heads // case.tp)
        return cls(
            case, shape, dense is not None, dense or _gemm_dense(case, shape),
            _matrix(case.gpu, shape.vocabulary // case.tp, shape.hidden), _decode_grid(case.gpu, heads, kv_heads),
            _prompt_curve(case.gpu, heads, kv_heads), _reduce_curve(case) if case.tp > 1 else None,
        )  # fmt: skip

    def ns(self, loads: list[StepLoad]) -> Floats:
        """The sum of each load."""
        return np.array([1e6 * self._ms(load) for load in loads])

    def _ms(self, load: StepLoad) -> float:
        tokens = load.num_decodes + load.prefill_tokens
        total = _at(self.dense, tokens) + _at(self.head, load.num_decodes + load.num_prefills)
        attention = 0.0
        if load.num_decodes:
            attention += interpolate(self.decode, (load.num_decodes, load.decode_context / load.num_decodes))
        if load.prefill_tokens:
            attention += _at(self.prompt, load.chunk_context)
        total += self.shape.layers * attention
        if self.reduce is not None:
            total += 2 * self.shape.layers * _at(self.reduce, 2 * tokens * self.shape.hidden)
        return total


def _at(curve: Curve, x: float) -> float:
    """Between measured sizes linear; beyond the last in proportion."""
    sizes, times = curve
    return float(np.interp(x, sizes, times)) * max(1.0, x / sizes[-1])


def _vidur_dense(case: Case, shape: Shape) -> Curve | None:
    wanted = (VIDUR.get(case.model, case.model), case.gpu, str(case.tp))
    found: dict[float, float] = {}
    for row in rows("perf/vidur_dense_ops.csv"):
        if (row["model"], row["gpu"], row["tp"]) == wanted:
            times = {name: float(value or 0) for name, value in row.items() if name.endswith("_ms")}
            per_layer = sum(value for name, value in times.items() if name not in ONCE) + times["add_ms"]
            found[float(row["num_tokens"])] = shape.layers * per_layer + times["emb_ms"]
    return (sorted(found), [found[size] for size in sorted(found)]) if found else None


def _gemm_dense(case: Case, shape: Shape) -> Curve:
    tp = case.tp
    sizes = [
        _matrix(case.gpu, shape.qkv // tp, shape.hidden),
        _matrix(case.gpu, shape.hidden, shape.attention_width // tp),
        _matrix(case.gpu, 2 * shape.intermediate // tp, shape.hidden),
        _matrix(case.gpu, shape.hidden, shape.intermediate // tp),
    ]
    tokens = sizes[0][0]
    return tokens, [shape.layers * sum(_at(curve, m) for curve in sizes) for m in tokens]


@cache
def _gemms(gpu: str) -> dict[float, Grid]:
    found: dict[float, Grid] = {}
    for row in rows(f"perf/gemm_ops/{AI[gpu]}_bf16.csv"):
        found.setdefault(float(row["m"]), {})[int(row["n"]), int(row["k"])] = float(row["latency_ms"])
    full = max(len(grid) for grid in found.values())
    return {m: _box(grid) for m, grid in found.items() if len(grid) >= full // 2 and m <= 8_192}


def _box(grid: Grid) -> Grid:
    """What a bilinear interpolation needs: each pair of sizes; a matrix that is too large to be there scales."""
    ns, ks = sorted({n for n, _ in grid}), sorted({k for _, k in grid})
    ns = [n for n in ns if (n, ks[0]) in grid]
    filled = dict(grid)
    for n in ns:
        for low, k in itertools.pairwise(ks):
            filled.setdefault((n, k), filled[n, low] * k / low)
    return {(n, k): filled[n, k] for n in ns for k in ks}


@cache
def _matrix(gpu: str, n: int, k: int) -> Curve:
    """Tokens -> ms of one multiplication with an n x k matrix."""
    grids = _gemms(gpu)
    return sorted(grids), [interpolate(grids[m], (n, k)) for m in sorted(grids)]


@cache
def _decode_grid(gpu: str, heads: int, kv_heads: int) -> Grid:
    found: Grid = {}
    for row in rows(f"perf/attention_ops/{AI[gpu]}_generation_bf16.csv"):
        if (int(row["num_heads"]), int(row["num_key_value_heads"])) == (heads, kv_heads):
            found[int(row["batch_size"]), int(row["isl"]) + int(row["step"])] = float(row["latency_ms"])
    contexts = sorted({context for _, context in found if context <= 16_384})
    batches = sorted({batch for batch, _ in found if batch <= 256})
    for batch in batches:  # a batch with more KV than the GPU had: in proportion
        for low, high in itertools.pairwise(contexts):
            found.setdefault((batch, high), found[batch, low] * high / low)
    return {(batch, context): found[batch, context] for batch in batches for context in contexts}


@cache
def _prompt_curve(gpu: str, heads: int, kv_heads: int) -> Curve:
    found = {}
    for row in rows(f"perf/attention_ops/{AI[gpu]}_context_bf16.csv"):
        wanted = (str(heads), str(kv_heads), "1", "0")
        if (row["num_heads"], row["num_key_value_heads"], row["batch_size"], row["step"]) == wanted:
            found[float(chunk_pairs(int(row["isl"]), 0))] = float(row["latency_ms"])
    return sorted(found), [found[pairs] for pairs in sorted(found)]


@cache
def _reduce_curve(case: Case) -> Curve:
    found = {}
    for row in rows("perf/vidur_collectives.csv"):
        wanted = (f"{case.gpu}_dgx", "all_reduce", str(case.tp), str(case.tp))
        if (row["topology"], row["collective"], row["num_workers"], row["devices_per_node"]) == wanted:
            found[float(row["size"])] = float(row["median_ms"])
    sizes = sorted(found)
    return sizes, np.maximum.accumulate([found[size] for size in sizes[1:2] + sizes[1:]]).tolist()


def decodes(case: Case, seed: int, count: int = 2_000) -> list[StepLoad]:
    """Random steps that only decode."""
    return _random(case, f"decodes {seed}", count, _decode, decode_edges(case.kv_tokens))


def mixed(case: Case, seed: int, count: int = 2_000) -> list[StepLoad]:
    """Random steps with one chunk of up to 8,192 tokens."""
    edges = [StepLoad(1, 0, 0, 8_192, 0, chunk_pairs(8_192, 0), 1)]
    return _random(case, f"mixed {seed}", count, _mixed, edges)


def _random(
    case: Case, seed: str, count: int, draw: Callable[[random.Random], StepLoad], edges: list[StepLoad]
) -> list[StepLoad]:
    rng = random.Random(seed)
    found = list(edges)
    while len(found) < count:
        load = draw(rng)
        if load.decode_context + load.prefill_context + load.prefill_tokens <= case.kv_tokens:
            found.append(load)
    return found


def _decode(rng: random.Random) -> StepLoad:
    n, context = _log_uniform(rng, 1, 256), _log_uniform(rng, 64, 8_192)
    return StepLoad(n, n, n * context, 0, 0, 0, 0)


def _mixed(rng: random.Random) -> StepLoad:
    n = 0 if rng.random() < 0.1 else _log_uniform(rng, 1, 256)
    chunk = _log_uniform(rng, 16, 8_192 - n) if rng.random() < 0.5 else rng.randint(16, 8_192 - n)
    before = 0 if rng.random() < 0.5 else _log_uniform(rng, 16, 8_192)
    return StepLoad(n + 1, n, n * _log_uniform(rng, 64, 8_192), chunk, before, chunk_pairs(chunk, before), 1)


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(float(low * (high / low) ** rng.random()))


@dataclass(frozen=True)
class Point:
    """A closed loop that was measured: so many users, prompts and answers of one length each."""

    isl: int
    osl: int
    users: int
    tpot_ns: float

    def predicted_ns(self, step_time: KneeStepTime) -> float:
        """Mean gap of a steady state: while one answer is decoded, each user has one prompt computed."""
        context = self.users * (self.isl + self.osl // 2)
        decode = step_time.decode_ns(self.users, context)
        load = StepLoad(self.users, self.users - 1, context, self.isl, 0, chunk_pairs(self.isl, 0), 1)
        return decode + (step_time.mixed_ns(load) - decode) * self.users / self.osl


def points(tp: int) -> list[Point]:
    """vLLM 0.12 with Qwen3-32B on H100s, answers long enough for a steady state."""
    return [
        Point(int(row["isl"]), int(row["osl"]), int(row["concurrency"]), 1e6 * float(row["tpot_ms"]))
        for row in rows("perf/serving_points.csv")
        if (row["backend"], row["model_path"], row["system"], row["precision"], row["tp_size"])
        == ("vllm", SERVED, "h100_sxm", "", str(tp))
        and int(row["osl"]) >= 512
    ]


def host_share(profile: Profile) -> int:
    """What a step lasts beyond its operators, in ps: the median over the points with as many GPUs; at least 0."""
    assert isinstance(profile.step_time, KneeStepTime)
    left = [point.tpot_ns - point.predicted_ns(profile.step_time) for point in points(profile.tp)]
    return max(0, round(PS_PER_NS * float(np.median(left))))


def with_host(profile: Profile, host_ps: int) -> Profile:
    """The profile with so much more in each step, and its errors against whole servers."""
    assert isinstance(profile.step_time, KneeStepTime)
    step_time = KneeStepTime(
        decode=tuple(replace(law, base_ps=law.base_ps + host_ps) for law in profile.step_time.decode),
        mixed=tuple(replace(law, base_ps=law.base_ps + host_ps) for law in profile.step_time.mixed),
    )
    held_out = points(profile.tp)
    errors: dict[str, Errors] = dict(profile.errors)
    used = "fitted" if profile.tp == 4 else "held out"
    errors[f"whole server, TPOT ({used})"] = errors_of(
        np.array([point.predicted_ns(step_time) for point in held_out]),
        np.array([point.tpot_ns for point in held_out]),
    )
    words = f"; {host_ps / PS_PER_NS / NS_PER_US / 1000:.2f} ms per step from the TPOT of servers with 4 GPUs"
    return replace(
        profile,
        step_time=step_time,
        errors=errors,
        provenance=replace(
            profile.provenance,
            measured=profile.provenance.measured.replace("no host time", "TPOT of vLLM 0.12 servers"),
            fitted_on=profile.provenance.fitted_on + words,
            held_out_on=profile.provenance.held_out_on + "; servers with 2 and 8 GPUs",
        ),
    )


if __name__ == "__main__":
    main()
