"""Both engines compute every field of every lab golden."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab.goldens import ENGINES, first_difference, read_golden

GOLDENS = sorted((Path(__file__).parent / "labs").glob("*.json.gz"))


def test_all_goldens_are_here() -> None:
    assert len(GOLDENS) == 25


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_an_engine_computes_what_the_golden_says(path: Path, engine: str) -> None:
    golden = read_golden(path)
    assert first_difference(golden.result, ENGINES[engine](golden).result) is None
