/** The page's state in one place: views ask for the parts that they draw and are told when those change. */

import { afterNextFrame } from "./dom.js";

/** @typedef {import("./types.js").State} State */

export class Store {
  /** @type {{keys: (keyof State)[], run: (state: State, changed: Set<keyof State>) => void}[]} */
  #views = [];
  /** Views that wait for the next frame. @type {Set<() => void>} */
  #later = new Set();

  /** @param {State} state */
  constructor(state) {
    this.state = state;
  }

  /**
   * Calls `run` after every change of one of the keys.
   * @param {(keyof State)[]} keys
   * @param {(state: State, changed: Set<keyof State>) => void} run
   */
  on(keys, run) {
    this.#views.push({ keys, run });
  }

  /**
   * Calls `run` after every change of the run shown, one frame later: figures and chart are on the screen first.
   * @param {() => void} run
   * @returns {() => boolean}  whether the view waits for its turn, and need not follow the moment shown
   */
  onRunLater(run) {
    this.on(["payload"], () => {
      if (!this.#later.size) afterNextFrame(() => this.#catchUp());
      this.#later.add(run);
      document.documentElement.dataset["behind"] = "";
    });
    return () => this.#later.has(run);
  }

  #catchUp() {
    const due = [...this.#later];
    this.#later.clear();
    for (const run of due) run();
    delete document.documentElement.dataset["behind"];
  }

  /**
   * Sets some parts; views of those that really changed run at once, in the order in which they asked.
   * @param {Partial<State>} parts
   */
  set(parts) {
    /** @type {Set<keyof State>} */
    const changed = new Set();
    for (const key of /** @type {(keyof State)[]} */ (Object.keys(parts))) {
      if (!Object.is(this.state[key], parts[key])) changed.add(key);
    }
    if (!changed.size) return;
    this.state = { ...this.state, ...parts };
    for (const view of this.#views) {
      if (view.keys.some((key) => changed.has(key))) view.run(this.state, changed);
    }
  }
}
