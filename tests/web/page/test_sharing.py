"""Compared, handed over, explained; and the reader's own traffic."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.browser import LABS, LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit

import kvlab

CSV = "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{i / 2},{200 + i},{50 + i % 40}\n" for i in range(120))


@pytest.mark.parametrize("name", LABS)
def test_every_figure_and_knob_is_explained(visit: Visit, tables: dict[str, Any], name: str) -> None:
    lab = visit(f"?lab={name}")
    entries = [*tables["labs"][name]["tiles"], *tables["labs"][name]["controls"]]
    terms = lab.page.locator("button.term")
    expect(terms).to_have_count(len(entries))
    for entry in entries:
        lab.page.locator("button.term", has_text=entry["label"]).first.click()
        explain = lab.page.locator("#explain")
        expect(explain.locator("h2")).to_have_text(entry["label"])
        expect(explain).to_contain_text(entry["name"])
        text = explain.inner_text()
        assert "Nothing is known" not in text
        assert all(word in text for word in ("Source", "vLLM", "SGLang", "TGI", "TensorRT-LLM")), text
        lab.page.keyboard.press("Escape")
        expect(explain).to_be_hidden()


def test_pinned_setups_are_compared(lab: LabPage) -> None:
    before, chart = lab.tiles(), lab.chart()
    lab.page.locator("#pin").click()
    lab.slider("max_num_seqs").fill("13")
    lab.settle()
    bar = lab.page.locator("#pin-bar")
    expect(bar).to_contain_text("Most running sequences: 64 sequences → 48 sequences")
    for tile, text in before.items():
        shown = lab.page.locator(f"[data-tile={tile}]").inner_text()
        assert f"pinned: {text.split(' ')[0]}" in shown
    both = lab.chart()
    bar.get_by_role("button", name="Unpin").click()
    expect(bar).to_be_hidden()
    assert len({chart, both, lab.chart()}) == 3, "two curves with a pin, one without"
    lab.page.locator("#pin").click()
    lab.slider("max_num_seqs").fill("17")
    lab.page.locator("#pin-back").click()
    lab.settle()
    assert lab.page.url.endswith("?max_num_seqs=48")


def test_link_scenario_and_picture(visit: Visit, tmp_path: Path) -> None:
    lab = visit("?max_num_seqs=48&burst=2.5#t=40")
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.page.locator("#copy-link").click()
    expect(lab.page.locator("#toast")).to_have_text("Link copied.")
    link = str(lab.page.evaluate("navigator.clipboard.readText()"))
    assert link == f"{lab.address}?burst=2.5&max_num_seqs=48#t=40.0"
    assert visit(link.removeprefix(lab.address)).tiles() == lab.tiles()

    lab.page.locator("#share").click()
    with lab.page.expect_download() as saved:
        lab.page.locator("#share-scenario").click()
    saved.value.save_as(tmp_path / "scenario.json")
    shared = kvlab.scenario(str(tmp_path / "scenario.json"))
    assert shared == kvlab.scenario("preemption-lab", max_num_seqs=48, burst="2.5")

    with lab.page.expect_download() as saved:
        lab.page.locator("#share-picture").click()
    saved.value.save_as(tmp_path / "view.png")
    picture = (tmp_path / "view.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert width >= 1200
    assert height >= 800
    lab.page.locator("#share-command").click()
    command = str(lab.page.evaluate("navigator.clipboard.readText()"))
    assert command == "kvlab run preemption-lab --max-num-seqs 48 --burst 2.5"
    lab.page.locator("#share-flags").click()
    assert "--max-num-seqs 48" in str(lab.page.evaluate("navigator.clipboard.readText()"))


def test_a_trace_of_ones_own(visit: Visit, tmp_path: Path) -> None:
    lab = visit("?max_num_seqs=32")
    file = tmp_path / "mine.csv"
    file.write_text(CSV)
    note = lab.page.locator("#trace-note")
    lab.page.locator("#trace-file").set_input_files(file)
    expect(lab.page.locator("#accounting")).to_have_text("120 arrived = 120 finished + 0 rejected")
    lab.settle()
    expect(lab.page.locator(".trace-name")).to_contain_text("mine.csv")
    expect(lab.slider("request_rate")).to_be_disabled()
    run = kvlab.simulate(kvlab.scenario("preemption-lab", max_num_seqs=32, trace=str(file)), record=kvlab.METRICS)
    assert lab.tiles()["p95_ttft_ns"] == kvlab.metrics.METRICS["p95_ttft_ns"].format(run.metrics.p95_ttft_ns)
    lab.page.locator("#knob-trace_until_ns").fill("10 s")
    lab.page.keyboard.press("Enter")
    expect(lab.page.locator("#accounting")).to_have_text("20 arrived = 20 finished + 0 rejected")

    tiles = lab.tiles()
    file.write_text(CSV.replace("\n1.0,", "\nsoon,"))
    lab.page.locator("#trace-file").set_input_files(file)
    expect(note).to_contain_text("mine.csv")
    expect(note).to_contain_text("4")
    expect(note).to_contain_text("soon")
    assert lab.tiles() == tiles, "the trace before goes on"
    lab.page.locator("#trace-file").set_input_files({"name": "cat.png", "mimeType": "", "buffer": bytes(range(256))})
    expect(note).to_contain_text("cat.png")
    lab.page.locator("#trace-drop").click()
    expect(lab.page.locator("#accounting")).to_contain_text("449 arrived")
    assert all("Failed to load resource" in text for text in lab.complaints), lab.complaints
    assert len(lab.complaints) == 2
    lab.complaints.clear()


def test_the_server_describes_the_scenario_as_python_does(address: str) -> None:
    text = httpx.get(f"{address}api/scenario?lab=block-table-lab&num_samples=4").text
    assert json.loads(text) == json.loads(kvlab.scenario("block-table-lab", num_samples=4).to_json())
