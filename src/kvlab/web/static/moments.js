/** The moments of a run that tell its story: where the first picture stands, and the chips under the story. */

/** @typedef {import("./payload.js").Payload} Payload */
/** @typedef {{t: number, label: string}} Moment */

/** Bins to each side that count as one stretch of trouble. */
const NEAR = 30;

/**
 * Moments worth a look, in order of time.
 * @param {Payload} payload
 * @returns {Moment[]}
 */
export function moments(payload) {
  const { t, usage, queue, recomputes, swaps } = payload.series;
  /** @type {Moment[]} */
  const found = [];
  /** @param {number} place @param {string} label */
  const add = (place, label) => {
    if (place >= 0) found.push({ t: /** @type {number} */ (t[place]), label });
  };
  const full_s = payload.header.full_s;
  if (full_s !== null) found.push({ t: full_s, label: "memory full" });
  else add(highest(usage), "fullest");
  add(
    recomputes.findIndex((count, i) => count + (swaps[i] ?? 0) > 0),
    "first preemption",
  );
  const longest = highest(queue);
  if (queue[longest]) add(longest, `longest queue, ${queue[longest]}`);
  return merged(found.sort((a, b) => a.t - b.t));
}

/** Moments that look the same are one. @param {Moment[]} sorted */
function merged(sorted) {
  /** @type {Moment[]} */
  const found = [];
  for (const { t, label } of sorted) {
    const last = found.at(-1);
    if (last && last.t.toFixed(1) === t.toFixed(1)) last.label += `, ${label}`;
    else found.push({ t, label });
  }
  return found;
}

/**
 * Where the first picture stands: at a preemption in the thick of them, or where memory is fullest.
 * @param {Payload} payload
 */
export function tellingMoment(payload) {
  const { t, usage, recomputes, swaps } = payload.series;
  const counts = Float32Array.from(recomputes, (count, i) => count + (swaps[i] ?? 0));
  const around = counts.map((count, i) =>
    count ? counts.subarray(Math.max(0, i - NEAR), i + NEAR + 1).reduce((sum, near) => sum + near, 0) : 0,
  );
  const peak = highest(around);
  return t[around[peak] ? peak : highest(usage)] ?? 0;
}

/** @param {Float32Array} values @returns {number} place of the first of the largest; -1 of none */
function highest(values) {
  let best = values.length ? 0 : -1;
  for (let i = 1; i < values.length; i++) {
    if (/** @type {number} */ (values[i]) > /** @type {number} */ (values[best])) best = i;
  }
  return best;
}
