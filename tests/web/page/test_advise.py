"""What is the cheapest fix? Found, applied, compared, undone; honest in a mission, and readable for everybody."""

from __future__ import annotations

import pytest
from benchmarks.browser import DESKTOP, PHONE, LabPage
from playwright.sync_api import Locator, expect
from tests.web.page.conftest import Visit
from tests.web.page.test_looks import violations
from tests.web.page.test_missions import expect_solved, load

import kvlab
from kvlab.missions import mission
from kvlab.web.advising import limits_for, limits_of

QUICK = "?duration_ns=60 s"
"""A search of a second or two: the browser's tests share what the server found."""
SLOW = "ttft_p95<=0.1s, itl_p99<=1ms"
"""Nothing keeps that, and finding out takes minutes."""


def open_panel(lab: LabPage) -> Locator:
    lab.page.locator("#advise > summary").click()
    expect(lab.page.locator("#advise-goals")).to_be_visible()
    return lab.page.locator(".fix")


def find(lab: LabPage) -> Locator:
    fixes = open_panel(lab)
    lab.page.locator("#advise-find").click()
    expect(lab.page.locator("#advise-answer p").first).to_be_visible()
    expect(lab.page.locator("#advise-stop")).to_be_hidden()
    return fixes


def test_fixes_are_found_applied_undone_and_compared(visit: Visit) -> None:
    lab = visit(QUICK)
    scripts = "performance.getEntriesByType('resource').filter(({name}) => name.includes('/advise')).length"
    assert lab.read(scripts) == 0, "loaded by who opens the panel"
    fixes = find(lab)
    assert lab.page.locator("#advise-goals").input_value() == limits_for("preemption-lab")["first"]
    expect(fixes.first).to_contain_text("Admission headroom: 0 blocks")
    expect(fixes.first).to_contain_text(kvlab.prices.PRICES["headroom_blocks"].reason)
    expect(fixes.first.locator(".fix-cost")).to_have_text("1 point")
    expect(fixes.first.locator(".fix-flags code")).to_contain_text("--watermark")
    costs = [int(text.split()[0]) for text in lab.page.locator(".fix-cost").all_inner_texts()]
    assert costs == sorted(costs)
    assert len(costs) > 2
    worse = lab.page.locator(".figures tr.worse td small").first
    expect(worse).to_have_text("worse")
    expect(lab.page.locator("#advise-live")).to_contain_text("keep all limits")

    before, address = lab.tiles(), lab.page.url
    fixes.first.get_by_role("button", name="Apply").click()
    lab.settle()
    expect(lab.knob("headroom_blocks").locator("output")).not_to_have_text("0 blocks")
    expect(fixes.first.locator(".applied-word")).to_have_text("applied")
    assert float(lab.tiles()["preemptions_per_1000"]) < 10
    assert "headroom_blocks=" in lab.page.url
    lab.page.go_back()
    lab.settle()
    assert (lab.tiles(), lab.page.url) == (before, address)
    expect(lab.page.locator("#advise-note")).to_be_hidden()

    fixes.nth(1).get_by_role("button", name="Compare").click()
    lab.settle()
    expect(lab.page.locator("#pin-bar")).to_contain_text("Most running sequences: 64 sequences →")
    expect(lab.page.locator('[data-tile="preemptions_per_1000"] .pinned-value')).to_contain_text("pinned:")
    lab.slider("request_rate").fill("3")
    lab.settle()
    expect(lab.page.locator("#advise-note")).to_contain_text("older setup")


