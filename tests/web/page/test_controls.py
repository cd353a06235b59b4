"""Every control changes something, the address holds it, and quick hands lose nothing."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from benchmarks.browser import LABS, LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit

NEEDS = {
    "swap_space_bytes": {"preemption_mode": "swap"},
    "slow_pcie": {"preemption_mode": "swap"},
    "max_tokens": {"allocator": "contiguous"},
}
"""Settings without which a control has nothing to act on."""
FAR = {"swap_space_bytes": 0, "headroom_blocks": 10, "max_num_seqs": 5}
"""Stops of controls of which a step or two change nothing: swap space is noticed only by who lacks it."""


def query(lab: LabPage) -> dict[str, str]:
    found = {name: texts[-1] for name, texts in parse_qs(urlsplit(lab.page.url).query).items()}
    found.pop("lab", None)
    return found


def another(control: dict[str, Any]) -> str:
    """A value that isn't the default, and not far from it."""
    if control["kind"] == "switch":
        return str(control["on"])
    values = control["values"]
    place = values.index(control["default"])
    near = place - 2 if place > 1 else 1 - place
    return str(values[FAR.get(control["name"], near)])


@pytest.mark.parametrize("name", LABS)
def test_every_control_changes_figures_or_chart(visit: Visit, tables: dict[str, Any], name: str) -> None:
    lab = visit(f"?lab={name}")
    controls = {control["name"]: control for control in tables["labs"][name]["controls"]}
    for control in controls.values():
        needs = NEEDS.get(control["name"], {})
        for field, text in needs.items():
            lab.put(controls[field], text)
        tiles, chart = lab.tiles(), lab.chart()
        text = another(control)
        lab.put(control, text)
        assert (lab.tiles(), lab.chart()) != (tiles, chart), f"{control['name']} = {text} changes nothing"
        changed = {tile for tile, value in lab.tiles().items() if value != tiles[tile]}
        assert all(lab.deltas()[tile][0] in "▲▼" for tile in changed), lab.deltas()
        assert query(lab) == {**needs, control["name"]: text}
        lab.page.locator("#reset").click()
        lab.settle()
        assert query(lab) == {}
        expect(lab.page.locator("#reset")).to_be_hidden()


def test_a_burst_is_marked_in_the_chart(lab: LabPage) -> None:
    chart = lab.page.get_by_role("img", name="Chart of")
    expect(chart).not_to_have_accessible_name(re.compile("burst"))
    lab.page.get_by_role("switch", name="Burst, 40-70 s").check()
    lab.settle()
    expect(chart).to_have_accessible_name(re.compile(r"Marked: burst from 40 to 70 s\.$"))
    end_s = float(lab.read("document.querySelector('#scrubber').max"))
    for scheme in ("light", "dark"):
        lab.follow(scheme)
        before, marked, after = (shade_at(lab, t_s / end_s) for t_s in (39, 55, 71))
        assert before == after != marked, scheme


def shade_at(lab: LabPage, share: float) -> list[int]:
    """The chart's pixel just above the plot, at that share of its width: red, green, blue and opacity."""
    script = """share => {
        const chart = document.querySelector('#chart canvas');
        const copy = new OffscreenCanvas(chart.width, chart.height).getContext('2d', {willReadFrequently: true});
        copy.drawImage(chart, 0, 0);
        const ratio = chart.width / chart.clientWidth;
        const x = 44 + share * (chart.clientWidth - 88);
        return [...copy.getImageData(x * ratio, 20 * ratio, 1, 1).data];
    }"""
    return list(lab.page.evaluate(script, share))


def test_a_change_has_arrow_sign_and_word(lab: LabPage, tables: dict[str, Any]) -> None:
    controls = {control["name"]: control for control in tables["labs"]["preemption-lab"]["controls"]}
    assert not any(delta[:1] in "▲▼" for delta in lab.deltas().values() if delta)
    lab.put(controls["max_num_seqs"], "48")
    deltas = lab.deltas()
    assert deltas["throughput_in_window_tokens_per_s"].startswith("▲ +")
    assert deltas["throughput_in_window_tokens_per_s"].endswith("(better)")
    assert deltas["preemptions_per_1000"].startswith("▼ −")
    assert deltas["kv_capacity_tokens"] == "no change"
    lab.put(controls["gpu_memory_utilization"], "0.8")
    assert lab.deltas()["kv_capacity_tokens"].startswith("▼ −")
    assert lab.deltas()["kv_capacity_tokens"].endswith("(worse)")


