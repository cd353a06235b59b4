"""KV bytes per token by layout, groups of layers, blocks of a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlab.errors import ConfigError
from kvlab.sizing.architectures import Architecture
from kvlab.sizing.compute import capacity
from kvlab.sizing.layout import KvLayout, kv_heads_per_gpu, kv_layout, layer_bytes_per_token
from kvlab.sizing.models import model
from kvlab.sizing.tables import rows


def layout(shape: Architecture, *, batched: int = 8192, hybrid: bool = True, tp: int = 1) -> KvLayout:
    return kv_layout(
        shape,
        stage_layers=shape.layers,
        layer_bytes=layer_bytes_per_token(shape, tp, 2),
        block_size=16,
        batched_tokens=batched,
        hybrid_manager=hybrid,
    )


@pytest.mark.parametrize("row", rows("model_architectures"), ids=lambda row: str(row["model"]))
def test_bytes_per_token_are_those_of_the_table(row: dict[str, str]) -> None:
    shape = model(row["model"])
    per_layer = int(row["kv_bytes_per_token_per_layer_16bit"])
    assert 2 * shape.kv_elements_per_token_per_layer == per_layer
    if shape.unsupported is None:
        padding = layout(shape).padding_layers
        assert layout(shape).bytes_per_token == int(row["kv_bytes_per_token_all_layers_16bit"]) + padding * per_layer


@pytest.mark.parametrize(
    ("name", "tp", "heads"),
    [
        ("meta-llama/Llama-2-7b-hf", 4, 8),
        ("Qwen/Qwen2.5-7B", 2, 2),
        ("Qwen/Qwen3-235B-A22B", 8, 1),
        ("Qwen/Qwen3-235B-A22B", 64, 1),
        ("tiiuae/falcon-7b", 1, 1),
        ("deepseek-ai/DeepSeek-V3", 16, 1),
    ],
)
def test_heads_are_shared_out_or_copied(name: str, tp: int, heads: int) -> None:
    assert kv_heads_per_gpu(model(name), tp) == heads


@pytest.mark.parametrize(
    ("name", "tp", "message"),
    [
        ("Qwen/Qwen2.5-7B", 8, "28 attention heads can't be shared out equally; possible: 1, 2, 4, 28"),
        ("tiiuae/falcon-7b", 2, "71 attention heads"),
        ("Qwen/Qwen2.5-7B", 14, "4 KV heads can't be shared out or copied equally"),
        ("deepseek-ai/DeepSeek-V2-Lite", 3, "16 attention heads"),
    ],
)
def test_heads_that_cannot_be_shared_out_are_refused(name: str, tp: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kv_heads_per_gpu(model(name), tp)


def test_mla_keeps_the_whole_latent_on_every_gpu() -> None:
    one, eight = (capacity(model="deepseek-ai/DeepSeek-V3", gpu="H200", tensor_parallel_size=tp) for tp in (1, 8))
    assert one.kv_bytes_per_token == eight.kv_bytes_per_token == 61 * (512 + 64) * 2
    assert one.block_size == 64


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_fp8_halves_what_a_token_takes(dtype: str) -> None:
    halves = capacity(model="Qwen/Qwen3-8B", kv_cache_memory_bytes="40 GiB", kv_cache_dtype=dtype)
    whole = capacity(model="Qwen/Qwen3-8B", kv_cache_memory_bytes="40 GiB")
    assert halves.kv_bytes_per_token * 2 == whole.kv_bytes_per_token == 147_456
    assert halves.num_gpu_blocks - 2 * whole.num_gpu_blocks in (0, 1)


def test_layers_of_two_kinds_are_cut_into_equal_groups() -> None:
    gemma = layout(model("google/gemma-3-27b-it"))  # vLLM: "Add 8 padding layers"
    assert (len(gemma.groups), gemma.group_layers, gemma.padding_layers) == (7, 10, 8)
    assert [group.window for group in gemma.groups] == [None, *[1024] * 6]
    oss = layout(model("openai/gpt-oss-20b"))
    assert (len(oss.groups), oss.group_layers, oss.padding_layers) == (2, 12, 0)


def test_numbers_of_layers_that_are_nearly_equal_are_padded_to_the_larger() -> None:
    shape = replace(model("openai/gpt-oss-20b"), layers=25, full_attention_layers=13)
    padded = layout(shape)
    assert (len(padded.groups), padded.group_layers, padded.padding_layers) == (2, 13, 1)


def test_a_window_bounds_what_a_request_holds() -> None:
    gemma = layout(model("google/gemma-3-27b-it"), batched=2048)
    full, sliding = 32_768 // 16, -(-(1023 + 2048) // 16) + 1
    assert gemma.blocks_per_request(32_768) == full + 6 * sliding
    assert gemma.held_blocks(32_768) == full + 6 * (1024 // 16 + 1)
    alone = layout(model("mistralai/Mistral-7B-v0.1"), batched=2048)
    assert alone.is_uniform
    assert alone.blocks_per_request(10**6) == -(-(4095 + 2048) // 16) + 1


def test_chunked_layers_hold_a_chunk_and_what_is_computed() -> None:
    scout = layout(model("meta-llama/Llama-4-Scout-17B-16E"), batched=2048)
    assert (len(scout.groups), scout.group_layers) == (4, 12)
    assert scout.blocks_per_request(100_000) == 100_000 // 16 + 3 * ((8192 + 2048) // 16)


def test_without_the_hybrid_manager_every_layer_keeps_all() -> None:
    shape = model("google/gemma-2-9b")
    assert layout(shape, hybrid=False).blocks_per_request(32_768) == 2048
    assert layout(shape, hybrid=False).bytes_per_token == 344_064


def test_the_longest_request_is_the_last_that_fits() -> None:
    gemma = layout(model("google/gemma-3-27b-it"), batched=2048)
    longest = gemma.longest(5000, 10**7)
    assert gemma.blocks_per_request(longest) <= 5000 < gemma.blocks_per_request(longest + 1)
    assert gemma.longest(0, 10**7) == 0
    assert gemma.longest(10**9, 4096) == 4096


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Qwen/Qwen3.5-27B", "linear-attention layers"),
        ("Qwen/Qwen3.6-27B", "linear-attention layers"),
        ("deepseek-ai/DeepSeek-V3.2", "indexer"),
        ("google/gemma-4-26B-A4B", "global layers"),
    ],
)
def test_layouts_that_are_not_modelled_are_refused_by_name(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f'model = "{name}": .*{why}.* Give --kv-bytes-per-token'):
        capacity(model=name, gpu="H100")


def test_stages_of_hybrid_models_are_refused() -> None:
    with pytest.raises(ConfigError, match="mixes full and sliding layers"):
        capacity(model="google/gemma-3-27b-it", gpu="H100", pipeline_parallel_size=2)
