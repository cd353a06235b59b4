/** The memory at the moment shown: who holds what, told by pointer, by keyboard and in words. */

import { font, onSize, pixelRatio, surface } from "./canvas.js";
import { byId, h, setText } from "./dom.js";
import { moment, whole } from "./format.js";
import { Holdings } from "./holdings.js";
import { STATE_TEXT } from "./lane_index.js";
import { stateColor } from "./lanes.js";
import { blockUnder, layout, tape, tokenUnder } from "./map_layout.js";
import { GridPainter, outline, paintTape } from "./map_paint.js";
import { indexAt } from "./payload.js";
import { colorsOf, isDark } from "./theme.js";

/** @typedef {import("./payload.js").Payload} Payload */
/** @typedef {import("./theme.js").Colors} Colors */

const HEIGHT = 300;
const CAPTION = 18;
/** Narrower than this no map has a place: a tab in the background may be laid out with next to no width. */
const LEAST_WIDTH = 48;
/** Keyboard steps in a row of an address space. */
const STEPS_PER_ROW = 64;

/** Marks of blocks, by lab: key and text of the legend. @type {Record<string, [string, string][]>} */
const LAB_MARKS = {
  "block-table-lab": [
    ["shared", "shared"],
    ["copied", "just copied"],
  ],
  "vllm-v1": [
    ["shared", "shared"],
    ["cached", "free, cached"],
  ],
};

