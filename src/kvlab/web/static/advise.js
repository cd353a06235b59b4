/** "What is the cheapest fix?": limits that somebody writes, and the fixes that the server finds, as it finds them. */

import { ApiError, queryOf } from "./api.js";
import { cardOf, nowOf } from "./advise_cards.js";
import { AdviseForm, confirmAnswer } from "./advise_form.js";
import { byId, h, setText } from "./dom.js";
import { lines } from "./lines.js";
import { say } from "./toast.js";

/** @typedef {import("./types.js").Fix} Fix */
/** @typedef {import("./types.js").AdviceLine} AdviceLine */
/** @typedef {import("./types.js").AdviceDone} AdviceDone */
/** @typedef {import("./types.js").Changes} Changes */
/** The setup that fixes start from. @typedef {{query: string, changes: Changes, mission: string|null}} Asked */
/** By what they change, in the order shown. @typedef {Map<string, {fix: Fix, card: HTMLElement}>} Cards */
/**
 * @typedef {object} Kept  what a tab, or a mission, had when it was left
 * @property {string} limits
 * @property {Asked|null} asked
 * @property {Cards} cards
 * @property {Node[]} answer
 * @property {string} count
 * @property {string} about
 */

export class Advise {
  /** @type {Asked|null} */
  #asked = null;
  /** @type {Cards} */
  #cards = new Map();
  /** @type {AbortController|null} */
  #flying = null;
  #lab = "";
  #of = "";
  /** What was left, by lab and mission. @type {Map<string, Kept>} */
  #kept = new Map();
  /** Missions whose answer somebody wants to see. @type {Set<string>} */
  #given = new Set();

  /**
   * @param {import("./session.js").Session} session
   * @param {import("./store.js").Store} store
   * @param {HTMLDetailsElement} panel
   */
  constructor(session, store, panel) {
    this.session = session;
    this.store = store;
    this.form = new AdviseForm({ find: () => this.#ask(), stop: () => this.#stop() });
    this.count = h("span", { id: "advise-count", class: "note" });
    this.about = h("p", { class: "note" });
    this.note = h("p", { id: "advise-note", class: "note" });
    this.live = h("p", { id: "advise-live", class: "sr-only", role: "status" });
    this.answer = h("div", { id: "advise-answer" });
    this.list = h("ol", { class: "fixes", "aria-label": "Fixes, the cheapest first" });
    panel.append(
      h(
        "div",
        { class: "advise" },
        this.form.form,
        h("div", { class: "advise-state" }, this.count, this.note),
        this.live,
        this.answer,
        this.about,
        this.list,
      ),
    );
    store.on(["lab", "mission", "changes", "locked", "payload"], () => this.#follow());
    this.#follow();
  }

  /** The mission being played. */
  get #mission() {
    return this.session.lab.missions.find(({ id }) => id === this.store.state.mission);
  }

  /** The setup at hand; in a mission its own setup, as its prices count from there. @returns {Asked} */
  get #at() {
    const { lab, changes } = this.store.state;
    const mission = this.#mission;
    if (!mission) return { query: queryOf(lab, changes), changes, mission: null };
    return { query: this.session.queryFor(mission.setup), changes: mission.setup, mission: mission.id };
  }

  #follow() {
    const { lab, locked } = this.store.state;
    const mission = this.#mission;
    const of = `${lab} ${mission?.id}`;
    if (of !== this.#of) {
      if (this.#of) this.#keep(lab === this.#lab ? "another setup was opened" : "the tab was left");
      this.#of = of;
      this.#lab = lab;
      this.#forget();
      const { first, common, missions } = this.session.lab.limits;
      const kept = this.#kept.get(of);
      const limits = mission ? (missions[mission.id] ?? first) : first;
      this.form.begin(kept?.limits ?? limits, mission ? [] : common);
      if (kept) this.#takeUp(kept);
      this.form.showBusy(false, this.#asked !== null);
    }
    this.form.find.disabled = locked;
    this.#say();
  }

  /** @param {string} why  a search ends here */
  #keep(why) {
    this.#stop(`Stopped: ${why}.`);
    const [count, about] = [this.count.textContent, this.about.textContent];
    const answer = [...this.answer.childNodes];
    this.#kept.set(this.#of, { limits: this.form.text, asked: this.#asked, cards: this.#cards, answer, count, about });
  }

  /** @param {Kept} kept */
  #takeUp({ asked, cards, answer, count, about }) {
    this.#asked = asked;
    this.#cards = cards;
    this.list.replaceChildren(...Array.from(cards.values(), ({ card }) => card));
    this.answer.replaceChildren(...answer);
    setText(this.count, count);
    setText(this.about, about);
  }

