/** Panels that are closed until somebody opens one: what is in it is loaded then, and it stays open for this session. */

import { byId } from "./dom.js";
import { say } from "./toast.js";

/**
 * @param {string} id  of a `details`
 * @param {(panel: HTMLDetailsElement) => Promise<unknown>} load  what is in it
 */
export function foldable(id, load) {
  const panel = byId(id, HTMLDetailsElement);
  let loaded = false;
  panel.addEventListener("toggle", () => {
    keep(id, panel.open);
    if (!panel.open || loaded) return;
    loaded = true;
    load(panel).catch((reason) => {
      loaded = false;
      panel.open = false;
      say(`This can't be opened: ${String(reason)}`);
    });
  });
  panel.open = isKept(id);
}

/** @param {string} id @param {boolean} open */
function keep(id, open) {
  try {
    if (open) sessionStorage.setItem(keyOf(id), "open");
    else sessionStorage.removeItem(keyOf(id));
  } catch {
    // a browser that keeps nothing opens it closed
  }
}

/** @param {string} id */
function isKept(id) {
  try {
    return sessionStorage.getItem(keyOf(id)) !== null;
  } catch {
    return false;
  }
}

/** @param {string} id */
function keyOf(id) {
  return `kvlab.${id}`;
}
