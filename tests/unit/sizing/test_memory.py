"""Where the memory of a GPU goes."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvlab.sizing.compute import capacity
from kvlab.sizing.dtypes import WEIGHT_DTYPES
from kvlab.sizing.engines import engine_rules
from kvlab.sizing.memory import Batch, activation_bytes, graph_count, stages, weights_bytes
from kvlab.sizing.models import model, model_names
from kvlab.units import GIB

LLAMA = model("meta-llama/Llama-3.1-8B")
SERVER = Batch(max_num_batched_tokens=8192, max_num_seqs=1024)


def weights_gib(name: str, dtype: str = "auto", tp: int = 1, pp: int = 1, stage: int = 0) -> float:
    shape = model(name)
    chosen = shape.weight_dtype if dtype == "auto" else dtype
    return weights_bytes(shape, stages(shape, pp)[stage], chosen, tp) / GIB


@pytest.mark.parametrize("name", model_names())
def test_the_shape_has_the_published_parameters(name: str) -> None:
    shape = model(name)
    if shape.published_params is not None:
        assert shape.shape_params == pytest.approx(shape.published_params, rel=0.022)


@pytest.mark.parametrize(
    ("name", "dtype", "tp", "logged_gib"),
    [
        ("meta-llama/Llama-3.1-8B", "bf16", 1, 14.99),
        ("meta-llama/Llama-3.1-8B", "bf16", 2, 7.51),
        ("meta-llama/Llama-3.1-8B", "bf16", 4, 3.77),
        ("meta-llama/Llama-3.1-8B", "fp32", 1, 29.98),
        ("meta-llama/Llama-3.1-8B", "fp8", 1, 8.49),
        ("Qwen/Qwen2.5-7B", "bf16", 1, 14.25),
        ("Qwen/Qwen3-14B", "bf16", 1, 27.52),
        ("Qwen/Qwen1.5-MoE-A2.7B", "bf16", 1, 26.67),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "auto", 2, 33.88),
        ("MiniMaxAI/MiniMax-M2.5", "auto", 4, 53.75),
        ("meta-llama/Meta-Llama-3.1-405B-Instruct-FP8", "auto", 8, 57.75),
    ],
)
def test_weights_are_as_engines_logged_them(name: str, dtype: str, tp: int, logged_gib: float) -> None:
    assert weights_gib(name, dtype, tp) == pytest.approx(logged_gib, rel=0.025)


def test_int4_keeps_embedding_and_head_at_16_bits() -> None:
    bits = WEIGHT_DTYPES["awq"].linear_bits
    assert bits == 4 + Fraction(20, 128)
    edges = LLAMA.embedding_params + LLAMA.head_params
    assert edges == 2 * 128_256 * 4096
    expected = -(-(LLAMA.params - edges) * bits // 8) + 2 * edges
    assert abs(weights_bytes(LLAMA, stages(LLAMA, 1)[0], "awq", 1) - expected) <= 1


def test_stages_share_out_layers_as_the_engine_does() -> None:
    assert [stage.layers for stage in stages(LLAMA, 3)] == [11, 11, 10]
    assert [stage.layers for stage in stages(model("Qwen/Qwen3-8B"), 3)] == [12, 12, 12]
    assert weights_gib("meta-llama/Llama-3.1-8B", pp=2) == pytest.approx(7.51, rel=0.01)
    assert weights_gib("meta-llama/Llama-3.1-8B", pp=4) == pytest.approx(4.26, rel=0.01)
    assert weights_gib("Qwen/Qwen3-8B", pp=3) == pytest.approx(5.48, rel=0.02)


def test_a_tied_head_is_kept_on_the_last_stage_too() -> None:
    tied = model("Qwen/Qwen3-4B")
    first, last = (weights_bytes(tied, stage, "bf16", 1) for stage in stages(tied, 2))
    assert first == last
    alone = weights_bytes(tied, stages(tied, 1)[0], "bf16", 1)
    assert first + last == alone + 2 * tied.embedding_params


@pytest.mark.parametrize(("pp", "logged_gib"), [(2, 1.10), (4, 1.05)])
def test_a_stage_without_the_head_needs_less(pp: int, logged_gib: float) -> None:
    first = stages(LLAMA, pp)[0]
    peak = activation_bytes(LLAMA, first, SERVER, "bf16", 1, engine_rules("0.19"))
    assert peak / GIB == pytest.approx(logged_gib, rel=0.06)


def test_activations_before_0_17_were_larger() -> None:
    shape = model("Qwen/Qwen3-14B")
    peaks = [activation_bytes(shape, stages(shape, 1)[0], SERVER, "bf16", 1, engine_rules(v)) for v in ("0.16", "0.17")]
    assert [round(peak / GIB, 2) for peak in peaks] == [pytest.approx(5.64, abs=0.03), pytest.approx(2.23, abs=0.05)]


def test_the_parts_add_up_and_graphs_count_from_0_21_on() -> None:
    for version, counted in (("0.19", False), ("0.21", True)):
        split = capacity(model="Qwen/Qwen3-8B", gpu="H100", engine_version=version).waterfall
        assert split is not None
        assert split.graphs_counted is counted
        parts = split.weights_bytes + split.activation_bytes + split.non_torch_bytes + split.kv_bytes
        assert parts + (split.graph_bytes if counted else 0) == split.usable_bytes
    eager = capacity(model="Qwen/Qwen3-8B", gpu="H100", enforce_eager=True).waterfall
    assert eager is not None
    assert eager.graph_bytes == 0


def test_utilization_is_of_all_memory_and_exact() -> None:
    for ratio in ("0.92", "92 %", 0.92):
        split = capacity(model="Qwen/Qwen3-8B", gpu_memory=10**11, gpu_memory_utilization=ratio).waterfall
        assert split is not None
        assert split.usable_bytes == 92 * 10**9


def test_fewer_sequences_capture_fewer_graphs() -> None:
    assert [graph_count(seqs) for seqs in (1, 8, 128, 1024)] == [2, 5, 35, 51]


def test_weights_from_a_log_take_the_place_of_the_shape() -> None:
    found = capacity(model="Qwen/Qwen3-8B", gpu="H100", weights_bytes="20 GiB")
    assert found.waterfall is not None
    assert found.waterfall.weights_bytes == 20 * GIB
    assert found.figures["weights_bytes"].provenance == "measured"


@pytest.mark.parametrize(
    ("gpu", "tokens", "seqs"),
    [("H100", 8192, 1024), ("MI300X", 8192, 1024), ("A100-80GB", 2048, 256), ("L4", 2048, 256)],
)
def test_the_limits_of_a_step_are_the_engines(gpu: str, tokens: int, seqs: int) -> None:
    batch = capacity(model="Qwen/Qwen3-1.7B", gpu=gpu).plan.batch
    assert (batch.max_num_batched_tokens, batch.max_num_seqs) == (tokens, seqs)


def test_before_v1_a_prompt_was_computed_whole() -> None:
    def tokens(length: int) -> int:
        found = capacity(model="Qwen/Qwen3-1.7B", gpu="A100-40GB", engine_version="0.6", max_model_len=length)
        return found.plan.batch.max_num_batched_tokens

    assert [tokens(length) for length in (1024, 29_000, 131_072)] == [2048, 29_000, 2048]


def test_a_pool_is_as_large_as_its_smallest_stage() -> None:
    found = capacity(model="meta-llama/Llama-3.1-8B", kv_cache_memory_bytes="10 GiB", pipeline_parallel_size=3)
    assert found.stage is not None
    assert found.stage.layers == 11
    assert found.num_gpu_blocks == 10 * GIB // (16 * 4096 * 11)


def test_active_parameters_leave_out_experts_that_are_not_chosen() -> None:
    assert LLAMA.active_params == LLAMA.params
    assert model("Qwen/Qwen3-30B-A3B").active_params == pytest.approx(3.3e9, rel=0.03)
    assert model("deepseek-ai/DeepSeek-V3").active_params == pytest.approx(37e9, rel=0.08)
