/** The cells of a grid as they come from the server: what the grid is of, what is there, what is on its way. */

import { lines } from "./lines.js";

/** @typedef {import("./types.js").HeatAxis} HeatAxis */
/** @typedef {import("./types.js").HeatCell} HeatCell */
/** @typedef {import("./types.js").HeatLine} HeatLine */
/** @typedef {import("./types.js").HeatStart} HeatStart */
/**
 * @typedef {object} Wish  a grid
 * @property {string} of  the setup without the two knobs, and which they are: grids of the same are one and the same
 * @property {string} x  present value of the knob across
 * @property {string} y  of the other one
 * @property {string} url
 */

export class Filling {
  /** @type {HeatStart|null} */
  start = null;
  /** By place: column + row × columns. @type {(HeatCell|undefined)[]} */
  cells = [];
  /** What the grid was asked for. @type {Wish|null} */
  #asked = null;
  /** @type {{wish: Wish, abort: AbortController}|null} */
  #flying = null;
  /** What the server could not give, and why. @type {{wish: Wish, why: string}|null} */
  #failed = null;

  /** @param {{begun: () => void, came: () => void, ended: () => void}} tell  begun: another grid than before */
  constructor(tell) {
    this.tell = tell;
  }

  get columns() {
    return this.start?.x.values.length ?? 0;
  }

  get count() {
    return this.cells.filter((cell) => cell !== undefined).length;
  }

  /** Whether more is on its way. */
  get isFilling() {
    return this.#flying !== null;
  }

  /** Whether the grid has the setups of that wish. @param {Wish} wish */
  isOf(wish) {
    return this.#asked?.of === wish.of;
  }

  /** Place of the present values, -1 for none. @param {Wish} wish */
  here(wish) {
    if (!this.start || !this.#asked || !this.isOf(wish)) return -1;
    const { x, y, here } = this.start;
    const column = placeOn(x, wish.x, this.#asked.x === wish.x ? here.x : -1);
    const row = placeOn(y, wish.y, this.#asked.y === wish.y ? here.y : -1);
    return column < 0 || row < 0 ? -1 : column + row * x.values.length;
  }

  /** Why the server could not give that. @param {Wish} wish */
  whyNot(wish) {
    return this.#failed?.wish.url === wish.url ? this.#failed.why : null;
  }

  /** Asks for what is missing, unless it is on its way or could not be given. @param {Wish} wish */
  want(wish) {
    if (this.whyNot(wish) !== null) return;
    const isDue =
      this.here(wish) < 0 ? this.#flying?.wish.url !== wish.url : !this.#flying && this.count < this.cells.length;
    if (isDue) void this.#fill(wish);
  }

  /** Ends what is on its way, unless it is of that wish; what is missing is asked for again. @param {Wish} [wish] */
  stop(wish) {
    if (!wish) this.#failed = null; // it is tried again when somebody looks again
    if (!this.#flying || this.#flying.wish.of === wish?.of) return;
    this.#flying.abort.abort();
    this.#flying = null;
  }

  /** Forgets everything. */
  clear() {
    this.stop();
    this.start = this.#asked = this.#failed = null;
    this.cells = [];
  }

  /** @param {Wish} wish */
  async #fill(wish) {
    this.stop();
    const flying = { wish, abort: new AbortController() };
    this.#flying = flying;
    this.#failed = null;
    /** @type {AsyncGenerator<HeatLine, void, void>} */
    const found = lines(wish.url, { signal: flying.abort.signal });
    try {
      for await (const { start, cell } of found) {
        if (this.#flying !== flying) return;
        if (start) this.#begin(start, wish);
        if (cell) this.cells[cell.x + cell.y * this.columns] = cell;
        this.tell.came();
      }
    } catch (reason) {
      if (this.#flying !== flying) return;
      this.#failed = { wish, why: reason instanceof Error ? reason.message : String(reason) };
    }
    this.#flying = null;
    this.tell.ended();
  }

  /** @param {HeatStart} start @param {Wish} wish */
  #begin(start, wish) {
    const goesOn = this.isOf(wish) && axesOf(start) === axesOf(this.start);
    this.start = start;
    this.#asked = wish;
    if (goesOn) return;
    this.cells = new Array(start.x.values.length * start.y.values.length).fill(undefined);
    this.tell.begun();
  }
}

/** @param {HeatStart|null} start */
function axesOf(start) {
  return JSON.stringify([start?.x, start?.y]);
}

/** @param {HeatAxis} axis @param {string} text @param {number} otherwise  place of a text that is written otherwise */
function placeOn({ values }, text, otherwise) {
  const place = values.findIndex(({ value }) => value === text);
  return place < 0 ? otherwise : place;
}
