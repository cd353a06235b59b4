"""How many requests of given lengths fit: exact where it can be counted by hand, and against brute force."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

import kvlab
from kvlab.errors import TraceError
from kvlab.sizing.concurrency import LengthConcurrency, safe_count


def lengths(**inputs: object) -> LengthConcurrency:
    chosen: dict[str, object] = {"kv_bytes_per_token": 131_072, "kv_cache_memory_bytes": 64 * 10**9, **inputs}
    found = kvlab.capacity(**chosen).by_lengths  # type: ignore[arg-type]
    assert found is not None
    return found


def brute_force(demand: Counter[int], num_blocks: int) -> int:
    """By adding up every combination."""
    total, n = demand.total(), 0
    while True:
        fits = Fraction(0)
        for combination in product(demand, repeat=n + 1):
            if sum(combination) <= num_blocks:
                share = Fraction(1)
                for blocks in combination:
                    share *= Fraction(demand[blocks], total)
                fits += share
        if fits < Fraction(99, 100):
            return n
        n += 1


@pytest.mark.parametrize(
    ("demand", "num_blocks"),
    [
        (Counter({1: 1, 2: 1}), 10),
        (Counter({1: 99, 20: 1}), 19),
        (Counter({1: 90, 5: 10}), 12),
        (Counter({2: 1, 3: 1, 7: 2}), 30),
        (Counter({4: 1, 5: 1}), 3),
        (Counter({1: 1, 400: 1}), 7),
        (Counter({7: 1}), 50),
    ],
)
def test_the_safe_count_is_exact(demand: Counter[int], num_blocks: int) -> None:
    assert safe_count(demand, num_blocks) == brute_force(demand, num_blocks)


def test_a_pool_that_is_counted_in_larger_units_errs_to_the_safe_side() -> None:
    demand = Counter({700: 3, 1900: 2, 4000: 1})
    exact = safe_count(demand, 65_000)
    scaled = safe_count(Counter({blocks * 16: count for blocks, count in demand.items()}), 65_000 * 16)
    assert exact - 1 <= scaled <= exact


def test_the_rule_of_thumb_of_an_a100() -> None:
    found = lengths(prompt_tokens=8000, output_tokens=2000)  # doubleword.ai: "49 users"
    assert round(float(found.at_full_length), 1) == 48.8
    assert round(float(found.expected), 1) == 54.2  # a request holds 9,000 tokens on average
    assert found.p99_safe == 48
    assert found.cut_ratio == 0


def test_long_answers_count_by_how_long_they_run() -> None:
    found = lengths(prompt_tokens="16", output_tokens="histogram(32:1, 3200:1)", block_size=16)
    short, long = -(-(16 + 16) // 16), -(-(16 + 1600) // 16)
    held = Fraction(32 * short + 3200 * long, 3232)
    assert found.expected == 30_517 / held


def test_more_spread_is_less_safe() -> None:
    even = lengths(prompt_tokens=1000, output_tokens=500)
    uneven = lengths(prompt_tokens="exponential(1000)", output_tokens=500)
    assert abs(uneven.at_full_length / even.at_full_length - 1) < Fraction(2, 100)
    assert uneven.p99_safe < even.p99_safe


def test_requests_beyond_the_longest_are_cut_and_counted() -> None:
    found = lengths(prompt_tokens=8000, output_tokens="histogram(100:3, 4000:1)", max_model_len=8192)
    assert found.cut_ratio == Fraction(1, 4)
    assert found.at_full_length > lengths(prompt_tokens=8000, output_tokens="histogram(100:3, 4000:1)").at_full_length


def test_a_trace_keeps_prompt_and_output_together(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = [(100, 900), (900, 100)] * 5
    path.write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{i},{p},{o}\n" for i, (p, o) in enumerate(rows))
    )
    found = lengths(trace=path)
    assert (found.mean_prompt_tokens, found.mean_output_tokens) == (500, 500)
    assert found.p99_safe == 30_517 // -(-1000 // 16)
    independent = lengths(prompt_tokens="histogram(100:1, 900:1)", output_tokens="histogram(100:1, 900:1)")
    assert independent.p99_safe < found.p99_safe


def test_a_trace_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TraceError):
        lengths(trace="nowhere.csv")


def test_a_window_lets_more_long_requests_run() -> None:
    def at_full_length(version: str) -> Fraction:
        found = kvlab.capacity(
            model="google/gemma-2-9b",
            kv_cache_memory_bytes="20 GiB",
            prompt_tokens=30_000,
            output_tokens=100,
            engine_version=version,
        )
        assert found.by_lengths is not None
        return found.by_lengths.at_full_length

    assert at_full_length("0.21") > Fraction(3, 2) * at_full_length("0.6")
