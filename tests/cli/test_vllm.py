"""`--vllm` and `--vllm-log`: a server as its command line or its log has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.terminals import Cli

import kvlab

MODEL = "Qwen/Qwen2.5-7B-Instruct"
COMMAND = f"vllm serve {MODEL} --max-num-seqs 24 --max-model-len 8k --port 8000 --enforce-eager"
SHORT = ("--duration", "20s", "--no-chart", "-q")
GPU = ("--gpu", "A100-80GB")
LOG = f"""\
INFO [utils.py:233] non-default args: {{'model': '{MODEL}', 'max_num_seqs': 24, 'api_key': ['hush']}}
INFO [kv_cache_utils.py:1087] GPU KV cache size: 299,584 tokens
INFO [kv_cache_utils.py:1091] Maximum concurrency for 8,192 tokens per request: 36.57x
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "serve.log"
    path.write_text(LOG)
    return path


def test_a_pasted_command_is_run(cli: Cli) -> None:
    code, out, err = cli("run", "--vllm", COMMAND, *GPU, *SHORT)
    assert (code, err) == (0, "")
    assert out.startswith(f"vllm-v1\n  model {MODEL}")
    assert f" Read model {MODEL}, max_num_seqs 24, max_model_len 8000," in " ".join(out.split())
    assert "Noted         --enforce-eager: memory is that without CUDA graphs" in out
    assert "Ignored       --port (of the HTTP server)" in out
    assert "Assumed       engine_version 0.24" in out
    assert "no such traffic was given" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_the_run_is_that_of_the_same_settings(cli: Cli) -> None:
    document = json.loads(cli("run", "--vllm", COMMAND, *GPU, *SHORT, "--json").out)
    scenario = kvlab.scenario(
        "vllm-v1", model=MODEL, gpu="A100-80GB", max_num_seqs=24, max_model_len=8000, enforce_eager=True,
        duration_ns="20s",
    )  # fmt: skip
    assert document["scenario"] == scenario.to_dict()
    assert document["metrics"] == json.loads(json.dumps(kvlab.simulate(scenario).metrics.to_dict()))
    assert document["vllm"]["ignored"] == [{"from": "--port", "why": "of the HTTP server"}]
    assert document["vllm"]["warnings"] == []


def test_a_finished_run_prints_the_command_back(cli: Cli) -> None:
    out = cli("run", "--vllm", COMMAND, *GPU, *SHORT).out
    printed = out.split("The same server in vLLM:\n")[1].replace("\\\n", "")
    again = json.loads(cli("run", "--vllm", printed, *GPU, *SHORT, "--json").out)
    first = json.loads(cli("run", "--vllm", COMMAND, *GPU, *SHORT, "--json").out)
    assert again["metrics"] == first["metrics"]
    assert again["vllm"]["command"] == first["vllm"]["command"]
    assert "vllm serve" not in cli("run", "preemption-lab", *SHORT).out
    assert "vllm" not in json.loads(cli("run", "preemption-lab", *SHORT, "--json").out)


def test_a_preset_of_the_rules_prints_its_command_too(cli: Cli) -> None:
    out = cli("run", "vllm-v1", *SHORT).out
    assert "vllm serve meta-llama/Llama-3.1-8B-Instruct --gpu-memory-utilization 0.92 \\\n" in out
    assert "Assumed" not in out


def test_older_rules_take_older_flags(cli: Cli) -> None:
    out = cli("run", "vllm-v0", "--vllm", f"vllm serve {MODEL} --preemption-mode swap --swap-space 8", *GPU, *SHORT).out
    assert out.startswith("vllm-v0 · preemption_mode swap")
    assert "preemption_mode swap, swap_space_bytes 8 GiB" in " ".join(out.split())
    assert "--swap-space 8 --preemption-mode swap" in out