export class MemoryMap {
  #width = 0;
  #gpu = new GridPainter();
  #cpu = new GridPainter();
  /** @type {{gpu: import("./map_layout.js").Grid, cpu: import("./map_layout.js").Grid|null}|null} */
  #grids = null;
  /** @type {import("./map_layout.js").Tape|null} */
  #tape = null;
  /** Where the keyboard stands: a block or a token of the GPU. @type {number|null} */
  #cursor = null;
  #moment = -1;
  #byState = false;
  #legendFor = "";

  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.store = store;
    this.canvas = byId("map", HTMLCanvasElement);
    this.box = /** @type {HTMLElement} */ (this.canvas.parentElement);
    onSize(this.box, (width) => {
      this.#width = width;
      this.#draw();
    });
    store.on(["payload"], () => {
      this.#cursor = null;
    });
    const waits = store.onRunLater(() => {
      this.#legend();
      this.#draw();
    });
    store.on(["hover", "picked", "block", "theme"], () => this.#draw());
    store.on(["t"], ({ payload, t }) => {
      if (waits()) return;
      if (payload && indexAt(payload.moments, t) !== this.#moment) this.#draw();
      else this.#say();
    });
    this.#listen();
  }

  #listen() {
    const { canvas, store } = this;
    canvas.addEventListener("pointermove", (event) => {
      const hover = this.#ownerUnder(event);
      store.set({ hover });
      canvas.classList.toggle("over", hover !== null);
    });
    canvas.addEventListener("pointerleave", () => store.set({ hover: null }));
    canvas.addEventListener("click", (event) => this.#pick(this.#ownerUnder(event)));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("blur", () => this.#moveTo(null));
    for (const radio of document.querySelectorAll("#map-colors input")) {
      radio.addEventListener("change", () => {
        this.#byState = radio instanceof HTMLInputElement && radio.value === "state";
        this.#legend();
        this.#draw();
      });
    }
  }

  #draw() {
    const { payload, hover, picked, block, t, theme } = this.store.state;
    const width = this.#width;
    if (!payload || width < LEAST_WIDTH) return;
    this.#moment = indexAt(payload.moments, t);
    const { context, ratio } = surface(this.canvas, width, HEIGHT + CAPTION);
    context.setTransform(1, 0, 0, 1, 0, 0);
    const colors = colorsOf(theme);
    /** @param {number} id */
    const stateOf = (id) => stateColor(payload.lanes.spanAt(id, t)?.state ?? "decode", colors);
    const holdings = new Holdings(payload, this.#moment);
    const shown = hover ?? picked;
    const focus = holdings.has(shown) ? shown : null;
    const ink = { colors, dark: isDark(colors), focus, stateOf: this.#byState ? stateOf : null };
    const [across, down, top] = [Math.floor(width * ratio), Math.floor(HEIGHT * ratio), Math.round(CAPTION * ratio)];
    const { num_blocks: size, num_cpu_blocks: cpuSize } = payload.header;
    this.#tape = payload.segments ? tape(size, across, down, top) : null;
    this.#grids = payload.segments ? null : layout(size, cpuSize, across, down, top, ratio);
    if (this.#tape) paintTape(context, this.#tape, holdings.segments, ink);
    if (this.#grids) {
      this.#gpu.paint(context, this.#grids.gpu, holdings.blocks, ink);
      if (this.#grids.cpu) this.#cpu.paint(context, this.#grids.cpu, holdings.cpu, ink);
      for (const marked of [block, this.#cursor]) {
        if (marked !== null) outline(context, this.#grids.gpu, marked, colors.ink);
      }
    }
    this.#captions(context, ratio, colors, payload);
    this.#say();
  }

  /**
   * Names of the two memories, above them.
   * @param {CanvasRenderingContext2D} context
   * @param {number} ratio
   * @param {Colors} colors
   * @param {Payload} payload
   */
  #captions(context, ratio, colors, { header }) {
    context.font = font(11 * ratio);
    context.textBaseline = "top";
    context.fillStyle = colors.muted;
    const blocks = `${whole(header.num_blocks)} blocks of ${header.block_size} tokens`;
    context.fillText(
      `GPU: ${header.contiguous ? `${whole(header.num_blocks)} tokens of address space` : blocks}`,
      0,
      0,
    );
    if (!this.#grids?.cpu) return;
    context.textAlign = "right";
    context.fillText(`CPU swap: ${whole(header.num_cpu_blocks)}`, context.canvas.width, 0);
    context.textAlign = "left";
  }

  #legend() {
    const { payload, lab } = this.store.state;
    const states = [
      ["prefill", "prefill"],
      ["decode", "decode"],
      ["recomputing", "recomputing"],
    ];
    const colors = this.#byState ? states : [["solid", "one colour per request"]];
    const contiguous = payload?.header.contiguous;
    const wanted = `${this.#byState} ${lab} ${contiguous}`;
    if (wanted === this.#legendFor) return;
    this.#legendFor = wanted;
    const marks = contiguous
      ? [
          ["hatched", "reserved, unused"],
          ["hole", "largest hole"],
        ]
      : (LAB_MARKS[lab] ?? []);
    byId("map-legend").replaceChildren(
      ...[...colors, ...marks, ["free", "free"]].map(([key, text]) =>
        h("li", {}, h("i", { class: `key cell ${key}` }), text ?? ""),
      ),
    );
  }

  #holdings() {
    const { payload } = this.store.state;
    return payload && new Holdings(payload, this.#moment);
  }

  /** @param {{offsetX: number, offsetY: number}} event */
  #ownerUnder(event) {
    const ratio = pixelRatio();
    const [x, y] = [event.offsetX * ratio, event.offsetY * ratio];
    const gpu = this.#tape ? tokenUnder(this.#tape, x, y) : this.#grids && blockUnder(this.#grids.gpu, x, y);
    if (gpu !== null) return this.#holdings()?.ownerAt(gpu, false) ?? null;
    const cpu = this.#grids?.cpu ? blockUnder(this.#grids.cpu, x, y) : null;
    return cpu === null ? null : (this.#holdings()?.ownerAt(cpu, true) ?? null);
  }

  /** @param {number|null} owner */
  #pick(owner) {
    this.store.set({ picked: owner === this.store.state.picked ? null : owner });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const size = this.store.state.payload?.header.num_blocks ?? 0;
    const step = this.#tape ? Math.ceil(this.#tape.perRow / STEPS_PER_ROW) : (this.#grids?.gpu.per ?? 1);
    const row = this.#tape ? this.#tape.perRow : (this.#grids?.gpu.columns ?? 1) * step;
    const at = this.#cursor ?? 0;
    /** @type {Record<string, number>} */
    const places = {
      ArrowRight: at + step,
      ArrowLeft: at - step,
      ArrowDown: at + row,
      ArrowUp: at - row,
      Home: 0,
      End: size - 1,
    };
    const place = places[event.key];
    if (place !== undefined) this.#moveTo(this.#cursor === null ? 0 : Math.max(0, Math.min(size - 1, place)));
    else if (event.key === "Enter" && this.#cursor !== null) this.#pick(this.#holdings()?.ownerAt(at, false) ?? null);
    else if (event.key === "Escape") this.store.set({ picked: null });
    else return;
    event.preventDefault();
  }

  /** @param {number|null} cursor */
  #moveTo(cursor) {
    if (cursor === this.#cursor) return;
    this.#cursor = cursor;
    this.store.set({ hover: cursor === null ? null : (this.#holdings()?.ownerAt(cursor, false) ?? null) });
    this.#draw();
  }

  /** One line under the map: about what is under the pointer or the cursor, else about the whole. */
  #say() {
    const { payload, t, hover, picked } = this.store.state;
    const holdings = this.#holdings();
    if (!payload || !holdings) return;
    setText(byId("map-title"), `Memory at ${moment(t)}`);
    const unit = payload.header.unit === "token" ? "Token" : "Block";
    const where = this.#cursor === null ? "" : `${unit} ${whole(this.#cursor)}: `;
    const id = hover ?? (this.#cursor === null ? picked : null);
    const about =
      id === null
        ? where
          ? `${holdings.unowned(this.#cursor ?? 0)}.`
          : holdings.total()
        : `request ${id}, ${this.#life(id)}${holdings.has(id) ? `; ${holdings.held(id)}` : ""}.`;
    const call =
      id === null || id === picked ? "" : where ? " Enter opens its block table." : " Click for its block table.";
    const text = where + about + call;
    setText(byId("map-live"), text.charAt(0).toUpperCase() + text.slice(1));
  }

  /** What a request does now. @param {number} id */
  #life(id) {
    const { payload, t } = this.store.state;
    const span = payload?.lanes.spanAt(id, t);
    return span ? `${STATE_TEXT[span.state]} since ${moment(span.start)}` : "not here at this moment";
  }
}
