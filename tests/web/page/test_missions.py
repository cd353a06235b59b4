"""Missions: loaded, failed, guessed, solved, starred; each unlocks the next. All of them over the API."""

from __future__ import annotations

import itertools
import json
import struct
from functools import cache
from typing import Any

import httpx
import pytest
from benchmarks.browser import LABS, LabPage
from playwright.sync_api import Locator, expect
from tests.web.page.conftest import Visit

import kvlab
from kvlab.missions import MISSIONS, judge, mission
from kvlab.prices import cost_of

EXPENSIVE = {
    "cap-concurrency": (2, {"max_num_seqs": "40", "gpu_memory_utilization": "0.92"}),
    "idle-cache": (1, {"max_num_seqs": "24", "kv_memory_bytes": "4 GiB"}),
}
"""Stars of fixes that work and are not the cheapest."""


@cache
def cheapest_fix(name: str) -> dict[str, str]:
    """The levers' texts of the first win at the lowest price."""
    task = mission(name)
    setup = task.scenario()
    for stops in itertools.product(*task.levers.values()):
        changes = dict(zip(task.levers, stops, strict=True))
        after = setup.replace(**changes)
        if cost_of(setup.settings(), after.settings()) == task.cheapest:
            verdict = judge(task, after, kvlab.simulate(after, record=kvlab.METRICS).metrics)
            if verdict is not None and verdict.met:
                return changes
    raise AssertionError(f"nothing at {task.cheapest} points solves {name}")


def header_of(address: str, lab: str, changes: dict[str, str]) -> dict[str, Any]:
    answer = httpx.get(f"{address}api/run", params={"lab": lab, **changes}, timeout=60).raise_for_status().content
    magic, length = struct.unpack_from("<4sI", answer)
    assert magic == b"KVL1"
    return dict(json.loads(answer[8 : 8 + length]))


@pytest.mark.parametrize("name", MISSIONS)
def test_every_mission_is_failed_then_solved_over_the_api(address: str, tables: dict[str, Any], name: str) -> None:
    lab = mission(name).rules
    [card] = [card for card in tables["labs"][lab]["missions"] if card["id"] == name]
    before = header_of(address, lab, card["setup"])["missions"][name]
    assert (before["met"], before["stars"], before["cost"]) == (False, 0, 0)
    after = header_of(address, lab, {**card["setup"], **cheapest_fix(name)})["missions"][name]
    assert (after["met"], after["stars"]) == (True, 3)
    assert all(goal["met"] for goal in after["goals"])


def card_of(lab: LabPage, name: str) -> Locator:
    return lab.page.locator(f'[data-mission="{name}"]')


def move(lab: LabPage, tables: dict[str, Any], name: str, changes: dict[str, str]) -> None:
    """Sets levers of a mission on the page."""
    task = mission(name)
    for control in tables["labs"][task.rules]["controls"]:
        if control["name"] in changes:
            lab.put(control, changes[control["name"]], list(task.levers[control["name"]]))


def default_of(lab: LabPage, tables: dict[str, Any], field: str) -> str:
    shown = str(lab.read("document.documentElement.dataset.lab"))
    return str(tables["labs"][shown]["defaults"][field])


def load(lab: LabPage, name: str) -> None:
    card_of(lab, name).get_by_role("button", name="Load mission setup").click()
    lab.settle()


def fail(lab: LabPage, name: str) -> None:
    """The loaded setup does not do; a guess is asked for before anything can be moved."""
    card = card_of(lab, name)
    levers = mission(name).levers
    question = card.locator(".question")
    expect(question).to_be_visible()
    for lever in levers:
        expect(lab.knob(lever).locator("input").first).to_be_disabled()
    question.get_by_role("button", name=mission(name).question.guesses[0].text).click()
    expect(question).to_have_count(0)
    assert card.locator(".goals li:not(.met)").count() > 0
    expect(card.locator(".reward")).to_have_count(0)
    expect(card.get_by_role("img", name="not solved yet")).to_be_visible()
    for row in lab.page.locator("[data-knob]").all():
        lever = row.get_attribute("data-knob") or ""
        if lever in levers:
            expect(row.locator("input").first).to_be_enabled()
            expect(row.locator(".price")).not_to_be_empty()
        else:
            expect(row.locator("input").first).to_be_disabled()


def expect_solved(lab: LabPage, name: str, stars: int) -> None:
    card = card_of(lab, name)
    expect(card.locator(".reward")).to_be_visible()
    expect(card.locator(".goals li.met")).to_have_count(len(mission(name).goals))
    expect(card.locator(".reward").get_by_role("img", name=f"{stars} of 3 stars")).to_be_in_viewport()
    expect(card).to_contain_text(mission(name).why)
    expect(card.locator(".flag code")).to_have_text(mission(name).vllm_flag)


