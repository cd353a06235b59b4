/** What the cells of a heatmap say of one metric: its colour, which of them is best, one sentence for each. */

/** @typedef {import("./types.js").HeatCell} HeatCell */
/** @typedef {import("./types.js").Tile} Tile */

export const LEVELS = 7;

/**
 * The level of each figure by its rank: equal texts have equal levels, the best the highest one; of a metric of which
 * neither way is better the largest. By rank, as a single odd cell would take all the colours otherwise.
 * @param {{value: number|null, text: string}[]} figures
 * @param {Tile["better"]} better
 * @returns {(number|null)[]}  from 0 to LEVELS - 1; null: no value, or all are the same
 */
export function levels(figures, better) {
  const known = figures
    .filter(({ value }) => value !== null)
    .sort((one, other) => Number(one.value) - Number(other.value));
  const ranks = [...new Set(known.map(({ text }) => text))];
  const last = ranks.length - 1;
  return figures.map(({ value, text }) => {
    if (value === null || !last) return null;
    const share = ranks.indexOf(text) / last;
    return Math.round((better === "lower" ? 1 - share : share) * (LEVELS - 1));
  });
}

/**
 * The best of the values; of several the one that is nearest to the setup at hand.
 * @param {(number|null)[]} values
 * @param {Tile["better"]} better
 * @param {(place: number) => number} distance
 * @returns {number}  -1: none is better than the others
 */
export function best(values, better, distance) {
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known);
  const high = Math.max(...known);
  if (better === null || !(high > low)) return -1;
  const wanted = better === "lower" ? low : high;
  const places = [...values.keys()].filter((place) => values[place] === wanted);
  return places.reduce((one, other) => (distance(other) < distance(one) ? other : one));
}

/**
 * A figure that is short enough for a cell: without its unit, but for times, which have several.
 * @param {string} text
 */
export function short(text) {
  const [figure = text, unit = ""] = text.split(" ");
  return /^(s|ms|µs|ns|%)$/.test(unit) ? text : figure;
}

/**
 * What a cell tells in full.
 * @param {{x: string, y: string, label: string, cell: HeatCell|undefined, metric: string, here: boolean, best: boolean,
 *   now: string|undefined}} told  x, y: knob and value; here: the setup shown; now: its figure
 */
export function sentence({ x, y, label, cell, metric, here, best: isBest, now }) {
  const place = `${x}, ${y}`;
  if (!cell) return `${place}: not run yet.`;
  if (cell.error !== undefined) return `${place}: can't be run. ${cell.error}`;
  const figure = `${label} ${cell.texts?.[metric] ?? "–"}`;
  const notes = [
    isBest ? "the best here" : "",
    here ? "this is the setup shown" : now === undefined ? "" : `now ${now}`,
  ];
  return `${[`${place}: ${figure}`, ...notes.filter(Boolean)].join(", ")}.`;
}
