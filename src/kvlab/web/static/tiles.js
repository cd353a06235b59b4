/** The figures of the run: value, change since the last setup, and the pinned setup's value beside it. */

import { byId, h, setText } from "./dom.js";
import { termButton } from "./explain.js";
import { change, splitUnit } from "./format.js";

/** @typedef {import("./types.js").Tile} Tile */
/** @typedef {import("./types.js").TileValue} TileValue */
/** @typedef {{tile: Tile, value: HTMLElement, unit: HTMLElement, delta: HTMLElement, pinned: HTMLElement,
 *   echo: {value: HTMLElement, delta: HTMLElement}|null}} Cell */

export class Tiles {
  /** @type {Cell[]} */
  #cells = [];
  #lab = "";

  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    store.on(["payload", "before", "pin", "lab"], (state) => this.#show(state));
    store.on(["payload", "settled"], (state) => this.#announce(state));
  }

  /** @param {import("./types.js").State} state */
  #show({ lab, payload, before, pin }) {
    if (lab !== this.#lab) this.#build(lab);
    if (!payload) return;
    const pinned = pin?.payload.header.tiles;
    for (const cell of this.#cells) {
      const now = payload.header.tiles[cell.tile.name];
      if (!now) continue;
      const [value, unit] = splitUnit(now.text);
      setText(cell.value, value);
      setText(cell.unit, unit);
      const reference = pinned ?? before;
      showDelta(cell.delta, cell.tile, now, reference?.[cell.tile.name]);
      const [then, thenUnit] = splitUnit(pinned?.[cell.tile.name]?.text ?? "–");
      setText(cell.pinned, pinned ? `pinned: ${then} ${thenUnit === unit ? "" : thenUnit}` : "");
      if (cell.echo) {
        setText(cell.echo.value, now.text);
        showDelta(cell.echo.delta, cell.tile, now, reference?.[cell.tile.name]);
      }
    }
  }

  /**
   * Says the main figures once a change is meant, not at every stop of a drag.
   * @param {import("./types.js").State} state
   */
  #announce({ payload, before, shown, settled }) {
    if (!payload || !before || shown !== settled) return;
    const main = this.#cells.filter(({ tile }) => tile.main);
    setText(
      byId("announce"),
      main
        .map(
          ({ tile, value, unit, delta }) =>
            `${tile.label}: ${value.textContent} ${unit.textContent}, ${delta.textContent?.replace(/[▲▼] /, "")}`,
        )
        .join(". "),
    );
  }

  /** @param {string} lab */
  #build(lab) {
    this.#lab = lab;
    const { tiles } = this.session.lab;
    const strip = byId("strip-tiles");
    strip.replaceChildren();
    this.#cells = tiles.map((tile) => {
      const echo = tile.main ? { value: h("b"), delta: h("span", { class: "delta" }) } : null;
      if (echo) strip.append(h("div", {}, h("span", { class: "label" }, tile.label), echo.value, echo.delta));
      return {
        tile,
        echo,
        value: h("span"),
        unit: h("span", { class: "unit" }),
        delta: h("p", { class: "delta" }),
        pinned: h("p", { class: "pinned-value" }),
      };
    });
    const elements = this.#cells.map(({ tile, value, unit, delta, pinned }) =>
      h(
        "div",
        { class: tile.main ? "tile main" : "tile", role: "group", "aria-label": tile.label, "data-tile": tile.name },
        h("p", { class: "label" }, termButton(tile.name, tile.label)),
        h("p", { class: "value" }, value, " ", unit),
        delta,
        pinned,
      ),
    );
    byId("tiles-main").replaceChildren(...elements.filter((_, i) => tiles[i]?.main));
    byId("tiles-more").replaceChildren(...elements.filter((_, i) => !tiles[i]?.main));
  }
}

/**
 * Arrow, sign, colour and, for who sees none of them, a word.
 * @param {HTMLElement} element
 * @param {Tile} tile
 * @param {TileValue} now
 * @param {TileValue|undefined} then
 */
function showDelta(element, tile, now, then) {
  const delta = now.value === null || then === undefined || then.value === null ? null : now.value - then.value;
  element.classList.remove("better", "worse");
  if (!delta) {
    element.textContent =
      delta === 0 ? "no change" : then === undefined && tile.better ? `${tile.better} is better` : "";
    return;
  }
  const judged = tile.better === null ? "" : (tile.better === "higher") === delta > 0 ? "better" : "worse";
  if (judged) element.classList.add(judged);
  const arrow = h("span", { "aria-hidden": "true", class: "arrow" }, delta > 0 ? "▲" : "▼");
  const word = judged ? h("span", { class: "sr-only" }, ` (${judged})`) : null;
  element.replaceChildren(arrow, ` ${change(delta, tile.unit)}`, ...(word ? [word] : []));
}
