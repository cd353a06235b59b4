"""Public cases handed to the advisor: what is committed is what it says."""

from __future__ import annotations

import pytest

from kvlab.sweeps.workers import local
from kvlab.validation.advised import QUESTIONS, ask, committed


@pytest.mark.parametrize("case_id", ["U05", "U10", "U38"])
def test_the_committed_answer_is_what_the_advisor_says(case_id: str) -> None:
    question = next(question for question in QUESTIONS if question.id == case_id)
    with local(1) as run:
        assert ask(question, run) == next(said for said in committed() if said.id == case_id)


def test_the_fix_that_resolved_a_report_is_named_or_a_reason_given() -> None:
    for question, said in zip(QUESTIONS, committed(), strict=True):
        assert said.id == question.id
        assert said.verdict == "fix"
        if question.is_it is not None:
            assert said.place is not None
            assert said.place == 1 or question.why


def test_an_fp8_cache_is_no_remedy_where_room_does_not_lack() -> None:
    said = next(said for said in committed() if said.id == "U31")
    assert not said.kv_is_bottleneck
    assert said.peak_kv_percent < 40
    assert said.fixes
    assert not any("fp8" in text for text, _ in said.fixes)
