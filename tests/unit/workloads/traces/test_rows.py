from __future__ import annotations

from decimal import Decimal

import pytest

from kvlab.workloads.traces.rows import read_hash_ids, read_plain_numbers, read_time_ns, read_times_ns, read_tokens

MS = 1_000_000
AZURE_NS = 1_700_158_546_680_590_000  # 2023-11-16 18:15:46.6805900 UTC


@pytest.mark.parametrize(
    ("cell", "unit_ns", "expected"),
    [
        ("0", 1, 0),
        ("1.5", MS, 1_500_000),
        (" 2 ", 10**9, 2 * 10**9),
        ("2.", 10**9, 2 * 10**9),
        ("0.1234567891", 10**9, 123_456_789),
        ("1e-7", 10**9, 100),
        (1234, MS, 1234 * MS),
        (Decimal("0.3"), 10**9, 300_000_000),
        (0.3, 10**9, 300_000_000),
        (2.1e-05, 10**9, 21_000),
        ("2023-11-16 18:15:46.6805900", None, AZURE_NS),
        ("2023-11-16T18:15:46.68059Z", None, AZURE_NS),
        ("2023-11-16 19:15:46.6805900+01:00", None, AZURE_NS),
        ("2023-11-16 16:45:46.6805900-0130", None, AZURE_NS),
        ("2023-11-16 18:15:46", 1, AZURE_NS - 680_590_000),
        ("1970-01-01 00:00:00.0000000019", None, 1),
        ("2024-02-29 00:00:00", None, 1_709_164_800_000_000_000),
    ],
)
def test_times_are_exact(cell: object, unit_ns: int | None, expected: int) -> None:
    assert read_time_ns(cell, unit_ns) == expected


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("", "no value"),
        (None, "expected a number"),
        ("NaN", "expected a number"),
        ("inf", "expected a number"),
        ("-1", "negative"),
        (-0.5, "negative"),
        ("1,5", "expected a number"),
        ("0x10", "expected a number"),
        ("٣", "expected a number"),
        ("1e400", "outside 1970 to 2262"),
        ("9" * 30, "outside 1970 to 2262"),
        ("2023-02-29 00:00:00", "day"),
        ("2023-11-16 24:00:00", "time of day"),
        ("2023-11-16 18:60:00", "time of day"),
        ("2023-11-16 18:15:60", "time of day"),
        ("2023-11-16", "expected a number, or a date and time"),
        ("2023-11-16 18:15:46.", "expected a number, or a date and time"),
        ("2023-11-16 18:15:46.12x", "expected a number, or a date and time"),
        ("16.11.2023 18:15:46", "expected a number, or a date and time"),
        ("1960-01-01 00:00:00", "outside 1970 to 2262"),
        ("9999-01-01 00:00:00", "outside 1970 to 2262"),
        ([1], "expected a number"),
        (True, "expected a number"),
    ],
)
def test_what_is_no_time_is_refused(cell: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_time_ns(cell, MS)


def test_a_number_without_a_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="no unit: say it"):
        read_time_ns("5", None)


def test_a_column_reads_as_its_cells() -> None:
    clocks = [f"2023-11-16 18:15:{s:02d}.{s:07d}" for s in range(60)]
    assert read_times_ns(clocks, None) == [read_time_ns(text, None) for text in clocks]
    mixed = [*clocks, "2023-11-16 18:15:46", "2023-11-16T18:15:46.12Z"]
    assert read_times_ns(mixed, None) == [read_time_ns(text, None) for text in mixed]
    with pytest.raises(ValueError, match="time of day"):
        read_times_ns(["2023-11-16 18:15:46.5", "2023-11-16 18:15:99.5"], None)
    with pytest.raises(ValueError, match="expected a number"):
        read_times_ns(["2023-11-16 18:15:46.5", "2023-11-16 18:15:46x5"], None)


@pytest.mark.parametrize(("cell", "expected"), [("374", 374), (" 1 ", 1), ("374.0", 374), (5, 5), (5.0, 5), ("007", 7)])
def test_tokens_are_whole_numbers(cell: object, expected: int) -> None:
    assert read_tokens(cell, 1) == expected


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("", "no value"),
        (None, "whole number"),
        ("x", "whole number"),
        ("1.5", "whole number"),
        (1.5, "whole number"),
        ("1.", "whole number"),
        (".0", "whole number"),
        ("1_000", "whole number"),
        ("+5", "whole number"),
        ("1e3", "whole number"),
        ("NaN", "whole number"),
        (float("inf"), "whole number"),
        (True, "whole number"),
        ([1], "whole number"),
        ("٣", "whole number"),
        ("²", "whole number"),
        ("-3", "negative"),
        (-3, "negative"),
        ("0", "at least one token"),
        ("10000001", "at most 10,000,000"),
        ("9" * 5000, "at most 10,000,000"),
    ],
)
def test_what_is_no_number_of_tokens_is_refused(cell: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_tokens(cell, 1)


def test_a_plain_column_is_digits_only() -> None:
    assert read_plain_numbers(["1", "22", "007"]) == [1, 22, 7]
    assert read_plain_numbers([1, 22]) == [1, 22]
    for cells in (["1", ""], ["1", "2.0"], ["1", " 2"], ["٣"], [1, True], [1, "1"], ["1" * 30]):
        with pytest.raises(ValueError, match=r"plain digits|invalid literal"):
            read_plain_numbers(cells)


def test_hash_ids() -> None:
    assert read_hash_ids([3, 0, 2**63 - 1]) == (3, 0, 2**63 - 1)
    assert read_hash_ids("3 1 2") == (3, 1, 2)
    assert read_hash_ids([]) == ()
    for cell in (None, 5, [1.5], [True], [-1], [2**63], "1 x"):
        with pytest.raises(ValueError, match=r"whole numbers|from 0"):
            read_hash_ids(cell)
