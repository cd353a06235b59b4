"""Two knobs swept under the chart: the grid fills, is told in words, and a cell loads as a change that Back undoes."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from benchmarks.browser import PHONE, SERVER, LabPage
from playwright.sync_api import Locator, Route, expect
from tests.web.page.conftest import Visit
from tests.web.page.test_looks import violations

from kvlab.missions import mission

SHORT = "?duration_ns=10+s"


def open_sweep(lab: LabPage) -> list[str]:
    """Opens the panel and brings it into view; the grids that are asked for from now on."""
    asked: list[str] = []
    lab.page.on("request", lambda request: asked.append(request.url) if "/api/heatmap" in request.url else None)
    lab.page.get_by_text("Sweep two knobs").click()
    lab.page.locator("#sweep").scroll_into_view_if_needed()
    return asked


def full(lab: LabPage) -> Locator:
    """The grid, once nothing is missing."""
    expect(lab.page.locator("#heat-status")).to_have_text(re.compile(r"All \d+ are done\.$"), timeout=60_000)
    return lab.page.get_by_role("grid")


def query(lab: LabPage) -> dict[str, str]:
    return {name: texts[-1] for name, texts in parse_qs(urlsplit(lab.page.url).query).items()}


def test_a_grid_fills_and_a_cell_loads(visit: Visit) -> None:
    lab = visit(SHORT)
    scripts = "performance.getEntriesByType('resource').filter(entry => /heatmap|lines.js/.test(entry.name)).length"
    assert lab.read(scripts) == 0, "what is closed is not loaded"
    asked = open_sweep(lab)
    grid = full(lab)
    cells = grid.get_by_role("gridcell").get_by_role("button")
    expect(cells).to_have_count(63)
    here = grid.locator("[aria-current]")
    now = lab.tiles()
    expect(here).to_have_text(now["p99_gap_ns"])
    best = grid.get_by_role("button", name="best")
    expect(best).to_have_count(1)
    expect(best).to_have_class(re.compile("level-6"))
    told = lab.page.locator("#heat-live")
    best.hover()
    figure = best.inner_text().split("\n")[0]
    expect(told).to_have_text(
        f"Most running sequences 1, Arrival rate 3.6 requests/s: Gap between tokens, p99 {figure}, the best here, "
        f"now {now['p99_gap_ns']}."
    )
    lab.page.get_by_label("Colour and figure").select_option("p95_ttft_ns")
    expect(here).to_have_text(now["p95_ttft_ns"])
    wanted = grid.get_by_role("row").filter(has=lab.page.get_by_role("rowheader", name="8", exact=True))
    cell = wanted.get_by_role("button").nth(2)
    figure = cell.inner_text()
    cell.click()
    lab.settle()
    assert query(lab) == {"duration_ns": "10 s", "max_num_seqs": "48", "request_rate": "8"}
    assert lab.tiles()["p95_ttft_ns"] == figure
    expect(cell).to_have_attribute("aria-current", "true")
    expect(here).to_have_count(1)
    expect(told).to_have_text(re.compile(r"this is the setup shown\.$"))
    assert len(asked) == 1, "the grid was full, and has all metrics"
    lab.page.go_back()
    lab.settle()
    assert query(lab) == {"duration_ns": "10 s"}
    expect(here).to_have_text(now["p95_ttft_ns"])
    lab.slider("gpu_memory_utilization").fill("20")
    lab.settle()
    full(lab)
    expect(here).to_have_text(lab.tiles()["p95_ttft_ns"])
    assert len(asked) == 2, "another setup has another grid"

    lab.page.set_viewport_size({"width": 1280, "height": 300})
    lab.read("scrollTo(0, document.documentElement.scrollHeight)")
    status = lab.page.locator("#heat-status")
    lab.read("document.querySelector('#controls input[type=range]').focus({preventScroll: true})")
    lab.page.keyboard.press("ArrowRight")
    lab.settle()
    expect(status).to_have_text(re.compile("of what was set before. It fills again when it is in view"))
    expect(told).not_to_contain_text("loads it")
    assert len(asked) == 2, "nobody looks at it"
    held: list[Route] = []
    lab.page.route("**/api/heatmap*", lambda route: held.append(route))
    lab.page.get_by_label("Across", exact=True).select_option("headroom_blocks")
    expect(status).to_have_text("The grid fills in a moment.")
    expect(grid).to_be_hidden()  # it is of another knob
    while not held:
        lab.page.wait_for_timeout(10)
    held[0].continue_()
    expect(lab.page.get_by_role("grid", name=re.compile("^Admission headroom"))).to_be_visible()


def test_in_a_mission_the_first_goal_is_the_figure_until_another_is_chosen(visit: Visit) -> None:
    lab = visit("#mission=cap-concurrency")
    goal = mission("cap-concurrency").goals[0]
    open_sweep(lab)
    figure = lab.page.get_by_label("Colour and figure")
    expect(figure).to_have_value(goal.metric)
    lab.page.locator(".question").get_by_role("button").first.click()
    lab.settle()
    expect(lab.page.locator("#sweep [aria-current]")).to_have_text(lab.tiles()[goal.metric])
    figure.select_option("p95_ttft_ns")
    lab.slider("max_num_seqs").fill("2")
    lab.settle()
    expect(figure).to_have_value("p95_ttft_ns")


def test_the_grid_by_keys(visit: Visit) -> None:
    lab = visit(f"{SHORT}&lab=block-table-lab#t=3")
    lab.page.locator("#sweep summary").focus()
    lab.page.keyboard.press("Enter")
    full(lab)
    for _ in range(4):
        lab.page.keyboard.press("Tab")
    focused = lab.page.locator("#sweep :focus")
    expect(focused).to_have_attribute("aria-current", "true")
    told = lab.page.locator("#heat-live")
    expect(told).to_have_text(re.compile("^KV memory 3 GiB, Arrival rate 4 requests/s: .*, this is the setup shown"))
    lab.page.keyboard.press("ArrowLeft")
    lab.page.keyboard.press("ArrowUp")
    expect(told).to_have_text(
        re.compile(r"^KV memory 2\.5 GiB, Arrival rate 4\.3 requests/s: First token, p95 .*, now ")
    )
    lab.page.keyboard.press("Enter")
    lab.settle()
    assert query(lab) == {
        "lab": "block-table-lab", "duration_ns": "10 s", "kv_memory_bytes": "2.5 GiB", "request_rate": "4.3",
    }  # fmt: skip
    expect(focused).to_have_attribute("aria-current", "true")
    for key, memory, rate in (
        ("Home", "0.5", "4.3"),
        ("PageUp", "0.5", "8"),
        ("End", "16", "8"),
        ("ArrowUp", "16", "8"),
    ):
        lab.page.keyboard.press(key)
        expect(told).to_have_text(re.compile(f"^KV memory {memory} GiB, Arrival rate {rate} requests/s: "))
    lab.page.reload()
    lab.settle()
    full(lab)  # what was open is open again


def test_a_grid_of_a_server_in_both_themes_and_on_a_phone(visit: Visit) -> None:
    """The model is too large for the smallest memory: some cells can't be run."""
    link = f"?lab={SERVER}&duration_ns=2+s&gpu=A100-SXM-80GB&model=Qwen%2FQwen3-32B&gpu_memory_utilization=0.98"
    lab = visit(link, size=PHONE)
    open_sweep(lab)
    lab.page.get_by_label("Upwards", exact=True).select_option("gpu_memory_utilization")
    grid = full(lab)
    fields = lab.page.locator(".heat-fields select").evaluate_all("all => all.map(each => each.offsetWidth)")
    assert min(fields) > 250
    failed = grid.get_by_role("button", name="can't be run")
    failed.first.click(force=True)  # it takes the focus, and says why
    expect(lab.page.locator("#heat-live")).to_have_text(re.compile(r"can't be run\. .*memory"))
    assert query(lab)["gpu_memory_utilization"] == "0.98"
    for scheme in ("light", "dark"):
        lab.follow(scheme)
        assert violations(lab) == []
    assert lab.read("document.documentElement.scrollWidth") <= PHONE[0]
    here = grid.locator("[aria-current]").bounding_box()
    assert here is not None
    assert 0 < here["x"] < PHONE[0]
