"""The smallest GPU that keeps a service level."""

from __future__ import annotations

import pytest

import kvlab
from kvlab.advice.goals import parse_goals
from kvlab.advice.gpus import GpuPlan, smallest_gpu
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.scenarios import Scenario, load
from kvlab.sizing.gpus import gpu
from kvlab.sweeps.workers import local

SOME = ("H100-SXM-80GB", "T4-16GB", "L40S", "L4", "A100-80GB", "V100-SXM2-32GB")


def short(**settings: object) -> Scenario:
    return load("vllm-v1").replace(**{"duration_ns": "20 s", **settings})


def found(scenario: Scenario, slo: str, **kwargs: object) -> GpuPlan:
    return smallest_gpu(scenario, parse_goals(slo), seeds=(1, 2), executor=local(1), **kwargs)  # type: ignore[arg-type]


def test_the_first_by_memory_that_holds_with_every_seed() -> None:
    plan = found(short(), "ttft_p95<=2s", gpus=SOME)
    assert plan.answer is not None
    assert plan.answer is plan.tried[-1]
    assert (plan.answer.verdict, plan.answer.seeds_kept) == ("holds", 2)
    sizes = [candidate.memory_bytes for candidate in plan.tried]
    assert sizes == sorted(sizes)
    assert all(candidate.verdict != "holds" for candidate in plan.tried[:-1])
    for candidate in plan.tried:
        assert candidate.memory_bytes == candidate.num_gpus * gpu(candidate.gpu).memory_bytes
        starts = candidate.verdict != "would not start"
        assert bool(candidate.seeds_tried) == bool(candidate.metrics) == bool(candidate.step_times) == starts
    answer = plan.answer
    again = kvlab.simulate(
        short(gpu=answer.gpu, tensor_parallel_size=answer.tensor_parallel_size, seed=2), record=kvlab.METRICS
    )
    assert again.metrics.p95_ttft_ns is not None
    assert again.metrics.p95_ttft_ns <= 2_000_000_000
    assert plan.table().num_rows == plan.__dataframe__().num_rows() == len(plan.to_dict()["tried"])


def test_what_does_not_fit_is_not_simulated_and_says_why() -> None:
    plan = found(
        short(model="Qwen/Qwen2.5-72B-Instruct", max_model_len=4096), "ttft_p95<=1ms", gpus=["L4", "V100-SXM2-32GB"]
    )
    assert plan.answer is None
    assert plan.runs == 0
    reasons = {candidate.why for candidate in plan.tried}
    assert any("memory" in why for why in reasons)
    assert any("no BF16" in why for why in reasons)


def test_step_times_say_whether_they_were_measured() -> None:
    plan = found(short(request_rate="0.5"), "ttft_p95<=1us", gpus=["H100-SXM-80GB", "H200-SXM-141GB"], sizes=(1,))
    kinds = {candidate.gpu: (candidate.step_times, candidate.band_percent) for candidate in plan.tried}
    assert kinds["H100-SXM-80GB"] == ("measured", None)
    assert kinds["H200-SXM-141GB"][0] == "estimated"
    assert kinds["H200-SXM-141GB"][1]
    assert all(candidate.why == "TTFT p95 at most 1 µs" for candidate in plan.tried)


def test_who_turns_requests_away_fails() -> None:
    plan = found(short(prompt_tokens=20_000, request_rate=1), "ttft_p95<=99h", gpus=["L40S"], sizes=(1,))
    assert plan.tried[0].verdict == "fails"
    assert "turned away" in plan.tried[0].why


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        (load("preemption-lab"), "has no GPU of a name"),
        (load("vllm-v1").replace(num_gpu_blocks_override=5000), "num_gpu_blocks_override"),
        (load("vllm-v1").replace(step_time="linear"), "step_time"),
        (load("vllm-v1").replace(step_time="h100-llama-3.1-8b"), "is of one GPU"),
    ],
)  # fmt: skip
def test_what_is_the_same_on_every_gpu_is_refused(scenario: Scenario, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        found(scenario, "ttft_p95<=2s")


def test_names_are_checked_first() -> None:
    with pytest.raises(UnknownNameError, match="H100"):
        found(short(), "ttft_p95<=2s", gpus=["H1000"])
    with pytest.raises(ConfigError, match="--good"):
        found(short(), "goodput>=1", gpus=["H100-SXM-80GB"])
