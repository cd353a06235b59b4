"""Everything without a mouse, from the first Tab on."""

from __future__ import annotations

import pytest
from benchmarks.browser import LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit


def tab_to(lab: LabPage, selector: str, most: int = 60) -> None:
    for _ in range(most):
        lab.page.keyboard.press("Tab")
        if lab.page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{most} tabs don't lead to {selector}")


def readout(lab: LabPage) -> float:
    return float(lab.text("#readout").split(" s")[0])


def test_tab_to_a_slider_and_move_it(lab: LabPage) -> None:
    tiles = lab.tiles()
    tab_to(lab, "#knob-max_num_seqs")
    for _ in range(4):
        lab.page.keyboard.press("ArrowLeft")
    lab.settle()
    assert lab.tiles() != tiles
    assert lab.page.url.endswith("?max_num_seqs=48")
    slider = lab.slider("max_num_seqs")
    expect(slider).to_have_attribute("aria-valuetext", "48 sequences")
    expect(lab.page.get_by_role("slider", name="Most running sequences")).to_be_focused()
    tab_to(lab, "#knob-kv_cache_dtype")
    lab.page.keyboard.press("Space")
    lab.settle()
    expect(lab.page.get_by_role("switch", name="FP8 KV cache")).to_be_checked()
    assert "kv_cache_dtype=fp8" in lab.page.url


def test_a_choice_by_arrows(lab: LabPage) -> None:
    tab_to(lab, "input[name=preemption_mode]")
    lab.page.keyboard.press("ArrowRight")
    lab.settle()
    expect(lab.page.get_by_role("radio", name="Swap")).to_be_checked()
    assert "preemption_mode=swap" in lab.page.url


def test_space_and_arrows_play_while_no_control_has_the_focus(lab: LabPage) -> None:
    here = readout(lab)
    lab.page.keyboard.press("ArrowRight")
    assert readout(lab) == pytest.approx(here + 0.5, abs=0.06)
    lab.page.keyboard.press("Shift+ArrowLeft")
    assert readout(lab) == pytest.approx(here - 9.5, abs=0.06)
    lab.page.keyboard.press("Home")
    assert readout(lab) == 0
    lab.page.keyboard.press("Space")
    expect(lab.page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(lab.page.locator("#readout")).not_to_contain_text("0.0 s")
    lab.page.keyboard.press("Space")
    expect(lab.page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    assert readout(lab) > 0
    assert lab.read("scrollY") == 0, "Space does not scroll as well"


def test_skip_link_leads_to_the_results(lab: LabPage) -> None:
    lab.page.keyboard.press("Tab")
    skip = lab.page.get_by_role("link", name="Skip to the results")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    lab.page.keyboard.press("Enter")
    expect(lab.page.locator("#results")).to_be_focused()


@pytest.mark.parametrize("link", ["", "?lab=block-table-lab&allocator=contiguous&request_rate=2"])
def test_the_map_by_arrows_is_told_in_words(visit: Visit, link: str) -> None:
    lab = visit(link)
    lab.page.locator("#scrubber").fill("60")
    lab.page.locator("#map").focus()
    live = lab.page.locator("#map-live")
    unit = "Token" if link else "Block"
    lab.page.keyboard.press("ArrowRight")
    expect(live).to_contain_text(f"{unit} 0: ")
    lab.page.keyboard.press("ArrowDown")
    expect(live).not_to_contain_text(f"{unit} 0: ")
    for _ in range(30):
        if "Enter opens" in live.inner_text():
            break
        lab.page.keyboard.press("ArrowRight")
    request = live.inner_text().split("equest ")[1].split(",")[0]
    lab.page.keyboard.press("Enter")
    expect(lab.page.locator("#inspect-title")).to_have_text(f"Request {request}")
    lab.page.keyboard.press("Escape")
    expect(lab.page.locator("#inspect")).to_be_hidden()


def test_explanations_open_and_close_by_key(lab: LabPage) -> None:
    tab_to(lab, "button.term")
    lab.page.keyboard.press("Enter")
    expect(lab.page.locator("#explain")).to_be_visible()
    lab.page.keyboard.press("Escape")
    expect(lab.page.locator("#explain")).to_be_hidden()


def test_request_lanes_by_arrows(lab: LabPage) -> None:
    lab.page.locator("#lanes").focus()
    lab.page.keyboard.press("ArrowDown")
    expect(lab.page.locator("#map-live")).to_contain_text("Request ")
    lab.page.keyboard.press("Enter")
    expect(lab.page.locator("#inspect")).to_be_visible()
