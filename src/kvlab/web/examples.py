"""Reported cases as ready setups of the tab of a real server."""

from __future__ import annotations

from typing import Any

from kvlab.cases import CASES, Case, Variant
from kvlab.setting_table import VLLM_V1


def examples_for(lab: str) -> list[dict[str, Any]]:
    """The examples of a tab, ready for JSON; settings as links hold them."""
    return [_card(case) for case in CASES if case.on_page] if lab == VLLM_V1 else []


def _card(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "title": case.title,
        "story": case.story,
        "source": case.source,
        "url": case.url,
        "assumed": case.assumed,
        "variants": [_setup(case, variant) for variant in case.variants],
    }


def _setup(case: Case, variant: Variant) -> dict[str, Any]:
    return {"name": variant.name, "setup": case.settings_of(variant.name)}
