from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import pytest

from kvlab.errors import UnknownNameError
from kvlab.metrics import HEADLINES, METRICS, Metric, Metrics, metric
from kvlab.metrics.engine_names import ENGINE_NAMES

ENGINES = {"vLLM", "SGLang", "TGI", "TensorRT-LLM"}
PREFIXES = {"vllm:": "vLLM", "sglang:": "SGLang", "tgi_": "TGI", "trtllm_": "TensorRT-LLM"}


def test_every_figure_is_in_the_catalog_and_the_other_way_round() -> None:
    assert list(METRICS) == [f.name for f in fields(Metrics) if f.name != "percentiles_exact"]
    assert set(HEADLINES) <= set(METRICS)


@pytest.mark.parametrize("entry", METRICS.values(), ids=list(METRICS))
def test_an_entry_explains_itself(entry: Metric) -> None:
    assert entry.label
    assert len(entry.formula) > 5
    assert entry.source
    assert entry.better in ("lower", "higher", None)
    assert entry.name.endswith("_ns") == (entry.unit == "ns")
    assert entry.name.endswith("_ratio") == (entry.unit == "ratio")
    assert set(entry.engines) <= ENGINES


def test_engine_names_stand_under_their_engine() -> None:
    for engines in ENGINE_NAMES.values():
        for engine, name in engines.items():
            owners = {owner for prefix, owner in PREFIXES.items() if prefix in name}
            assert owners <= {engine}, name


def test_every_engine_name_reaches_an_entry() -> None:
    stems = {"ttft", "gap", "tpot", "e2e", "queue_time"}
    assert set(ENGINE_NAMES) <= stems | set(METRICS)
    assert METRICS["p95_ttft_ns"].engines["vLLM"] == "vllm:time_to_first_token_seconds"


def test_a_name_may_be_spelt_with_hyphens_and_an_unknown_one_gets_its_nearest() -> None:
    assert metric("p99-gap-ns") is METRICS["p99_gap_ns"]
    with pytest.raises(UnknownNameError, match='unknown metric "p99_tftt_ns": did you mean "p99_ttft_ns"'):
        metric("p99_tftt_ns")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("p50_ttft_ns", 51_376_328_370, "51.4 s"),
        ("throughput_tokens_per_s", Fraction(2103, 3), "701 tokens/s"),
        ("kv_capacity_bytes", 2**30, "1 GiB"),
        ("waste_ratio", Fraction(1, 3), "33.3 %"),
        ("rejected", 0, "0"),
        ("recomputed_tokens", 70_017, "70,017 tokens"),
        ("p50_ttft_ns", None, "–"),
    ],
)
def test_values_are_shown_with_their_unit(name: str, value: int | Fraction | None, shown: str) -> None:
    assert METRICS[name].format(value) == shown


@pytest.mark.parametrize(
    ("name", "delta", "shown"),
    [
        ("p50_ttft_ns", -1_500_000_000, "−1.5 s"),
        ("waste_ratio", Fraction(1, 8), "+12.5 pp"),
        ("preemptions", 12, "+12"),
        ("preemptions", 0, "no change"),
        ("p50_ttft_ns", None, "–"),
    ],
)
def test_changes_are_shown_with_their_sign(name: str, delta: int | Fraction | None, shown: str) -> None:
    assert METRICS[name].format_change(delta) == shown
