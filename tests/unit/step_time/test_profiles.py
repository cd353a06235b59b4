"""Profiles that come with the package, how they are found, and how a wrong document is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvlab.core.step_time import RooflineStepTime, StepLoad, from_dict, to_dict
from kvlab.errors import ConfigError, ScenarioError, UnknownNameError
from kvlab.sizing.gpus import gpu
from kvlab.sizing.models import model
from kvlab.step_time.planning import step_profile
from kvlab.step_time.profiles import Profile, find_profile, profile, profiles, read_profile
from kvlab.step_time.roofline import ModelFigures, assumed_profile, efficiencies, profile_for, unknown_band_percent

LLAMA = ModelFigures(
    layers=32, hidden_size=4096, attention_width=4096, layer_params=6_979_321_856, head_params=525_336_576,
    kv_bytes_per_token=131_072,
)  # fmt: skip


@pytest.mark.parametrize("name", profiles())
def test_every_profile_says_what_it_is(name: str) -> None:
    found = profile(name)
    assert found.name == name
    assert gpu(found.gpu).name == found.gpu
    assert model(found.model).name == found.model
    assert not found.assumed
    assert found.errors
    assert set(found.range) >= {"num_decodes", "decode_context", "prefill_tokens"}
    assert found.provenance.licence
    assert Profile.from_dict(json.loads(found.to_json())) == found


@pytest.mark.parametrize("name", profiles())
def test_every_profile_has_steps_of_a_sensible_length(name: str) -> None:
    step_time = profile(name).step_time
    for seqs in (1, 32):
        assert 2_000_000 < step_time.decode_ns(seqs, seqs * 500) < 100_000_000
    prompt = step_time.mixed_ns(StepLoad(1, 0, 0, 2048, 0, 2048 * 2049 // 2, 1))
    assert 20_000_000 < prompt < 1_000_000_000
    assert step_time.grows_with_context or "splitwise" in name


def test_the_real_runs_profiles_are_near_their_kernels() -> None:
    for name in ("rtx-4090-llama-3.1-8b", "rtx-pro-6000-x2-qwen3-32b"):
        errors = profile(name).errors
        assert errors["kernel sums, decode steps"].mean_percent < 2
        assert errors["kernel sums, mixed steps"].mean_percent < 4
        assert abs(errors["real run, decode time of a request"].bias_percent) < 1


def test_a_profile_is_found_by_what_it_was_measured_on_and_nothing_else() -> None:
    found = find_profile("rtx-4090-24gb", "Llama-3.1-8B", 1)
    assert found is not None
    assert found.name == "rtx-4090-llama-3.1-8b"
    assert find_profile("RTX-4090-24GB", "meta-llama/Llama-3.1-8B", 2) is None
    assert find_profile("RTX-4090-24GB", "Llama-3.1-8B-Instruct", 1) is None
    later = find_profile("A100-SXM-80GB", "Llama-2-70b-hf", 8)
    assert later is not None
    assert later.measured_in == 2024  # and not Splitwise's of 2023


def test_what_was_not_measured_is_assumed_and_says_so() -> None:
    rates = {"peak_flops": 10**15, "peak_bytes_per_s": 3 * 10**12}
    measured = profile_for("RTX-4090-24GB", "Llama-3.1-8B", 1, LLAMA, **rates)
    assert not measured.assumed
    known = profile_for("H100-SXM-80GB", "no-such-model", 1, LLAMA, **rates)
    assert known.assumed
    assert known.band_percent is not None
    assert 0 < known.band_percent < 100
    assert known.provenance.fitted_on == "operators of this GPU, not this model"
    unknown = assumed_profile("TPU", "no-such-model", 1, LLAMA, **rates)
    assert unknown.band_percent == unknown_band_percent()
    assert "no measurement of this GPU" in unknown.provenance.fitted_on
    assert Profile.from_dict(unknown.to_dict()) == unknown


def test_the_roofline_is_within_its_band_of_a_measured_profile() -> None:
    for name, gpu_name in (("h100-llama-3.1-8b", "H100-SXM-80GB"), ("rtx-4090-llama-3.1-8b", "RTX-4090-24GB")):
        row = gpu(gpu_name)
        assumed = assumed_profile(
            gpu_name, "x", 1, LLAMA, peak_flops=row.bf16_flops_per_s, peak_bytes_per_s=row.memory_bandwidth_bytes_per_s
        )
        assert assumed.band_percent is not None
        for seqs in (1, 16, 64):
            ratio = assumed.step_time.decode_ns(seqs, seqs * 500) / profile(name).step_time.decode_ns(seqs, seqs * 500)
            assert abs(ratio - 1) < assumed.band_percent / 100


def test_rows_of_the_tables_lead_to_a_profile() -> None:
    row, llama = gpu("RTX-4090-24GB"), model("meta-llama/Llama-3.1-8B")
    assert step_profile(row, llama).name == "rtx-4090-llama-3.1-8b"
    tuned = step_profile(row, replace(llama, name="meta-llama/Llama-3.1-8B-Instruct"))
    assert tuned.step_time == profile("rtx-4090-llama-3.1-8b").step_time
    assert tuned.provenance.measured.endswith("with meta-llama/Llama-3.1-8B, which has the same shape")
    assert step_profile(row, replace(llama, name="other", vocab_size=32_000)).assumed
    eight = step_profile(row, llama, weight_dtype="fp8")
    assert eight.assumed
    assert isinstance(eight.step_time, RooflineStepTime)
    assert eight.step_time.layer_weight_bytes < llama.layer_params * 1.01
    assert "assumed to hold for fp8" in eight.provenance.fitted_on
    moe = step_profile(gpu("H100-SXM-80GB"), model("Qwen/Qwen3-30B-A3B"))
    assert isinstance(moe.step_time, RooflineStepTime)
    assert moe.step_time.layer_params < 4e9 < moe.step_time.layer_weight_bytes / 8


def test_shares_of_peak_rates_are_shares() -> None:
    for efficiency in efficiencies().values():
        for name in efficiency.CONSTANTS[:4]:
            assert 200 < getattr(efficiency, name) <= 1000
        assert efficiency.errors is not None


def test_beyond_the_range_is_said_with_the_limit() -> None:
    found = profile("rtx-4090-llama-3.1-8b")
    inside = StepLoad(64, 32, 20_000, 1_000, 100, 500_000, 2)
    assert found.extrapolated(inside) == ()
    outside = found.extrapolated(inside._replace(decode_context=90_000, prefill_tokens=8_000))
    assert [item.figure for item in outside] == ["decode_context", "prefill_tokens"]
    assert str(outside[0]).startswith("decode_context 90,000, measured up to 4")


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as error:
        profile("rtx-4090-llama-3.1-8")
    assert error.value.nearest == "rtx-4090-llama-3.1-8b"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"format": 2}, "mine.format"),
        ({"gpus": "x"}, "field of mine"),
        ({"gpu": 7}, "mine.gpu"),
        ({"tp": 0}, "mine.tp"),
        ({"assumed": 1}, "mine.assumed"),
        ({"band_percent": -1}, "mine.band_percent"),
        ({"range": {"decodes": [1, 2]}}, "figure of mine.range"),
        ({"range": {"num_decodes": [2, 1]}}, "mine.range.num_decodes"),
        ({"range": {"num_decodes": 3}}, "mine.range.num_decodes"),
        ({"errors": {"x": {"points": 1}}}, "mine.errors.x"),
        ({"errors": []}, "mine.errors"),
        ({"provenance": {"by": "me"}}, "field of mine.provenance"),
        ({"step_time": {"kind": "linear"}}, "mine.step_time.base_ns"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_document_is_named(change: dict[str, Any], field: str) -> None:
    document = {**profile("rtx-4090-llama-3.1-8b").to_dict(), **change}
    with pytest.raises(ConfigError) as error:
        Profile.from_dict(document, "mine")
    assert error.value.field == field


def test_what_is_missing_is_named() -> None:
    document = profile("rtx-4090-llama-3.1-8b").to_dict()
    del document["range"]
    with pytest.raises(ConfigError, match=r"mine\.range = None: is missing"):
        Profile.from_dict(document, "mine")


def test_files_that_cant_be_read(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="can't be read"):
        read_profile(tmp_path / "none.json")
    (path := tmp_path / "x.json").write_text("{", encoding="utf-8")
    with pytest.raises(ScenarioError, match="not JSON"):
        read_profile(path)


def test_coefficients_of_a_profile_survive_their_document() -> None:
    for found in profiles().values():
        assert from_dict(to_dict(found.step_time)) == found.step_time
        assert replace(found, name="x") != found
