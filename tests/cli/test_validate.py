"""`kvlab validate`: the page from committed numbers, and from recordings where they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.terminals import Cli
from tests.recordings import made_up_recording

DOCS = Path(__file__).parents[2] / "docs"


def test_without_recordings_the_page_is_made_from_committed_numbers(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KVLAB_SHARED", raising=False)
    result = cli("validate", "--out", "page", "--numbers", "numbers.json")
    assert result.code == 0
    assert "no recordings here" in result.err
    assert "RTX 4090" in result.out
    for name in ("validation.md", "validation.html"):
        assert (tmp_path / "page" / name).read_bytes() == (DOCS / name).read_bytes()
    assert (tmp_path / "page" / "validation" / "watermark.png").exists()
    kept = DOCS.parent / "src" / "kvlab" / "validation" / "numbers.json"
    assert (tmp_path / "numbers.json").read_bytes() == kept.read_bytes()


def test_a_folder_without_recordings_is_an_error(cli: Cli, tmp_path: Path) -> None:
    result = cli("validate", "--data", tmp_path, "--out", tmp_path)
    assert result.code == 2
    assert "no recorded runs" in result.err


def test_with_recordings_the_runs_are_simulated_anew(cli: Cli, tmp_path: Path) -> None:
    data = made_up_recording(tmp_path / "data")
    result = cli("validate", "--data", data, "--out", tmp_path / "page")
    assert result.code == 0
    assert "simulated anew" in result.err
    assert len(list((tmp_path / "page" / "validation").glob("*.png"))) == 3
    assert "missed" in (tmp_path / "page" / "validation.md").read_text()  # the made-up server is another one