def test_flags_of_the_user_win(cli: Cli) -> None:
    document = json.loads(cli("run", "--vllm", COMMAND, *GPU, *SHORT, "--set", "max_num_seqs=8", "--json").out)
    assert document["scenario"]["server"]["max_num_seqs"] == 8
    assert {"from": "--max-num-seqs 24", "why": "max_num_seqs was given besides, and wins"} in (
        document["vllm"]["ignored"]
    )


def test_a_log_gives_the_pool(cli: Cli, log: Path) -> None:
    out = cli("run", "--vllm-log", log, *GPU, *SHORT).out
    assert "KV cache      299,568 tokens" in out, "one block is the engine's null block"
    assert "num_gpu_blocks_override 18724 (line 2)" in " ".join(out.split())
    assert "hush" not in out


def test_a_command_and_its_log_go_together(cli: Cli, log: Path) -> None:
    document = json.loads(
        cli("run", "--vllm", f"{COMMAND} --max-num-seqs 99", "--vllm-log", log, *GPU, *SHORT, "--json").out
    )
    server = document["scenario"]["server"]
    assert (server["max_num_seqs"], server["enforce_eager"], server["max_model_len"]) == (24, True, 8192)


def test_what_does_not_fit_together_is_a_warning_on_stderr(cli: Cli, log: Path) -> None:
    log.write_text(LOG.replace("36.57x", "0.90x"))
    code, out, err = cli("run", "--vllm-log", log, *GPU, *SHORT)
    assert code == 0
    assert "warning" not in out
    first, second = err.splitlines()
    assert first.startswith(
        "kvlab: warning: 299,584 tokens (line 2) are 36.57 requests of 8,192, but the log says 0.90"
    )
    assert "not even one request of the longest kind fits" in second


def test_capacity_takes_both(cli: Cli, log: Path) -> None:
    out = cli("capacity", "--vllm-log", log).out
    assert "299,584 tokens of KV fit. That is 36.57 requests of 8,192 tokens at once" in out
    assert "Read          model Qwen/Qwen2.5-7B-Instruct (line 1), max_num_seqs 24 (line 1)" in out
    eager, graphs = (
        json.loads(cli("capacity", "--vllm", command, *GPU, "--json").out)
        for command in (COMMAND, COMMAND.replace(" --enforce-eager", ""))
    )
    assert eager["settings"]["max_num_seqs"] == 24
    assert eager["settings"]["enforce_eager"]
    assert eager["vllm"]["mapped"][0] == {"from": MODEL, "setting": "model", "value": MODEL}
    assert eager != graphs


def test_compare_takes_commands(cli: Cli) -> None:
    code, out, err = cli(
        "compare", f"vllm serve {MODEL} --max-num-seqs 8", f"vllm serve {MODEL} --max-num-seqs 64",
        "--set", "gpu=A100-80GB", "--set", "duration_ns=20s", "-q",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "max_num_seqs 8 (preset: 256)" in out
    assert "The same requests in all" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "--vllm", COMMAND], ["give --gpu, such as --gpu A100-80GB"]),
        (["run"], ["--vllm COMMAND or --vllm-log FILE"]),
        (["run", "--vllm", "ls"], ["expected a command such as"]),
        (["run", "preemption-lab", "--vllm", COMMAND], ["leave preemption-lab out"]),
        (["run", "--vllm", f"{COMMAND} --enable-lora -dp 2", *GPU], ["--enable-lora: adapters", "-dp 2: each replica"]),
        (["run", "--vllm", f"{COMMAND} --max-num-sequences 2", *GPU], ["is not known; did you mean --max-num-seqs?"]),
        (["run", "--vllm-log", "missing.log", *GPU], ["missing.log: can't be read"]),
        (["capacity", "--vllm-log", "missing.log"], ["missing.log: can't be read"]),
        (["run", "--vllm", "vllm serve no/model", *GPU], ["unknown model"]),
    ],
)  # fmt: skip
def test_a_mistake_gets_one_line_that_helps(args: list[str], words: list[str], cli: Cli) -> None:
    message = cli.refuses(*args)
    for word in words:
        assert word in message
