from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.runs import (
    MS,
    ONE_SAMPLE,
    PREEMPTION,
    contiguous_run,
    paged_run,
    preemption_run,
    run_of,
    stopped,
)

from kvlab.core.request import Request
from kvlab.errors import ConfigError, OutputError, UnknownNameError
from kvlab.plots import FILE_TYPES, THEMES
from kvlab.plots.picture import picture
from kvlab.results import Run

RUNS = {
    "preemption": preemption_run,
    "paged": paged_run,
    "contiguous": contiguous_run,
    "nothing": lambda: run_of(PREEMPTION, ()),
    "one token": lambda: run_of(PREEMPTION, (Request(0, 0, 1, (1,)),)),
    "all rejected": lambda: run_of(PREEMPTION, (Request(0, 0, 10_000, (1,)),)),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=list(RUNS))
def test_every_kind_of_run_has_a_picture(tmp_path: Path, run: Callable[[], Run]) -> None:
    run().plot(tmp_path / "run.svg")
    root = ElementTree.parse(tmp_path / "run.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(run().plot().data) > 0


@pytest.mark.parametrize("ending", FILE_TYPES)
def test_equal_runs_have_equal_files_and_nothing_else_is_left(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        path = tmp_path / f"{name}{ending}"
        assert run_of(PREEMPTION, ONE_SAMPLE).plot(path, theme="dark") == path
    content = (tmp_path / f"a{ending}").read_bytes()
    assert content.startswith({".html": b"<!doctype html>", ".png": b"\x89PNG", ".svg": b"<?xml"}[ending])
    assert content == (tmp_path / f"b{ending}").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    page = preemption_run().plot(tmp_path / "run.html").read_text(encoding="utf-8")
    outside = page[: page.index("<script")] + page[page.rindex("</script>") :]
    assert not re.search(r"https?://", outside)
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)\s*=", page[: page.index("<script") + 500])
    assert not re.search(r'<script[^>]*\ssrc="http', page)


def test_a_name_cannot_smuggle_markup_into_the_page(tmp_path: Path) -> None:
    run = run_of(PREEMPTION, ONE_SAMPLE, name="</title><script>alert(1)</script>")
    page = run.plot(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page


def test_a_name_is_text_whatever_it_holds(tmp_path: Path) -> None:
    for name in (r"$\frac$ a_b ^ 100 %", "価格 😀", "n" * 80):
        run = run_of(PREEMPTION, ONE_SAMPLE[:1], name=name)
        assert run.plot(tmp_path / "run.svg").stat().st_size > 0


def test_the_figure_names_every_quantity_and_unit() -> None:
    figure = preemption_run().plot()
    assert {trace.name for trace in figure.data if trace.showlegend is not False} == {
        "reserved, not used",
        "used",
        "waiting requests",
        "running sequences",
        "swapped-out requests",
        "arrivals end (100 ms)",
    }
    titles = {figure.layout[axis].title.text for axis in figure.layout if axis.startswith(("xaxis", "yaxis"))}
    assert {"KV cache (%)", "count", "percentile", "time (s)", "TTFT, log scale", "gap, log scale"} <= titles


def test_preemptions_by_swap_and_recompute_differ_in_colour_and_shape() -> None:
    traces = {trace.name: trace for trace in preemption_run().plot().data if trace.mode == "markers"}
    swap, recompute = traces["swap"], traces["recompute"]
    assert swap.marker.symbol != recompute.marker.symbol
    assert swap.marker.color != recompute.marker.color
    assert set(swap.y) != set(recompute.y)
    run = preemption_run()
    assert len(swap.x) == run.record.totals.swap_outs == 2
    assert recompute.x.tolist() == [t / 1e9 for t in run.preemptions["t_ns"][run.preemptions["outcome"] != "swap"]]


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
def test_colours_stand_out_from_the_paper(theme: object) -> None:
    colours = {name: getattr(theme, name) for name in theme.__slots__}  # type: ignore[attr-defined]
    paper = luminance(colours["paper"])
    for name in ("ink", "muted", "line", "running", "waiting", "recompute", "swap"):
        shade = luminance(colours[name])
        contrast = (max(shade, paper) + 0.05) / (min(shade, paper) + 0.05)
        assert contrast >= (4.5 if name in ("ink", "muted") else 3), f"{name}: {contrast:.2f}"


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_the_picture_says_what_the_metrics_say() -> None:
    run = preemption_run()
    shown = picture(run, 1000)
    assert shown.subtitle.startswith("6 of 7 requests finished, 1 rejected · ")
    assert "500 preemptions per 1,000" in shown.subtitle
    assert shown.kv_title == "KV cache, % of 48 tokens (48 KiB)"
    assert shown.reserved.line[1].max() == pytest.approx(100 * float(run.metrics.peak_kv_usage_ratio or 0))
    assert shown.latencies[0].title == "Time to first token (TTFT), 6 requests"
    assert [percent for percent, _ in shown.latencies[0].marks] == [50, 95, 99]
    assert dict(shown.latencies[1].marks)[99] == run.metrics.p99_gap_ns


def test_a_stopped_run_is_marked_as_partial() -> None:
    run = stopped(preemption_run(), after_steps=9)
    assert picture(run, 1000).subtitle.startswith("stopped at 128 ms, partial · ")


def test_the_end_of_arrivals_is_marked_only_if_the_run_went_on_after_it() -> None:
    assert picture(preemption_run(), 1000).arrivals_end == pytest.approx(0.1)
    assert picture(run_of(PREEMPTION, ONE_SAMPLE[:1]), 1000).arrivals_end is not None
    assert picture(run_of(PREEMPTION, (Request(0, 0, 4, (2,)),)), 1000).arrivals_end is None


def test_nothing_is_said_of_swapping_where_nothing_swapped() -> None:
    assert picture(paged_run(), 1000).swapped is None
    assert picture(preemption_run(), 1000).swapped is not None


@pytest.mark.parametrize(("seconds", "unit"), [(500, "s"), (3600, "min"), (40_000, "h")])
def test_long_runs_are_told_in_minutes_or_hours(seconds: int, unit: str) -> None:
    late = run_of(PREEMPTION, (Request(0, 0, 4, (2,)), Request(1, seconds * 1000 * MS, 4, (2,))))
    assert picture(late, 1000).time_unit == unit


def test_a_restless_run_shows_means_and_keeps_its_peaks() -> None:
    many = tuple(Request(i, i * 40 * MS, 4 + i % 9, (1 + i % 3,)) for i in range(3000))
    shown = picture(run_of(PREEMPTION, many), 500)
    assert shown.reserved.peaks is not None
    assert len(shown.reserved.peaks[0]) <= 4 * 500
    assert shown.reserved.peaks[1].max() > shown.reserved.line[1].max()
    assert "means of" in shown.time_title


def test_other_endings_and_themes_are_named(tmp_path: Path) -> None:
    run = preemption_run()
    with pytest.raises(ConfigError, match=r"expected a file name that ends in .html, .png, .svg"):
        run.plot(tmp_path / "run.pdf")
    with pytest.raises(UnknownNameError, match='unknown theme "drak": did you mean "dark"'):
        run.plot(tmp_path / "run.png", theme="drak")
    with pytest.raises(UnknownNameError, match="unknown theme"):
        run.plot(theme="neon")
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_cannot_be_written(tmp_path: Path) -> None:
    run: Run = preemption_run()
    with pytest.raises(OutputError, match="No such file or directory"):
        run.plot(tmp_path / "missing" / "run.png")
