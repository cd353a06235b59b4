"""Start-up logs of vLLM: what is read from which line, and what in them can't all be true."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from kvlab import vllm_log
from kvlab.errors import LogError, VllmCommandError
from kvlab.setting_table import VLLM_V0
from kvlab.vllm_flags import ParsedCommand
from kvlab.vllm_log import read_log

MODEL = "Qwen/Qwen2.5-7B-Instruct"
V1 = f"""\
(APIServer pid=1) INFO 05-02 10:00:01 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=1) INFO 05-02 10:00:01 [utils.py:233] non-default args: {{'model_tag': '{MODEL}', 'model': '{MODEL}', \
'api_key': ['hush'], 'max_num_seqs': 128, 'gpu_memory_utilization': 0.5, \
'compilation_config': CompilationConfig(level=3)}}
(APIServer pid=1) INFO 05-02 10:00:04 [__init__.py:1815] Using max model len 8192
(APIServer pid=1) INFO 05-02 10:00:04 [scheduler.py:222] Chunked prefill is enabled with max_num_batched_tokens=4096.
(EngineCore_DP0 pid=7) INFO 05-02 10:00:09 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: \
model='{MODEL}', speculative_config=None, tokenizer='{MODEL}', dtype=torch.bfloat16, max_seq_len=8192, \
tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1, quantization=fp8, enforce_eager=True, \
kv_cache_dtype=fp8_e4m3, seed=0, enable_prefix_caching=False, chunked_prefill_enabled=True, use_async_output_proc=True
(EngineCore_DP0 pid=7) INFO 05-02 10:00:41 [gpu_worker.py:298] Available KV cache memory: 16.00 GiB
(EngineCore_DP0 pid=7) INFO 05-02 10:00:41 [kv_cache_utils.py:1087] GPU KV cache size: 299,584 tokens
(EngineCore_DP0 pid=7) INFO 05-02 10:00:41 [kv_cache_utils.py:1091] \
Maximum concurrency for 8,192 tokens per request: 36.57x
(APIServer pid=1) INFO 05-02 10:00:50 [loggers.py:147] Engine 000: vllm cache_config_info with initialization after \
num_gpu_blocks is: 18724
"""
V0 = """\
INFO 11-27 15:31:08 api_server.py:625] vLLM API server version 0.6.4.post1
INFO 11-27 15:31:08 api_server.py:626] args: Namespace(subparser='serve', \
model_tag='meta-llama/Llama-3.1-8B-Instruct', \
host=None, port=8000, allowed_origins=['*'], model='meta-llama/Llama-3.1-8B-Instruct', task='auto', \
load_format='auto', config_format=<ConfigFormat.AUTO: 'auto'>, dtype='auto', max_model_len=8192, \
block_size=16, num_lookahead_slots=0, \
swap_space=4, cpu_offload_gb=0, max_num_seqs=200, enable_lora=False, device='auto', num_scheduler_steps=1, \
preemption_mode=None, worker_cls='auto', dispatch_function=<function serve at 0x7f21>)
INFO 11-27 15:31:20 llm_engine.py:249] Initializing an LLM engine (v0.6.4.post1) with config: \
model='meta-llama/Llama-3.1-8B-Instruct', speculative_config=None, max_seq_len=8192, tensor_parallel_size=1, \
quantization=None, kv_cache_dtype=auto, enable_prefix_caching=False, chunked_prefill_enabled=False
INFO 11-27 15:31:40 worker.py:241] model weights take 14.96GiB; \
the rest of the memory reserved for KV Cache is 11.12GiB.
INFO 11-27 15:31:40 gpu_executor.py:76] # GPU blocks: 5691, # CPU blocks: 2048
INFO 11-27 15:31:40 gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 11.12x
"""


def log(tmp_path: Path, text: str) -> ParsedCommand:
    path = tmp_path / "serve.log"
    path.write_text(text, encoding="utf-8")
    return read_log(path)


def test_a_log_of_v1_says_settings_and_pool(tmp_path: Path) -> None:
    found = log(tmp_path, V1)
    assert found.settings == {
        "engine_version": "0.11.0",
        "model": MODEL,
        "max_num_seqs": 128,
        "gpu_memory_utilization": Decimal("0.5"),
        "max_model_len": 8192,
        "max_num_batched_tokens": 4096,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "weight_dtype": "fp8",
        "kv_cache_dtype": "fp8",
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "enable_chunked_prefill": True,
        "block_size": 16,
        "num_gpu_blocks_override": 18_724,
    }
    assert found.warnings == ()
    lines = {taken.setting: taken.flag for taken in found.mapped}
    assert lines["max_num_seqs"] == "line 2: max_num_seqs=128"
    assert lines["num_gpu_blocks_override"] == "line 9: 18,724 blocks"
    assert lines["max_model_len"] == "line 8: 8,192 tokens per request"
    assert "hush" not in str(found)


def test_a_log_of_the_engine_before_v1_is_read_and_said_to_be_one(tmp_path: Path) -> None:
    found = log(tmp_path, V0)
    assert found.settings["num_gpu_blocks_override"] == 5_691
    assert found.settings["max_num_seqs"] == 200
    assert found.settings["engine_version"] == "0.6.4"
    assert [said.why for said in found.noted] == [
        "the engine before V1 wrote this, whose rules vllm-v0 has; the rules here are those of V1"
    ]
    assert not found.warnings


def test_such_a_log_is_one_for_the_older_rules(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_text(V0)
    found = read_log(path, VLLM_V0)
    assert found.settings["swap_space_bytes"] == 4 * 2**30
    assert "enable_prefix_caching" not in found.settings
    assert not found.noted


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("INFO 01-30 03:19:14 kv_cache_utils.py:395] # GPU blocks: 1381\n", 1381),
        ("INFO 04-01 llm_engine.py] # cuda blocks: 1,381, # CPU blocks: 512\n", 1381),
        ("GPU KV cache size: 22,096 tokens\n", 1381),
        ("GPU KV cache size: 22,096 tokens, Maximum concurrency for 2,048 tokens per request: 10.79x\n", 1381),
        ("rank 0 GPU KV cache size: 22,112 tokens\nrank 1 GPU KV cache size: 22,096 tokens\n", 1381),
        ("non-default args: {'block_size': 32}\nGPU KV cache size: 22,112 tokens\n", 691),
        ('vllm:cache_config_info{block_size="32",num_gpu_blocks="691"} 1.0\n', 691),
        ('vllm:cache_config_info{block_size="32",kv_cache_size_tokens="22112"} 1.0\n', 691),
    ],
)
def test_the_pool_is_on_lines_of_many_forms(text: str, blocks: int, tmp_path: Path) -> None:
    found = log(tmp_path, text)
    assert found.settings["num_gpu_blocks_override"] == blocks
    assert not found.warnings


def test_block_size_follows_from_tokens_and_blocks(tmp_path: Path) -> None:
    found = log(tmp_path, "GPU KV cache size: 6,400 tokens\ncache_config_info after num_gpu_blocks is: 100\n")
    assert found.settings["block_size"] == 64


def test_a_newer_banner_says_the_version(tmp_path: Path) -> None:
    found = log(tmp_path, " ▄▄ ▄█ █  version 0.23.0\nnon-default args: {'model': 'Qwen/Qwen3-8B'}\n")
    assert found.settings == {"engine_version": "0.23.0", "model": "Qwen/Qwen3-8B"}
    assert found.warnings == ("no line says how large the KV cache is: it is computed",)


def test_a_build_without_a_version_has_none(tmp_path: Path) -> None:
    found = log(tmp_path, "vLLM API server version 0.1.dev3820+g27244b2\n# GPU blocks: 10\n")
    assert found.settings == {"num_gpu_blocks_override": 10}


def test_log_and_metrics_that_disagree_are_a_warning(tmp_path: Path) -> None:
    """vllm-project/vllm#50456: 302,945 tokens and 1.16x in the log, 123,433 and 0.4709 in /metrics."""
    text = (
        "GPU KV cache size: 302,945 tokens\nMaximum concurrency for 262,144 tokens per request: 1.16x\n"
        'vllm:cache_config_info{kv_cache_max_concurrency="0.47086",kv_cache_size_tokens="123433"} 1.0\n'
    )
    found = log(tmp_path, "non-default args: {'block_size': 256}\n" + text)
    first, second, third = found.warnings
    assert first == ("302,945 tokens (line 2), but /metrics says 123,433 (line 4): the block size was resolved twice")
    assert second.startswith("1.16 requests at once (line 3), but /metrics says 0.47 (line 4)")
    assert third.startswith("max_concurrency is 0.47 (line 4): not even one request")


