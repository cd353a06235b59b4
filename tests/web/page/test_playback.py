"""The moment shown is played, scrubbed, dragged, and every picture follows; a block and its request are linked."""

from __future__ import annotations

import pytest
from benchmarks.browser import LABS, LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit

import kvlab
from kvlab.units import NS_PER_S

LINE = "#chart canvas:last-child"


def moment(lab: LabPage) -> float:
    return float(lab.text("#readout").split(" s")[0])


@pytest.mark.parametrize("name", LABS)
def test_play_reaches_the_end(visit: Visit, name: str) -> None:
    lab = visit(f"?lab={name}&duration_ns=12+s&kv_memory_bytes=1+GiB" if name == LABS[1] else "?duration_ns=12+s")
    end = float(lab.page.locator("#scrubber").get_attribute("max") or 0)
    assert end > 12
    lab.page.locator("#scrubber").fill("0")
    speed = lab.page.locator("#speed")
    while speed.inner_text() != "32×":
        speed.click()
    start = lab.picture(LINE)
    lab.page.get_by_role("button", name="Play", exact=True).click()
    expect(lab.page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(lab.page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    assert moment(lab) == pytest.approx(end, abs=0.06)
    assert lab.picture(LINE) != start
    lab.page.get_by_role("button", name="Play", exact=True).click()  # from the start again
    lab.page.get_by_role("button", name="Pause", exact=True).click()
    assert moment(lab) < end


@pytest.mark.parametrize("link", ["", "?lab=block-table-lab&allocator=contiguous&request_rate=2"])
def test_scrubbing_moves_line_map_and_lanes(visit: Visit, link: str) -> None:
    lab = visit(link)
    pictures = (LINE, "#map", "#lanes")
    scrubber = lab.page.locator("#scrubber")
    scrubber.fill("20")
    before = {picture: lab.picture(picture) for picture in pictures}
    chart = lab.chart()
    scrubber.fill("60")
    expect(lab.page.locator("#readout")).to_contain_text("60.0 s")
    expect(lab.page.locator("#map-title")).to_contain_text("60.0 s")
    expect(lab.page.locator("#lanes-title")).to_contain_text("60.0 s")
    assert all(lab.picture(picture) != before[picture] for picture in pictures)
    assert lab.chart() == chart, "the picture of the run stands still"
    scrubber.fill("20")
    assert {picture: lab.picture(picture) for picture in pictures} == before


def test_dragging_on_the_chart_follows_the_pointer(lab: LabPage) -> None:
    box = lab.page.locator("#chart").bounding_box()
    assert box is not None
    seen = []
    lab.page.mouse.move(box["x"] + 200, box["y"] + 80)
    lab.page.mouse.down()
    for x in (200, 300, 400):
        lab.page.mouse.move(box["x"] + x, box["y"] + 80)
        seen.append(moment(lab))
    lab.page.mouse.up()
    lab.page.mouse.move(box["x"] + 250, box["y"] + 80)
    assert seen == sorted(set(seen))
    assert seen[2] - seen[1] == pytest.approx(seen[1] - seen[0], abs=0.2)
    assert moment(lab) == seen[-1], "the button is up: it stays"


def point(lab: LabPage, share: float = 0.3) -> tuple[float, float]:
    """A place on the map."""
    box = lab.page.locator("#map").bounding_box()
    assert box is not None
    return box["width"] * share, 40


def test_a_block_its_request_and_its_table_are_linked(lab: LabPage, visit: Visit) -> None:
    lab.page.locator("#scrubber").fill("60")
    x, y = point(lab)
    plain = lab.picture("#map"), lab.picture("#lanes")
    lab.page.locator("#map").hover(position={"x": x, "y": y})
    live = lab.page.locator("#map-live")
    expect(live).to_contain_text("Request ")
    assert lab.picture("#map") != plain[0], "its blocks are brought out"
    with lab.page.expect_response("**/api/request?**") as answer:
        lab.page.locator("#map").click(position={"x": x, "y": y})
    detail = answer.value.json()
    physical = [str(block) for table in detail["tables"] for block in table["blocks"]]
    expect(live).to_contain_text(f"Request {detail['id']}, ")
    expect(live).to_contain_text(f"{len(physical)} blocks")
    inspect = lab.page.locator("#inspect")
    expect(inspect.locator("h2")).to_have_text(f"Request {detail['id']}")
    expect(inspect.locator(".blocks b")).to_have_text(physical)
    expect(inspect.locator(".blocks span")).to_have_text([str(place) for place in range(len(physical))])
    expect(inspect.locator(".events li")).to_have_count(len(detail["events"]))
    inspect.locator(".events button").first.click()
    assert moment(lab) == pytest.approx(detail["events"][0]["t"], abs=0.06)
    inspect.get_by_role("button", name="Close").click()
    expect(inspect).to_be_hidden()


def test_shared_blocks_are_marked_in_every_table(visit: Visit) -> None:
    memory = kvlab.simulate(kvlab.scenario("block-table-lab", num_samples=4)).memory_at(t_ns=30 * NS_PER_S)
    request = next(int(memory.owner[block]) for block in memory.shared.nonzero()[0])
    shared = set(((memory.owner == request) & memory.shared).nonzero()[0].tolist())
    lab = visit(f"?lab=block-table-lab&num_samples=4#t=30&request={request}")
    tables = lab.page.locator("#inspect .blocks")
    expect(tables.first).to_be_visible()
    for table in tables.all():
        assert {int(text) for text in table.locator(".shared b").all_inner_texts()} == shared
    assert tables.count() > 1


def test_memory_can_be_coloured_by_state(lab: LabPage) -> None:
    by_request = lab.picture("#map")
    lab.page.get_by_role("radio", name="by state").check(force=True)
    assert lab.picture("#map") != by_request
    lab.page.get_by_role("radio", name="by request").check(force=True)
    assert lab.picture("#map") == by_request
