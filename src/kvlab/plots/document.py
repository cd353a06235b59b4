"""Figures under headings as one HTML file that needs no network: what reports and pictures share."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import plotly.graph_objects as go
import plotly.io

_SHELL: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
_STYLE: Final = """
:root { color-scheme: light; }
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: #1a1d23; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } p { max-width: 70ch; }
"""


def shell(title: str, style: str, body: str) -> str:
    """What every HTML file of ours has around it.

    Args:
        title: a text.
        style: CSS.
        body: HTML.
    """
    return _SHELL.format(title=escape(title), style=style, body=body)


def document(title: str, paragraphs: Sequence[str], sections: Sequence[tuple[str, go.Figure | str]]) -> str:
    """A whole document; the same for the same figures.

    Args:
        sections: a heading, and what stands under it: a figure, or a sentence in its place.
    """
    parts = [f"<p>{escape(text)}</p>" for text in paragraphs]
    figures = 0
    for heading, shown in sections:
        parts.append(f"<h2>{escape(heading)}</h2>")
        if isinstance(shown, str):
            parts.append(f"<p>{escape(shown)}</p>")
            continue
        parts.append(
            plotly.io.to_html(
                shown,
                full_html=False,
                include_plotlyjs=figures == 0,
                div_id=f"plot-{figures}",
                config={"displaylogo": False, "responsive": True},
            )
        )
        figures += 1
    heading = f"<h1>{escape(title)}</h1>"
    return shell(title, _STYLE, "\n".join([heading, *parts]))
