/**
 * Lives of the requests around the moment shown, one row each, in a window of time that moves along. Thick bars hold
 * GPU memory, thin ones wait without any.
 */

import { GUTTER, font, onSize, surface, tickStep } from "./canvas.js";
import { byId, setText } from "./dom.js";
import { moment, whole } from "./format.js";
import { css, hueOf } from "./hues.js";
import { colorsOf, isDark } from "./theme.js";

/** @typedef {import("./theme.js").Colors} Colors */
/** @typedef {import("./lane_index.js").LaneState} LaneState */

const PITCH = 12;
const ROWS = 18;
/** Of the rows, those above the newest request that got in. */
const ABOVE = 12;
const THICK = 8;
const THIN = { queued: 2, paused: 4, swapped: 4 };
const AXIS = 18;
/** Seconds shown. */
export const WINDOW_S = 40;

/** @param {LaneState} state @param {Colors} colors */
export function stateColor(state, colors) {
  return {
    queued: colors.queue,
    prefill: colors.prefill,
    decode: colors.used,
    paused: colors.recompute,
    swapped: colors.swap,
    recomputing: colors.redo,
  }[state];
}

export class Lanes {
  #width = 0;
  /** Ids of the rows as drawn. @type {number[]} */
  #rows = [];

  /** @param {import("./store.js").Store} store @param {import("./playback.js").Playback} playback */
  constructor(store, playback) {
    this.store = store;
    this.canvas = byId("lanes", HTMLCanvasElement);
    this.box = /** @type {HTMLElement} */ (this.canvas.parentElement);
    onSize(this.box, (width) => {
      this.#width = width;
      this.#draw();
    });
    const waits = store.onRunLater(() => this.#draw());
    store.on(["hover", "picked", "theme"], () => this.#draw());
    store.on(["t"], () => waits() || this.#draw());
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

  /** First second of the window: the moment shown stands in its middle, except at both ends of the run. */
  #from() {
    const { payload, t } = this.store.state;
    return Math.max(0, Math.min(t - WINDOW_S / 2, (payload?.header.end_s ?? 0) - WINDOW_S));
  }

  #draw() {
    const { payload, t, hover, picked, theme } = this.store.state;
    const width = this.#width;
    if (!payload || !width) return;
    this.#rows = this.#choose();
    const { context } = surface(this.canvas, width, ROWS * PITCH + AXIS);
    const colors = colorsOf(theme);
    const from = this.#from();
    const scale = (width - GUTTER) / WINDOW_S;
    context.font = font(10);
    context.textBaseline = "middle";
    this.#rows.forEach((id, row) => {
      const middle = row * PITCH + PITCH / 2;
      const focus = id === (hover ?? picked);
      context.fillStyle = focus ? colors.band : "transparent";
      context.fillRect(0, middle - PITCH / 2, width, PITCH);
      for (const { state, start, end } of payload.lanes.spans(id)) {
        const left = Math.max(GUTTER, GUTTER + (start - from) * scale);
        const right = GUTTER + (end - from) * scale;
        if (right < GUTTER || left > width) continue;
        const size = state in THIN ? THIN[/** @type {keyof typeof THIN} */ (state)] : THICK;
        context.fillStyle = stateColor(state, colors);
        context.fillRect(left, middle - size / 2, Math.max(1, Math.min(right, width) - left), size);
      }
      context.fillStyle = css(hueOf(id, isDark(colors)));
      context.fillRect(0, middle - 4, 4, 8);
      context.fillStyle = focus ? colors.ink : colors.muted;
      context.textAlign = "right";
      context.fillText(String(id), GUTTER - 8, middle);
    });
    this.#axis(context, colors, from, scale, width);
    this.#mark(context, colors, GUTTER + (t - from) * scale);
    setText(byId("lanes-title"), `Requests around ${moment(t)}`);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Colors} colors
   * @param {number} from
   * @param {number} scale
   * @param {number} width
   */
  #axis(context, colors, from, scale, width) {
    const step = tickStep(WINDOW_S, width / 90);
    context.fillStyle = colors.muted;
    context.textAlign = "center";
    context.font = font(11);
    for (let at = Math.ceil(from / step) * step; at <= from + WINDOW_S; at += step) {
      const x = GUTTER + (at - from) * scale;
      if (x < width - 14) context.fillText(`${whole(at)} s`, x, ROWS * PITCH + AXIS / 2 + 2);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Colors} colors @param {number} x */
  #mark(context, colors, x) {
    context.strokeStyle = colors.ink;
    context.lineWidth = 1.5;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, ROWS * PITCH);
    context.stroke();
    context.setLineDash([]);
  }

  /** @param {PointerEvent|MouseEvent} event */
  #rowUnder(event) {
    return this.#rows[Math.floor(event.offsetY / PITCH)] ?? null;
  }

  /**
   * A click picks the request and goes to the moment under the pointer.
   * @param {MouseEvent} event
   * @param {import("./playback.js").Playback} playback
   */
  #click(event, playback) {
    const id = this.#rowUnder(event);
    this.store.set({ picked: id });
    const scale = (this.#width - GUTTER) / WINDOW_S;
    if (event.offsetX >= GUTTER) playback.seek(this.#from() + (event.offsetX - GUTTER) / scale);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { hover, picked } = this.store.state;
    const at = this.#rows.indexOf(hover ?? picked ?? -1);
    const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, Home: 0, End: this.#rows.length - 1 }[event.key];
    if (to !== undefined)
      this.store.set({ hover: this.#rows[Math.max(0, Math.min(this.#rows.length - 1, to))] ?? null });
    else if (event.key === "Enter" && hover !== null) this.store.set({ picked: hover });
    else if (event.key === "Escape") this.store.set({ picked: null, hover: null });
    else return;
    event.preventDefault();
  }
}
