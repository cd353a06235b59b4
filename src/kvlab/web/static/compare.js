/** A pinned setup beside the one at hand: both curves, both rows of figures, and what differs between them. */

import { fetchRun } from "./api.js";
import { byId, h, icon } from "./dom.js";
import { labelOf } from "./knobs.js";
import { readHash, readQuery } from "./link.js";

/** @typedef {import("./types.js").State} State */

export class Compare {
  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.store = store;
    this.button = byId("pin", HTMLButtonElement);
    this.bar = byId("pin-bar");
    this.button.addEventListener("click", () => this.toggle());
    store.on(["pin", "changes", "payload"], (state) => this.#show(state));
    this.#show(store.state);
  }

  /** Pins what a link brought along; a pin that can't be run is none. */
  async pinFromLink() {
    const { pin } = readHash(location.hash);
    if (pin === null) return;
    const { lab, changes } = readQuery(this.session.labs, pin);
    try {
      const payload = await fetchRun(pin, new AbortController().signal, null, "pin");
      if (lab === this.store.state.lab) this.store.set({ pin: { query: pin, changes, payload } });
    } catch {
      // the run itself says what is wrong with such links
    }
  }

  toggle() {
    const { pin, payload, shown, changes } = this.store.state;
    if (pin) this.store.set({ pin: null });
    else if (payload) this.store.set({ pin: { query: shown, changes, payload } });
  }

  /** @param {State} state */
  #show({ pin, changes, payload }) {
    this.button.disabled = !payload;
    this.#showButton(pin !== null);
    byId("pinned-key").hidden = pin === null;
    this.bar.hidden = pin === null;
    if (!pin) return;
    const differences = this.#differences(pin.changes, changes);
    const text = differences.length ? differences.join(" · ") : "the same setup: change something to compare";
    this.bar.replaceChildren(
      h("span", {}, h("b", {}, "Against the pinned setup: "), text),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          id: "pin-back",
          disabled: !differences.length,
          click: () => this.session.replace(pin.changes),
        },
        "Go back to it",
      ),
      h(
        "button",
        { type: "button", class: "icon-button", "aria-label": "Unpin", click: () => this.toggle() },
        icon("close"),
      ),
    );
  }

  /** @param {boolean} pinned */
  #showButton(pinned) {
    const words = pinned ? "Unpin" : "Pin to compare";
    if (this.button.getAttribute("aria-label") === words) return;
    this.button.setAttribute("aria-pressed", String(pinned));
    this.button.setAttribute("aria-label", words);
    this.button.replaceChildren(icon("pin"), h("span", { class: "word" }, words));
  }

  /** @param {import("./types.js").Changes} then @param {import("./types.js").Changes} now */
  #differences(then, now) {
    const { controls, defaults } = this.session.lab;
    return [...new Set([...Object.keys(then), ...Object.keys(now)])]
      .filter((name) => then[name] !== now[name])
      .map((name) => {
        const control = controls.find((each) => each.name === name);
        /** @param {string|undefined} text */
        const shown = (text) =>
          control ? labelOf(control, text ?? control.default) : (text ?? defaults[name] ?? "default");
        return `${control?.label ?? name}: ${shown(then[name])} → ${shown(now[name])}`;
      });
  }
}
