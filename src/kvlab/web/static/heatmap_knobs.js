/** Which knobs can be swept in a setup, and which two are swept unless others are chosen. */

import { DRAWN_FIELDS } from "./upload.js";

/** @typedef {import("./types.js").Control} Control */
/** @typedef {{x: string, y: string}} Pair */

/** Knobs that show most, in this order; the first one of each that does something in the setup. */
const FIRST = {
  x: ["kv_memory_bytes", "max_num_seqs"],
  y: ["request_rate", "max_concurrency", "gpu_memory_utilization"],
};
/** A list without an order can be swept while it is short. */
const MOST_LISTED = 7;

/**
 * Knobs that do something beside the other settings and may be moved, as the server has them.
 * @param {import("./session.js").Session} session
 * @returns {Control[]}
 */
export function offered(session) {
  const { changes, mission } = session.store.state;
  const { controls, missions } = session.lab;
  const levers = missions.find(({ id }) => id === mission)?.levers;
  return controls.filter(
    (control) =>
      canBeSwept(control) &&
      (levers?.includes(control.name) ?? true) &&
      !(changes["trace"] !== undefined && DRAWN_FIELDS.includes(control.name)) &&
      !session.isIdle(control.name, changes),
  );
}

/** Not: free text, a long list without an order, a choice that brings other settings along. @param {Control} control */
function canBeSwept({ kind, values, brings }) {
  if (kind === "select") return values.length <= MOST_LISTED && !Object.keys(brings).length;
  return kind !== "text";
}

/**
 * Two of the knobs: those that were chosen, as far as they are offered.
 * @param {Control[]} knobs
 * @param {Pair} [chosen]
 * @returns {Pair}
 */
export function pair(knobs, chosen = { x: "", y: "" }) {
  const names = knobs.map(({ name }) => name);
  const x = [chosen.x, ...FIRST.x, ...names].find((name) => names.includes(name)) ?? "";
  const y = [chosen.y, ...FIRST.y, ...names].find((name) => names.includes(name) && name !== x) ?? "";
  return { x, y };
}
