/**
 * Lives of the requests around the moment shown, one row each, under the same time axis as the chart. Thick bars hold
 * GPU memory, thin ones wait without any.
 */

import { GUTTER, font, momentUnder, onWidth, surface } from "./canvas.js";
import { byId, setText } from "./dom.js";
import { moment } from "./format.js";
import { css, hueOf } from "./hues.js";
import { colorsOf, isDark } from "./theme.js";

/** @typedef {import("./theme.js").Colors} Colors */
/** @typedef {import("./lane_index.js").LaneState} LaneState */

const PITCH = 12;
const ROWS = 18;
/** Of the rows, those above the newest request that got in. */
const ABOVE = 12;
const THICK = 8;
const THIN = 2;

/** @param {LaneState} state @param {Colors} colors */
export function stateColor(state, colors) {
  return {
    queued: colors.queue, prefill: colors.prefill, decode: colors.used, paused: colors.recompute, swapped: colors.swap,
    recomputing: colors.redo,
  }[state];
}

export class Lanes {
  /** Ids of the rows as drawn. @type {number[]} */
  #rows = [];

  /** @param {import("./store.js").Store} store @param {import("./playback.js").Playback} playback */
  constructor(store, playback) {
    this.store = store;
    this.canvas = byId("lanes", HTMLCanvasElement);
    this.box = /** @type {HTMLElement} */ (this.canvas.parentElement);
    onWidth(this.box, () => this.#draw());
    store.on(["payload", "t", "hover", "picked", "theme"], () => this.#draw());
    this.canvas.addEventListener("pointermove", (event) => store.set({ hover: this.#rowUnder(event) }));
    this.canvas.addEventListener("pointerleave", () => store.set({ hover: null }));
    this.canvas.addEventListener("click", (event) => this.#click(event, playback));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("blur", () => store.set({ hover: null }));
  }

  /** Ids to show: those around the newest that got in, and on top the picked one if it is not among them. */
  #choose() {
    const { payload, t, picked } = this.store.state;
    if (!payload) return [];
    const { ids } = payload.lanes;
    const first = Math.max(0, Math.min(payload.lanes.frontier(t) - ABOVE, ids.length - ROWS));
    const rows = ids.slice(first, first + ROWS);
    return picked === null || rows.includes(picked) ? rows : [picked, ...rows.slice(0, -1)];
  }

  #draw() {
    const { payload, t, hover, picked, theme } = this.store.state;
    const width = this.box.clientWidth;
    if (!payload || !width) return;
    this.#rows = this.#choose();
    const { context, height } = surface(this.canvas, width, ROWS * PITCH + 2);
    const colors = colorsOf(theme);
    const dark = isDark(colors);
    const scale = (width - 2 * GUTTER) / Math.max(payload.header.end_s, 1e-9);
    context.font = font(10);
    context.textBaseline = "middle";
    context.textAlign = "right";
    this.#rows.forEach((id, row) => {
      const middle = row * PITCH + PITCH / 2 + 1;
      const focus = id === (hover ?? picked);
      context.fillStyle = focus ? colors.band : "transparent";
      context.fillRect(0, middle - PITCH / 2, width, PITCH);
      context.fillStyle = css(hueOf(id, dark));
      context.fillRect(0, middle - 4, 4, 8);
      context.fillStyle = focus ? colors.ink : colors.muted;
      context.fillText(String(id), GUTTER - 8, middle);
      for (const { state, start, end } of payload.lanes.spans(id)) {
        const thin = state === "queued" || state === "paused" || state === "swapped";
        const size = thin ? (state === "queued" ? THIN : 4) : THICK;
        context.fillStyle = stateColor(state, colors);
        context.fillRect(GUTTER + start * scale, middle - size / 2, Math.max(1, (end - start) * scale), size);
      }
    });
    const x = GUTTER + t * scale;
    context.strokeStyle = colors.ink;
    context.lineWidth = 1.5;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.stroke();
    context.setLineDash([]);
    setText(byId("lanes-title"), `Requests around ${moment(t)}`);
  }

  /** @param {PointerEvent|MouseEvent} event */
  #rowUnder(event) {
    return this.#rows[Math.floor((event.offsetY - 1) / PITCH)] ?? null;
  }

  /** A click picks the request and goes to the moment under the pointer. @param {MouseEvent} event @param {import("./playback.js").Playback} playback */
  #click(event, playback) {
    const id = this.#rowUnder(event);
    const end = this.store.state.payload?.header.end_s ?? 0;
    this.store.set({ picked: id });
    if (event.offsetX >= GUTTER) playback.seek(momentUnder(event, this.box, end));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { hover, picked } = this.store.state;
    const at = this.#rows.indexOf(hover ?? picked ?? -1);
    const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, Home: 0, End: this.#rows.length - 1 }[event.key];
    if (to !== undefined) this.store.set({ hover: this.#rows[Math.max(0, Math.min(this.#rows.length - 1, to))] ?? null });
    else if (event.key === "Enter" && hover !== null) this.store.set({ picked: hover });
    else if (event.key === "Escape") this.store.set({ picked: null, hover: null });
    else return;
    event.preventDefault();
  }
}
