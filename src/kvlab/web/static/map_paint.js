/** Paints memory: one pixel per cell into ImageData, enlarged without smoothing; grid and marks over it. */

import { css, hueOf, mix, parseRgb, pixel } from "./hues.js";
import { eachRow } from "./map_layout.js";
import { CACHED, COPIED, KEPT, SHARED, isOwned, ownerOf } from "./payload.js";

/** @typedef {import("./map_layout.js").Grid} Grid */
/** @typedef {import("./map_layout.js").Tape} Tape */
/** @typedef {import("./theme.js").Colors} Colors */
/** @typedef {{colors: Colors, dark: boolean, focus: number|null, stateOf: ((id: number) => string)|null}} Ink
 *   stateOf: colour of what a request does, when that is asked for in place of one colour per request */

const DIMMED = 0.8;

/**
 * Colour of a request's memory; what isn't in focus steps back.
 * @param {number} id
 * @param {Ink} ink
 * @returns {import("./hues.js").Rgb}
 */
function colorOf(id, ink) {
  const full = ink.stateOf ? parseRgb(ink.stateOf(id)) : hueOf(id, ink.dark);
  return ink.focus === null || ink.focus === id ? full : mix(full, parseRgb(ink.colors.free), DIMMED);
}

export class GridPainter {
  #cells = document.createElement("canvas");
  #lines = document.createElement("canvas");
  #linesFor = "";
  /** @type {ImageData|null} */
  #image = null;

