"""Random short runs: both engines must agree on everything (docs/verification.md)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.differential.compare import assert_engines_agree
from tests.differential.situations import situations
from tests.strategies import Case, block_table_cases, preemption_cases

FIXED_RUNS = 500
FIXED_SEED = 1

LABS = {"preemption lab": preemption_cases, "block-table lab": block_table_cases}
ONLY_ON_A_COARSE_GRID = "an arrival at the very end of a plain step"


@pytest.mark.parametrize("coarse", [False, True], ids=["ns", "whole ms"])
@pytest.mark.parametrize("lab", LABS)
def test_both_engines_agree(lab: str, coarse: bool, request: pytest.FixtureRequest) -> None:
    runs = request.config.getoption("--runs")
    met: Counter[str] = Counter()

    @settings(
        max_examples=runs or FIXED_RUNS,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(LABS[lab](coarse=coarse))
    def agree(case: Case) -> None:
        met.update(situations(case, assert_engines_agree(case)))

    (agree if runs else seed(FIXED_SEED)(agree))()
    print(*(f"{count:9,} x {what}" for what, count in sorted(met.items())), sep="\n")
    if runs is None or runs >= FIXED_RUNS:
        never_met = {what for what, count in met.items() if count == 0}
        assert never_met <= (set() if coarse else {ONLY_ON_A_COARSE_GRID})
