/** Numbers as a person reads them; the same digits as kvlab's own `format_number`. */

const PLAIN = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/**
 * About three significant digits, thousands separated.
 * @param {number} value  not negative
 */
export function number(value) {
  if (value >= 100) return PLAIN.format(value);
  const digits = value >= 10 ? 1 : value >= 1 ? 2 : 3;
  return String(Number(value.toFixed(digits)));
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds >= 1) return `${number(seconds)} s`;
  if (seconds >= 1e-3) return `${number(seconds * 1e3)} ms`;
  return seconds ? `${number(seconds * 1e6)} µs` : "0 s";
}

/** @param {number} count */
function bytes(count) {
  for (const [unit, size] of /** @type {const} */ ([
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ])) {
    if (count >= size) return `${number(count / size)} ${unit}`;
  }
  return `${number(count)} B`;
}

/**
 * A difference with its sign; ratios differ by percentage points.
 * @param {number} delta
 * @param {string} unit  of the tile
 */
export function change(delta, unit) {
  const size = Math.abs(delta);
  const sign = delta > 0 ? "+" : "−";
  if (unit === "ns") return sign + duration(size / 1e9);
  if (unit === "s") return sign + duration(size);
  if (unit === "bytes") return sign + bytes(size);
  if (unit === "ratio") return `${sign}${number(size * 100)} pp`;
  return sign + number(size);
}

/** @param {number} t  a moment of the run: always one decimal, so that it does not jump about while it plays */
export function moment(t) {
  return `${t.toFixed(1)} s`;
}

/** @param {number} ratio */
export function percent(ratio) {
  return `${Math.round(ratio * 100)} %`;
}

/** @param {number} count */
export function whole(count) {
  return PLAIN.format(Math.round(count));
}

/**
 * A value's text in two parts, so that the unit can be set smaller.
 * @param {string} text
 * @returns {[string, string]}
 */
export function splitUnit(text) {
  const match = /^([−-]?[\d.,]+)\s*(.*)$/.exec(text);
  return match ? [match[1] ?? text, match[2] ?? ""] : [text, ""];
}
