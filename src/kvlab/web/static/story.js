/** The head of the results: which lab this is, what happened in this run, and the moments worth a look. */

import { byId, h, setText } from "./dom.js";
import { moment } from "./format.js";
import { STATES, STATE_TEXT } from "./lane_index.js";
import { moments } from "./moments.js";

/** @typedef {import("./types.js").State} State */

export class Story {
  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.store = store;
    store.on(["lab"], (state) => this.#showLab(state));
    store.on(["payload"], (state) => this.#showRun(state));
    store.on(["error"], (state) => this.#showError(state));
    store.on(["busy"], ({ busy }) => byId("results").classList.toggle("busy", busy));
  }

  /** @param {State} state */
  #showLab({ lab }) {
    const { labs } = this.session.labs;
    setText(byId("lab-title"), this.session.lab.title);
    setText(byId("intro"), this.session.lab.intro);
    byId("not-modelled").replaceChildren(...this.session.lab.not_modelled.map((text) => h("li", {}, text)));
    document.title = `${this.session.lab.title} · kvlab`;
    document.documentElement.dataset["lab"] = lab;
    byId("labs").replaceChildren(
      ...Object.entries(labs).map(([name, { title }]) =>
        h(
          "a",
          {
            href: `?lab=${name}`,
            "aria-current": name === lab ? "page" : null,
            click: (/** @type {MouseEvent} */ event) => this.#switch(event, name),
          },
          title,
        ),
      ),
    );
    byId("lanes-legend").replaceChildren(
      ...STATES.map((state) =>
        h("li", { title: STATE_TEXT[state], class: `${state}-key` }, h("i", { class: `key lane ${state}` }), state),
      ),
    );
  }

  /** @param {MouseEvent} event @param {string} name */
  #switch(event, name) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (name !== this.store.state.lab) this.session.openLab(name);
  }

  /** @param {State} state */
  #showRun({ payload }) {
    if (!payload) return;
    const { header } = payload;
    setText(byId("story"), header.story);
    setText(byId("accounting"), header.accounting);
    byId("moments").replaceChildren(
      ...moments(payload).map(({ t, label }) =>
        h(
          "button",
          { type: "button", class: "chip", click: () => this.store.set({ t, playing: false }) },
          h("b", {}, moment(t)),
          ` ${label}`,
        ),
      ),
    );
  }

  /** @param {State} state */
  #showError({ error, payload }) {
    const box = byId("error");
    const results = byId("results");
    box.hidden = !error;
    results.classList.toggle("stale", error !== null);
    results.classList.toggle("empty", error !== null && !payload);
    if (!error) return box.replaceChildren();
    const named = error.field !== null && !error.message.includes(error.field);
    const text = h(
      "p",
      {},
      named ? h("code", {}, error.field) : null,
      named ? ": " : null,
      error.message,
      payload ? h("span", { class: "note" }, " The pictures still show the run before.") : null,
    );
    const back = h("button", { type: "button", click: () => this.session.replace({}) }, "Back to defaults");
    const undo = () => payload && this.session.replace({ ...payload.header.changes });
    const last = payload ? h("button", { type: "button", click: undo }, "Back to the run shown") : null;
    box.replaceChildren(text, h("div", { class: "buttons" }, last, back));
  }
}