def test_tokens_that_do_not_make_the_logged_concurrency_are_a_warning(tmp_path: Path) -> None:
    """vllm-project/vllm#40691: 290,864 tokens, 33.04 requests of 32,768, of a model with layers of several kinds."""
    text = "GPU KV cache size: 290,864 tokens\nMaximum concurrency for 32,768 tokens per request: 33.04x\n"
    (warning,) = log(tmp_path, text).warnings
    assert warning == (
        "290,864 tokens (line 1) are 8.88 requests of 32,768, but the log says 33.04 (line 2): "
        "layers of several kinds share the pool, or the block size was resolved twice"
    )


@pytest.mark.parametrize(("concurrency", "count"), [("9.30", 0), ("9.40", 1), ("8.45", 0), ("8.40", 1)])
def test_five_percent_apart_is_still_the_same(concurrency: str, count: int, tmp_path: Path) -> None:
    text = f"GPU KV cache size: 290,864 tokens\nMaximum concurrency for 32,768 tokens per request: {concurrency}x\n"
    assert len(log(tmp_path, text).warnings) == count


def test_the_last_of_several_starts_is_read(tmp_path: Path) -> None:
    found = log(tmp_path, V0 + V1)
    assert found.settings["model"] == MODEL
    assert found.settings["num_gpu_blocks_override"] == 18_724
    assert not found.noted or "before V1" not in found.noted[0].why
    assert found.warnings == ("the log holds 2 starts: the last one is read",)


