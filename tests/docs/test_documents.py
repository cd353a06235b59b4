"""What the documents show is what happens: commands and their output, Python examples, links, pages made from code."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from tests.shared import shared_file

from docs import console, generate
from kvlab.cli.program import COMMANDS
from kvlab.metrics import METRICS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path for folder in (ROOT, ROOT / "docs", ROOT / "examples", ROOT / "benchmarks") for path in folder.glob("*.md")
)
WITH_COMMANDS = [path for path in DOCUMENTS if console.commands(path.read_text(encoding="utf-8"))]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def check(path: Path, chosen: list[console.Command], folder: Path) -> None:
    for command in chosen:
        printed = console.run(command, folder)
        if command.expected:
            place = f"{name(path)}:{command.line} (python docs/console.py {name(path)} refreshes it)"
            assert console.matches(command.expected, printed), f"{place}\n" + "\n".join(printed)


@pytest.mark.parametrize("path", WITH_COMMANDS, ids=name)
def test_commands_print_what_the_document_shows(path: Path, tmp_path: Path) -> None:
    console.prepare(tmp_path, None)
    chosen = [command for command in console.commands(path.read_text(encoding="utf-8")) if not command.shared]
    assert chosen, "only commands that need public data"
    check(path, chosen, tmp_path)


@pytest.mark.parametrize("path", WITH_COMMANDS, ids=name)
def test_commands_on_public_data_do_too(path: Path, tmp_path: Path) -> None:
    chosen = [command for command in console.commands(path.read_text(encoding="utf-8")) if command.shared]
    for command in chosen:
        for public in command.shared:
            if not (tmp_path / public).exists():
                (tmp_path / public).symlink_to(shared_file(console.SHARED_FILES[public]).resolve())
    check(path, chosen, tmp_path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_python_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    for line, block in console.blocks(text, "python"):
        assert ">>> " in block, f"{name(path)}:{line} shows Python without its results"
    result = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert result.failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{name(path)} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_pictures_are_there_in_both_colours(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    dark, light = re.findall(r'srcset="([^"]*)"', text), re.findall(r'<img [^>]*src="([^"]*)"', text)
    assert [picture.replace("-dark-", "-light-") for picture in dark] == light
    assert [picture for picture in dark + light if not (path.parent / picture).exists()] == []
    assert text.count("<img ") == text.count(' alt="'), "a picture says what it shows"


@pytest.mark.parametrize("page", generate.PAGES)
def test_pages_are_as_the_code_makes_them(page: str) -> None:
    committed = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert committed == generate.PAGES[page](), "run: python -m docs.generate"


def test_every_metric_is_in_its_page() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for metric in METRICS:
        shown = re.sub(r"^(mean|p\d+|max)(_(ttft|gap|tpot|e2e|queue_time)_ns)$", r"\2", metric)
        assert f"| `{shown}` |" in text


def test_every_source_that_the_code_cites_is_a_heading_of_the_model() -> None:
    headings = set(re.findall(r"^## (.+)$", (ROOT / "docs" / "MODEL.md").read_text(encoding="utf-8"), re.MULTILINE))
    cited = set()
    for path in (ROOT / "src").rglob("*.py"):
        cited |= set(re.findall(r'MODEL\.md, "([^"]+)"', path.read_text(encoding="utf-8")))
    assert cited
    assert cited <= headings


def test_code_that_the_model_names_is_there() -> None:
    text = (ROOT / "docs" / "MODEL.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "kvlab"
    for target in re.findall(r"`([a-z_/]+\.py)`", text):
        places = [package / target, package / "workloads" / target, ROOT / target]
        assert any(place.exists() for place in places), f"MODEL.md names {target}"


def test_every_command_has_a_section() -> None:
    headings = re.findall(r"^## kvlab (\w+)$", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(COMMANDS)


def test_the_picture_is_small_and_is_there() -> None:
    picture = ROOT / "docs" / "preemption-lab.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 300_000
    assert "docs/preemption-lab.png" in (ROOT / "README.md").read_text(encoding="utf-8")


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_shown_with_its_output(path: Path) -> None:
    shown = console.commands((ROOT / "examples" / "README.md").read_text(encoding="utf-8"))
    assert any(f"examples/{path.name}" in command.text and command.expected for command in shown)


def test_a_changed_output_is_noticed(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("```console\n$ echo one; echo two; echo three\none\n...\nthree\n$ echo four\nfour\n```\n")
    first, second = console.commands(document.read_text())
    assert (first.line, second.line, second.text) == (2, 6, "echo four")
    assert console.matches(first.expected, console.run(first, tmp_path))
    assert not console.matches(("one", "three"), console.run(first, tmp_path))
    assert not console.matches(("four", "..."), ["five"])
    with pytest.raises(AssertionError, match="exits with 3"):
        console.run(console.Command(1, "exit 3", ()), tmp_path)


def test_outputs_can_be_refreshed(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("Text\n\n```console\n$ echo new\nold\nolder\n$ echo unseen\n$ seq 3\n1\n...\n```\nmore\n")
    console.refresh(document, None)
    assert document.read_text() == "Text\n\n```console\n$ echo new\nnew\n$ echo unseen\n$ seq 3\n1\n...\n```\nmore\n"
