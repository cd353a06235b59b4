"""A model's shape from its config.json: the same as the table's, and clear errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kvlab
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.sizing.architectures import Architecture
from kvlab.sizing.hf_config import FAMILIES, REFUSED, parse_config, read_config
from kvlab.sizing.models import model


def config(name: str, **more: object) -> dict[str, Any]:
    """What a publisher would write of a model of the table."""
    shape = model(name)
    return {
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden_size,
        "num_attention_heads": shape.query_heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate_size,
        "vocab_size": shape.vocab_size,
        "tie_word_embeddings": shape.tied_embeddings,
        "torch_dtype": "bfloat16",
        **more,
    }


def same_shape(found: Architecture, name: str) -> None:
    expected = model(name)
    ours = replace(
        found,
        name=expected.name,
        source=expected.source,
        notes=expected.notes,
        published_params=expected.published_params,
        max_position_embeddings=None,
        mla_q_lora_rank=None,
    )
    assert ours == expected


LLAMA = config("meta-llama/Llama-3.1-8B", architectures=["LlamaForCausalLM"], max_position_embeddings=131_072)
GEMMA = config("google/gemma-3-27b-it", sliding_window=1024, sliding_window_pattern=6)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("meta-llama/Llama-3.1-8B", LLAMA),
        (
            "Qwen/Qwen2.5-7B",
            config(
                "Qwen/Qwen2.5-7B", architectures=["Qwen2ForCausalLM"], sliding_window=131_072, use_sliding_window=False
            ),
        ),
        (
            "mistralai/Mistral-7B-v0.1",
            config("mistralai/Mistral-7B-v0.1", architectures=["MistralForCausalLM"], sliding_window=4096),
        ),
        (
            "mistralai/Mistral-Nemo-Instruct-2407",
            config("mistralai/Mistral-Nemo-Instruct-2407", architectures=["MistralForCausalLM"], sliding_window=None),
        ),
        ("google/gemma-2-9b", config("google/gemma-2-9b", architectures=["Gemma2ForCausalLM"], sliding_window=4096)),
        ("google/gemma-3-27b-it", {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": GEMMA}),
        (
            "openai/gpt-oss-20b",
            config(
                "openai/gpt-oss-20b",
                architectures=["GptOssForCausalLM"],
                sliding_window=128,
                num_local_experts=32,
                num_experts_per_tok=4,
                layer_types=["sliding_attention", "full_attention"] * 12,
                quantization_config={"quant_method": "mxfp4"},
            ),
        ),
        (
            "mistralai/Mixtral-8x7B-v0.1",
            config(
                "mistralai/Mixtral-8x7B-v0.1",
                architectures=["MixtralForCausalLM"],
                num_local_experts=8,
                num_experts_per_tok=2,
            ),
        ),
        (
            "Qwen/Qwen3-30B-A3B",
            config(
                "Qwen/Qwen3-30B-A3B",
                architectures=["Qwen3MoeForCausalLM"],
                num_experts=128,
                num_experts_per_tok=8,
                moe_intermediate_size=768,
            ),
        ),
        (
            "Qwen/Qwen1.5-MoE-A2.7B",
            config(
                "Qwen/Qwen1.5-MoE-A2.7B",
                architectures=["Qwen2MoeForCausalLM"],
                num_experts=60,
                num_experts_per_tok=4,
                moe_intermediate_size=1408,
                shared_expert_intermediate_size=5632,
            ),
        ),
        (
            "deepseek-ai/DeepSeek-V3",
            config(
                "deepseek-ai/DeepSeek-V3",
                architectures=["DeepseekV3ForCausalLM"],
                kv_lora_rank=512,
                q_lora_rank=1536,
                qk_rope_head_dim=64,
                v_head_dim=128,
                n_routed_experts=256,
                num_experts_per_tok=8,
                moe_intermediate_size=2048,
                n_shared_experts=1,
                first_k_dense_replace=3,
                quantization_config={"quant_method": "fp8"},
            ),
        ),
        (
            "meta-llama/Llama-4-Scout-17B-16E",
            {
                "architectures": ["Llama4ForConditionalGeneration"],
                "text_config": config(
                    "meta-llama/Llama-4-Scout-17B-16E",
                    attention_chunk_size=8192,
                    num_local_experts=16,
                    num_experts_per_tok=1,
                    intermediate_size=8192,
                    intermediate_size_mlp=8192,
                ),
            },
        ),
        (
            "tiiuae/falcon-7b",
            config(
                "tiiuae/falcon-7b",
                architectures=["FalconForCausalLM"],
                multi_query=True,
                new_decoder_architecture=False,
            ),
        ),
        (
            "tiiuae/falcon-40b",
            config(
                "tiiuae/falcon-40b", architectures=["FalconForCausalLM"], num_kv_heads=8, new_decoder_architecture=True
            ),
        ),
        ("facebook/opt-125m", config("facebook/opt-125m", architectures=["OPTForCausalLM"], ffn_dim=3072)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_config_describes_the_shape_of_the_table(name: str, document: dict[str, Any]) -> None:
    same_shape(parse_config(document, "config.json"), name)


def test_a_file_or_its_folder_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA), encoding="utf-8")
    assert read_config(tmp_path) == read_config(path)
    found = kvlab.capacity(model=str(path), gpu="H100")
    assert found.plan.max_model_len == 131_072
    assert found.figures["max_model_len"].provenance == "derived"
    assert found.kv_bytes_per_token == 131_072
    assert kvlab.capacity(model=tmp_path, gpu="H100").num_gpu_blocks == found.num_gpu_blocks


@pytest.mark.parametrize(
    ("quantisation", "stored"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": "gptq", "bits": 8}, "gptq_int8"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fbgemm_fp8"),
        (None, "bf16"),
    ],
)
def test_how_weights_are_stored_is_read(quantisation: object, stored: str) -> None:
    assert parse_config({**LLAMA, "quantization_config": quantisation}, "c").weight_dtype == stored


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": None}, r'expected a list such as \["LlamaForCausalLM"\]'),
        ({"num_hidden_layers": None}, "num_hidden_layers = None: is missing"),
        ({"num_hidden_layers": "32"}, 'num_hidden_layers = "32": expected a whole number'),
        ({"vocab_size": 0}, "vocab_size = 0: expected a whole number from 1"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers = 1000000: expected a whole number from 1 to 65,536"),
        ({"head_dim": None, "hidden_size": 4097}, "isn't a multiple of 32 heads"),
        ({"quantization_config": {"quant_method": "bitnet"}}, 'quant_method = "bitnet": not known: awq'),
    ],
)
def test_a_config_that_cannot_be_read_names_the_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({**LLAMA, **change}, "config.json")


def test_an_unknown_architecture_is_never_guessed() -> None:
    with pytest.raises(
        UnknownNameError, match=r'unknown architecture "Lama4CausalLM": .*Known: LlamaForCausalLM, .*--kv-bytes'
    ):
        parse_config({**LLAMA, "architectures": ["Lama4CausalLM"]}, "config.json")


@pytest.mark.parametrize("name", REFUSED)
def test_architectures_that_are_not_modelled_are_refused_by_name(name: str) -> None:
    assert name not in FAMILIES
    with pytest.raises(ConfigError, match=f'architecture = "{name}": not modelled: it has '):
        parse_config({"architectures": [name]}, "config.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [("[]", "expected a JSON object"), ("{", "is no JSON"), ('{"a": 1, "a": 2}', '"a" is given twice')],
)
def test_a_file_that_is_no_config_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_config(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        kvlab.capacity(model=str(tmp_path / "config.json"), gpu="H100")
