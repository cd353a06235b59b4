"""Writes docs/screenshots: all tabs, light and dark, on a desktop and on a phone; panels that open.

python -m docs.screenshots
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Final

from benchmarks.browser import DESKTOP, PHONE, SERVER, LabPage, chromium, launch, new_context, serving
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

FOLDER: Final = Path(__file__).parent / "screenshots"
SCHEMES: Final = ("light", "dark")
VIEWS: Final = {
    "preemption-lab": ("", "max_num_seqs", "48"),
    "block-table-lab": ("?lab=block-table-lab&request_rate=2.5", "allocator", "contiguous"),
    SERVER: (f"?lab={SERVER}", "gpu_memory_utilization", "0.85"),
}
"""Where to begin, and the change whose effect is shown."""
PANELS: Final = {"two-knobs": "#sweep", "cheapest-fix": "#advise"}
"""Panels that open, by the name of their picture."""
PANEL_MS: Final = 120_000
MOST_BYTES: Final = 300_000


def shoot(browser: Browser, address: str, name: str, scheme: str, size: tuple[int, int]) -> bytes:
    """One picture, as PNG: after a change, so that there is something to compare."""
    link, field, text = VIEWS[name]
    phone = size == PHONE
    context = new_context(browser, size, scheme, **({"device_scale_factor": 2, "has_touch": True} if phone else {}))
    lab = LabPage(context.new_page(), address).open(link)
    controls = lab.page.evaluate("fetch('api/labs').then(answer => answer.json())")["labs"][name]["controls"]
    lab.put(next(control for control in controls if control["name"] == field), text)
    scrubber = lab.page.locator("#scrubber")
    scrubber.fill("75")
    scrubber.blur()
    if phone:
        lab.page.locator("#setup").evaluate("setup => scrollTo(0, setup.offsetTop - 180)")
    lab.page.mouse.move(0, 0)
    picture = lab.page.screenshot()
    context.close()
    return picture


def shoot_panel(browser: Browser, address: str, panel: str, scheme: str) -> bytes:
    """A panel of the preemption lab, opened and filled, as PNG."""
    context = new_context(browser, DESKTOP, scheme)
    lab = LabPage(context.new_page(), address).open("")
    found = lab.page.locator(panel)
    found.locator("summary").click()
    found.scroll_into_view_if_needed()
    if panel == "#sweep":
        lab.page.get_by_text(re.compile(r"All \d+ are done")).wait_for(timeout=PANEL_MS)
    else:
        lab.page.locator("#advise-find").click()
        lab.page.locator("#advise-answer p").first.wait_for(timeout=PANEL_MS)
    lab.page.mouse.move(0, 0)
    picture = found.screenshot()
    context.close()
    return picture


def smaller(picture: bytes) -> bytes:
    """The same picture with 256 colours: flat areas and few hues lose nothing that an eye sees."""
    out = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def main() -> None:
    """Writes all pictures and says how large they are."""
    path = chromium()
    if path is None:
        raise SystemExit("no Chromium is here: install one, or name it in KVLAB_CHROMIUM")
    FOLDER.mkdir(exist_ok=True)
    with serving() as address, sync_playwright() as playwright:
        browser = launch(playwright, path)
        for scheme in SCHEMES:
            for name in VIEWS:
                for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
                    keep(f"{name}-{scheme}-{device}.png", shoot(browser, address, name, scheme, size))
            for name, panel in PANELS.items():
                keep(f"{name}-{scheme}-desktop.png", shoot_panel(browser, address, panel, scheme))
        browser.close()


def keep(name: str, picture: bytes) -> None:
    """Writes one of them."""
    picture = smaller(picture)
    assert len(picture) < MOST_BYTES, f"{len(picture):,} bytes"
    (FOLDER / name).write_bytes(picture)
    print(f"{name}: {len(picture) / 1000:.0f} KB")


if __name__ == "__main__":
    main()
