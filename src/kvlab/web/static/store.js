/** The page's state in one place: views ask for the parts that they draw and are told when those change. */

/** @typedef {import("./types.js").State} State */

export class Store {
  /** @type {{keys: (keyof State)[], run: (state: State, changed: Set<keyof State>) => void}[]} */
  #views = [];

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
