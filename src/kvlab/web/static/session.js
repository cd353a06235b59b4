/** What a reader can do to the setup: change it, commit it, go back; and what follows from that. */

import { ApiError, fetchRun, queryOf } from "./api.js";
import { addressOf, readHash, readQuery } from "./link.js";
import { Runner } from "./runner.js";
import { tellingMoment } from "./moments.js";

/** @typedef {import("./types.js").Changes} Changes */
/** @typedef {import("./types.js").TileValue} TileValue */

const KNOWN_TILES = 64;

export class Session {
  /** Tiles of recent setups, for the deltas. @type {Map<string, Record<string, TileValue>>} */
  #tiles = new Map();
  #committed = "";
  /** The setup that the pictures show. */
  #shown = "";
  #editing = false;
  /** What the next finished run is to show. @type {number|null} */
  #moment = null;

  /**
   * @param {import("./types.js").Labs} labs
   * @param {import("./store.js").Store} store
   */
  constructor(labs, store) {
    this.labs = labs;
    this.store = store;
    this.runner = new Runner(fetchRun, {
      done: (payload, query) => this.#show(payload, query),
      failed: (reason) => this.store.set({ error: asApiError(reason) }),
      busy: (busy) => this.store.set({ busy }),
    });
    addEventListener("popstate", () => this.open());
  }

  get lab() {
    return /** @type {import("./types.js").Lab} */ (this.labs.labs[this.store.state.lab]);
  }

  /** Shows what the address bar says. */
  open() {
    const { lab, changes, problem } = readQuery(this.labs, location.search);
    const { t, request } = readHash(location.hash);
    this.#moment = t;
    const fresh = lab !== this.store.state.lab || !this.store.state.payload;
    this.#begin();
    this.store.set({ lab, changes, picked: request, ...(fresh ? NEW_LAB : {}) });
    this.#settle(fresh);
    if (problem) this.store.set({ error: new ApiError(problem, "lab") });
  }

  /** @param {string} lab @param {Changes} changes */
  openLab(lab, changes = {}) {
    history.pushState(null, "", addressOf(this.labs, lab, changes));
    this.open();
  }

  /** The text of a setting. @param {string} name */
  valueOf(name) {
    return this.store.state.changes[name] ?? this.lab.defaults[name] ?? "";
  }

  /**
   * Changes one setting; runs at once, commits later.
   * @param {string} name
   * @param {string} text
   */
  edit(name, text) {
    this.#begin();
    const changes = { ...this.store.state.changes, [name]: text };
    if (this.lab.defaults[name] === text) delete changes[name];
    this.store.set({ changes });
    this.#run(false);
  }

  /** The value that was set last is meant: the address bar takes it, and deltas compare with it from now on. */
  commit() {
    if (this.#editing) this.#settle(true);
  }

  /** @param {string} name @param {string} text */
  choose(name, text) {
    this.edit(name, text);
    this.commit();
  }

  /** @param {Changes} changes  a whole setup */
  replace(changes) {
    this.#begin();
    this.store.set({ changes: withoutDefaults(changes, this.lab.defaults) });
    this.#settle(true);
  }

  get query() {
    return queryOf(this.store.state.lab, this.store.state.changes);
  }

  #begin() {
    if (this.#editing) return;
    this.#editing = true;
    const before = this.#tiles.get(this.#committed);
    if (before) this.store.set({ before });
  }

  /** @param {boolean} push  whether the address bar may get a new entry */
  #settle(push) {
    this.#editing = false;
    this.#committed = this.query;
    const address = addressOf(this.labs, this.store.state.lab, this.store.state.changes);
    if (push && address !== (location.search || location.pathname)) history.pushState(null, "", address);
    this.#run(true);
  }

  /** @param {boolean} now */
  #run(now) {
    const { busy } = this.store.state;
    if (this.query === this.#shown && !busy) this.store.set({ error: null });
    else this.runner.want(this.query, now);
  }

  /** @param {import("./payload.js").Payload} payload @param {string} query */
  #show(payload, query) {
    this.#tiles.set(query, payload.header.tiles);
    if (this.#tiles.size > KNOWN_TILES) this.#tiles.delete(/** @type {string} */ (this.#tiles.keys().next().value));
    if (payload.header.lab !== this.store.state.lab) return;
    this.#shown = query;
    const first = !this.store.state.payload;
    const wished = this.#moment ?? (first ? tellingMoment(payload) : this.store.state.t);
    this.#moment = null;
    this.store.set({ payload, error: null, t: Math.min(wished, payload.header.end_s) });
    document.documentElement.dataset["shown"] = query;
  }
}

/** What a lab starts with. */
const NEW_LAB = /** @type {const} */ ({
  payload: null,
  before: null,
  hover: null,
  picked: null,
  block: null,
  pin: null,
  mission: null,
  playing: false,
  error: null,
});

/** @param {Changes} changes @param {Changes} defaults @returns {Changes} */
export function withoutDefaults(changes, defaults) {
  return Object.fromEntries(Object.entries(changes).filter(([name, text]) => defaults[name] !== text));
}

/** @param {unknown} reason */
function asApiError(reason) {
  return reason instanceof ApiError ? reason : new ApiError(`The page can't show this run: ${String(reason)}`);
}
