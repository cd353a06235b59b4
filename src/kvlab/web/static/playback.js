/** The moment shown: play and pause, the scrubber, dragging on the chart, and the keyboard. */

import { momentUnder } from "./canvas.js";
import { byId, cssVar, icon, setText } from "./dom.js";
import { moment, percent, whole } from "./format.js";
import { indexAt } from "./payload.js";

const SPEEDS = [2, 4, 8, 16, 32];
const STEP_S = 0.5;
const JUMP_S = 10;

export class Playback {
  #last = 0;

  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.store = store;
    this.button = byId("play", HTMLButtonElement);
    this.scrubber = byId("scrubber", HTMLInputElement);
    this.speed = byId("speed", HTMLButtonElement);
    this.readout = byId("readout");
    this.button.addEventListener("click", () => this.toggle());
    this.speed.addEventListener("click", () => this.#nextSpeed());
    this.scrubber.addEventListener("input", () => this.seek(this.scrubber.valueAsNumber));
    for (const id of ["chart", "strip-chart"]) this.#dragOn(byId(id), id === "chart");
    addEventListener("keydown", (event) => this.#key(event));
    store.on(["t", "payload"], () => this.#show());
    store.on(["playing", "speed"], () => this.#showButtons());
    this.#showButtons();
  }

  get end() {
    return this.store.state.payload?.header.end_s ?? 0;
  }

  /** @param {number} t */
  seek(t) {
    this.store.set({ t: Math.max(0, Math.min(this.end, t)), playing: false });
  }

  toggle() {
    const { playing, t, payload } = this.store.state;
    if (!payload) return;
    if (playing) return this.store.set({ playing: false });
    this.store.set({ playing: true, t: t >= this.end - 0.05 ? 0 : t });
    this.#last = performance.now();
    requestAnimationFrame((now) => this.#frame(now));
  }

  /** @param {number} now */
  #frame(now) {
    const { playing, t, speed } = this.store.state;
    if (!playing) return;
    const passed = Math.max(0, now - this.#last) / 1000; // the first timestamp can lie before the click
    this.#last = now;
    const next = t + passed * speed;
    if (next >= this.end) return this.store.set({ t: this.end, playing: false });
    this.store.set({ t: next });
    requestAnimationFrame((later) => this.#frame(later));
  }

  #nextSpeed() {
    const place = SPEEDS.indexOf(this.store.state.speed);
    this.store.set({ speed: SPEEDS[(place + 1) % SPEEDS.length] ?? 8 });
  }

  /** @param {HTMLElement} box @param {boolean} gutter */
  #dragOn(box, gutter) {
    /** @param {PointerEvent} event */
    const follow = (event) => {
      const { left, width } = box.getBoundingClientRect();
      const plain = Math.max(0, Math.min(1, (event.clientX - left) / width)) * this.end;
      this.seek(gutter ? momentUnder(event, box, this.end) : plain);
    };
    box.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      box.setPointerCapture(event.pointerId);
      follow(event);
    });
    box.addEventListener("pointermove", (event) => {
      if (box.hasPointerCapture(event.pointerId)) follow(event);
    });
  }

  /** Space and arrows, as long as nothing that has a use for them has the focus. @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const focused = document.activeElement;
    if (focused !== null && focused !== document.body && focused.id !== "main") return;
    const step = event.shiftKey ? JUMP_S : STEP_S;
    const { t } = this.store.state;
    /** @type {Record<string, () => void>} */
    const actions = {
      " ": () => this.toggle(),
      ArrowRight: () => this.seek(t + step),
      ArrowLeft: () => this.seek(t - step),
      Home: () => this.seek(0),
      End: () => this.seek(this.end),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  #show() {
    const { payload, t } = this.store.state;
    if (!payload) return;
    const { series } = payload;
    const place = indexAt(series.t, t);
    const at = `KV ${percent(series.usage[place] ?? 0)}, queue ${whole(series.queue[place] ?? 0)}`;
    const running = whole(series.running[place] ?? 0);
    setText(this.readout, `${moment(t)} · ${at.replace(", ", " · ")} · running ${running}`);
    this.scrubber.max = this.end.toFixed(1);
    this.scrubber.value = t.toFixed(1);
    cssVar(this.scrubber, "--at", this.end ? t / this.end : 0);
    this.scrubber.setAttribute("aria-valuetext", `${moment(t)}, ${at}, running ${running}`);
  }

  #showButtons() {
    const { playing, speed } = this.store.state;
    this.button.replaceChildren(icon(playing ? "pause" : "play"));
    this.button.setAttribute("aria-label", playing ? "Pause" : "Play");
    this.speed.textContent = `${speed}×`;
    this.speed.setAttribute("aria-label", `${speed}×: simulated seconds per second`);
    this.button.title = "Space plays and pauses, arrow keys step, Home and End jump";
  }
}
