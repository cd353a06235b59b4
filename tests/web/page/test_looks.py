"""Both themes, little motion, and what axe-core finds: nothing serious on either lab."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from benchmarks.browser import LABS, PHONE, LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def violations(lab: LabPage) -> list[str]:
    """What axe-core calls serious or critical, with the elements."""
    lab.page.evaluate(AXE)
    found: dict[str, Any] = lab.page.evaluate("axe.run({resultTypes: ['violations']})")
    assert found["passes"] or found["violations"], "axe looked at nothing"
    return [
        f"{rule['impact']}: {rule['id']}: {node['target']}: {node['failureSummary']}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", LABS)
def test_axe_finds_nothing_serious(visit: Visit, name: str, scheme: str) -> None:
    lab = visit(f"?lab={name}#t=30", scheme=scheme)
    assert violations(lab) == []
    lab.slider("max_num_seqs").fill("3")  # better and worse
    lab.page.locator("#pin").click()
    lab.slider("max_num_seqs").fill("30")
    lab.settle()
    lab.page.get_by_text("What the model does not tell you").click()
    lab.page.locator("#lanes").click(position={"x": 20, "y": 40})
    expect(lab.page.locator("#inspect")).to_be_visible()
    lab.page.locator(".mission button").first.click()
    lab.settle()
    assert violations(lab) == []
    lab.page.locator(".question").get_by_role("button").first.click()
    lab.page.locator("#mission-hint").click()
    lab.page.locator("button.term").first.click()
    assert violations(lab) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_on_a_phone_and_on_an_error(visit: Visit, scheme: str) -> None:
    lab = visit("?max_num_seqs=0", scheme=scheme, size=PHONE)
    assert violations(lab) == []
    lab.page.get_by_role("button", name="Back to defaults").last.click()
    lab.settle()
    lab.page.locator("#share").click()
    assert violations(lab) == []
    assert len(lab.complaints) == 1
    lab.complaints.clear()


def background(lab: LabPage) -> str:
    return str(lab.read("getComputedStyle(document.body).backgroundColor"))


def test_the_theme_follows_the_system_until_it_is_chosen(visit: Visit) -> None:
    lab = visit(scheme="dark")
    dark, chart = background(lab), lab.chart()
    lab.follow("light")
    light = background(lab)
    assert light != dark
    assert lab.chart() != chart, "canvases follow"
    lab.page.get_by_role("radio", name="Dark").check(force=True)
    assert (background(lab), lab.chart()) == (dark, chart)
    lab.page.reload()
    lab.settle()
    assert background(lab) == dark, "a choice is kept"
    lab.page.get_by_role("radio", name="Light").check(force=True)
    assert background(lab) == light
    lab.page.get_by_role("radio", name="system").check(force=True)
    lab.follow("dark")
    assert (background(lab), lab.chart()) == (dark, chart)


def test_little_motion_when_little_is_wanted(visit: Visit) -> None:
    lab = visit(reduced_motion="reduce")
    lab.page.get_by_role("switch", name="Slow PCIe").check()
    lab.settle()
    moving = lab.read("""[...document.querySelectorAll('*')].filter(element =>
        [null, '::before', '::after'].some(part => {
            const style = getComputedStyle(element, part);
            return style.transitionDuration !== '0s' || style.animationName !== 'none';
        })).map(element => element.outerHTML.slice(0, 80))""")
    assert moving == []
    assert lab.read("document.getAnimations().length") == 0
    expect(lab.page.get_by_role("button", name="Play", exact=True)).to_be_visible()
