"""`python -m benchmarks.slider`: how fast the page is in a real browser. Nothing is asserted about time.

Times are taken in the page, from the browser's own timestamp of the input to the end of the frame in which the chart
of the new run was drawn.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from playwright.sync_api import Browser, sync_playwright

import kvlab
from benchmarks.browser import LABS, LabPage, chromium, launch, new_context, serving
from benchmarks.measure import yardstick_ms
from kvlab.core.config import PreemptionLabConfig

CHANGES: Final = {
    "preemption-lab": (
        ("gpu_memory_utilization", "ArrowLeft", 20),
        ("request_rate", "ArrowLeft", 15),
        ("request_rate", "ArrowRight", 5),
        ("max_num_seqs", "ArrowLeft", 10),
        ("headroom_blocks", "ArrowRight", 10),
    ),
    "block-table-lab": (
        ("kv_memory_bytes", "ArrowRight", 10),
        ("kv_memory_bytes", "ArrowLeft", 3),
        ("request_rate", "ArrowLeft", 20),
        ("request_rate", "ArrowRight", 9),
        ("max_num_seqs", "ArrowLeft", 12),
        ("max_tokens", "ArrowLeft", 6),
    ),
}
"""Slider, key, presses: 60 in each lab, all around its defaults and no setup twice: none was looked at before."""
PACES: Final = (
    (0.15, "150 ms apart, as a hand presses"),
    (0.0, "each as soon as the one before is painted, as no hand does"),
)
"""Seconds between presses, and how to say so."""
MOVES: Final = 60
PAGES: Final = 10
FRAMES: Final = 240
FOUR_THOUSAND: Final = {"gpu_memory_utilization": "0.974"}
"""The setup with so many blocks."""

WATCH: Final = """
(() => {
    const seen = window.kvlabSeen = { inputs: 0, since: 0, repaints: [], waiting: [] };
    const note = (event) => { seen.inputs += 1; seen.since = event.timeStamp; };
    addEventListener("keydown", note, { capture: true });
    addEventListener("DOMContentLoaded", () => new MutationObserver(() => requestAnimationFrame(() => {
        const afterPaint = new MessageChannel();
        afterPaint.port1.onmessage = () => {
            seen.repaints.push({ at: performance.now(), took: performance.now() - seen.since });
            for (const done of seen.waiting.splice(0)) done();
        };
        afterPaint.port2.postMessage(null);
    })).observe(document.documentElement, { attributeFilter: ["data-shown"] }));
})();
"""
"""Notes when a key was pressed and when the frame with a new run was painted."""

DRAG: Final = """
([name, from, moves]) => new Promise((done) => {
    const slider = document.getElementById(`knob-${name}`);
    const begun = performance.now();
    const already = kvlabSeen.repaints.length;
    let sent = 0;
    const move = () => {
        if (sent < moves) {
            slider.value = String(from + (sent % 40));
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            sent += 1;
            setTimeout(move, Math.max(0, begun + (sent * 1000) / moves - performance.now()));
            return;
        }
        const ended = performance.now();
        slider.dispatchEvent(new Event("change", { bubbles: true }));
        const results = document.getElementById("results");
        const wait = () => {
            const isBehind = "behind" in document.documentElement.dataset;
            if (isBehind || results.classList.contains("busy")) return setTimeout(wait, 5);
            const repaints = kvlabSeen.repaints.slice(already);
            const last = repaints.at(-1)?.at ?? ended;
            done({ during: repaints.filter(({ at }) => at <= ended).length, took: ended - begun,
                   late: Math.max(0, last - ended) });
        };
        setTimeout(wait, 50);
    };
    move();
})
"""
"""A second of moves inside the page, so that ten pages can be moved at once."""

SCRUB: Final = """
(frames) => new Promise((done) => {
    const scrubber = document.getElementById("scrubber");
    const end = Number(scrubber.max);
    const [stamps, work] = [[], []];
    const frame = (now) => {
        stamps.push(now);
        if (stamps.length > frames) return done({ stamps, work });
        const begun = performance.now();
        scrubber.value = String(((stamps.length % frames) / frames) * end);
        scrubber.dispatchEvent(new Event("input", { bubbles: true }));
        work.push(performance.now() - begun);
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
})
"""


class Spread(NamedTuple):
    """Of some times in ms."""

    median: float
    p95: float
    most: float

    def __str__(self) -> str:
        return f"median {self.median:6.1f}  p95 {self.p95:6.1f}  most {self.most:6.1f} ms"


def spread(times: Iterable[float]) -> Spread:
    """Of at least one time."""
    found = sorted(times)
    return Spread(median(found), found[min(len(found) - 1, int(0.95 * len(found)))], found[-1])


def visit(browser: Browser, address: str, link: str) -> LabPage:
    """A page of somebody who has never been here, with a watch."""
    page = new_context(browser).new_page()
    page.add_init_script(WATCH)
    return LabPage(page, address).open(link)


def first_load(browser: Browser, address: str, lab: str) -> tuple[float, float]:
    """KB over the wire and seconds until the finished run is painted, with an empty cache."""
    page = visit(browser, address, f"?lab={lab}")
    sizes = page.read(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".map(entry => entry.transferSize)"
    )
    page.page.locator("#results:not(.busy)").wait_for(state="attached")
    painted = page.read("kvlabSeen.repaints[0].at")
    page.page.context.close()
    return sum(sizes) / 1000, painted / 1000


def presses(page: LabPage, lab: str, seed: int, apart_s: float) -> list[float]:
    """Milliseconds from each key press to the repainted chart.

    Args:
        seed: of the traffic; one that was used before would find answers that are remembered.
        apart_s: from one press to the next, or more where the repaint takes longer.
    """
    times: list[float] = []
    for name, key, count in CHANGES[lab]:
        page.open(f"?lab={lab}&seed={seed}")
        page.slider(name).focus()
        for _ in range(count):
            pressed = time.perf_counter()
            before = page.read("kvlabSeen.repaints.length")
            page.page.keyboard.press(key)
            page.page.evaluate(
                "before => kvlabSeen.repaints.length > before || new Promise(done => kvlabSeen.waiting.push(done))",
                before,
            )
            times.append(page.read("kvlabSeen.repaints.at(-1).took"))
            time.sleep(max(0.0, pressed + apart_s - time.perf_counter()))
    return times


def drag(page: LabPage, lab: str) -> tuple[int, float, float]:
    """A slider dragged with the mouse, 60 moves in a second: repaints meanwhile, seconds it took, ms until the last."""
    page.open(f"?lab={lab}")
    box = page.slider("request_rate").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    mouse = page.page.mouse
    mouse.move(box["x"] + box["width"] * 0.35, middle)
    mouse.down()
    page.settle()
    before = page.read("kvlabSeen.repaints.length")
    begun = time.perf_counter()
    for move in range(MOVES):
        mouse.move(box["x"] + box["width"] * (0.35 - 0.3 * move / MOVES), middle)
        time.sleep(max(0.0, begun + (move + 1) / MOVES - time.perf_counter()))
    took = time.perf_counter() - begun
    repaints = page.read("kvlabSeen.repaints.length") - before
    released = page.read("performance.now()")
    mouse.up()
    page.settle()
    last = page.read("kvlabSeen.repaints.at(-1).at")
    return repaints, took, max(0.0, last - released)


def together(browser: Browser, address: str) -> list[dict[str, float]]:
    """Ten pages, five on each lab, dragged in the same second."""
    pages = [visit(browser, address, f"?lab={LABS[i % 2]}&seed={i + 1}") for i in range(PAGES)]
    for page in pages:
        script = f"() => {{ window.kvlabDrag = ({DRAG})(['request_rate', 10, {MOVES}]); }}"
        page.page.evaluate(script)
    found = [dict(page.page.evaluate("window.kvlabDrag")) for page in pages]
    for page in pages:
        page.page.context.close()
    return found


def frames(page: LabPage) -> tuple[int, Spread, Spread]:
    """Blocks on the map; time between frames while the moment moves in each; time the page's own code takes of it."""
    page.open("?" + "&".join(f"{name}={text}" for name, text in FOUR_THOUSAND.items()))
    config = kvlab.scenario("preemption-lab", **FOUR_THOUSAND).engine_config()
    assert isinstance(config, PreemptionLabConfig)
    found: dict[str, Sequence[float]] = page.page.evaluate(SCRUB, FRAMES)
    return (
        config.num_gpu_blocks,
        spread(later - earlier for earlier, later in pairwise(found["stamps"])),
        spread(found["work"]),
    )


def main() -> None:
    path = chromium()
    if path is None:
        raise SystemExit("no Chromium is here: install one, or name it in KVLAB_CHROMIUM")
    with serving() as address, sync_playwright() as playwright:
        browser = launch(playwright, path)
        print(
            f"kvlab {kvlab.__version__}, Python {platform.python_version()}, Chromium {browser.version}; "
            f"a million additions in a loop take {yardstick_ms():.0f} ms here"
        )
        print("\nFirst load, nothing cached")
        visit(browser, address, "").page.context.close()  # the browser itself has to come up, too
        for lab in LABS:
            size, seconds = first_load(browser, address, lab)
            print(f"  {lab:16} {size:6.0f} KB  {seconds:5.2f} s until the finished run is painted")
        page = visit(browser, address, "")
        for seed, (apart_s, words) in enumerate(PACES, 1):
            print(f"\nKey press to repainted chart, {words}")
            for lab in LABS:
                times = presses(page, lab, seed, apart_s)
                print(f"  {lab:16} {len(times)} changes: {spread(times)}")
        print(f"\nA slider dragged for a second, {MOVES} moves")
        for lab in LABS:
            repaints, took, late = drag(page, lab)
            print(f"  {lab:16} {repaints:3} repaints in {took:.2f} s, the last {late:4.0f} ms after the release")
        print("\nThe moment moved in every frame")
        blocks, between, work = frames(page)
        print(f"  {blocks:,} blocks: between frames {between}")
        print(f"  {'':7} of which the page's own code {work}")
        page.page.context.close()
        print(f"\n{PAGES} pages dragged at once, {MOVES} moves each in a second")
        found = together(browser, address)
        print("  repaints meanwhile: " + " ".join(f"{drag['during']:.0f}" for drag in found))
        print(f"  the last moves are shown after {spread(drag['late'] for drag in found)}")
        print(f"  the drag itself took {spread(drag['took'] for drag in found)}")
        browser.close()


if __name__ == "__main__":
    main()
