"""Who comes for the first time sees a finished run and what it means, at every width, without touching anything."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.browser import DESKTOP, LABS, PHONE, TABLET, LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit

import kvlab

MOST_BYTES = 250_000


@pytest.mark.parametrize("name", LABS)
def test_a_finished_run_tells_its_story(visit: Visit, tables: dict[str, Any], name: str) -> None:
    lab = visit(f"?lab={name}")
    metrics = kvlab.simulate(kvlab.scenario(name), record=kvlab.METRICS).metrics
    counts = f"{metrics.arrived} arrived = {metrics.finished} finished + {metrics.rejected} rejected"
    assert lab.text("#accounting") == counts
    assert f" {metrics.preemptions} times" in lab.text("#story")
    assert lab.text("#lab-title") == tables["labs"][name]["title"]
    assert lab.tiles().keys() == {tile["name"] for tile in tables["labs"][name]["tiles"]}
    assert all(lab.tiles().values())
    moment = lab.page.locator("#moments button", has_text="first preemption")
    moment.click()
    expect(lab.page.locator("#readout")).to_contain_text(moment.locator("b").inner_text())
    assert "KV 100 %" in lab.text("#readout")


def test_what_the_model_does_not_tell(lab: LabPage, tables: dict[str, Any]) -> None:
    limits = lab.page.locator("#not-modelled")
    expect(limits).to_be_hidden()
    lab.page.get_by_text("What the model does not tell you").click()
    expect(limits.locator("li")).to_have_text(tables["labs"]["preemption-lab"]["not_modelled"])


def test_the_first_load_is_small(visit: Visit) -> None:
    lab = visit()
    entries = lab.read("[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
                       ".map(entry => [entry.name, entry.transferSize])")  # fmt: skip
    assert len(entries) > 10
    assert sum(size for _, size in entries) < MOST_BYTES, entries


@pytest.mark.parametrize("size", [DESKTOP, TABLET, (768, 1024), (720, 500), PHONE, (320, 640)], ids=str)
@pytest.mark.parametrize("name", LABS)
def test_nothing_scrolls_sideways(visit: Visit, name: str, size: tuple[int, int]) -> None:
    lab = visit(f"?lab={name}&max_num_seqs=32&seed=7", size=size)
    assert lab.page.locator("#other-settings").is_visible(), "a setting without a control is shown, too"
    lab.page.locator("#pin").click()
    lab.page.locator(".mission button").first.click()
    lab.settle()
    expect(lab.page.locator(".question")).to_be_visible()
    assert lab.read("document.documentElement.scrollWidth") <= size[0]
    lab.page.locator("#share").click()
    box = lab.page.locator("#share-menu").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size[0]


@pytest.mark.parametrize("name", LABS)
def test_on_a_phone_the_effect_stays_in_sight(visit: Visit, tables: dict[str, Any], name: str) -> None:
    lab = visit(f"?lab={name}", size=PHONE, has_touch=True, is_mobile=True)
    slider = lab.slider("max_num_seqs")
    slider.scroll_into_view_if_needed()
    strip = lab.page.locator("#strip")
    expect(strip).to_be_in_viewport(ratio=1)
    main = [tile["name"] for tile in tables["labs"][name]["tiles"] if tile["main"]]
    values = strip.locator("#strip-tiles b")
    expect(values).to_have_text([lab.tiles()[tile] for tile in main])
    chart = lab.picture("#strip-chart canvas:first-child")
    slider.fill("6")
    lab.settle()
    assert lab.picture("#strip-chart canvas:first-child") != chart
    expect(values).to_have_text([lab.tiles()[tile] for tile in main])
    expect(strip).to_be_in_viewport(ratio=1)
    assert lab.read("document.documentElement.scrollWidth") <= PHONE[0]


def test_a_window_too_small_for_anything_still_answers(lab: LabPage) -> None:
    lab.page.set_viewport_size({"width": 30, "height": 200})
    lab.page.set_viewport_size({"width": 1200, "height": 800})
    lab.slider("max_num_seqs").fill("3")
    lab.settle()
    expect(lab.knob("max_num_seqs").locator("output")).to_have_text("8 sequences")
