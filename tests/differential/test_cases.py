"""Cases that an engine once got wrong, shrunk and kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.differential.compare import assert_engines_agree
from tests.strategies import Case

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_both_engines_agree_on_a_kept_case(path: Path) -> None:
    assert_engines_agree(Case.from_json(path.read_text(encoding="utf-8")))
