/** Where the memory of a GPU goes: one bar, one line per part, and where each figure is from. It moves with the run. */

import { fetchMemory } from "./api.js";
import { byId, cssVar, h } from "./dom.js";

/** @typedef {import("./types.js").Waterfall} Waterfall */
/** @typedef {import("./types.js").MemoryPart} MemoryPart */

export class WaterfallView {
  #drawn = "";
  #open = false;

  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.box = byId("waterfall");
    this.notes = byId("waterfall-notes");
    store.on(["payload", "lab", "error"], ({ payload, error }) => {
      if (error && "model" in session.lab.defaults) void this.#refused();
      else this.#show(payload?.header.waterfall ?? null);
    });
  }

  /** A server that would not start has no run, but a bar that shows what is too large. */
  async #refused() {
    const { query } = this.session;
    const split = await fetchMemory(query).catch(() => undefined); // nor has one that does not exist a bar
    if (split !== undefined && query === this.session.query && this.session.store.state.error) this.#show(split);
  }

  /** @param {Waterfall|null} split */
  #show(split) {
    this.box.hidden = this.notes.hidden = !split;
    const key = JSON.stringify(split);
    if (!split || key === this.#drawn) return;
    this.#drawn = key;
    const { gpu, gpus, total, parts, tokens, notes, step_time: time } = split;
    const title = `Memory of ${gpus > 1 ? `each of ${gpus} × ` : ""}${gpu}`;
    this.box.replaceChildren(
      h("div", { class: "knob-head" }, h("h3", {}, title), h("output", {}, total)),
      ...(parts.length ? [this.#bar(parts), this.#table(parts)] : []),
    );
    this.notes.replaceChildren(
      h("p", { class: "price" }, tokens),
      ...notes.map((note) => h("p", { class: "price" }, note)),
      h("p", { class: "price" }, `${time.text} (${time.provenance})`),
      ...(parts.length ? [this.#sources(parts)] : []),
    );
  }

  /** @param {MemoryPart[]} parts */
  #bar(parts) {
    const cells = parts.map(({ name, bytes }) => {
      const cell = h("i", { class: `part ${name}` });
      cssVar(cell, "--size", bytes);
      return cell;
    });
    return h("div", { class: "bar", "aria-hidden": "true" }, ...cells);
  }

  /** @param {MemoryPart[]} parts */
  #table(parts) {
    const rows = parts.map(({ name, label, text, provenance }) =>
      h(
        "tr",
        { "data-part": name },
        h("th", { scope: "row" }, h("i", { class: `key cell part ${name}` }), label),
        h("td", {}, text),
        h("td", { class: "from" }, provenance),
      ),
    );
    return h("table", {}, h("caption", { class: "sr-only" }, "Where the memory goes"), h("tbody", {}, ...rows));
  }

  /** @param {MemoryPart[]} parts */
  #sources(parts) {
    const words = "Where the figures are from";
    const lines = parts.map(({ label, provenance, source }) =>
      h("li", {}, h("b", {}, label), `: ${provenance}, ${source}`),
    );
    const details = h(
      "details",
      { open: this.#open, toggle: () => (this.#open = details.open) },
      h("summary", {}, words),
      h("ul", { tabIndex: 0, "aria-label": words }, ...lines), // it scrolls, so the keyboard must reach it
    );
    return details;
  }
}
