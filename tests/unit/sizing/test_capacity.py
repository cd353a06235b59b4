"""The whole question: blocks, tokens, concurrency, refusals, provenance, and what is refused."""

from __future__ import annotations

import dataclasses
import json

import pytest

import kvlab
from kvlab.errors import ConfigError, KvlabError, UnknownNameError
from kvlab.sizing.figures import PROVENANCES
from kvlab.sizing.gpus import gpu, gpu_names

GIB = 2**30


def test_sixteen_gib_hold_what_the_engine_logged() -> None:
    found = kvlab.capacity(model="Qwen/Qwen2.5-7B-Instruct", kv_cache_memory_bytes=17_179_869_184, max_model_len=8192)
    assert found.kv_cache_tokens == 299_584  # vllm-project/vllm#44594
    assert found.kv_bytes_per_token == 57_344
    assert found.block_bytes == 57_344 * 16
    assert found.num_gpu_blocks == 18_724


def test_the_logged_concurrency_is_a_worst_case() -> None:
    found = kvlab.capacity(  # vllm-project/vllm#8031: 8,192 tokens, 4.61x
        kv_bytes_per_token=131_072,
        num_gpu_blocks_override=37_765 // 16,
        max_model_len=8192,
        prompt_tokens=600,
        output_tokens=200,
    )
    assert round(float(found.max_concurrency), 2) == 4.61
    assert found.by_lengths is not None
    assert int(found.by_lengths.at_full_length) == found.by_lengths.p99_safe == 47
    assert found.by_lengths.expected > found.by_lengths.at_full_length


@pytest.mark.parametrize(
    ("per_token", "available_gib", "block", "wanted", "needed", "estimate"),
    [
        (24_576, 9.97, 16, 1_048_576, "24.00", 435_584),  # vllm-project/vllm#16118
        (131_072, 0.71, 256, 131_072, "16.00", 5_632),  # vllm-project/tpu-inference#223
    ],
)
def test_a_refusal_says_what_the_engine_says(
    per_token: int, available_gib: float, block: int, wanted: int, needed: str, estimate: int
) -> None:
    found = kvlab.capacity(
        kv_bytes_per_token=per_token,
        kv_cache_memory_bytes=int(available_gib * GIB),
        max_model_len=wanted,
        block_size=block,
    )
    assert found.refusal is not None
    assert found.refusal.startswith(
        f"To serve at least one request with the model's max seq len ({wanted}), ({needed} GiB KV cache is needed, "
        f"which is larger than the available KV cache memory ({available_gib} GiB). Based on the available memory, the "
        f"estimated maximum model length is {estimate}. Try increasing `gpu_memory_utilization`"
    )
    assert found.longest_max_model_len == estimate
    starts = kvlab.capacity(
        kv_bytes_per_token=per_token,
        kv_cache_memory_bytes=int(available_gib * GIB),
        max_model_len=estimate,
        block_size=block,
    )
    assert starts.refusal is None


def test_each_version_has_its_words() -> None:
    def refusal(version: str, **more: object) -> str:
        found = kvlab.capacity(model="meta-llama/Llama-3.1-8B", gpu="RTX-3090", engine_version=version, **more)  # type: ignore[arg-type]
        assert found.refusal is not None
        return found.refusal

    assert "models's max seq len (131072)" in refusal("0.19", max_model_len=131_072)
    old = refusal("0.6", max_model_len=29_000)
    assert old.startswith("The model's max seq len (29000) is larger than the maximum number of tokens")
    assert refusal("0.21", gpu_memory_utilization="0.5").startswith("No available memory for the cache blocks.")
    assert refusal("0.6", gpu_memory_utilization="0.5").startswith("No available memory for the cache blocks.")
    heavy = kvlab.capacity(model="meta-llama/Llama-3.1-70B", gpu="H100")
    assert heavy.refusal is not None
    assert heavy.refusal.startswith("torch.OutOfMemoryError: CUDA out of memory")
    assert heavy.num_gpu_blocks == heavy.kv_cache_tokens == heavy.longest_max_model_len == 0


def test_hybrid_tokens_are_counted_as_each_version_counts() -> None:
    def found(version: str) -> kvlab.Capacity:
        return kvlab.capacity(
            model="google/gemma-3-27b-it",
            kv_cache_memory_bytes=int(19.53 * GIB),
            max_model_len=8192,
            max_num_batched_tokens=8192,
            engine_version=version,
        )

    assert found("0.19").kv_cache_tokens == 36_560  # as logged
    assert round(float(found("0.19").max_concurrency), 2) == 4.46
    assert found("0.21").kv_cache_tokens == int(found("0.21").max_concurrency * 8192)


def test_every_figure_says_where_it_is_from() -> None:
    found = kvlab.capacity(
        model="Qwen/Qwen2.5-7B-Instruct", gpu="A100-80GB", prompt_tokens="uniform(200, 1500)", output_tokens=300
    )
    document = json.loads(json.dumps(found.to_dict()))
    for name in (
        "kv_cache_tokens",
        "num_gpu_blocks",
        "max_concurrency",
        "weights_bytes",
        "graph_bytes",
        "p99_safe_concurrency",
    ):
        assert document[name]["provenance"] in PROVENANCES
        assert document[name]["source"]
    assert document["kv_cache_tokens"]["value"] == found.kv_cache_tokens
    assert document["gpu_memory_bytes"]["provenance"] == "assumed"
    assert found.figures["max_model_len"].provenance == "assumed"
    given = kvlab.capacity(model="Qwen/Qwen3-8B", gpu="H100", max_model_len=4096)
    assert given.figures["gpu_memory_bytes"].provenance == "measured"
    assert given.figures["max_model_len"].provenance == "given"


