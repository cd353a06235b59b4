"""Files dropped on the page as a hand does it, through the browser's own drag and drop."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.browser import PHONE, LabPage
from playwright.sync_api import expect
from tests.web.page.conftest import Visit

from kvlab.web.limits import MAX_UPLOAD_BYTES

ROWS = [f"{i / 2},{200 + i},{50 + i % 40}" for i in range(120)]
CSV = "\n".join(["arrival_s,prompt_tokens,output_tokens", *ROWS, ""])
FINISHED = "120 arrived = 120 finished + 0 rejected"


def drop(lab: LabPage, *files: Path) -> None:
    """Drags files over the page until it says so, and lets them go."""
    browser = lab.page.context.new_cdp_session(lab.page)
    size = lab.page.viewport_size
    assert size is not None
    data = {"items": [], "files": list(map(str, files)), "dragOperationsMask": 1}

    def move(kind: str) -> None:
        place = {"x": size["width"] / 2, "y": size["height"] / 2}
        browser.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})

    move("dragEnter")
    move("dragOver")
    expect(lab.page.locator("body.dropping")).to_be_attached()
    move("dragOver")  # as while a hand rests: the page has answered the one before
    move("drop")
    expect(lab.page.locator("body.dropping")).to_have_count(0)
    browser.detach()


def expect_refusal(lab: LabPage, *words: str) -> None:
    note = lab.page.locator("#trace-note")
    for word in words:
        expect(note).to_contain_text(word)
    expect(note).to_have_class(re.compile(r"\bbad\b"))
    expect(note).to_be_in_viewport(ratio=0.9)
    expect(lab.page.locator("#accounting")).to_have_text("449 arrived = 449 finished + 0 rejected")


def forget_refused_requests(lab: LabPage, count: int) -> None:
    """The browser itself tells its console of every answer that is no success."""
    assert len(lab.complaints) == count, lab.complaints
    assert all("Failed to load resource" in text for text in lab.complaints), lab.complaints
    lab.complaints.clear()


def test_a_trace_is_replayed(lab: LabPage, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(CSV)
    drop(lab, file)
    expect(lab.page.locator("#accounting")).to_have_text(FINISHED)
    expect(lab.page.locator(".trace-name")).to_contain_text("mine.csv, 120 requests")
    assert "trace=" in lab.page.url


def test_a_broken_trace_is_named_with_its_line_and_the_next_one_is_taken(lab: LabPage, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(CSV.replace("\n1.0,", "\nsoon,"))
    drop(lab, file)
    expect_refusal(lab, "mine.csv, line 4", "soon")
    file.write_text(CSV)
    drop(lab, file)
    expect(lab.page.locator("#accounting")).to_have_text(FINISHED)
    forget_refused_requests(lab, 1)


@pytest.mark.parametrize("size", [(1440, 1000), PHONE], ids=["desktop", "phone"])
def test_what_is_no_trace_is_refused_in_sight(visit: Visit, tmp_path: Path, size: tuple[int, int]) -> None:
    lab = visit(size=size)
    picture = tmp_path / "cat.png"
    picture.write_bytes(bytes(range(256)) * 40)
    drop(lab, picture)
    expect_refusal(lab, "cat.png", "no trace of a known format")
    forget_refused_requests(lab, 1)


def test_an_over_large_file_is_refused_before_it_is_sent(lab: LabPage, tmp_path: Path) -> None:
    file = tmp_path / "year.csv"
    with file.open("wb") as sparse:
        sparse.truncate(MAX_UPLOAD_BYTES + 1)
    drop(lab, file)
    expect_refusal(lab, "year.csv has 33 MiB", "at most 32 MiB", "kvlab trace cut")
    assert lab.complaints == []


def test_one_file_at_a_time_and_no_folders(lab: LabPage, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(CSV)
    drop(lab, file, file)
    expect_refusal(lab, "One file at a time")
    drop(lab, tmp_path)
    expect_refusal(lab, "is a folder")


def test_a_mission_keeps_its_traffic(lab: LabPage, tmp_path: Path) -> None:
    lab.page.get_by_role("button", name="Load mission setup").first.click()
    lab.settle()
    address = lab.page.url
    file = tmp_path / "mine.csv"
    file.write_text(CSV)
    drop(lab, file)
    expect(lab.page.locator("#toast")).to_contain_text("A mission brings its own traffic")
    assert lab.page.url == address
