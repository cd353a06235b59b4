from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.errors import ConfigError
from kvlab.units import (
    GIB,
    MIB,
    ceil_div,
    format_bytes,
    format_duration,
    format_number,
    parse_bytes,
    parse_count,
    parse_decimal,
    parse_duration_ns,
    parse_ratio,
)


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**15))
def test_ceil_div_is_the_least_whole_number_not_below(a: int, b: int) -> None:
    assert (ceil_div(a, b) - 1) * b < a <= ceil_div(a, b) * b


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1.5 ms", 1_500_000),
        ("25ms", 25_000_000),
        ("0.1 ms", 100_000),
        ("0.3ms", 300_000),
        ("2 min", 120 * 10**9),
        ("1 h", 3_600 * 10**9),
        ("7 us", 7_000),
        ("7 µs", 7_000),
        ("90", 90),
        (90, 90),
        ("1e3 ms", 10**9),
        ("0s", 0),
        ("1,000 ns", 1_000),
    ],
)
def test_durations_are_exact(text: object, ns: int) -> None:
    assert parse_duration_ns(text, "base_ns") == ns


@pytest.mark.parametrize(
    ("text", "count"),
    [("24 GiB", 24 * GIB), ("13.5GiB", 13_824 * MIB), ("16 GB", 16 * 10**9), ("0.5 MiB", MIB // 2), ("512", 512)],
)
def test_sizes_are_exact(text: str, count: int) -> None:
    assert parse_bytes(text, "gpu_memory_bytes") == count


@pytest.mark.parametrize(
    "text", ["", "ms", "5 parsecs", "1.5", "0.3 ns", "nan ms", "inf s", "1..2 ms", True, "ms 5", "5 ms x"]
)
def test_a_bad_duration_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match=r"^base_ns = "):
        parse_duration_ns(text, "base_ns")


@pytest.mark.parametrize("text", ["", "GiB", "5 Gib", "1.5 B", "0.1 KiB", False, "1e40 B"])
def test_a_bad_size_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match=r"^gpu_memory_bytes = "):
        parse_bytes(text, "gpu_memory_bytes")


def test_an_unknown_unit_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="Units: B, KiB, MiB, GiB, TiB"):
        parse_bytes("5 GiBi", "gpu_memory_bytes")


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("92 %", "0.92"), ("0.92", "0.92"), ("92%", "0.92"), (0.92, "0.92"), (1, "1"), ("33.3 %", "0.333")],
)
def test_a_ratio_is_an_exact_decimal(text: object, ratio: str) -> None:
    assert parse_ratio(text, "gpu_memory_utilization") == Decimal(ratio)


@pytest.mark.parametrize(
    "text",
    [
        *("nan", "inf", "-Infinity", "abc", "", None, True, "1e99", "1e-99", "0.1234567890123456"),
        *(float("nan"), float("inf"), 1e300, Fraction(1, 3)),
    ],
)
def test_a_number_that_is_not_finite_and_exact_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match=r"^rate = "):
        parse_decimal(text, "rate")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("4", "4"), (4, "4"), (0.1, "0.1"), ("1_000", "1000"), ("1,000.5", "1000.5"), (" 7 ", "7")),
        *((0.1 + 0.2, "0.3"), (2.0**53, "9007199254740992"), (Fraction(3, 8), "0.375"), (1e-7, "0.0000001")),
        *((np.arange(0.9, 1, 0.01)[4], "0.94"), (np.float32(0.5), "0.5"), (np.int64(7), "7")),
    ],
)
def test_a_decimal_is_what_was_written(text: object, value: str) -> None:
    assert parse_decimal(text, "rate") == Decimal(value)


def test_a_count_is_whole() -> None:
    assert parse_count("4,096", "block_size") == 4096
    assert parse_count("16.0", "block_size") == 16
    with pytest.raises(ConfigError, match=r"block_size = \"16\.5\": expected a whole number"):
        parse_count("16.5", "block_size")


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "–"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 µs"),
        (26_900_000, "26.9 ms"),
        (1_000_000_000, "1 s"),
        (-1_500_000, "-1.5 ms"),
        (Fraction(1, 3), "0.333 ns"),
        (3_600 * 10**9, "3,600 s"),
    ],
)
def test_a_duration_reads_well(ns: int | Fraction | None, text: str) -> None:
    assert format_duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1_023, "1023 B"), (1_024, "1 KiB"), (24 * GIB, "24 GiB"), (2**50, "1,024 TiB")]
)
def test_a_size_reads_well(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.5, "1,000"),
        (99.95, "100"),
        (9.995, "10"),
        (0.0005, "0"),
        (0.0015, "0.002"),
        (-1234.5, "-1,234"),
        (Decimal("1.5"), "1.5"),
    ],
)
def test_numbers_round_half_to_even(value: float | Decimal, text: str) -> None:
    exact = Fraction(str(value))
    assert format_number(exact) == text


@given(st.integers(0, 10**18))
def test_a_duration_survives_being_written_in_nanoseconds(ns: int) -> None:
    assert parse_duration_ns(f"{ns} ns", "x") == parse_duration_ns(f"{ns:,}", "x") == ns
