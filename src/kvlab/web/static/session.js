/** What a reader can do to the setup: change it, commit it, go back, play a mission; and what follows from that. */

import { Ahead, around } from "./ahead.js";
import { ApiError, CONFLICT, fetchRun, queryOf, tellAhead } from "./api.js";
import { addressOf, readHash, readQuery } from "./link.js";
import { tellingMoment } from "./moments.js";
import { Runner } from "./runner.js";

/** @typedef {import("./types.js").Changes} Changes */
/** @typedef {import("./types.js").TileValue} TileValue */

const KNOWN_TILES = 64;

export class Session {
  /** Tiles of recent setups, for the deltas. @type {Map<string, Record<string, TileValue>>} */
  #tiles = new Map();
  #editing = false;
  #ahead = new Ahead();
  /** The moment that the next finished run is to show. @type {number|null} */
  #moment = null;

  /**
   * @param {import("./types.js").Labs} labs
   * @param {import("./store.js").Store} store
   */
  constructor(labs, store) {
    this.labs = labs;
    this.store = store;
    this.runner = new Runner((query, signal) => this.#fetch(query, signal), {
      done: (payload, query) => this.#show(payload, query),
      failed: (reason) => this.#fail(reason),
      busy: (busy) => this.store.set({ busy }),
    });
    addEventListener("popstate", () => this.open());
  }

  get lab() {
    return /** @type {import("./types.js").Lab} */ (this.labs.labs[this.store.state.lab]);
  }

  get query() {
    return queryOf(this.store.state.lab, this.store.state.changes);
  }

  /** The query of another setup of this lab. @param {Changes} changes */
  queryFor(changes) {
    return queryOf(this.store.state.lab, this.#changed(changes));
  }

  /** The text of a setting. @param {string} name */
  valueOf(name) {
    return this.store.state.changes[name] ?? this.lab.defaults[name] ?? "";
  }

  /** Shows what the address bar says. */
  open() {
    const { lab, changes, problem } = readQuery(this.labs, location.search);
    const { t, request, mission } = readHash(location.hash);
    const fresh = lab !== this.store.state.lab;
    const card = this.labs.labs[lab]?.missions.find(({ id }) => id === mission);
    this.#moment = t;
    this.#ahead.forget();
    this.#begin();
    this.store.set({
      ...(fresh ? NEW_LAB : {}),
      lab,
      changes: card && strays(card, changes) ? { ...card.setup } : changes,
      mission: card?.id ?? null,
      picked: request,
    });
    if (problem) this.#fail(new ApiError(problem));
    else this.#settle(false);
  }

  /** @param {string} lab */
  openLab(lab) {
    history.pushState(null, "", addressOf(this.labs, lab, {}, null));
    this.open();
  }

  /**
   * Changes one setting; runs at once, commits later.
   * @param {string} name
   * @param {string} text
   * @param {string[]} [stops]  of a slider, in order
   */
  edit(name, text, stops) {
    if (stops) this.#ahead.moved(name, stops, this.valueOf(name));
    else this.#ahead.forget();
    this.#begin();
    const brings = this.lab.controls.find((control) => control.name === name)?.brings[text];
    this.store.set({ changes: this.#changed({ ...brings, ...this.store.state.changes, [name]: text }) });
    this.#run(false);
  }

  /**
   * A slider is likely to be moved.
   * @param {string} name
   * @param {string[]} stops
   */
  aim(name, stops) {
    const { busy, changes } = this.store.state;
    const likely = around(name, stops, this.valueOf(name));
    if (!busy && likely && !("trace" in changes)) tellAhead(this.query, likely);
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

  /**
   * A whole setup at once.
   * @param {Changes} changes
   * @param {string|null} [mission]  as which mission; the one being played goes on otherwise
   */
  replace(changes, mission = this.store.state.mission) {
    this.#ahead.forget();
    this.#begin();
    this.store.set({ changes: this.#changed(changes), mission });
    this.#settle(true);
  }

  /** Whether a setting does nothing beside the others. @param {string} name @param {Changes} changes */
  isIdle(name, changes) {
    const { acts_only, defaults } = this.lab;
    return Object.entries(acts_only[name] ?? {}).some(
      ([other, texts]) => !texts.includes(changes[other] ?? defaults[other] ?? ""),
    );
  }

  /** @param {Changes} changes  without what the lab has anyway, and what does nothing beside the rest */
  #changed(changes) {
    const { defaults } = this.lab;
    return Object.fromEntries(
      Object.entries(changes).filter(([name, text]) => defaults[name] !== text && !this.isIdle(name, changes)),
    );
  }

  #begin() {
    if (this.#editing) return;
    this.#editing = true;
    const before = this.#tiles.get(this.store.state.settled);
    if (before) this.store.set({ before });
  }

  /** @param {boolean} push  whether the address bar may get a new entry */
  #settle(push) {
    const { lab, changes, mission } = this.store.state;
    this.#editing = false;
    const address = addressOf(this.labs, lab, changes, mission);
    if (push && address !== (location.search || location.pathname) + location.hash)
      history.pushState(null, "", address);
    this.#run(true);
    this.store.set({ settled: this.query });
  }

  /** @param {boolean} now */
  #run(now) {
    const { busy, shown, payload, t } = this.store.state;
    if (this.query !== shown || busy || !payload) return this.runner.want(this.query, now);
    this.store.set({ error: null, t: Math.min(this.#moment ?? t, payload.header.end_s) });
    this.#moment = null;
  }

  /** @param {string} query @param {AbortSignal} signal */
  #fetch(query, signal) {
    const likely = this.#ahead.guess(this.store.state.changes, (name) => this.valueOf(name));
    return fetchRun(query, signal, likely);
  }

  /** @param {import("./payload.js").Payload} payload @param {string} query */
  #show(payload, query) {
    this.#tiles.set(query, payload.header.tiles);
    if (this.#tiles.size > KNOWN_TILES) this.#tiles.delete(/** @type {string} */ (this.#tiles.keys().next().value));
    if (payload.header.lab !== this.store.state.lab) return;
    const first = !this.store.state.payload;
    const wished = this.#moment ?? (first ? Infinity : this.store.state.t);
    this.#moment = null;
    const t = wished <= payload.header.end_s ? wished : tellingMoment(payload);
    this.store.set({ payload, shown: query, error: null, t });
    document.documentElement.dataset["shown"] = query;
  }

  /** @param {unknown} reason */
  #fail(reason) {
    if (reason instanceof ApiError && reason.status === CONFLICT) return; // a newer run of this page took its place
    const error = reason instanceof ApiError ? reason : new ApiError(`The page can't show this run: ${String(reason)}`);
    this.store.set({ error, playing: false });
  }
}

/**
 * Whether a link to a mission has another setup than the mission's, levers apart: then the mission begins anew.
 * @param {import("./types.js").MissionCard} card
 * @param {Changes} changes
 */
function strays({ levers, setup }, changes) {
  return Object.keys({ ...setup, ...changes }).some((name) => !levers.includes(name) && setup[name] !== changes[name]);
}

/** What a lab starts with. */
const NEW_LAB = /** @type {const} */ ({
  payload: null,
  shown: "",
  before: null,
  hover: null,
  block: null,
  pin: null,
  playing: false,
  error: null,
});
