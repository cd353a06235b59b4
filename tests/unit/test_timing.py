"""A run says where its step times are from, and when it left what was measured."""

from __future__ import annotations

import kvlab
from kvlab.core.config import VllmV1Config
from kvlab.timing import largest_load, timing_notes

SMALL: dict[str, object] = {"num_requests": 40, "request_rate": 40}


def notes(name: str = "vllm-v1", /, **settings: object) -> list[str]:
    scenario = kvlab.scenario(name, **settings)
    return timing_notes(kvlab.simulate(scenario), scenario)


def test_the_labs_have_nothing_to_say() -> None:
    assert notes("preemption-lab", num_requests=5) == []


def test_a_measured_profile_is_named() -> None:
    assert notes(gpu="A100-80GB", **SMALL)[0].startswith("measured: a100-llama-3.1-8b (")


def test_a_roofline_is_called_assumed_with_its_band() -> None:
    origin, band, *_ = notes(gpu="L40S-48GB", **SMALL)
    assert origin == "assumed: a roofline of L40S-48GB and meta-llama/Llama-3.1-8B-Instruct"
    assert band.endswith("% off either way")


def test_pipeline_stages_are_said_to_be_one_step_at_a_time() -> None:
    assert any(note.startswith("pipeline stages") for note in notes(gpu="A100-80GB", pipeline_parallel_size=2, **SMALL))


def test_the_rules_before_v1_say_so_too() -> None:
    assert notes("vllm-v0", gpu="A100-80GB", **SMALL)[0].startswith("measured: a100-llama-3.1-8b (")


def test_settings_are_called_settings() -> None:
    assert notes(step_time="linear", **SMALL)[0].startswith("linear: ")


def test_more_than_was_measured_is_extrapolated() -> None:
    busy = notes(gpu="A100-80GB", max_num_seqs=600, request_rate=500, num_requests=500, prompt_tokens="20")
    assert any(note.startswith("extrapolated: num_decodes ") for note in busy)
    assert not any("extrapolated" in note for note in notes(gpu="A100-80GB", num_requests=3))


def test_the_largest_load_bounds_a_run() -> None:
    scenario = kvlab.scenario("vllm-v1", gpu="A100-80GB", **SMALL)
    run, config = kvlab.simulate(scenario), scenario.engine_config()
    assert isinstance(config, VllmV1Config)
    load = largest_load(run, config)
    assert load.num_running == max(step.running for step in run.record.steps)
    assert load.prefill_tokens >= max(step.prefill_tokens for step in run.record.steps)
    assert load.decode_context >= max(step.used_tokens for step in run.record.steps)
