/** Explanations on demand: every term is a button that opens its formula, unit, source and names in other engines. */

import { byId, h } from "./dom.js";

const ENGINES = ["vLLM", "SGLang", "TGI", "TensorRT-LLM"];

/** @type {import("./types.js").Labs|null} */
let labs = null;

/** @param {import("./types.js").Labs} tables */
export function initExplain(tables) {
  labs = tables;
}

/**
 * A term that explains itself.
 * @param {string} name  of a metric or a setting
 * @param {string} label
 * @param {string} [id]
 */
export function termButton(name, label, id) {
  return h(
    "button",
    {
      type: "button",
      class: "term",
      id,
      "aria-haspopup": "dialog",
      click: (/** @type {MouseEvent} */ event) => open(name, label, /** @type {HTMLElement} */ (event.currentTarget)),
    },
    label,
  );
}

/** @param {string} name @param {string} label @param {HTMLElement} anchor */
function open(name, label, anchor) {
  const popover = byId("explain");
  const term = labs?.glossary[name];
  const rows = [
    ["Name", h("code", {}, name)],
    ["Unit", UNITS[term?.unit ?? ""] ?? term?.unit ?? ""],
    ["Source", term?.source ?? ""],
    ...ENGINES.map((engine) => [engine, term?.engines[engine] ?? "nothing like it"]),
  ].filter(([, text]) => text !== "");
  popover.replaceChildren(
    h("h2", { id: "explain-title" }, label),
    h("p", {}, sentence(term?.formula ?? "Nothing is known about this.")),
    h("dl", {}, ...rows.flatMap(([key, text]) => [h("dt", {}, key), h("dd", {}, text)])),
  );
  place(popover, anchor);
}

/** @type {Record<string, string>} */
const UNITS = { ns: "time (ns in files)", ratio: "share, shown in per cent" };

/** @param {string} text */
function sentence(text) {
  const ended = /[.!?]$/.test(text) ? text : `${text}.`;
  return ended.charAt(0).toUpperCase() + ended.slice(1);
}

/**
 * Opens a popover beside its anchor, inside the window.
 * @param {HTMLElement} popover
 * @param {HTMLElement} anchor
 */
export function place(popover, anchor) {
  popover.showPopover();
  popover.focus(); // closing gives the focus back
  const at = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = popover;
  const left = Math.max(8, Math.min(at.left, innerWidth - width - 8));
  const below = at.bottom + 6;
  const top = below + height < innerHeight - 8 ? below : Math.max(8, at.top - height - 6);
  popover.style.left = `${left}px`;
  popover.style.top = `${top}px`;
}
