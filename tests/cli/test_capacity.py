"""`kvlab capacity`: the page, the JSON, the errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.terminals import Cli

import kvlab
from kvlab.cli.capacity_page import page
from kvlab.cli.terminal import Terminal, visible_length
from kvlab.sizing.accuracy import band, from_scratch

QWEN = ("capacity", "--model", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "A100-80GB")
SIXTEEN_GIB = ("capacity", "--model", "Qwen/Qwen2.5-7B-Instruct", "--kv-cache-memory-bytes", "16GiB")


def test_the_page_answers_first(cli: Cli) -> None:
    code, out, err = cli(*QWEN)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Qwen/Qwen2.5-7B-Instruct · A100-SXM-80GB · bf16 weights · vLLM 0.21"
    assert lines[2].startswith("1,057,104 tokens of KV fit. That is 129 requests of 8,192 tokens at once")
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in out


def test_the_waterfall_goes_down_to_the_kv_cache(cli: Cli) -> None:
    out = cli(*QWEN).out
    bars = [line for line in out.splitlines() if " GiB " in line and ("█" in line or "│" in line)]
    parts = ["GPU memory", "Not used (8 %)", "Weights", "Activations", "Outside PyTorch", "CUDA graphs", "KV cache"]
    assert [line[:16].rstrip() for line in bars] == parts
    assert [line.split()[-1] for line in bars] == [
        "assumed",
        "derived",
        "derived",
        "assumed",
        "assumed",
        "assumed",
        "derived",
    ]
    starts = [len(line) - len(line[27:].lstrip()) for line in bars[1:]]
    assert starts == sorted(starts, reverse=True)
    old = cli(*QWEN, "--engine-version", "0.19").out
    assert "CUDA graphs take 1.05 GiB more, of what the engine doesn't use." in old


def test_the_error_band_is_shown_only_where_the_memory_is_computed(cli: Cli) -> None:
    assert "Of 20 capacities that engines logged, half are within 1.7 %" in " ".join(cli(*QWEN).out.split())
    assert "capacities that engines logged" not in cli(*SIXTEEN_GIB).out


def test_my_own_lengths_are_counted(cli: Cli) -> None:
    out = cli(*QWEN, "--prompt-tokens", "lognormal(p50=600, p95=3000)", "--output-tokens", 250).out
    assert "with 99 % certainty" in out
    for label in ("running", "at their ends", "p99-safe"):
        assert f"\n  {label}" in out


def test_json_has_every_figure_with_its_provenance(cli: Cli) -> None:
    document = json.loads(cli(*SIXTEEN_GIB, "--max-model-len", 8192, "--json").out)
    assert document["starts"] is True
    assert document["kv_cache_tokens"] == {
        "value": 299_584,
        "unit": "tokens",
        "provenance": "derived",
        "source": "num_gpu_blocks x block_size",
    }
    assert document["kv_cache_bytes"]["provenance"] == "given"
    assert "error_band" not in document
    scratch = json.loads(cli(*QWEN, "--json").out)
    assert scratch["error_band"]["facts"] == 20
    assert scratch["error_band"]["median_ratio"] <= 0.03
    assert {"weights_bytes", "activation_bytes", "non_torch_bytes", "graph_bytes"} <= set(scratch)


def test_a_refusal_is_quoted_and_mended(cli: Cli) -> None:
    done = cli("capacity", "--model", "meta-llama/Llama-3.1-8B", "--gpu", "RTX-3090", "--max-model-len", 131_072)
    assert done.code == 1
    said = " ".join(done.out.split())
    assert (
        "The engine doesn't start. It says: To serve at least one request with the model's max seq len (131072)" in said
    )
    assert "It would start with --tensor-parallel-size 2." in said
    assert "40,672 tokens is the largest max_model_len that starts" in said
    hopeless = cli("capacity", "--model", "moonshotai/Kimi-K2-Instruct", "--gpu", "L4").out
    assert "It would start" not in hopeless
    assert "no max_model_len starts" in hopeless


def test_a_config_file_is_a_model(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "num_hidden_layers": 32,
                "hidden_size": 4096,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 14_336,
                "vocab_size": 128_256,
                "max_position_embeddings": 131_072,
            }
        )
    )
    document = json.loads(cli("capacity", "--model", path, "--gpu", "H100", "--json").out)
    assert document["kv_bytes_per_token"]["value"] == 131_072
    assert document["max_model_len"]["value"] == 131_072


@pytest.mark.parametrize("width", [60, 80, 120])
def test_pages_fit_the_terminal(width: int) -> None:
    found = kvlab.capacity(
        model="google/gemma-3-27b-it",
        gpu="H100",
        prompt_tokens="exponential(9000)",
        output_tokens=3,
        engine_version="0.19",
    )
    text = page(found, band(from_scratch()), None, Terminal(width=width, colour=True))
    assert max(map(visible_length, text.splitlines())) <= width
    refused = kvlab.capacity(model="meta-llama/Llama-3.1-8B", gpu="RTX-3090", max_model_len=131_072)
    text = page(refused, None, "--tensor-parallel-size 2", Terminal(width=width))
    assert "https://docs.vllm.ai/en/latest/configuration/conserving_memory/" in text.split()
    assert all(len(line) <= width or "https://" in line for line in text.splitlines())


def test_pages_need_no_unicode(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlab.cli import terminal

    monkeypatch.setattr(terminal, "_can_encode", lambda encoding: False)
    out = cli(*QWEN, "--tensor-parallel-size", 2).out
    assert out.isascii()
    assert "####" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--model", "Qwen/Qwen3-8", "--gpu", "H100"), 'unknown model "Qwen/Qwen3-8": did you mean "Qwen/Qwen3-8B"?'),
        (("--model", "Qwen/Qwen3-8B", "--gpu", "H1000"), 'unknown gpu "H1000": did you mean "H100-SXM"?'),
        (("--model", "Qwen/Qwen3.5-27B", "--gpu", "H100"), "linear-attention layers"),
        (("--model", "Qwen/Qwen3-8B", "--gpu", "H100", "--gpu-memory-utilization", "95"), "(95 % is 0.95)"),
        (("--model", "Qwen/Qwen3-8B"), "give --gpu or --gpu-memory"),
        ((), "give --model"),
        (("--gpu", "H100", "--gpu", "A100"), "is given twice, as --gpu H100 and as --gpu A100"),
    ],
)
def test_errors_are_one_line_with_a_remedy(args: tuple[str, ...], message: str, cli: Cli) -> None:
    assert message in cli.refuses("capacity", *args)
