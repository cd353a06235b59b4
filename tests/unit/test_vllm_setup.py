"""From what was read to a scenario, and back to flags."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

import kvlab
from kvlab.errors import ConfigError
from kvlab.servers import VllmV1Server
from kvlab.setting_table import VLLM_V0
from kvlab.vllm_flags import parse_command
from kvlab.vllm_print import serve_command, vllm_flags
from kvlab.vllm_setup import Setup, setup, sizing_inputs

MODEL = "Qwen/Qwen2.5-7B-Instruct"


def made(command: str, **given: object) -> Setup:
    return setup([parse_command(f"vllm serve {MODEL} {command}")], {"gpu": "A100-80GB", **given})


def server_of(command: str, **given: object) -> VllmV1Server:
    server = made(command, **given).scenario.server
    assert isinstance(server, VllmV1Server)
    return server


def test_what_the_command_leaves_out_is_the_engines_default() -> None:
    small, big = server_of(""), server_of("", gpu="H100")
    assert (small.max_num_seqs, big.max_num_seqs) == (256, 1024)
    assert (small.max_model_len, small.block_size) == (None, 16)
    assert small.gpu_memory_utilization == Decimal("0.92")
    assert server_of("", engine_version="0.11").gpu_memory_utilization == Decimal("0.9")
    assert server_of("", model="deepseek-ai/DeepSeek-V3", tensor_parallel_size=8, gpu="H200").block_size == 64


def test_what_was_assumed_is_listed_with_its_reason() -> None:
    assumed = {each.setting: (each.value, each.why) for each in made("").origins.assumed}
    assert assumed["max_num_seqs"] == ("256", "default of vLLM 0.24 on this GPU")
    assert assumed["max_num_batched_tokens"][0] == "2048"
    assert assumed["max_model_len"] == ("8192", "no config.json says it")
    assert "no such traffic was given" in assumed["request_rate"][1]
    told = {each.setting for each in made("--max-num-seqs 8 --max-model-len 4k", request_rate=2).origins.assumed}
    assert told.isdisjoint({"max_num_seqs", "max_model_len", "request_rate"})
    assert {"prompt_tokens", "output_tokens"} <= told
    assert "request_rate" not in {each.setting for each in made("", trace="requests.csv").origins.assumed}


def test_settings_that_the_user_gave_win() -> None:
    found = made("--max-num-seqs 8", max_num_seqs="32")
    assert found.scenario.settings()["max_num_seqs"] == 32
    assert [taken.setting for taken in found.origins.mapped] == ["model"]
    (said,) = found.origins.ignored
    assert (said.flag, said.why) == ("--max-num-seqs 8", "max_num_seqs was given besides, and wins")


def test_a_flag_that_does_nothing_beside_another_is_ignored() -> None:
    found = made("--gpu-memory-utilization 0.8 --num-gpu-blocks-override 1000")
    assert found.scenario.settings()["num_gpu_blocks_override"] == 1000
    assert found.origins.ignored[0].why == "it does nothing beside num_gpu_blocks_override"
    kept = made("--gpu-memory-utilization 0.8 --num-gpu-blocks-override 1000", num_gpu_blocks_override="none")
    assert kept.scenario.settings()["gpu_memory_utilization"] == Decimal("0.8")


def test_a_model_and_a_gpu_are_needed() -> None:
    with pytest.raises(ConfigError, match="give --gpu, such as --gpu A100-80GB"):
        setup([parse_command(f"vllm serve {MODEL}")], {})
    with pytest.raises(ConfigError, match="give --model"):
        setup([parse_command("vllm serve --max-num-seqs 3")], {"gpu": "H100"})


def test_capacity_takes_what_it_has_inputs_for() -> None:
    parsed = parse_command(f"vllm serve {MODEL} --watermark 0.1 --max-num-seqs 8 --enforce-eager --port 3")
    inputs, origins = sizing_inputs([parsed], {"gpu": "H100", "max_num_seqs": "16"})
    assert inputs == {"model": MODEL, "enforce_eager": True, "gpu": "H100", "max_num_seqs": "16"}
    assert [taken.setting for taken in origins.mapped] == ["model", "enforce_eager"]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "--max-num-seqs 8 --max-model-len 4096 --block-size 32",
        "-tp 2 -pp 2 --kv-cache-dtype fp8 --quantization fp8",
        "--num-gpu-blocks-override 1000 --no-enable-prefix-caching --enforce-eager",
        "--kv-cache-memory-bytes 8G --watermark 0.015 --long-prefill-token-threshold 256",
        "--scheduling-policy priority --no-scheduler-reserve-full-isl --dtype float32",
        "--no-enable-chunked-prefill --max-num-batched-tokens 8192 --max-model-len 8192",
    ],
)
def test_the_flags_of_a_scenario_make_the_same_server(command: str) -> None:
    first = made(command).scenario
    again = setup([parse_command(vllm_flags(first))], {"gpu": "A100-80GB"}).scenario
    assert again.engine_config() == first.engine_config()
    changed = set(first.diff(again))
    assert changed <= {"max_model_len", "max_num_batched_tokens"}, "which were left to the engine, and are spelled out"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "--preemption-mode swap --swap-space 2 --enforce-eager",
        "--max-model-len 40000 --max-num-batched-tokens 40000 --swap-space 0",
    ],
)
def test_the_flags_of_an_older_server_make_it_again(command: str) -> None:
    given = {"gpu": "A100-80GB"}
    first = setup([parse_command(f"vllm serve {MODEL} {command}", VLLM_V0)], given, VLLM_V0).scenario
    again = setup([parse_command(vllm_flags(first), VLLM_V0)], given, VLLM_V0).scenario
    assert first.rules == VLLM_V0
    assert again.engine_config() == first.engine_config()


def test_a_preset_prints_its_command() -> None:
    server = kvlab.scenario("vllm-v1").server
    assert isinstance(server, VllmV1Server)
    assert serve_command(server) == (
        "vllm serve meta-llama/Llama-3.1-8B-Instruct --gpu-memory-utilization 0.92 --max-model-len 16384 "
        "--max-num-seqs 256 --max-num-batched-tokens 2048 --block-size 16"
    )


def test_a_lab_has_flags_but_no_command() -> None:
    assert vllm_flags(kvlab.scenario("block-table-lab", kv_memory_bytes="1GiB")) == (
        "--kv-cache-memory-bytes 1073741824 --max-num-seqs 64 --block-size 16"
    )
    flags = vllm_flags(kvlab.scenario("preemption-lab", preemption_mode="swap", headroom_blocks=100))
    match = re.search(r"--watermark (\S+) --preemption-mode swap --swap-space \S+$", flags)
    assert match is not None
    assert int(float(match[1]) * 3545) == 100, "as vLLM makes blocks of it"
