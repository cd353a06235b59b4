"""Pasted commands of vLLM: what becomes of their flags, and of the shell around them."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.errors import ConfigError, KvlabError, VllmCommandError
from kvlab.setting_table import SETTINGS, VLLM_V0, VLLM_V1
from kvlab.vllm_flag_table import FLAGS, SHORTS
from kvlab.vllm_flags import ParsedCommand, parse_command
from kvlab.vllm_words import MAX_COMMAND, server_words

MODEL = "Qwen/Qwen2.5-7B-Instruct"


def settings_of(command: str) -> dict[str, object]:
    return parse_command(command).settings


def flags_of(command: str) -> dict[str, object]:
    """The settings besides the model."""
    found = settings_of(f"vllm serve {MODEL} {command}")
    assert found.pop("model") == MODEL
    return found


def problems_of(command: str) -> list[str]:
    with pytest.raises(VllmCommandError) as caught:
        parse_command(f"vllm serve {MODEL} {command}")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("--max-num-seqs 128", {"max_num_seqs": 128}),
        ("--max-num-seqs=128", {"max_num_seqs": 128}),
        ("--max_num_seqs 128", {"max_num_seqs": 128}),
        ("--max-num-seq 128", {"max_num_seqs": 128}),
        ("--max-model-len 8k", {"max_model_len": 8_000}),
        ("--max-model-len 8K", {"max_model_len": 8_192}),
        ("--max-num-batched-tokens 25.6k", {"max_num_batched_tokens": 25_600}),
        ("--kv-cache-memory-bytes 16G", {"kv_cache_memory_bytes": 16 * 2**30}),
        ("--kv-cache-memory 4294967296", {"kv_cache_memory_bytes": 2**32}),
        ("--gpu-memory-utilization 0.95", {"gpu_memory_utilization": Decimal("0.95")}),
        ("-tp 2 -pp=2", {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}),
        ("--tensor_parallel 4", {"tensor_parallel_size": 4}),
        ("--no-enable-prefix-caching", {"enable_prefix_caching": False}),
        ("--enable-chunked-prefill False", {"enable_chunked_prefill": False}),
        ("--enable_chunked_prefill=False", {"enable_chunked_prefill": False}),
        ("--enable-chunked-prefill --enable-prefix-caching",
         {"enable_chunked_prefill": True, "enable_prefix_caching": True}),
        ("--no-scheduler-reserve-full-isl", {"scheduler_reserve_full_isl": False}),
        ("--kv-cache-dtype fp8_e4m3", {"kv_cache_dtype": "fp8"}),
        ("--kv-cache-dtype bfloat16", {"kv_cache_dtype": "auto"}),
        ("--quantization awq_marlin --dtype half", {"weight_dtype": "awq"}),
        ("--dtype float32 -q fp8", {"weight_dtype": "fp8"}),
        ("-q fp8 --dtype float32", {"weight_dtype": "fp8"}),
        ("--dtype float32", {"weight_dtype": "fp32"}),
        ("--dtype bfloat16", {}),
        ("--watermark 0.01 --scheduling-policy priority", {"watermark": Decimal("0.01"),
                                                          "scheduling_policy": "priority"}),
        ("--long-prefill-token-threshold 512", {"long_prefill_token_threshold": 512}),
        ("--num-gpu-blocks-override 1000 --block-size 32", {"num_gpu_blocks_override": 1000, "block_size": 32}),
        ("--enforce-eager", {"enforce_eager": True}),
        ("--max-num-seqs 4 --max-num-seqs 8", {"max_num_seqs": 8}),
    ],
)  # fmt: skip
def test_a_flag_is_a_setting(command: str, expected: dict[str, object]) -> None:
    assert flags_of(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        f"vllm serve {MODEL} --max-num-seqs 128 --port 8000",
        f"$ vllm serve {MODEL} \\\n    --max-num-seqs 128 \\  \n    --port 8000\n",
        f"vllm serve --max-num-seqs 128 {MODEL}",
        f"python -m vllm.entrypoints.openai.api_server --model {MODEL} --max-num-seqs 128",
        f"python3 -m vllm.entrypoints.cli.main serve {MODEL} --max-num-seqs 128",
        f"CUDA_VISIBLE_DEVICES=0,1 HF_HOME='/a b' vllm serve {MODEL} --max-num-seqs 128",
        f"cd /models && nohup uv run vllm serve {MODEL} --max-num-seqs 128 > serve.log 2>&1 &",
        f"vllm serve {MODEL} --max-num-seqs 128 2>&1 | tee serve.log",
        f"# start it\nsudo /opt/venv/bin/vllm serve {MODEL} --max-num-seqs '128'",
        f"vllm serve {MODEL} \u2014max-num-seqs 128",
        f"docker run --runtime nvidia --gpus all -v /models:/models "
        f'--env "HF_TOKEN=secret" -p 8000:8000 --ipc=host vllm/vllm-openai:latest --model {MODEL} --max-num-seqs 128',
        f"docker run -it --rm --gpus=all --entrypoint vllm my/vllm serve {MODEL} --max-num-seqs 128",
        f"docker run -d --entrypoint python3 my/image -m vllm.entrypoints.openai.api_server --model {MODEL} "
        "--max-num-seqs 128",
        f"--model {MODEL} --max-num-seqs 128",
        f'      - "--model"\n      - "{MODEL}"\n      - "--max-num-seqs"\n      - "128"\n',
        f"  - --model={MODEL}\n  - --max-num-seqs=128\n",
        f'["--model", "{MODEL}", "--max-num-seqs", "128"]',
        f'["vllm", "serve", "{MODEL}", "--max-num-seqs", 128]',
    ],
)
def test_a_command_is_read_as_people_paste_it(command: str) -> None:
    assert settings_of(command) == {"model": MODEL, "max_num_seqs": 128}


def test_the_image_says_which_version_it_is() -> None:
    found = parse_command(f"docker run --gpus all vllm/vllm-openai:v0.11.0 --model {MODEL}")
    assert found.settings == {"engine_version": "0.11.0", "model": MODEL}
    old = parse_command(f"docker run --gpus all vllm/vllm-openai:v0.6.3 --model {MODEL}")
    assert [said.why for said in old.noted] == [
        "it starts the engine before V1, whose rules vllm-v0 has; the rules here are those of V1"
    ]


def told(parsed: ParsedCommand, kind: str) -> dict[str, str]:
    return {each.flag: each.why for each in getattr(parsed, kind)}


def test_what_changes_nothing_is_ignored_with_its_reason() -> None:
    parsed = parse_command(
        f"vllm serve {MODEL} --host 0.0.0.0 --served-model-name a b --api-key secret --trust-remote-code -O3 "
        "--tool-call-parser hermes --disable-log-requests --swap-space 16 --seed 7 -dp 1 --cpu-offload-gb 0"
    )
    assert parsed.settings == {"model": MODEL}
    assert not parsed.noted
    ignored = told(parsed, "ignored")
    assert ignored["--host"] == "of the HTTP server"
    assert ignored["--swap-space"].startswith("V1 never swaps")
    assert ignored["--seed"].startswith("of sampling")
    assert ignored["-dp 1"] == ignored["-O3"] == ignored["--cpu-offload-gb 0"] == "as without it"
    assert "secret" not in str(parsed)


def test_what_is_taken_but_not_simulated_is_said() -> None:
    parsed = parse_command(
        f"vllm serve {MODEL} --enforce-eager --async-scheduling --compilation-config '{{\"level\": 3}}'"
    )
    noted = told(parsed, "noted")
    assert "step times stay those with them" in noted["--enforce-eager"]
    assert "one step behind" in noted["--async-scheduling"]
    assert noted['--compilation-config {"level": 3}'] == "step times and graph memory stay those of the defaults"
    off = parse_command(f"vllm serve {MODEL} --no-async-scheduling --no-enforce-eager")
    assert not off.noted
    assert parse_command(f"vllm serve {MODEL} --max-num-seqs 4 --max-num-seqs 8").noted[0].why == (
        "given again: --max-num-seqs 8 holds, as in vLLM"
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("--speculative-config '{\"method\": \"ngram\"}'", ["several tokens a sequence", "leave it out"]),
        ("--speculative-config.method ngram", ["several tokens a sequence"]),
        ("-dp 2", ["a queue and a pool of its own", "its share of the traffic"]),
        ("--enable-lora", ["adapters take memory"]),
        ("--kv-transfer-config '{\"kv_connector\": \"x\"}'", ["another place"]),
        ("--cpu-offload-gb 10", ["weights then lie in the CPU"]),
        ("--preemption-mode swap", ["before V1", "vllm-v0"]),
        ("--max-num-partial-prefills 2", ["how many prompts are in pieces"]),
        ("--stream-interval 10", ["changes gaps"]),
        ("--config serve.yaml", ["a file that is not read", "into the command"]),
        ("--limit-mm-per-prompt '{\"image\": 2}'", ["images", "every limit to 0"]),
        ("--quantization bitsandbytes", ["not known", "weight_dtype"]),
        ("--load-format gguf", ["numbers that are not in the table"]),
        ("--kv-cache-dtype int3", ["not known", "fp8"]),
        ("--max-model-len auto", ["the longest that fits", "kvlab capacity"]),
        ("--max-model-len -1", ["the longest that fits"]),
        ("--max-model-len 1.5K", ["no fraction of a binary unit", "1.5k"]),
        ("--max-nums-seq 3", ["is not known", "did you mean --max-num-seqs?"]),
        ("--max-num 3", ["is not known", "did you mean --max-num-seqs or --max-num-batched-tokens"]),
        ("--frobnicate", ["is not known", "neither memory nor steps"]),
        ("--block-size 0", ["must be at least 1"]),
        ("--max-num-seqs many", ["expected a number"]),
        ("--max-num-seqs", ["needs a value"]),
        ("--max-num-seqs --port 80", ["needs a value"]),
        ("--enable-prefix-caching=maybe", ["takes no value"]),
        ("stray", ["belongs to no flag"]),
    ],
)  # fmt: skip
def test_what_would_change_the_answer_is_refused_by_name(command: str, words: list[str]) -> None:
    (problem,) = problems_of(command)
    assert problem.startswith(command.split("=")[0].split(" ")[0])
    for word in words:
        assert word in problem


def test_all_refused_flags_are_named_at_once() -> None:
    found = problems_of("--enable-lora --max-num-seqs 8 -dp 4 --frobnicate 3 --port 80")
    assert [problem.split(":")[0] for problem in found] == ["--enable-lora", "-dp 4", "--frobnicate"]
    with pytest.raises(ConfigError, match=r"^--vllm: --enable-lora: adapters .* -dp 4: each replica"):
        parse_command("vllm serve m --enable-lora -dp 4")
    with pytest.raises(VllmCommandError, match="VLLM_USE_V1=0: the engine before V1"):
        parse_command("VLLM_USE_V1=0 vllm serve m")


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "vllm bench serve --port 3",
        "python train.py",
        "docker ps",
        "docker run -d",
        "vllm serve 'm",
        "ls; pwd",
    ],
)
def test_what_starts_no_server_says_what_would(command: str) -> None:
    with pytest.raises(ConfigError, match="--vllm = "):
        parse_command(command)


def test_the_engine_before_v1_has_flags_of_its_own() -> None:
    found = parse_command(f"VLLM_USE_V1=0 vllm serve {MODEL} --preemption-mode swap --swap-space 0.5 -pp 1", VLLM_V0)
    assert found.settings == {"model": MODEL, "preemption_mode": "swap", "swap_space_bytes": 2**29}
    off = parse_command(f"vllm serve {MODEL} --enable-chunked-prefill=False --scheduling-policy fcfs", VLLM_V0)
    assert off.settings == {"model": MODEL}
    with pytest.raises(VllmCommandError, match=r"whole prompts.*no KV of beginnings.*-pp 2: the rules of vllm-v0"):
        parse_command(f"vllm serve {MODEL} --enable-chunked-prefill --enable-prefix-caching -pp 2", VLLM_V0)


def test_a_command_has_a_longest() -> None:
    with pytest.raises(ConfigError, match="at most 16,384 characters"):
        parse_command("vllm serve " + "m" * MAX_COMMAND)


def test_a_flag_of_each_row_is_read_by_its_name() -> None:
    for flag in (flag for flag in FLAGS.values() if flag.fate != "mapped"):
        word = flag.name if flag.takes == "switch" else f"{flag.name} 1"
        if flag.fate == "refused" and not flag.changes_nothing("1"):
            with pytest.raises(VllmCommandError, match=f"^--vllm: {flag.name}"):
                parse_command(f"vllm serve m {word}")
            continue
        parsed = parse_command(f"vllm serve m {word}")
        (said,) = (*parsed.noted, *parsed.ignored)
        assert said.flag.startswith(flag.name)


def test_the_table_fits_together() -> None:
    assert all(name.startswith("--") and name == name.lower() for name in FLAGS)
    assert all(short.startswith("-") and not short.startswith("--") for short in SHORTS)
    for flag in FLAGS.values():
        assert (flag.setting is not None) == (flag.fate == "mapped")
        assert flag.setting is None or VLLM_V1 in SETTINGS[flag.setting].rules
        assert flag.fate == "mapped" or flag.why
        assert (flag.fate == "refused") == bool(flag.remedy)
        assert not flag.why.endswith("."), "sentences are put together of them"


WORDS = st.sampled_from(
    ["vllm", "serve", "m", *list(FLAGS)[:40], *SHORTS, "--no-enable-lora", "8k", "-1", "0.9", "'", '"', "\\\n", "&",
     "|", ">", "a=b", "--x=", "{", "docker", "run", "--", "-", "=", "\u2014", "#", "true"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=80))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    with suppress(KvlabError):
        found = parse_command(text)
        assert set(found.settings) == {taken.setting for taken in found.mapped}
        assert server_words(text).words is not None