def test_a_mission_is_won_as_if_the_fix_had_been_found(visit: Visit) -> None:
    lab = visit()
    open_panel(lab)
    load(lab, "cap-concurrency")
    expect(lab.page.locator("#advise-find")).to_be_disabled()
    expect(lab.page.locator("#advise-note")).to_contain_text("question first")
    lab.page.get_by_role("button", name="Skip").click()
    assert lab.page.locator("#advise-goals").input_value() == limits_of(mission("cap-concurrency"))
    lab.page.locator("#advise-find").click()
    lab.page.get_by_role("button", name="Let me try").click()
    expect(lab.page.locator(".fix")).to_have_count(0)
    lab.slider("max_num_seqs").fill("0")  # prices count from the mission's own setup all the same
    lab.page.locator("#advise-find").click()
    lab.page.locator("#confirm-yes").click()
    lab.page.locator(".fix").first.get_by_role("button", name="Apply").click()
    lab.settle()
    expect_solved(lab, "cap-concurrency", 3)


def test_limits_are_written_or_clicked_and_a_search_is_stopped(visit: Visit) -> None:
    lab = visit("?lab=vllm-v1")
    open_panel(lab)
    field, chips = lab.page.locator("#advise-goals"), lab.page.get_by_role("group", name="Common limits")
    field.fill("tttf_p95<=2s")
    field.press("Enter")
    problem = lab.page.locator("#advise-problem")
    expect(problem).to_contain_text("did you mean")
    expect(field).to_have_attribute("aria-invalid", "true")
    assert len(lab.complaints) == 1, "the browser notes the refusal"
    lab.complaints.clear()

    field.fill("TTFT_p95<=5s")
    chips.get_by_role("button", name="ttft_p95<=2s").click()
    chips.get_by_role("button", name="itl_p99<=150ms").click()
    assert field.input_value() == "ttft_p95<=2s, itl_p99<=150ms"
    expect(chips.get_by_role("button", name="itl_p99<=150ms")).to_have_attribute("aria-pressed", "true")
    field.fill(SLOW)
    lab.page.locator("#advise-find").click()
    expect(problem).to_be_hidden()
    expect(lab.page.locator("#advise-count")).not_to_have_text("0 runs")
    lab.slider("request_rate").fill("3")  # a run beside the search
    lab.settle()
    expect(lab.page.locator("#advise-note")).to_contain_text("older setup")
    lab.page.locator("#advise-stop").focus()
    lab.page.keyboard.press("Enter")
    expect(lab.page.locator("#advise-count")).to_contain_text("Stopped.")
    expect(lab.page.locator("#advise-find")).to_be_focused()
    expect(lab.page.locator("#advise-find")).to_have_text("Find again")

    lab.page.locator("#advise-find").click()
    expect(lab.page.locator("#advise-count")).not_to_have_text("0 runs")
    tabs = lab.page.get_by_role("navigation", name="Labs").get_by_role("link")
    tabs.first.click()
    expect(field).to_have_value(limits_for("preemption-lab")["first"])
    expect(lab.page.locator("#advise-find")).to_have_text("Find")
    expect(lab.page.locator("#advise-count")).to_be_hidden()
    lab.page.go_back()
    expect(field).to_have_value(SLOW)
    expect(lab.page.locator("#advise-count")).to_contain_text("Stopped: the tab was left.")
    expect(lab.page.locator("#advise-stop")).to_be_hidden()
    lab.settle()


@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", PHONE)])
def test_it_reads_well_in_both_themes_and_on_a_phone(visit: Visit, scheme: str, size: tuple[int, int]) -> None:
    lab = visit(QUICK, scheme=scheme, size=size)
    row = "document.querySelector('.advise-row').offsetHeight"
    fixes = open_panel(lab)
    height = lab.read(row)
    lab.page.locator("#advise-find").click()
    expect(lab.page.locator("#advise-stop")).to_be_visible()
    assert lab.read(row) == height, "nothing below jumps"
    expect(lab.page.locator("#advise-answer p").first).to_be_visible()
    expect(lab.page.locator("#advise-stop")).to_be_hidden()
    fixes.nth(1).locator("summary").click()
    fixes.first.get_by_role("button", name="Apply").click()
    lab.settle()
    assert lab.read("document.documentElement.scrollWidth") <= size[0]
    assert violations(lab) == []
