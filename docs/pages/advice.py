"""What was advised on public cases."""

from __future__ import annotations

from docs.pages.markdown import table, with_tables
from kvlab.validation.advised import QUESTIONS, committed


def advice_page() -> str:
    """The page of advice, with what it said of public cases."""
    return with_tables("advice.md", {"cases": advised_table})


def advised_table() -> list[str]:
    """Each case: what was asked, what resolved it, and what was advised."""
    rows = []
    for question, said in zip(QUESTIONS, committed(), strict=True):
        fixes = "<br>".join(f"{place}. `{text}` ({price})" for place, (text, price) in enumerate(said.fixes, 1))
        cache = "full" if said.kv_is_bottleneck else f"not the bottleneck: {said.peak_kv_percent:g} % at most"
        place = "" if question.is_it is None else "not advised" if said.place is None else str(said.place)
        rows.append([said.id, f"`{said.slo}`", question.resolved, fixes or said.verdict, place, cache, question.why])
    return table(["case", "asked", "what resolved it", "advised (points)", "place", "KV cache", ""], rows)
