"""Chromium and `kvlab lab`, once per worker; a fresh reader per test, who is asked afterwards what went wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from benchmarks.browser import LabPage, chromium, launch, new_context, serving
from playwright.sync_api import Browser, sync_playwright

Visit = Callable[..., LabPage]


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Of the page; at the end the server is ended with Ctrl-C, and has to go quietly."""
    with serving() as address:
        yield address


@pytest.fixture(scope="package")  # its event loop must not outlive the tests that use it
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        message = "no Chromium is here: install one, or name it in KVLAB_CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = launch(playwright, path)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def tables(address: str) -> dict[str, Any]:
    """What the server says of labs, controls, tiles and missions."""
    return dict(httpx.get(f"{address}api/labs").json())


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    """Readers who have never been here; whatever else a test shows, none of them may have cause to complain."""
    pages: list[LabPage] = []

    def visit(link: str = "", **options: Any) -> LabPage:
        context = new_context(browser, **options)
        context.set_default_timeout(60_000)  # for a machine with other work; nothing waits for it when all is well
        pages.append(LabPage(context.new_page(), address))
        return pages[-1].open(link)

    yield visit
    for lab in pages:
        lab.page.context.close()
        assert lab.strangers == [], "the page asked somebody else than its server"
        assert lab.complaints == [], "the browser's console complains"


@pytest.fixture
def lab(visit: Visit) -> LabPage:
    """The first visit: the preemption lab as it is."""
    return visit()
