"""Service levels as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.config import Slo
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.slo_text import format_slo, parse_slo

LIMITS = st.none() | st.integers(1, 10**15)


@given(st.builds(Slo, ttft_ns=LIMITS, tpot_ns=LIMITS, gap_ns=LIMITS, e2e_ns=LIMITS))
def test_text_reads_back(slo: Slo) -> None:
    assert parse_slo(format_slo(slo)) == slo


def test_the_engines_own_words_and_signs_are_understood() -> None:
    assert parse_slo("ITL < 150 ms, e2el≤30s") == Slo(gap_ns=150_000_000, e2e_ns=30_000_000_000)
    assert parse_slo("") == parse_slo(" , ") == Slo()


@pytest.mark.parametrize("text", ["ttft", "ttft=2s", "ttft<=", "ttft<=0s", "ttft<=abc", "ttft<=1s, ttft<=2s"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="slo"):
        parse_slo(text)


def test_an_unknown_latency_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="ttft, tpot, gap, e2e"):
        parse_slo("speed<=1s")