def test_an_answer_is_frozen_and_repeats() -> None:
    first, second = (kvlab.capacity(model="Qwen/Qwen3-8B", gpu="H100", prompt_tokens=9, output_tokens=9) for _ in "ab")
    assert first == second
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.num_gpu_blocks = 1  # type: ignore[misc]


def test_an_architecture_and_a_gpu_are_inputs_too() -> None:
    by_name = kvlab.capacity(model="Qwen/Qwen3-8B", gpu="L40S")
    assert by_name.architecture is not None
    assert by_name.gpu is not None
    assert kvlab.capacity(model=by_name.architecture, gpu=by_name.gpu) == by_name


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("A100-80GB", "A100-SXM-80GB"),
        ("a100 40gb", "A100-SXM-40GB"),
        ("NVIDIA H100", "H100-SXM-80GB"),
        ("rtx4090", "RTX-4090-24GB"),
        ("A100-SXM4-80GB", "A100-SXM-80GB"),
        ("L4", "L4-24GB"),
        ("H100-PCIe", "H100-PCIe-80GB"),
    ],
)
def test_gpus_have_short_names(name: str, means: str) -> None:
    assert gpu(name).name == means


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_is_itself_and_its_memory_is_near_its_nominal(name: str) -> None:
    found = gpu(name)
    assert found.name == name
    assert 0.92 < found.memory_bytes / GIB / int(name.rsplit("-", 1)[1].removesuffix("GB")) <= 1
    assert found.memory_bandwidth_bytes_per_s > 10**11
    assert found.bf16_flops_per_s > 10**13


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"model": "Qwen/Qwen3-8"}, 'unknown model "Qwen/Qwen3-8": did you mean "Qwen/Qwen3-8B"'),
        ({"model": "Qwen/Qwen3-8B", "gpu": "H1000"}, 'unknown gpu "H1000": did you mean "H100-SXM"'),
        ({"model": "Qwen/Qwen3-8B", "gpu": "A100"}, "which one. A100-SXM-40GB, A100-SXM-80GB"),
        ({"model": "Qwen/Qwen3-8B"}, "gpu = None: give --gpu"),
        ({"gpu": "H100"}, "model = None: give --model"),
        ({"kv_bytes_per_token": 4096, "gpu": "H100"}, "without a model the weights aren't known"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "H100", "gpu_memory_utilization": 95}, r"at most 1 \(95 % is 0.95\)"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "H100", "max_model_len": 0}, "max_model_len = 0: must be from 1"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "H100", "pipeline_parallel_size": 99}, "has 36 layers"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "H100", "kv_cache_dtype": "fp9"}, 'did you mean "fp8"'),
        ({"model": "Qwen/Qwen3-8B", "gpu": "H100", "weight_dtype": "int3"}, "unknown weight_dtype"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "H100", "engine_version": "new"}, "expected a version of vLLM"),
        (
            {"model": "Qwen/Qwen3-8B", "gpu": "H100", "prompt_tokens": 9},
            "output_tokens = None: is needed beside prompt",
        ),
        ({"model": "Qwen/Qwen3-8B", "gpu": "H100", "prompt_tokens": 9, "trace": "x"}, "the trace has its own lengths"),
        ({"model": "Qwen/Qwen3-8B", "gpu_memory": "80 Gib"}, "expected a number with a unit"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(inputs: dict[str, str], message: str) -> None:
    with pytest.raises(KvlabError, match=message) as refused:
        kvlab.capacity(**inputs)  # type: ignore[arg-type]
    assert isinstance(refused.value, ConfigError | UnknownNameError)


def test_copied_heads_hybrids_and_stages_are_noted() -> None:
    copied = kvlab.capacity(model="Qwen/Qwen3-30B-A3B", gpu="H100", tensor_parallel_size=8)
    assert "each is kept 2 times" in copied.notes[0]
    assert "8 of them padding" in kvlab.capacity(model="google/gemma-3-27b-it", gpu="H100").notes[0]
    short = kvlab.capacity(model="Qwen/Qwen3-8B", gpu="A100-80GB", prompt_tokens=100, output_tokens=100)
    assert short.notes[0].startswith("The engine runs at most 256 sequences at once (max_num_seqs)")
    staged = kvlab.capacity(model="Qwen/Qwen3-8B", gpu="L4", pipeline_parallel_size=2)
    assert staged.notes[0].startswith("Stage ")


def test_given_kv_memory_must_fit_beside_the_rest() -> None:
    def found(size: str) -> kvlab.Capacity:
        return kvlab.capacity(model="Qwen/Qwen3-8B", gpu="L40S", kv_cache_memory_bytes=size)

    fits = found("16 GiB")
    assert fits.refusal is None
    assert not fits.is_from_scratch
    assert fits.waterfall is not None
    assert fits.waterfall.kv_bytes == fits.kv_cache_bytes == 16 * GIB
    assert fits.waterfall.usable_bytes < fits.waterfall.total_bytes
    too_much = found("40 GiB").refusal
    assert too_much is not None
    assert too_much.startswith("torch.OutOfMemoryError: CUDA out of memory, while the KV cache is allocated: ")