def test_what_cannot_be_simulated_is_refused_with_file_and_line(tmp_path: Path) -> None:
    text = V1.replace("'max_num_seqs': 128", "'speculative_config': {'method': 'mtp'}, 'enable_lora': True")
    with pytest.raises(VllmCommandError, match=r"serve\.log: line 2: speculative_config=.*several tokens.*enable_lora"):
        log(tmp_path, text)
    with pytest.raises(VllmCommandError, match=r"line 5: data_parallel_size=4: each replica"):
        log(tmp_path, V1.replace("data_parallel_size=1", "data_parallel_size=4"))


def test_what_is_not_known_in_a_log_is_noted(tmp_path: Path) -> None:
    found = log(tmp_path, V1.replace("'max_num_seqs': 128", "'frobnicate': 3, 'max_num_seqs': 8"))
    assert found.noted[0].flag == "line 2: frobnicate=3"
    assert "may change the answer" in found.noted[0].why


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no line of vLLM's start"), ("INFO: Started server process\n" * 3, "GPU KV cache size: 299,584 tokens")],
)
def test_another_file_is_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=words) as caught:
        log(tmp_path, text)
    assert caught.value.path.endswith("serve.log")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.log"):
        with pytest.raises(LogError, match="can't be read"):
            read_log(path)


def test_a_value_out_of_range_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(VllmCommandError, match=r"serve\.log: line 1: 999,999,999,999 blocks: has a value"):
        log(tmp_path, "# GPU blocks: 999,999,999,999, # CPU blocks: 1\n")


def test_only_the_beginning_of_a_long_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_log, "MAX_BYTES", 4_000)
    found = log(tmp_path, V1 + "INFO: one request more\n" * 1_000 + "# GPU blocks: 5\n")
    assert found.settings["num_gpu_blocks_override"] == 18_724
    assert "the rest was not read" in found.warnings[0]


def test_bytes_that_are_no_text_and_lines_without_end_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_bytes(b"\xff\xfe\x00" * 200_000 + b"\nnon-default args: {'a': [}\nGPU KV cache size: 160 tokens\n")
    assert read_log(path).settings == {"num_gpu_blocks_override": 10}
