/** A fix as a card: what to change, its price, what it does to the figures, flags, and two buttons. */

import { h } from "./dom.js";
import { copy } from "./toast.js";

/** @typedef {import("./types.js").Fix} Fix */
/** @typedef {import("./types.js").Effect} Effect */

/**
 * @param {Fix} fix
 * @param {{apply: () => void, compare: () => void}} act
 */
export function cardOf({ moves, cost, flags, effects, changes }, act) {
  const arrow = () => [h("span", { "aria-hidden": "true" }, "→"), h("span", { class: "sr-only" }, "to")];
  const title = moves.map(({ label, before, after }) =>
    h("span", {}, `${label}: ${before} `, ...arrow(), ` ${after}`),
  );
  const reasons = [...new Set(moves.map(({ reason }) => reason))];
  const settings = Object.entries(changes).map(([name, text]) => h("code", {}, `${name} = ${text}`));
  const named = moves.map(({ label, after }) => `${label} ${after}`).join(", ");
  const worse = effects.filter((effect) => effect.worse);
  const main = effects.filter((effect) => effect.limit || effect.worse);
  return h(
    "li",
    { class: "fix" },
    h(
      "div",
      { class: "fix-head" },
      h("h3", {}, ...title, h("span", { class: "applied-word" })),
      h("b", { class: "fix-cost" }, cost),
    ),
    h("p", { class: "note" }, ...reasons.flatMap((reason) => [reason, " "])),
    h("p", { class: "fix-settings" }, ...settings),
    figures("What it does", main, true),
    worse.length ? null : h("p", { class: "note" }, "No figure gets worse by a twentieth or more."),
    h("details", {}, h("summary", {}, "All figures"), figures("All figures", effects, true)),
    flags
      ? h(
          "p",
          { class: "fix-flags" },
          h("span", {}, "In vLLM: ", h("code", {}, flags)),
          h(
            "button",
            {
              type: "button",
              class: "quiet",
              "aria-label": `Copy the flags of ${named}`,
              click: () => copy(flags, "Flags copied."),
            },
            "Copy",
          ),
        )
      : null,
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", "aria-label": `Apply: ${named}`, click: act.apply }, "Apply"),
      h("button", { type: "button", "aria-label": `Compare: ${named}`, click: act.compare }, "Compare"),
    ),
  );
}

/** The setup as it is: what has limits, and the rest for who asks. @param {Effect[]} now */
export function nowOf(now) {
  const limited = now.filter(({ limit }) => limit);
  return [
    figures("The setup as it is", limited, false),
    h("details", {}, h("summary", {}, "All figures"), figures("All figures of the setup", now, false)),
  ];
}

/**
 * Figures before and after, and the smallest to the largest of the seeds.
 * @param {string} caption
 * @param {Effect[]} effects
 * @param {boolean} both  whether there is an after
 */
function figures(caption, effects, both) {
  const ranged = effects.some(({ range, after }) => range !== after); // one seed has none
  const head = ["Figure", "now", ...(both ? ["then"] : []), ...(ranged ? ["range"] : [])];
  return h(
    "table",
    { class: "figures" },
    h("caption", { class: "sr-only" }, caption),
    h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, ...effects.map((effect) => rowOf(effect, both, ranged))),
  );
}

/** @param {Effect} effect @param {boolean} both @param {boolean} ranged */
function rowOf({ label, limit, before, after, range, worse }, both, ranged) {
  return h(
    "tr",
    { class: worse ? "worse" : null },
    h("th", { scope: "row" }, label, limit ? h("small", {}, limit) : null),
    h("td", {}, before),
    both ? h("td", {}, h("b", {}, after), worse ? h("small", {}, "worse") : null) : null,
    ranged ? h("td", { class: "range" }, range === after ? "" : range) : null,
  );
}
