/** Reported cases as ready setups: what somebody saw, where it was reported, and the servers that they tried. */

import { byId, h } from "./dom.js";

/** @typedef {import("./types.js").Example} Example */

export class Examples {
  #drawn = "";

  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.store = store;
    this.panel = byId("examples");
    store.on(["lab", "changes"], (state) => this.#draw(state));
  }

  /** @param {import("./types.js").State} state */
  #draw({ lab, changes }) {
    const { examples } = this.session.lab;
    this.panel.hidden = !examples.length;
    const here = this.session.queryFor(changes);
    const key = `${lab} ${here}`;
    if (key === this.#drawn) return;
    this.#drawn = key;
    const focused = document.activeElement?.id;
    this.panel.replaceChildren(
      h("div", { class: "panel-head" }, h("h2", { id: "examples-title" }, "Reported cases")),
      h("ol", { class: "missions" }, ...examples.map((example) => this.#item(example, here))),
    );
    if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
  }

  /** @param {Record<string, string>} setup @param {boolean} compares  with another variant of the same case */
  #load(setup, compares) {
    this.session.replace({ ...setup }, null);
    if (!compares) this.store.set({ before: null }); // what was set before was another server
  }

  /** @param {Example} example @param {string} here  query of the setup at hand */
  #item(example, here) {
    const { id, title, story, source, url, assumed, variants } = example;
    const shown = variants.find(({ setup }) => this.session.queryFor(setup) === here);
    const buttons = variants.map(({ name, setup }, i) =>
      h(
        "button",
        {
          type: "button",
          id: `example-${id}-${i}`,
          "aria-pressed": String(name === shown?.name),
          "aria-label": `${name}: ${title}`,
          click: () => this.#load(setup, shown !== undefined),
        },
        name,
      ),
    );
    const from = url ? h("a", { href: url, rel: "noreferrer", target: "_blank" }, source) : source;
    return h(
      "li",
      { class: `mission ${shown ? "shown" : "open"}`, "data-example": id },
      h("h3", {}, title),
      h("p", {}, story),
      h("div", { class: "buttons variants" }, ...buttons),
      h("p", { class: "note" }, "Source: ", from),
      ...(shown ? [h("p", { class: "note" }, `Ours: ${assumed}`)] : []),
    );
  }
}
