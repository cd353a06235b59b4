"""Writes docs/screenshots: all tabs, light and dark, on a desktop and on a phone.

python -m docs.screenshots
"""

from __future__ import annotations

import io
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
        for name in VIEWS:
            for scheme in SCHEMES:
                for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
                    picture = smaller(shoot(browser, address, name, scheme, size))
                    assert len(picture) < MOST_BYTES, f"{len(picture):,} bytes"
                    file = FOLDER / f"{name}-{scheme}-{device}.png"
                    file.write_bytes(picture)
                    print(f"{file.name}: {len(picture) / 1000:.0f} KB")
        browser.close()


if __name__ == "__main__":
    main()
