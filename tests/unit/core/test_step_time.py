"""Each kind of step time by hand-made numbers, its documents, and laws that hold for all of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.step_time import (
    STEP_TIMES,
    AnyStepTime,
    DecodeLaw,
    KneeStepTime,
    LinearStepTime,
    MixedLaw,
    RooflineStepTime,
    StepLoad,
    TwoLawStepTime,
    chunk_pairs,
    from_dict,
    kind_of,
    to_dict,
)
from kvlab.errors import ConfigError, UnknownNameError

NOTHING = StepLoad(0, 0, 0, 0, 0, 0, 0)
LOAD = StepLoad(
    num_running=9, num_decodes=5, decode_context=1000, prefill_tokens=300, prefill_context=70, chunk_context=40_000,
    num_prefills=2,
)  # fmt: skip
DECODE = DecodeLaw(base_ps=10_000_999, per_seq_ps=2_000, per_context_token_ps=7)
MIXED = MixedLaw(
    base_ps=20_000_000, per_decode_ps=3_000, per_decode_context_token_ps=11, per_prefill_ps=500_000,
    per_prefill_token_ps=100_001, per_prefill_context_token_ps=13, per_chunk_pair_ps=2,
)  # fmt: skip
ROOFLINE = RooflineStepTime(
    tp=1, layers=10, layer_params=1_000_000, layer_weight_bytes=2_000_000, head_params=100_000,
    head_weight_bytes=200_000, kv_bytes_per_token=500, attention_width=64, hidden_bytes=128, peak_flops=10**12,
    peak_bytes_per_s=10**9, gemm_compute_permille=500, gemm_memory_permille=1000, attention_compute_permille=250,
    attention_memory_permille=500, host_ns=1000, per_layer_ns=10, per_prefill_ns=7, collective_ns=20,
    collective_bytes_per_s=10**9,
)  # fmt: skip
EXAMPLES: dict[str, AnyStepTime] = {
    "linear": LinearStepTime(base_ns=1000, per_running_ns=10, per_decode_ns=5, per_prefill_token_ns=3),
    "two-law": TwoLawStepTime(decode=DECODE, mixed=MIXED),
    "knee": KneeStepTime(
        decode=(DECODE, DecodeLaw(base_ps=0, per_seq_ps=1_500_000)), mixed=(replace(MIXED, per_decode_ps=0), MIXED)
    ),
    "roofline": ROOFLINE,
}


def test_a_linear_step_is_the_sum_of_its_parts() -> None:
    linear = EXAMPLES["linear"]
    assert linear.decode_ns(4, 999) == 1000 + 15 * 4
    assert linear.mixed_ns(LOAD) == 1000 + 10 * 9 + 5 * 5 + 3 * 300
    assert not linear.grows_with_context


def test_two_laws_round_down_once() -> None:
    step_time = EXAMPLES["two-law"]
    assert step_time.decode_ns(3, 100) == (10_000_999 + 3 * 2_000 + 700) // 1000
    exact = 20_000_000 + 15_000 + 11_000 + 1_000_000 + 30_000_300 + 910 + 80_000
    assert step_time.mixed_ns(LOAD) == exact // 1000
    assert step_time.grows_with_context


def test_a_knee_is_where_the_larger_law_changes() -> None:
    knee = EXAMPLES["knee"]
    assert [knee.decode_ns(n, 0) for n in (1, 6, 7, 20)] == [10_002, 10_012, 10_500, 30_000]
    assert knee.grows_with_context


def test_a_roofline_step_by_hand() -> None:
    # ns: overheads 1,100; reading weights 2,000,000, as 2 x 10^6 flops x 3 take 12,000; the head 200,000
    assert ROOFLINE.decode_ns(3, 100) == 1_100 + 2_000_000 + 200_000 + 100 * 500 * 2
    # with 305 tokens: 610 x 10^6 flops at half of 10^12 take 1,220,000: still the weights
    pairs = 4 * 64 * 10 * 40_000 * 4 // 1000
    assert ROOFLINE.mixed_ns(LOAD) == 1_100 + 2_000_000 + 200_000 + 1_000_000 + 14 + max(pairs, 70_000)


def test_tensor_parallel_halves_the_work_and_adds_collectives() -> None:
    two = replace(ROOFLINE, tp=2)
    collectives = 2 * 10 * (20 + 3 * 128)
    assert two.decode_ns(3, 100) == 1_100 + 1_000_000 + 100_000 + 50_000 + collectives


def test_pairs_of_a_chunk_are_counted_one_by_one() -> None:
    for chunk in range(1, 8):
        for before in range(8):
            assert chunk_pairs(chunk, before) == sum(before + i for i in range(1, chunk + 1))


@pytest.mark.parametrize("name", STEP_TIMES)
def test_documents_read_back_as_the_same(name: str) -> None:
    example = EXAMPLES[name]
    document = to_dict(example)
    assert document["kind"] == kind_of(example) == name
    assert from_dict(document) == example
    assert hash(from_dict(document)) == hash(example)


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"kind": "twolaw"}, "kind of step time", 'did you mean "two-law"'),
        ({"kind": None}, "profile.kind", "expected one of linear, two-law, knee, roofline"),
        ({"decoed": {}}, "field of profile", 'did you mean "decode"'),
        ({"decode": 7}, "profile.decode", "expected an object"),
        ({"decode": {"per_seq_ps": 1}}, "profile.decode.base_ps", "is missing"),
        ({"decode": {"base_ps": 1.5}}, "profile.decode.base_ps", "expected a whole number"),
        ({"decode": {"base_ps": True}}, "profile.decode.base_ps", "expected a whole number"),
        ({"decode": {"base_ps": -1}}, "profile.decode.base_ps", "must be at least 0"),
        ({"decode": {"base_ps": 1, "per_sequence_ps": 1}}, "field of profile.decode", 'did you mean "per_seq_ps"'),
    ],
)
def test_what_is_wrong_with_a_document_is_named(change: dict[str, Any], field: str, message: str) -> None:
    document = {**to_dict(EXAMPLES["two-law"]), **change}
    with pytest.raises(ConfigError) as error:
        from_dict(document, "profile")
    assert error.value.field == field
    assert message in str(error.value)


def test_a_missing_law_and_an_empty_knee_are_named() -> None:
    with pytest.raises(ConfigError, match=r"step_time\.mixed"):
        from_dict({"kind": "two-law", "decode": {"base_ps": 1}})
    with pytest.raises(ConfigError, match="needs at least one law"):
        from_dict({"kind": "knee", "decode": [], "mixed": [{"base_ps": 1}]})
    with pytest.raises(ConfigError, match="expected a list of laws"):
        from_dict({"kind": "knee", "decode": {"base_ps": 1}, "mixed": [{"base_ps": 1}]})
    with pytest.raises(ConfigError, match="expected an object"):
        from_dict([1, 2])


def test_a_roofline_needs_rates() -> None:
    for field in ("tp", "peak_flops", "peak_bytes_per_s", "gemm_compute_permille", "collective_bytes_per_s"):
        with pytest.raises(ConfigError, match=f"{field} = 0: must be at least 1"):
            replace(ROOFLINE, **{field: 0})


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as error:
        from_dict({"kind": "rooflin"})
    assert error.value.nearest == "roofline"


COUNTS = st.integers(0, 10**6)
COEFFICIENTS = st.integers(0, 10**12)
LOADS = st.builds(StepLoad, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
DECODE_LAWS = st.builds(DecodeLaw, base_ps=COEFFICIENTS, per_seq_ps=COEFFICIENTS, per_context_token_ps=COEFFICIENTS)
MIXED_LAWS = st.builds(
    MixedLaw, base_ps=COEFFICIENTS, per_decode_ps=COEFFICIENTS, per_decode_context_token_ps=COEFFICIENTS,
    per_prefill_ps=COEFFICIENTS, per_prefill_token_ps=COEFFICIENTS, per_prefill_context_token_ps=COEFFICIENTS,
    per_chunk_pair_ps=COEFFICIENTS,
)  # fmt: skip
POSITIVE = st.integers(1, 10**15)
STEP_TIME = st.one_of(
    st.builds(
        LinearStepTime, base_ns=COEFFICIENTS, per_running_ns=COEFFICIENTS, per_decode_ns=COEFFICIENTS,
        per_prefill_token_ns=COEFFICIENTS,
    ),
    st.builds(TwoLawStepTime, decode=DECODE_LAWS, mixed=MIXED_LAWS),
    st.builds(
        KneeStepTime,
        decode=st.lists(DECODE_LAWS, min_size=1, max_size=3).map(tuple),
        mixed=st.lists(MIXED_LAWS, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(
        RooflineStepTime, tp=st.integers(1, 16), layers=st.integers(1, 200), layer_params=POSITIVE,
        layer_weight_bytes=POSITIVE, head_params=POSITIVE, head_weight_bytes=POSITIVE, kv_bytes_per_token=COUNTS,
        attention_width=COUNTS, hidden_bytes=COUNTS, peak_flops=POSITIVE, peak_bytes_per_s=POSITIVE,
        gemm_compute_permille=st.integers(1, 1000), gemm_memory_permille=st.integers(1, 1000),
        attention_compute_permille=st.integers(1, 1000), attention_memory_permille=st.integers(1, 1000),
        host_ns=COUNTS, per_layer_ns=COUNTS, per_prefill_ns=COUNTS, collective_ns=COUNTS,
        collective_bytes_per_s=POSITIVE,
    ),
)  # fmt: skip


@given(STEP_TIME, LOADS)
def test_a_step_lasts_whole_nanoseconds_and_at_least_one(step_time: AnyStepTime, load: StepLoad) -> None:
    for ns in (step_time.decode_ns(load.num_decodes, load.decode_context), step_time.mixed_ns(load)):
        assert type(ns) is int
        assert ns >= 1
    assert step_time.decode_ns(0, 0) >= 1
    assert step_time.mixed_ns(NOTHING) >= 1


@given(STEP_TIME, LOADS, st.sampled_from(StepLoad._fields), st.integers(1, 10**4))
def test_more_work_never_takes_less_time(step_time: AnyStepTime, load: StepLoad, field: str, more: int) -> None:
    load = load._replace(prefill_tokens=load.prefill_tokens + 1)  # without any, another law holds
    larger = load._replace(**{field: getattr(load, field) + more})
    assert step_time.mixed_ns(larger) >= step_time.mixed_ns(load)
    at_least = step_time.decode_ns(load.num_decodes, load.decode_context)
    assert step_time.decode_ns(load.num_decodes + more, load.decode_context) >= at_least
    assert step_time.decode_ns(load.num_decodes, load.decode_context + more) >= at_least


@given(STEP_TIME, LOADS)
def test_a_mixed_step_without_prefill_is_a_decode(step_time: AnyStepTime, load: StepLoad) -> None:
    load = load._replace(num_running=load.num_decodes, prefill_tokens=0)
    assert step_time.mixed_ns(load) == step_time.decode_ns(load.num_decodes, load.decode_context)


@given(STEP_TIME, st.integers(1, 1000), st.integers(1, 10**6))
def test_what_does_not_grow_with_context_is_flat(step_time: AnyStepTime, seqs: int, context: int) -> None:
    if not step_time.grows_with_context:
        assert step_time.decode_ns(seqs, context) == step_time.decode_ns(seqs, 0)


@given(STEP_TIME)
def test_any_value_survives_its_document(step_time: AnyStepTime) -> None:
    assert from_dict(to_dict(step_time)) == step_time


@given(DECODE_LAWS, MIXED_LAWS, LOADS)
def test_the_sum_is_exact(decode: DecodeLaw, mixed: MixedLaw, load: StepLoad) -> None:
    step_time = TwoLawStepTime(decode=decode, mixed=mixed)
    load = load._replace(prefill_tokens=load.prefill_tokens + 1)
    weights = (0, mixed.per_decode_ps, mixed.per_decode_context_token_ps, mixed.per_prefill_token_ps,
               mixed.per_prefill_context_token_ps, mixed.per_chunk_pair_ps, mixed.per_prefill_ps)  # fmt: skip
    exact = Fraction(mixed.base_ps + sum(w * x for w, x in zip(weights, load, strict=True)), 1000)
    assert 0 <= exact - step_time.mixed_ns(load) < 1 or (exact < 1 and step_time.mixed_ns(load) == 1)
