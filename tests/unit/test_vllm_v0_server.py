"""vllm-v0 as a scenario: its defaults, what it shares with vllm-v1, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

import kvlab
from kvlab.core.config import VllmV0Config
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.scenarios import preset
from kvlab.step_time.profiles import profiles

GIB = 2**30


def config_of(**changes: object) -> VllmV0Config:
    config = preset("vllm-v0").replace(**changes).engine_config()
    assert isinstance(config, VllmV0Config)
    return config


def test_the_defaults_are_those_of_0_6() -> None:
    settings = preset("vllm-v0").settings()
    assert settings["engine_version"] == "0.6"
    config = config_of()
    assert config.num_cpu_blocks == 4 * GIB // (16 * 128 * 1024)
    assert config.max_num_batched_tokens == config.max_model_len == 16_384
    assert config.max_num_seqs == 256
    assert config.watermark_blocks == int(0.01 * config.num_gpu_blocks)
    assert config_of(max_model_len=1_000).max_num_batched_tokens == 2_048


def test_memory_and_step_times_are_those_of_vllm_v1_at_that_version() -> None:
    v1 = preset("vllm-v1").replace(engine_version="0.6", gpu_memory_utilization="0.9").engine_config()
    v0 = config_of()
    assert (v1.num_gpu_blocks, v1.step_time) == (v0.num_gpu_blocks, v0.step_time)  # type: ignore[union-attr]
    profile = next(iter(profiles().values()))
    assert config_of(step_time=profile.name).step_time == profile.step_time


def test_swap_space_is_of_each_gpu() -> None:
    one, two = config_of(), config_of(tensor_parallel_size=2)
    assert two.num_cpu_blocks == 2 * one.num_cpu_blocks


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine_version": "0.9"}, "for later versions take vllm-v1"),
        ({"max_num_batched_tokens": 4_096}, "a prompt is computed in one step"),
        ({"base_ns": "5 ms"}, "set step_time=linear"),
        ({"max_model_len": 10_000_000}, "vLLM would not start"),
        ({"swap_space_bytes": "65536 GiB"}, "more than 4,194,304"),
        ({"enable_prefix_caching": True}, "has none such"),
    ],
)
def test_what_it_can_not_be_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config_of(**changes)


def test_auto_is_a_mode_of_vllm_v0_only() -> None:
    assert config_of().preemption_mode == "auto"
    with pytest.raises(UnknownNameError, match="recompute, swap"):
        preset("preemption-lab").replace(preemption_mode="auto")
    with pytest.raises(UnknownNameError, match="auto"):
        config_of(preemption_mode="automatic")


def test_it_runs_with_samples_that_are_swapped() -> None:
    scenario = preset("vllm-v0").replace(num_samples=3, num_gpu_blocks_override=1_100, duration_ns="20 s", name="small")
    totals = kvlab.simulate(scenario).record.totals
    assert totals.finished == totals.arrived
    assert totals.cow_copies > 0
    assert totals.swap_ins == totals.swap_outs > 0
    assert totals.swap_ns > 0
    again = kvlab.simulate(replace(scenario, name="again")).record.totals
    assert again == totals