@pytest.mark.parametrize("name", LABS)
def test_two_missions_from_load_to_stars(visit: Visit, tables: dict[str, Any], name: str) -> None:
    lab = visit(f"?lab={name}")
    first, second, third = (card["id"] for card in tables["labs"][name]["missions"][:3])
    for locked in (second, third):
        expect(card_of(lab, locked).get_by_role("button")).to_have_count(0)
        expect(card_of(lab, locked).get_by_role("img", name="locked")).to_be_visible()
    load(lab, first)
    assert not any("▲" in delta or "▼" in delta for delta in lab.deltas().values()), "another server came before"
    fail(lab, first)
    expect(card_of(lab, second).get_by_role("button")).to_have_count(0)
    for decoy in mission(first).decoys:
        levers = mission(first).levers[decoy]
        move(lab, tables, first, {decoy: levers[-1]})
        expect(card_of(lab, first).locator(".reward")).to_have_count(0)
        move(lab, tables, first, {decoy: mission(first).setup.get(decoy, default_of(lab, tables, decoy))})
    stars, expensive = EXPENSIVE[first]
    move(lab, tables, first, expensive)
    expect_solved(lab, first, stars)
    expect(card_of(lab, first)).to_contain_text("A cheaper fix earns more.")
    expect(lab.page.locator("#toast")).to_have_text(f"Solved: {stars} of 3 stars.")
    move(lab, tables, first, cheapest_fix(first))
    expect_solved(lab, first, 3)
    expect(card_of(lab, first).locator(".guess")).to_contain_text("You guessed")
    card_of(lab, first).locator("#mission-next").click()
    lab.settle()
    fail(lab, second)
    move(lab, tables, second, cheapest_fix(second))
    expect_solved(lab, second, 3)
    expect(card_of(lab, third).get_by_role("button", name="Load mission setup")).to_be_visible()
    expect(lab.page.locator(".tally")).to_have_text(f"2 of {len(tables['labs'][name]['missions'])} · 6 stars")
    lab.page.reload()
    expect(card_of(lab, first).get_by_role("img", name="3 of 3 stars")).to_be_visible()
    expect(card_of(lab, third).get_by_role("button", name="Load mission setup")).to_be_visible()


@pytest.mark.parametrize("query", ["", "?max_num_seqs=48&seed=7"])
def test_a_link_to_a_mission_begins_it(visit: Visit, query: str) -> None:
    lab = visit(f"{query}#mission=cap-concurrency")
    expect(lab.knob("max_num_seqs").locator("output")).to_have_text("256 sequences")
    expect(lab.page.get_by_role("switch", name="Longer answers")).to_be_checked()
    expect(card_of(lab, "cap-concurrency").locator(".question")).to_be_visible()


def test_a_link_to_a_moved_mission_keeps_its_levers(visit: Visit) -> None:
    lab = visit("?longer_answers=2&max_num_seqs=40&request_rate=2.2#mission=cap-concurrency")
    expect(lab.knob("max_num_seqs").locator("output")).to_have_text("40 sequences")


def test_hints_come_one_by_one(lab: LabPage) -> None:
    load(lab, "cap-concurrency")
    card = card_of(lab, "cap-concurrency")
    card.get_by_role("button", name="Skip").click()
    for count, hint in enumerate(mission("cap-concurrency").hints, start=1):
        card.locator("#mission-hint").click()
        expect(card.locator(".hints li")).to_have_count(count)
        expect(card.locator(".hints li").last).to_have_text(hint)
    expect(card.locator("#mission-hint")).to_have_count(0)
    card.locator("#mission-leave").click()
    expect(card.locator(".hints li")).to_have_count(0)
    expect(lab.knob("request_rate").locator("input")).to_be_enabled()


def test_guessing_can_be_switched_off(lab: LabPage) -> None:
    lab.page.get_by_role("switch", name="Ask me for a guess first").uncheck()
    load(lab, "cap-concurrency")
    expect(card_of(lab, "cap-concurrency").locator(".question")).to_have_count(0)
    expect(lab.slider("max_num_seqs")).to_be_enabled()


def test_progress_is_handed_over_and_forgotten(visit: Visit, tmp_path: Any) -> None:
    lab = visit("#progress=cap-concurrency.3_swap-for-the-batch.1_nonsense.3_headroom.9")
    tally = lab.page.locator(".tally")
    expect(tally).to_have_text("2 of 8 · 4 stars")
    expect(card_of(lab, "recompute-for-the-chat").get_by_role("button")).to_have_count(1)
    with lab.page.expect_download() as saved:
        lab.page.locator("#progress-save").click()
    file = tmp_path / "progress.json"
    saved.value.save_as(file)
    assert json.loads(file.read_text())["stars"] == {"cap-concurrency": 3, "swap-for-the-batch": 1}

    other = visit()
    other.page.locator("#progress-file").set_input_files(file)
    expect(other.page.locator(".tally")).to_have_text("2 of 8 · 4 stars")
    other.page.locator("#progress-file").set_input_files({"name": "x.json", "mimeType": "", "buffer": b'{"stars": 3}'})
    expect(other.page.locator("#toast")).to_contain_text("no mission progress")
    other.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    other.page.locator("#progress-link").click()
    expect(other.page.locator("#toast")).to_contain_text("copied")
    link = str(other.page.evaluate("navigator.clipboard.readText()"))

    tally = visit(link.removeprefix(other.address)).page.locator(".tally")
    expect(tally).to_have_text("2 of 8 · 4 stars")
    other.page.locator("#progress-reset").click()
    other.page.get_by_role("button", name="Keep it").click()
    expect(other.page.locator(".tally")).to_have_text("2 of 8 · 4 stars")
    other.page.locator("#progress-reset").click()
    other.page.locator("#confirm-yes").click()
    expect(other.page.locator(".tally")).to_have_text("0 of 8 · 0 stars")
    other.page.reload()
    expect(other.page.locator(".tally")).to_have_text("0 of 8 · 0 stars")
