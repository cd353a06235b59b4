"""The notebooks run in a fresh kernel, print what they printed, and their texts say what they print."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from docs.notebook import KEPT, executed, read, texts

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_there_are_some() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_printed(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Jupyter's own loops and sockets
        now = executed(path)
    assert texts(now) == texts(read(path)), f"python docs/notebook.py examples/{path.name} writes the present output"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_bold_in_the_texts_is_printed(path: Path) -> None:
    notebook = read(path)
    printed = " ".join("".join(texts(notebook)).split())
    told = [bold for cell in notebook.cells if cell.cell_type == "markdown"
            for bold in re.findall(r"\*\*(.+?)\*\*", cell.source)]  # fmt: skip
    assert told
    assert [bold for bold in told if bold not in printed] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_of_a_machine_is_kept(path: Path) -> None:
    notebook = read(path)
    assert notebook.metadata == KEPT
    assert not re.search(r"/(home|root|tmp|work|Users)/", path.read_text(encoding="utf-8"))
    assert all(not cell.metadata for cell in notebook.cells)
