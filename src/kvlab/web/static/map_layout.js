/** Where each block or token stands on the map. Pure arithmetic in device pixels, so that cells are sharp. */

/**
 * @typedef {object} Grid  cells from left to right, then down
 * @property {number} left
 * @property {number} top
 * @property {number} cell  pixels
 * @property {number} columns
 * @property {number} rows
 * @property {number} size  blocks
 * @property {number} per  blocks in a cell: 1 as long as they can be told apart
 */

const LARGEST = 14;
const SMALLEST = 4;
const BETWEEN = 18;

/**
 * The GPU's pool and the CPU's swap space side by side, with the largest cells that fit: equal areas are equal memory.
 * @param {number} gpu  blocks
 * @param {number} cpu  blocks
 * @param {number} width
 * @param {number} height
 * @param {number} top
 * @param {number} ratio  device pixels per CSS pixel
 * @returns {{gpu: Grid, cpu: Grid|null}}
 */
export function layout(gpu, cpu, width, height, top, ratio) {
  for (let per = 1; ; per *= 2) {
    const smallest = Math.max(2, Math.round(SMALLEST * ratio));
    for (let cell = Math.round(LARGEST * ratio); cell >= smallest; cell--) {
      const rows = Math.floor(height / cell);
      const gpuColumns = Math.ceil(Math.ceil(gpu / per) / rows);
      const cpuColumns = Math.ceil(Math.ceil(cpu / per) / rows);
      const between = cpu ? Math.round(BETWEEN * ratio) : 0;
      const spare = Math.floor((width - between) / cell) - gpuColumns - cpuColumns;
      if (spare < 0) continue;
      const columns = gpuColumns + spare;
      const left = columns * cell + between;
      return {
        gpu: grid(gpu, 0, top, cell, columns, per),
        cpu: cpu ? grid(cpu, left, top, cell, cpuColumns, per) : null,
      };
    }
  }
}

/**
 * @param {number} size
 * @param {number} left
 * @param {number} top
 * @param {number} cell
 * @param {number} columns
 * @param {number} per
 * @returns {Grid}
 */
function grid(size, left, top, cell, columns, per) {
  return { left, top, cell, columns, rows: Math.ceil(Math.ceil(size / per) / columns), size, per };
}

/**
 * The block under a point; null beside the grid.
 * @param {Grid} grid
 * @param {number} x
 * @param {number} y
 */
export function blockUnder(grid, x, y) {
  const column = Math.floor((x - grid.left) / grid.cell);
  const row = Math.floor((y - grid.top) / grid.cell);
  if (column < 0 || column >= grid.columns || row < 0) return null;
  const block = (row * grid.columns + column) * grid.per;
  return block < grid.size ? block : null;
}

/**
 * @typedef {object} Tape  an address space that wraps like text
 * @property {number} top
 * @property {number} width
 * @property {number} pitch  from row to row
 * @property {number} bar  height of a row's ink
 * @property {number} rows
 * @property {number} perRow  tokens
 * @property {number} size  tokens
 */

const ROWS = 20;

/** @param {number} size @param {number} width @param {number} height @param {number} top @returns {Tape} */
export function tape(size, width, height, top) {
  const pitch = Math.floor(height / ROWS);
  return {
    top,
    width,
    pitch,
    bar: pitch - Math.max(2, Math.round(pitch / 5)),
    rows: ROWS,
    perRow: Math.ceil(size / ROWS),
    size,
  };
}

/**
 * The rectangles of a range of tokens: one per row that it touches.
 * @param {Tape} tape
 * @param {number} start
 * @param {number} length
 * @param {(x: number, y: number, width: number, height: number) => void} draw
 */
export function eachRow(tape, start, length, draw) {
  const end = Math.min(start + length, tape.size);
  for (let from = start; from < end;) {
    const row = Math.floor(from / tape.perRow);
    const to = Math.min(end, (row + 1) * tape.perRow);
    const x = Math.round(((from - row * tape.perRow) / tape.perRow) * tape.width);
    const right = Math.round(((to - row * tape.perRow) / tape.perRow) * tape.width);
    draw(x, tape.top + row * tape.pitch, right - x, tape.bar);
    from = to;
  }
}

/** @param {Tape} tape @param {number} x @param {number} y @returns {number|null} the token under a point */
export function tokenUnder(tape, x, y) {
  const row = Math.floor((y - tape.top) / tape.pitch);
  if (row < 0 || row >= tape.rows || x < 0 || x >= tape.width) return null;
  const token = row * tape.perRow + Math.floor((x / tape.width) * tape.perRow);
  return token < tape.size ? token : null;
}
