"""A link gives the same picture and the same numbers to everybody, the command line included; a bad one says why."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any
from urllib.parse import quote

import pytest
from benchmarks.browser import LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit

import kvlab
from kvlab.metrics import METRICS
from kvlab.web.controls import USED_RATIO, used_ratio

LINKS = {
    "preemption-lab": {"preemption_mode": "swap", "max_num_seqs": "40", "burst": "2.5", "swap_space_bytes": "512 MiB"},
    "block-table-lab": {"allocator": "contiguous", "max_tokens": "2048", "request_rate": "2", "seed": "5"},
}
"""The second has a setting without a control."""


def link_of(name: str, changes: dict[str, str], fragment: str = "") -> str:
    return "?" + "&".join(f"{field}={quote(text)}" for field, text in {"lab": name, **changes}.items()) + fragment


@pytest.mark.parametrize(("name", "changes"), LINKS.items(), ids=list(LINKS))
def test_numbers_are_those_of_the_command_line(visit: Visit, name: str, changes: dict[str, str]) -> None:
    lab = visit(link_of(name, changes))
    lab.page.locator("#share").click()
    command = lab.page.locator(".share-row", has_text="command line").locator("code").inner_text()
    words = shlex.split(command)
    assert words[:3] == ["kvlab", "run", name]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--json"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    metrics = json.loads(done.stdout)["metrics"]
    run = kvlab.simulate(kvlab.scenario(name, **changes), record=kvlab.METRICS)
    for tile, text in lab.tiles().items():
        if tile == USED_RATIO.name:  # the page's own
            assert text == USED_RATIO.format(used_ratio(run.scenario, run.metrics.values()))
        else:
            value = metrics[tile]
            assert text == METRICS[tile].format(run.metrics.values()[tile]), tile
            assert value == pytest.approx(float(run.metrics.values()[tile] or 0), rel=1e-12), tile


def test_back_forward_and_a_link_elsewhere_show_the_same(visit: Visit, tables: dict[str, Any]) -> None:
    lab = visit()
    controls = {control["name"]: control for control in tables["labs"]["preemption-lab"]["controls"]}
    seen = [(lab.page.url, lab.tiles(), lab.chart())]
    for field, text in (("max_num_seqs", "48"), ("preemption_mode", "swap"), ("burst", "2.5")):
        lab.put(controls[field], text)
        seen.append((lab.page.url, lab.tiles(), lab.chart()))
    lab.page.locator("#labs a", has_text="Block-table lab").click()
    expect(lab.page.locator("html[data-shown='lab=block-table-lab']")).to_be_attached()
    lab.settle()
    seen.append((lab.page.url, lab.tiles(), lab.chart()))
    assert len({url for url, _, _ in seen}) == len(seen)
    back, forward = lab.page.go_back, lab.page.go_forward
    for go, place in zip([back] * 4 + [forward] * 4, (3, 2, 1, 0, 1, 2, 3, 4), strict=True):
        url, tiles, chart = seen[place]
        go()
        expect(lab.page).to_have_url(url)
        _expect_tiles(lab, tiles)
        assert lab.chart() == chart
    url, tiles, chart = seen[3]
    elsewhere = visit(url.removeprefix(lab.address))
    assert (elsewhere.tiles(), elsewhere.chart()) == (tiles, chart)
    for field, text in (("max_num_seqs", "48 sequences"), ("burst", None), ("preemption_mode", None)):
        if text:
            expect(elsewhere.knob(field).locator("output")).to_have_text(text)
        else:
            expect(elsewhere.knob(field).locator("input:checked")).to_have_count(1)
    expect(elsewhere.knob("preemption_mode").locator("input[value=swap]")).to_be_checked()


def _expect_tiles(lab: LabPage, tiles: dict[str, str]) -> None:
    for name, text in tiles.items():
        expect(lab.page.locator(f"[data-tile={name}] .value")).to_have_text(text)
    lab.settle()


def test_a_link_names_only_what_differs(visit: Visit) -> None:
    lab = visit("?max_num_seqs=48")
    lab.slider("max_num_seqs").fill("0")
    lab.settle()
    lab.page.locator("#reset").click()
    lab.settle()
    assert lab.page.url == lab.address


def test_the_moment_and_the_request_travel_with_the_link(visit: Visit) -> None:
    lab = visit("?preemption_mode=swap#t=62.5&request=150")
    expect(lab.page.locator("#readout")).to_contain_text("62.5 s")
    expect(lab.page.locator("#inspect-title")).to_have_text("Request 150")
    lab.page.locator("#share").click()
    shared = lab.page.locator(".share-row").first.locator("code").inner_text()
    assert shared == f"{lab.address}?preemption_mode=swap#t=62.5&request=150"
    lab.page.goto(shared.replace("62.5", "20.0").replace("150", "40"))  # the same page, the same run
    expect(lab.page.locator("#readout")).to_contain_text("20.0 s")
    expect(lab.page.locator("#inspect-title")).to_have_text("Request 40")


BAD = {
    "unknown-field": ("?max_num_seq=4", ["max_num_seq", "max_num_seqs"]),
    "not-a-number": ("?request_rate=NaN", ["request_rate", "nan"]),
    "infinite": ("?request_rate=inf", ["request_rate", "inf"]),
    "negative": ("?max_num_seqs=-1", ["max_num_seqs", "-1", "at least 1"]),
    "too-much-work": ("?request_rate=20000", ["request_rate", "20,000"]),
    "too-long-an-answer": ("?output_tokens=900000", ["output_tokens", "100,000"]),
    "a-file-of-the-server": ("?output_tokens=empirical(/etc/passwd, 1)", ["output_tokens", "reads no files"]),
    "a-trace-that-is-not-there": ("?trace=/etc/passwd", ["trace", "no such trace"]),
    "markup": ("?max_num_seqs=<img src=x onerror=alert(1)>", ["max_num_seqs", "<img src=x onerror=alert(1)>"]),
    "markup-in-a-name": ("?<b>bold</b>=1", ["<b>bold</b>"]),
    "unknown-lab": ("?lab=<script>alert(1)</script>", ["<script>alert(1)</script>", "block-table-lab"]),
    "prototype": ("?lab=constructor&__proto__=1", ["constructor"]),
    "twice": ("?max_num_seqs=4&max_num_seqs=5", ["max_num_seqs"]),
}


def test_bad_and_hostile_links_say_what_is_wrong(visit: Visit) -> None:
    lab = visit()
    dialogs: list[str] = []
    lab.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    for name, (link, words) in BAD.items():
        lab.open(quote(link, safe="?=&"))
        error = lab.page.get_by_role("alert")
        expect(error).to_be_visible()
        text = error.inner_text()
        assert all(word.lower() in text.lower() for word in words), f"{name}: {text}"
        assert "Traceback" not in text
        assert lab.read("document.querySelectorAll('#error img, #error b, #other-settings b').length") == 0, name
    lab.page.get_by_role("button", name="Back to defaults").last.click()
    expect(lab.page.locator("#error")).to_be_hidden()
    lab.settle()
    assert lab.page.url == lab.address
    assert all(lab.tiles().values())
    assert dialogs == []
    assert all("Failed to load resource: the server responded with a status of 4" in text for text in lab.complaints)
    lab.complaints.clear()


def test_an_error_goes_when_the_setup_is_mended(lab: LabPage) -> None:
    tiles = lab.tiles()
    lab.open("?max_num_seqs=0")
    expect(lab.page.get_by_role("alert")).to_contain_text("max_num_seqs")
    lab.page.go_back()
    expect(lab.page.locator("#error")).to_be_hidden()
    _expect_tiles(lab, tiles)
    assert len(lab.complaints) == 1
    lab.complaints.clear()


def test_a_server_that_is_gone_is_named(lab: LabPage) -> None:
    lab.page.route("**/api/run?**", lambda route: route.abort())
    lab.slider("max_num_seqs").fill("3")
    expect(lab.page.get_by_role("alert")).to_contain_text("kvlab lab")
    lab.page.unroute("**/api/run?**")
    lab.slider("max_num_seqs").fill("4")
    expect(lab.page.locator("#error")).to_be_hidden()
    lab.settle()
    assert all("Failed to load resource" in text for text in lab.complaints)
    lab.complaints.clear()
