/** The grid of a heatmap: a table of buttons, of which one can be tabbed to and arrows lead to the others. */

import { cssVar, h, icon } from "./dom.js";

/** @typedef {import("./types.js").HeatStart} HeatStart */

const STEPS = /** @type {Record<string, [number, number]>} */ ({
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
  Home: [-Infinity, 0],
  End: [Infinity, 0],
  PageUp: [0, Infinity],
  PageDown: [0, -Infinity],
});

/**
 * @typedef {object} Look  of one cell
 * @property {string} text
 * @property {string} kind  "pending", "failed", "known"
 * @property {number|null} level
 * @property {boolean} here
 * @property {boolean} best
 */

export class Grid {
  /** By place: column + row × columns. @type {HTMLButtonElement[]} */
  #buttons = [];
  /** @type {string[]} */
  #drawn = [];
  #at = 0;

  /**
   * @param {HeatStart} start
   * @param {{load: (place: number) => void, tell: (place: number) => void}} to
   */
  constructor(start, to) {
    this.columns = start.x.values.length;
    this.rows = start.y.values.length;
    this.to = to;
    const { x, y } = start;
    const top = h("tr", {}, h("td"), ...x.values.map(({ text }) => h("th", { scope: "col" }, text)));
    const rows = y.values.map(({ text }, row) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, text),
        ...x.values.map((_, column) => this.#cell(column + row * this.columns)),
      ),
    );
    this.table = h(
      "table",
      {
        role: "grid",
        "aria-label": `${titleOf(x)} across, ${titleOf(y)} upwards`,
        keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      },
      h("tbody", {}, ...rows.reverse(), top),
    );
    cssVar(this.table, "--columns", this.columns);
    this.element = h(
      "div",
      { class: "heat-box" },
      h("span", { class: "heat-y", "aria-hidden": "true" }, titleOf(y)),
      h("div", { class: "heat-scroll" }, this.table),
      h("span", { class: "heat-x", "aria-hidden": "true" }, titleOf(x)),
    );
  }

  get hasFocus() {
    return this.table.contains(document.activeElement);
  }

  /** @param {number} place  the cell that can be tabbed to */
  aim(place) {
    const before = this.#buttons[this.#at];
    const button = this.#buttons[place];
    if (!before || !button) return;
    before.tabIndex = -1;
    button.tabIndex = 0;
    this.#at = place;
  }

  focus() {
    this.#buttons[this.#at]?.focus();
  }

  /** Scrolls sideways, inside the box alone, until a cell is in it. @param {number} place */
  reveal(place) {
    const box = this.table.parentElement;
    const button = this.#buttons[place];
    if (!box || !button) return;
    const [outer, inner] = [box.getBoundingClientRect(), button.getBoundingClientRect()];
    box.scrollLeft += inner.left + inner.width / 2 - (outer.left + outer.width / 2);
  }

  /** @param {number} place @param {Look} look */
  show(place, { text, kind, level, here, best }) {
    const button = this.#buttons[place];
    const key = [text, kind, level, here, best].join("|");
    if (!button || this.#drawn[place] === key) return;
    this.#drawn[place] = key;
    button.className = `heat ${kind}${level === null ? "" : ` level-${level}`}`;
    button.setAttribute("aria-disabled", String(kind === "failed"));
    if (here) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    const word = kind === "pending" ? "not run yet" : kind === "failed" ? "can't be run" : best ? "best" : "";
    button.replaceChildren(
      ...(best ? [icon("star")] : []),
      text,
      ...(word ? [h("span", { class: "sr-only" }, ` ${word}`)] : []),
    );
  }

  /** @param {number} place */
  #cell(place) {
    const button = h("button", {
      type: "button",
      class: "heat pending",
      tabIndex: place ? -1 : 0,
      click: () => this.to.load(place),
      focus: () => {
        this.aim(place);
        this.to.tell(place);
      },
      pointerenter: () => this.to.tell(place),
    });
    this.#buttons[place] = button;
    return h("td", { role: "gridcell" }, button);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = STEPS[event.key];
    if (!step || event.altKey || event.metaKey) return;
    event.preventDefault();
    const column = clamp((this.#at % this.columns) + step[0], this.columns);
    const row = clamp(Math.floor(this.#at / this.columns) + step[1], this.rows);
    this.aim(column + row * this.columns);
    this.focus();
  }
}

/** @param {import("./types.js").HeatAxis} axis */
function titleOf({ label, unit }) {
  return !unit || saysUnit(label, unit) ? label : `${label}, ${unit}`;
}

/** Whether a knob's name says already what is counted. @param {string} label @param {string} unit */
export function saysUnit(label, unit) {
  return label.toLowerCase().includes(unit);
}

/** @param {number} place @param {number} count */
function clamp(place, count) {
  return Math.max(0, Math.min(count - 1, place));
}
