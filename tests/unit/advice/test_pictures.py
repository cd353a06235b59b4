"""A picture from its description: the same bytes each time, in each kind of file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab.advice.pictures import Curve, Panel, Picture, save
from kvlab.errors import ConfigError

CURVE = Curve(
    x=[1, 2, 4], y=[1.0, None, 8.0], low=[0.5, None, 7.0], high=[2.0, None, 9.0], label="$a_b", with_dots=True
)
PANEL = Panel(
    title="A <title>", x_label="x", y_label="y", curves=(CURVE,), x_log=True, y_log=True, limit=4.0,
    limit_label="limit",
    mark=2.0, mark_label="mark", span=(1.0, 3.0), span_label="span",
)  # fmt: skip
PICTURE = Picture(title="<b>$\\frac name", text="Some words & more.", panels=(PANEL,))


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("html", b"<!doctype html>")])
def test_the_same_picture_the_same_bytes(kind: str, start: bytes, tmp_path: Path) -> None:
    first, second = (save(PICTURE, tmp_path / f"{name}.{kind.upper()}").read_bytes() for name in "ab")
    assert first.startswith(start)
    assert first == second


def test_words_are_no_markup(tmp_path: Path) -> None:
    page = save(PICTURE, tmp_path / "a.html").read_text()
    assert "&lt;b&gt;$" in page
    assert "A &lt;title&gt;" in page
    assert "words &amp; more" in page
    for label in ("limit", "mark", "span"):
        assert f'"name":"{label}"' in page


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.html, \.png, \.svg"):
        save(PICTURE, tmp_path / "a.jpg")
