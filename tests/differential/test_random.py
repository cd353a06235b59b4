"""Random short runs: both engines must agree on everything (ENGINE.md, "Gate every change")."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.differential.compare import assert_engines_agree
from tests.differential.situations import situations
from tests.strategies import Case, block_table_cases, preemption_cases

FIXED_RUNS = 500

CASES = {
    "preemption lab, ns": preemption_cases(coarse=False),
    "preemption lab, whole ms": preemption_cases(coarse=True),
    "block-table lab, ns": block_table_cases(coarse=False),
    "block-table lab, whole ms": block_table_cases(coarse=True),
}


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES.keys())
def test_both_engines_agree(cases: st.SearchStrategy[Case], request: pytest.FixtureRequest) -> None:
    runs = request.config.getoption("--runs")
    met: Counter[str] = Counter()

    @settings(
        max_examples=runs or FIXED_RUNS,
        derandomize=runs is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def agree(case: Case) -> None:
        met.update(situations(case, assert_engines_agree(case)))

    agree()
    print(*(f"{count:9,} x {what}" for what, count in sorted(met.items())), sep="\n")