  #forget() {
    this.#stop();
    this.#asked = null;
    this.#cards = new Map();
    this.list.replaceChildren();
    this.answer.replaceChildren();
    for (const part of [this.count, this.live, this.about]) setText(part, "");
    this.form.showProblem("", false);
  }

  #ask() {
    const mission = this.#mission;
    if (this.store.state.locked) return;
    const met = mission && this.store.state.payload?.header.missions[mission.id]?.met;
    if (!mission || met || this.#given.has(mission.id)) return void this.#search();
    confirmAnswer(() => {
      this.#given.add(mission.id);
      void this.#search();
    });
  }

  async #search() {
    this.#forget();
    const asked = (this.#asked = this.#at);
    const abort = (this.#flying = new AbortController());
    const more = new URLSearchParams({ goals: this.form.text });
    if (asked.mission !== null) more.set("mission", asked.mission);
    this.#showBusy(true);
    try {
      /** @type {AsyncGenerator<AdviceLine, void, void>} */
      const found = lines(`api/advise?${asked.query}&${more}`, { signal: abort.signal });
      for await (const line of found) if (this.#flying === abort) this.#take(line);
    } catch (reason) {
      if (this.#flying === abort && !abort.signal.aborted) this.#fail(reason);
    }
    if (this.#flying !== abort) return;
    this.#flying = null;
    this.#showBusy(false);
  }

  /** @param {string} [why] */
  #stop(why = "Stopped.") {
    if (!this.#flying) return;
    this.#flying.abort();
    this.#flying = null;
    this.#showBusy(false);
    setText(this.count, `${why} ${this.count.textContent}`);
    setText(this.live, "The search was stopped.");
  }

  /** @param {boolean} busy */
  #showBusy(busy) {
    this.form.showBusy(busy, this.#asked !== null);
    if (busy) setText(this.count, "0 runs");
    this.#say();
  }

  /** @param {AdviceLine} line */
  #take({ start, progress, fix, done }) {
    if (start) setText(this.about, start.note);
    if (progress) setText(this.count, `${progress.done} runs`);
    if (fix) {
      this.#add(fix);
      setText(this.live, `Found for ${fix.cost}: ${titleOf(fix)}.`);
    }
    if (done) this.#finish(done);
  }

  /** @param {Fix} fix */
  #add(fix) {
    const alone = fix.moves.length === 1 ? fix.moves[0]?.name : null;
    for (const [key, known] of this.#cards) {
      const [move, ...others] = known.fix.moves;
      if (alone && !others.length && move?.name === alone) {
        known.card.remove();
        this.#cards.delete(key);
      }
    }
    const card = this.#card(fix);
    const after = [...this.#cards.values()].find((known) => known.fix.price > fix.price);
    this.list.insertBefore(card, after?.card ?? null);
    this.#cards.set(keyOf(fix), { fix, card });
    this.#say();
  }

  /** @param {AdviceDone} done */
  #finish({ texts, fixes, nearest, now, runs, verdict }) {
    const focused = document.activeElement;
    const shown = nearest ? [nearest] : fixes;
    const cards = shown.map((fix) => this.#cards.get(keyOf(fix)) ?? { fix, card: this.#card(fix) });
    this.#cards = new Map(cards.map((known) => [keyOf(known.fix), known]));
    this.list.replaceChildren(...cards.map(({ card }) => card));
    if (focused instanceof HTMLElement && this.list.contains(focused)) focused.focus(); // it was moved, and lost it
    setText(this.count, `${runs} runs`);
    this.answer.replaceChildren(...texts.map((text) => h("p", {}, text)));
    if (verdict !== "fix") this.answer.append(...nowOf(now));
    setText(this.live, texts.join(" "));
    this.#say();
  }

  /** @param {Fix} fix */
  #card(fix) {
    return cardOf(fix, { apply: () => this.#apply(fix), compare: () => this.#compare(fix) });
  }

  /** @param {Fix} fix */
  #apply(fix) {
    this.session.replace(this.#with(fix));
    say("Applied. Back undoes it.");
  }

  /** @param {Fix} fix */
  #compare(fix) {
    const { payload, shown } = this.store.state;
    if (!payload) return;
    this.store.set({ pin: { query: shown, changes: { ...payload.header.changes }, payload } });
    this.session.replace(this.#with(fix));
    byId("pin-bar").scrollIntoView({ block: "center" });
    say("Applied beside the pinned run. Back undoes it.");
  }

  /** The setup with a fix: in a mission from its own setup, otherwise from the one at hand. @param {Fix} fix */
  #with(fix) {
    return { ...(this.#mission ? this.#mission.setup : this.store.state.changes), ...fix.changes };
  }

  /** What the list is of, where it is not the setup at hand. */
  #say() {
    const { locked, lab, changes } = this.store.state;
    const now = queryOf(lab, changes);
    const asked = this.#asked;
    let applied = false;
    for (const { fix, card } of this.#cards.values()) {
      const is = asked !== null && this.session.queryFor({ ...asked.changes, ...fix.changes }) === now;
      applied ||= is;
      card.classList.toggle("applied", is);
      setText(/** @type {HTMLElement} */ (card.querySelector(".applied-word")), is ? "applied" : "");
    }
    const old = asked !== null && asked.mission === null && asked.query !== now;
    this.list.classList.toggle("older", old && !applied);
    const text = locked
      ? "Answer the mission's question first, or skip it."
      : applied
        ? "The fixes are of the setup before this one was applied."
        : old
          ? "The fixes are of an older setup: the settings have changed since. Find again searches from here."
          : "";
    setText(this.note, text);
  }

  /** @param {unknown} reason */
  #fail(reason) {
    const error = reason instanceof ApiError ? reason : new ApiError(`This can't be shown: ${String(reason)}`);
    setText(this.count, "");
    this.form.showProblem(error.message, error.field === "goals");
  }
}

/** @param {Fix} fix */
function keyOf(fix) {
  return JSON.stringify(fix.changes);
}

/** @param {Fix} fix */
function titleOf({ moves }) {
  return moves.map(({ label, before, after }) => `${label} from ${before} to ${after}`).join(" and ");
}