  /**
   * @param {CanvasRenderingContext2D} context  in device pixels
   * @param {Grid} grid
   * @param {Uint32Array} owners
   * @param {Ink} ink
   */
  paint(context, grid, owners, ink) {
    const { left, top, cell, columns, rows, per, size } = grid;
    const cells = Math.ceil(size / per);
    const image = this.#resized(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const free = pixel(parseRgb(ink.colors.free));
    /** @type {Map<number, number>} */
    const painted = new Map([
      [0, free],
      [-CACHED, pixel(parseRgb(ink.colors.cached))],
      [-KEPT, pixel(parseRgb(ink.colors.panel))],
    ]);
    pixels.fill(0, cells);
    for (let i = 0; i < cells; i++) {
      const word = per === 1 ? /** @type {number} */ (owners[i]) : mostHeld(owners, i * per, per, ink.focus);
      const key = isOwned(word) ? word >>> 2 : -word;
      let color = painted.get(key);
      if (color === undefined) {
        color = pixel(colorOf(key - 1, ink));
        painted.set(key, color);
      }
      pixels[i] = color;
    }
    const small = /** @type {CanvasRenderingContext2D} */ (this.#cells.getContext("2d"));
    small.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#cells, left, top, columns * cell, rows * cell);
    context.drawImage(this.#ruled(grid, ink.colors.panel), left, top);
    if (per === 1) marks(context, grid, owners, ink);
  }

  /** @param {number} columns @param {number} rows */
  #resized(columns, rows) {
    if (this.#image?.width !== columns || this.#image.height !== rows) {
      this.#cells.width = columns;
      this.#cells.height = rows;
      this.#image = new ImageData(columns, rows);
    }
    return /** @type {ImageData} */ (this.#image);
  }

  /** The gaps between cells, drawn once per size. @param {Grid} grid @param {string} color */
  #ruled({ cell, columns, rows }, color) {
    const wanted = `${cell} ${columns} ${rows} ${color}`;
    if (wanted === this.#linesFor) return this.#lines;
    this.#linesFor = wanted;
    this.#lines.width = columns * cell;
    this.#lines.height = rows * cell;
    const context = /** @type {CanvasRenderingContext2D} */ (this.#lines.getContext("2d"));
    const gap = cell >= 8 ? Math.round(cell / 8) : 1;
    context.fillStyle = color;
    for (let x = 1; x <= columns; x++) context.fillRect(x * cell - gap, 0, gap, rows * cell);
    for (let y = 1; y <= rows; y++) context.fillRect(0, y * cell - gap, columns * cell, gap);
    return this.#lines;
  }
}

/**
 * Shared blocks have a dot, fresh copies are filled with a colour that nothing else has.
 * @param {CanvasRenderingContext2D} context
 * @param {Grid} grid
 * @param {Uint32Array} owners
 * @param {Ink} ink
 */
function marks(context, grid, owners, { colors, focus }) {
  const { left, top, cell, columns } = grid;
  const dot = Math.max(2, Math.round(cell / 4));
  const inset = Math.floor((cell - Math.max(1, Math.round(cell / 8)) - dot) / 2);
  const shared = new Path2D();
  const copied = new Path2D();
  for (let i = 0; i < owners.length; i++) {
    const word = /** @type {number} */ (owners[i]);
    if (!isOwned(word) || !(word & (SHARED | COPIED)) || (focus !== null && ownerOf(word) !== focus)) continue;
    const x = left + (i % columns) * cell;
    const y = top + Math.floor(i / columns) * cell;
    if (word & COPIED) copied.rect(x - 1, y - 1, cell + 1, cell + 1);
    else shared.rect(x + inset, y + inset, dot, dot);
  }
  context.fillStyle = colors.panel;
  context.fill(shared);
  context.fillStyle = colors.flash;
  context.fill(copied);
}

/**
 * Owner of a cell that stands for several blocks: the focus if it has any, else who has the first taken one, else what
 * the first one is that isn't plainly free.
 * @param {Uint32Array} owners
 * @param {number} start
 * @param {number} per
 * @param {number|null} focus
 */
function mostHeld(owners, start, per, focus) {
  let found = 0;
  for (let i = start; i < Math.min(start + per, owners.length); i++) {
    const word = /** @type {number} */ (owners[i]);
    if (focus !== null && ownerOf(word) === focus) return word;
    if (!found || (isOwned(word) && !isOwned(found))) found = word;
  }
  return found;
}

/** @param {CanvasRenderingContext2D} context @param {Grid} grid @param {number} block @param {string} color */
export function outline(context, grid, block, color) {
  const { left, top, cell, columns, per } = grid;
  const place = Math.floor(block / per);
  const x = left + (place % columns) * cell;
  const y = top + Math.floor(place / columns) * cell;
  const thick = Math.max(2, Math.round(cell / 4));
  context.strokeStyle = color;
  context.lineWidth = thick;
  context.strokeRect(x - thick / 2, y - thick / 2, cell + thick - 1, cell + thick - 1);
}

/**
 * A contiguous address space: solid where tokens are, hatched where a reservation waits for them, bare in the holes.
 * @param {CanvasRenderingContext2D} context  in device pixels
 * @param {Tape} tape
 * @param {Uint32Array} table  rows of start, reserved, used, owner
 * @param {Ink} ink
 */
export function paintTape(context, tape, table, ink) {
  context.fillStyle = ink.colors.free;
  eachRow(tape, 0, tape.size, (x, y, width, height) => context.fillRect(x, y, width, height));
  const waiting = new Path2D();
  for (let i = 0; i < table.length; i += 4) {
    const [start = 0, reserved = 0, used = 0, owner = 0] = table.subarray(i, i + 4);
    const color = colorOf((owner >>> 2) - 1, ink);
    context.fillStyle = css(mix(color, parseRgb(ink.colors.free), 0.55));
    eachRow(tape, start + used, reserved - used, (x, y, width, height) => {
      context.fillRect(x, y, width, height);
      waiting.rect(x, y, width, height);
    });
    context.fillStyle = css(color);
    eachRow(tape, start, used, (x, y, width, height) => context.fillRect(x, y, width, height));
    context.fillStyle = ink.colors.panel;
    eachRow(tape, start, 1, (x, y, _, height) => context.fillRect(x, y, 2, height));
  }
  outlineHole(context, tape, table, ink.colors.muted);
  context.fillStyle = hatching(context, ink.colors.panel, Math.max(6, Math.round(tape.bar / 2)));
  context.fill(waiting);
}

/**
 * The largest hole: what no longer request can be placed in.
 * @param {CanvasRenderingContext2D} context
 * @param {Tape} tape
 * @param {Uint32Array} table
 * @param {string} color
 */
function outlineHole(context, tape, table, color) {
  let [end, start, length] = [0, 0, 0];
  for (let i = 0; i <= table.length; i += 4) {
    const next = table[i] ?? tape.size;
    if (next - end > length) [start, length] = [end, next - end];
    end = next + (table[i + 1] ?? 0);
  }
  context.strokeStyle = color;
  context.lineWidth = Math.max(1, Math.round(tape.bar / 12));
  context.setLineDash([4, 3]);
  eachRow(tape, start, length, (x, y, width, height) => context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1));
  context.setLineDash([]);
}

/** @param {CanvasRenderingContext2D} context @param {string} color @param {number} size */
function hatching(context, color, size) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
  pen.strokeStyle = color;
  pen.lineWidth = size / 4;
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, size);
    pen.lineTo(shift + size, 0);
  }
  pen.stroke();
  return /** @type {CanvasPattern} */ (context.createPattern(tile, "repeat"));
}