def test_deltas_compare_with_what_was_committed(lab: LabPage, visit: Visit) -> None:
    """Not with the previous pixel of a drag."""
    slider = lab.slider("max_num_seqs")
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    lab.page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    lab.page.mouse.down()
    for tenth in (4, 3, 2):
        lab.page.mouse.move(box["x"] + box["width"] * tenth / 10, middle)
        lab.settle()
    assert query(lab) == {}, "nothing is committed while the button is down"
    before_release = lab.deltas()
    lab.page.mouse.up()
    lab.settle()
    assert lab.deltas() == before_release
    at_once = visit()
    at_once.slider("max_num_seqs").fill(slider.input_value())
    at_once.settle()
    assert at_once.deltas() == lab.deltas()
    assert at_once.page.url == lab.page.url


def test_quick_keys_lose_nothing(lab: LabPage, visit: Visit, tables: dict[str, Any]) -> None:
    stops = next(c["values"] for c in tables["labs"]["preemption-lab"]["controls"] if c["name"] == "request_rate")
    slider = lab.slider("request_rate")
    start = stops.index("3.6")
    for burst in (9, -14, 7):
        slider.focus()
        for _ in range(abs(burst)):
            lab.page.keyboard.down("ArrowRight" if burst > 0 else "ArrowLeft")
        lab.page.keyboard.up("ArrowRight" if burst > 0 else "ArrowLeft")
        start += burst
        lab.settle()
        assert query(lab) == {"request_rate": stops[start]}
        expect(lab.knob("request_rate").locator("output")).to_have_text(f"{stops[start]} requests/s")
    assert lab.tiles() == visit(f"?request_rate={stops[start]}").tiles(), "the figures are those of the last stop"


def test_two_pages_do_not_disturb_each_other(visit: Visit) -> None:
    one, two = visit(), visit("?lab=block-table-lab")
    for stop in range(2, 8):
        one.slider("max_num_seqs").fill(str(stop))
        two.slider("request_rate").fill(str(stop + 20))
    one.settle()
    two.settle()
    assert one.tiles() == visit(f"?{urlsplit(one.page.url).query}").tiles()
    assert two.tiles() == visit(f"?{urlsplit(two.page.url).query}").tiles()


def test_the_server_hears_which_stops_are_likely_next(lab: LabPage, tables: dict[str, Any]) -> None:
    controls = tables["labs"]["preemption-lab"]["controls"]
    stops = next(control for control in controls if control["name"] == "request_rate")
    place = stops["values"].index(stops["default"])
    slider = lab.slider("request_rate")
    with lab.page.expect_request("**/api/ahead?*") as told:
        slider.focus()
    near = [stops["values"][place - 1], stops["values"][place + 1]]
    assert parse_qs(told.value.all_headers()["x-ahead"]) == {"request_rate": near}
    for key, step in (("ArrowLeft", -1), ("ArrowLeft", -1), ("PageUp", None), ("ArrowRight", 1)):
        with lab.page.expect_request("**/api/run?*") as asked:
            slider.press(key)
        lab.settle()
        before, place = place, int(slider.input_value())
        moved = place - before if step is None else step
        likely = (place + moved, place + 2 * moved, place - moved)
        header = asked.value.all_headers()["x-ahead"]
        assert parse_qs(header) == {"request_rate": [stops["values"][at] for at in likely]}


def test_nothing_is_guessed_of_a_choice(lab: LabPage) -> None:
    with lab.page.expect_request("**/api/run?*") as asked:
        lab.page.get_by_role("switch", name="Burst, 40-70 s").check()
    lab.settle()
    assert "x-ahead" not in asked.value.all_headers()
