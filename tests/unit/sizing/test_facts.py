"""What engines logged, against what is computed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvlab.sizing.accuracy import Check, activations, band, from_scratch, given_kv
from kvlab.sizing.compute import capacity
from kvlab.units import GIB

COMPARED = [check for check in given_kv() if check.why is None]
NOT_COMPARED = {check.model for check in from_scratch() if check.why is not None}


def name(check: Check) -> str:
    return f"{check.model}, {check.version}"


@pytest.mark.parametrize("check", COMPARED, ids=name)
def test_the_logged_kv_gives_the_logged_tokens(check: Check) -> None:
    assert check.error is not None
    assert check.logged is not None
    one_block = Fraction(16, check.logged)
    assert abs(check.error) <= max(Fraction(1, 1000), check.rounding + one_block)


def test_most_facts_are_compared_and_the_others_say_why() -> None:
    assert len(COMPARED) == 10
    assert {"Qwen3.6-27B autoround int4 (Qwen3.5-27B architecture)", "deepseek-ai/DeepSeek-R1 (or V3)"} == NOT_COMPARED


def test_half_of_the_facts_come_within_three_percent_from_scratch() -> None:
    assert band(from_scratch()).count == 20
    assert band(from_scratch()).median <= Fraction(3, 100)


def test_facts_that_no_constant_was_fitted_to_come_within_three_percent_too() -> None:
    held_out = [check for check in from_scratch() if not check.fitted]
    assert band(held_out).count >= 10
    assert band(held_out).median <= Fraction(3, 100)


def test_facts_of_v1_engines_are_all_within_nine_percent() -> None:
    recent = [
        check
        for check in from_scratch()
        if check.why is None and ("0.1" in check.version or "2025, v" in check.version)
    ]
    assert len(recent) >= 10
    assert band(recent).worst < Fraction(9, 100)


@pytest.mark.parametrize(("model", "logged", "computed"), activations())
def test_activations_are_as_logged(model: str, logged: int, computed: int) -> None:
    vision = Fraction(25, 100) if model.startswith("google/gemma-3") else Fraction(6, 100)
    assert abs(computed - logged) <= vision * GIB


def test_a_band_is_of_absolute_errors() -> None:
    checks = [Check(model="m", gpu="g", version="v", logged=100, computed=100 + off) for off in (-4, 1, 2, 10, 3)]
    assert band(checks).median == Fraction(3, 100)
    assert band(checks).four_fifths == Fraction(4, 100)
    assert band(checks).worst == Fraction(10, 100)
    assert band(checks).above == 4


@pytest.mark.parametrize(("dtype", "logged"), [("auto", 389_872), ("fp8", 779_760)])
def test_pools_that_nothing_was_fitted_to_are_within_one_percent(dtype: str, logged: int) -> None:
    found = capacity(  # vllm-project/vllm#42058, August 2026; its utilisation isn't stated
        model="Qwen/Qwen3-8B", gpu="A100-80GB", kv_cache_dtype=dtype, gpu_memory_utilization="0.9"
    )
    assert found.kv_cache_tokens == pytest.approx(logged, rel=0.01)
