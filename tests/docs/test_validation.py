"""The page of the validation is what the committed numbers make."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from kvlab.validation.blocks import Heading, Table, Text, as_html, as_markdown
from kvlab.validation.numbers import committed
from kvlab.validation.page import build

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_page_is_current() -> None:
    blocks = build(committed())
    for name, made in (("validation.md", as_markdown(blocks)), ("validation.html", as_html(blocks))):
        assert (DOCS / name).read_text(encoding="utf-8") == made, "run: kvlab validate"


def test_pictures_are_there_and_small() -> None:
    text = (DOCS / "validation.md").read_text(encoding="utf-8")
    paths = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(paths) == 3
    for path in paths:
        assert (DOCS / path).read_bytes().startswith(b"\x89PNG")
        assert (DOCS / path).stat().st_size < 200_000


def test_sources_are_attributed() -> None:
    text = (DOCS / "validation.md").read_text(encoding="utf-8")
    for line in ("Copyright (c) 2024, CASYS Lab at KAIST", "Copyright (c) Microsoft Corporation", "Apache License 2.0"):
        assert line in text
    for case in committed().cases:
        assert case.source in text


class Ids(HTMLParser):
    """Anchors and the links to them."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.add(str(found["id"]))
        if str(found.get("href", "")).startswith("#"):
            self.links.add(str(found["href"])[1:])


def test_links_within_the_page_lead_somewhere() -> None:
    page = Ids()
    page.feed((DOCS / "validation.html").read_text(encoding="utf-8"))
    assert page.links
    assert page.links <= page.ids


def test_blocks_escape_what_they_show() -> None:
    blocks = [Heading(1, "a < b"), Text("`x` **y** [z](w.md) <"), Table(["a|b"], [["c & d"]])]
    assert "| a\\|b |" in as_markdown(blocks)
    html = as_html(blocks)
    assert '<h1 id="a-b">a &lt; b</h1>' in html
    assert '<p><code>x</code> <strong>y</strong> <a href="w.md">z</a> &lt;</p>' in html
    assert "<td>c &amp; d</td>" in html
