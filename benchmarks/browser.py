"""The labs in a real browser, for tests, measurements and screenshots: Chromium of this machine, `kvlab lab`, a page.

Nothing here waits for a time: only for what the page itself says.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Playwright, Request

CHROMIUM_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM_FLAGS: Final = (
    "--no-sandbox",  # containers rarely let it have one; it only ever sees our own page
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
LABS: Final = ("preemption-lab", "block-table-lab")
SERVER: Final = "vllm-v1"
"""The tab of a real server."""
DESKTOP: Final = (1440, 1000)
TABLET: Final = (1024, 900)
PHONE: Final = (390, 844)
_STOP_S: Final = 20


def chromium() -> str | None:
    """The path of a Chromium: KVLAB_CHROMIUM, or the first that is on the PATH; None where there is none."""
    named = os.environ.get("KVLAB_CHROMIUM")
    return named or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


@contextmanager
def serving() -> Iterator[str]:
    """`kvlab lab` in a process of its own, ended with Ctrl-C; yields the page's address, which ends with a slash."""
    command = [sys.executable, "-m", "kvlab", "lab", "--no-open", "--port", "0"]
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with server:
        assert server.stdout is not None
        assert server.stderr is not None
        said = server.stdout.readline()
        if not said.startswith("kvlab lab: http://127.0.0.1:"):
            server.kill()
            raise RuntimeError(f"kvlab lab said {said!r}, and {server.stderr.read()!r}")
        try:
            yield said.removeprefix("kvlab lab: ").strip()
        finally:
            server.send_signal(signal.SIGINT)
            try:
                _, complaints = server.communicate(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                raise
    if server.returncode or complaints.split("\n") != ["Ctrl-C ends it", "ended", ""]:
        raise RuntimeError(f"kvlab lab ended with {server.returncode} and {complaints!r}")


def launch(playwright: Playwright, path: str) -> Browser:
    """That Chromium, without a window. It can reach this machine and nothing else."""
    return playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))


def new_context(
    browser: Browser, size: tuple[int, int] = DESKTOP, scheme: str = "light", **options: Any
) -> BrowserContext:
    """A reader who has never been here."""
    width, height = size
    return browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        locale="en-US",
        timezone_id="UTC",
        **options,
    )


class LabPage:
    """A person's moves on the page, and what they see of it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.strangers: list[str] = []
        """Addresses outside this server that the page asked for."""
        self.complaints: list[str] = []
        """Errors and warnings in the browser's console, and exceptions that nobody caught."""
        page.on("request", self._note_request)
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _note_request(self, request: Request) -> None:
        place = urlsplit(request.url)
        if place.scheme not in ("data", "blob") and place.netloc != urlsplit(self.address).netloc:
            self.strangers.append(request.url)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def open(self, link: str = "") -> LabPage:
        """Loads the page, with a query and a fragment if given, and waits for its run."""
        self.page.goto(self.address + link)
        self.page.locator("html[data-shown], #error:not([hidden])").first.wait_for(state="attached")
        return self.settle()

    def settle(self) -> LabPage:
        """Waits until no run is on its way, and every picture shows the one that came."""
        self.page.locator("html:not([data-behind]) #results:not(.busy)").wait_for(state="attached")
        return self

    def follow(self, scheme: str) -> LabPage:
        """The system turns "light" or "dark"; waits until the page has heard of it, which is some frames later."""
        script = """scheme => {
            const query = matchMedia(`(prefers-color-scheme: ${scheme})`);
            window.heard = query.matches || new Promise(done =>
                query.addEventListener('change', () => requestAnimationFrame(() => done(true)), {once: true}));
        }"""
        self.page.evaluate(script, scheme)
        self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        self.page.evaluate("window.heard")
        return self

    def read(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self.page.evaluate(script)

    def tiles(self) -> dict[str, str]:
        """What the figures say, by name: "16.7 s"."""
        return self._of_tiles(".value")

    def deltas(self) -> dict[str, str]:
        """What the figures say of their change, by name: "▲ +1.2 s (worse)", "no change", or nothing."""
        return self._of_tiles(".delta")

    def _of_tiles(self, part: str) -> dict[str, str]:
        script = """part => Object.fromEntries([...document.querySelectorAll('[data-tile]')].map(tile =>
            [tile.dataset.tile, tile.querySelector(part).textContent.trim()]))"""
        return dict(self.page.evaluate(script, part))

    def picture(self, selector: str) -> str:
        """The pixels of the canvases there, as text that differs when they do."""
        script = """selector => [...document.querySelectorAll(selector)].map(canvas => canvas.toDataURL()).join(' ')"""
        return str(self.page.evaluate(script, selector))

    def chart(self) -> str:
        """The chart without the moment."""
        return self.picture("#chart canvas:first-child")

    def knob(self, name: str) -> Locator:
        """The part of the setup that sets a setting."""
        return self.page.locator(f'[data-knob="{name}"]')

    def slider(self, name: str) -> Locator:
        """Its slider or switch."""
        return self.page.locator(f"#knob-{name}")

    def put(self, control: Mapping[str, Any], text: str, stops: list[str] | None = None) -> None:
        """Moves a control to a value of the table and waits for the run.

        Args:
            control: its entry in the server's table.
            stops: what the slider offers, where a mission has its own.
        """
        name = control["name"]
        if control["kind"] == "range":
            self.slider(name).fill(str((stops or control["values"]).index(text)))
        elif control["kind"] == "switch":
            self.slider(name).set_checked(text == control["on"])
        elif control["kind"] == "select":
            self.slider(name).select_option(text)
        elif control["kind"] == "text":
            self.slider(name).fill(text)
            self.slider(name).blur()
        else:
            self.knob(name).locator(f'input[value="{text}"]').check(force=True)  # its label lies over it
        self.settle()

    def text(self, selector: str) -> str:
        """The text of an element."""
        return self.page.locator(selector).inner_text()
