/** The missions: in order, each unlocked by the one before; a guess first, then levers, goals, stars and the reason. */

import { byId, h, icon } from "./dom.js";
import { progressMenu } from "./progress_menu.js";

/** @typedef {import("./types.js").MissionCard} Card */
/** @typedef {import("./types.js").State} State */

export class Missions {
  /** Hints shown so far in the mission being played. */
  #hints = 0;
  /** Whether the setup was moved since the mission was loaded: then the guess is held against what happened. */
  #moved = false;
  #drawn = "";

  /**
   * @param {import("./session.js").Session} session
   * @param {import("./store.js").Store} store
   * @param {import("./progress.js").Progress} progress
   */
  constructor(session, store, progress) {
    this.session = session;
    this.store = store;
    this.progress = progress;
    this.panel = byId("missions");
    store.on(["lab", "mission", "payload", "settled"], (state, changed) => {
      if (changed.has("mission") || changed.has("lab")) this.#enter();
      else this.#judge(state);
      this.#draw();
    });
  }

  get cards() {
    return this.session.lab.missions;
  }

  #enter() {
    this.#hints = 0;
    this.#moved = false;
  }

  /** The mission being played. */
  get card() {
    return this.cards.find(({ id }) => id === this.store.state.mission);
  }

  /** Whether the reader still has to guess. @param {Card} card */
  #asks(card) {
    return this.progress.saved.ask && card.question !== null && this.progress.guess(card.id) === undefined;
  }

  /** @param {State} state */
  #judge({ payload, shown, settled }) {
    const card = this.card;
    if (!card || !payload || shown !== settled) return;
    this.#moved ||= settled !== this.session.queryFor(card.setup);
    const verdict = payload.header.missions[card.id];
    if (verdict?.met && !this.#asks(card)) this.progress.award(card.id, verdict.stars);
  }

  /** @param {Card} card */
  #load(card) {
    this.#enter();
    this.session.replace({ ...card.setup }, card.id);
    this.#draw();
    this.#focus();
  }

  /** The button that was pressed is gone: the keyboard goes on where the mission begins. */
  #focus() {
    const playing = this.panel.querySelector(".playing");
    if (playing instanceof HTMLElement) playing.focus();
  }

  #draw() {
    const { lab, payload, shown, settled } = this.store.state;
    const card = this.card;
    const locked = card !== undefined && this.#asks(card);
    this.store.set({ locked });
    const verdict = card && payload?.header.missions[card.id];
    const solved = this.cards.map(({ id }) => this.progress.stars(id));
    const key = JSON.stringify([lab, card?.id, verdict, solved, this.#hints, this.#moved, locked, this.progress.saved, shown === settled]);
    if (key === this.#drawn) return; // the reader's place in the panel is not lost while a slider moves
    this.#drawn = key;
    const focused = document.activeElement?.id;
    const won = solved.filter(Boolean).length;
    const stars = solved.reduce((sum, count) => sum + count, 0);
    this.panel.replaceChildren(
      h("div", { class: "panel-head" }, h("h2", { id: "missions-title" }, "Missions"),
        h("span", { class: "tally" }, `${won} of ${this.cards.length} · ${stars} stars`)),
      h("ol", { class: "missions" }, ...this.cards.map((each, i) => this.#item(each, i, solved))),
      progressMenu(this.progress, () => this.#draw()),
    );
    if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
  }

  /** @param {Card} card @param {number} place @param {number[]} solved */
  #item(card, place, solved) {
    const stars = solved[place] ?? 0;
    const open = place === 0 || Boolean(solved[place - 1]) || stars > 0;
    const active = card.id === this.store.state.mission;
    const next = open && !stars && !this.card;
    const state = active ? "playing" : stars ? "solved" : open ? "open" : "locked";
    const head = h("div", { class: "mission-head" }, h("h3", {}, `${place + 1}. ${card.title}`),
      open ? starRow(stars) : h("span", { class: "lock", role: "img", "aria-label": "locked: solve the one before" }, icon("lock")));
    const body = active ? this.#body(card, place) : !open ? [] : [
      ...(next ? [h("p", {}, card.story)] : []),
      h("button", { type: "button", id: `load-${card.id}`, class: next ? "primary" : "", click: () => this.#load(card),
        "aria-label": `Load mission setup: ${card.title}` }, stars && !next ? "Play again" : "Load mission setup"),
    ];
    return h("li", { class: `mission ${state}`, "data-mission": card.id, tabIndex: active ? -1 : undefined, "aria-current": active ? "step" : null }, head, ...body);
  }

  /** The mission being played. @param {Card} card @param {number} place */
  #body(card, place) {
    const { payload, shown, settled } = this.store.state;
    const verdict = payload?.header.missions[card.id];
    const asks = this.#asks(card);
    const won = this.progress.stars(card.id) > 0 && verdict?.met && !asks && shown === settled;
    return [
      h("p", {}, card.story),
      ...(asks ? [this.#question(card)] : []),
      h("ul", { class: "goals", "aria-label": "Goals" }, ...card.goals.map((goal, i) => {
        const result = verdict?.goals[i];
        const [name = "", limit = ""] = goal.text.split(": ");
        return h("li", { class: result?.met ? "met" : "" }, icon(result?.met ? "check" : "open"),
          h("span", {}, h("span", { class: "sr-only" }, result?.met ? "met: " : "not met: "), name),
          h("b", {}, result?.value ?? ""), h("small", {}, limit));
      })),
      asks ? null : h("p", { class: "cost" }, `Cost so far: ${points(verdict?.cost ?? 0)}. The cheapest fix earns three stars.`),
      ...this.#verifiedGuess(card),
      ...(won && verdict ? this.#reward(card, verdict, place) : asks ? [] : this.#help(card)),
      h("div", { class: "buttons" },
        h("button", { type: "button", id: "mission-restart", click: () => this.#load(card) }, "Load again"),
        h("button", { type: "button", id: "mission-leave", click: () => this.session.replace(this.store.state.changes, null) }, "Leave")),
    ].filter((part) => part !== null);
  }

  /** @param {Card} card */
  #question(card) {
    /** @param {number} option */
    const guess = (option) => {
      this.progress.setGuess(card.id, option);
      this.#draw();
      this.#focus();
    };
    return h("fieldset", { class: "question" }, h("legend", {}, "First, a guess"), h("p", {}, card.question?.text ?? ""),
      ...(card.question?.options ?? []).map((text, i) => h("button", { type: "button", click: () => guess(i) }, text)),
      h("button", { type: "button", class: "quiet", click: () => guess(-1) }, "Skip"));
  }

  /** What was guessed and, once the reader has moved a lever, what is true. @param {Card} card */
  #verifiedGuess(card) {
    const guess = this.progress.guess(card.id);
    const mine = guess === undefined ? undefined : card.question?.options[guess];
    if (mine === undefined || !card.question) return [];
    const answer = card.question.answer;
    if (!this.#moved || answer === undefined) return [h("p", { class: "guess" }, `${card.question.text} You guessed: ${mine}. Now see.`)];
    const right = guess === answer;
    return [h("p", { class: right ? "guess right" : "guess" }, `${card.question.text} `,
      h("b", {}, right ? `You guessed right: ${mine}.` : `You guessed: ${mine}. It is: ${card.question.options[answer]}.`))];
  }

  /** @param {Card} card */
  #help(card) {
    const shown = card.hints.slice(0, this.#hints).map((text) => h("li", {}, text));
    const more = () => {
      this.#hints += 1;
      this.#draw();
    };
    const left = this.#hints < card.hints.length;
    return [
      h("ol", { class: "hints" }, ...shown),
      left ? h("button", { type: "button", id: "mission-hint", class: "quiet", click: more }, `Hint ${this.#hints + 1} of ${card.hints.length}`) : null,
    ];
  }

  /** @param {Card} card @param {import("./types.js").Verdict} verdict @param {number} place */
  #reward(card, verdict, place) {
    const next = this.cards[place + 1];
    const more = verdict.stars < 3 ? " A cheaper fix earns more." : "";
    return [
      h("div", { class: "reward", role: "status" }, starRow(verdict.stars), h("b", {}, `Solved for ${points(verdict.cost)}.${more}`)),
      h("p", { class: "why" }, card.why),
      h("p", { class: "flag" }, "In vLLM: ", h("code", {}, card.vllm_flag)),
      next ? h("button", { type: "button", id: "mission-next", class: "primary", click: () => this.#load(next) }, `Next: ${next.title}`) : null,
    ];
  }
}

/** @param {number} count */
function starRow(count) {
  return h("span", { class: "stars", role: "img", "aria-label": count ? `${count} of 3 stars` : "not solved yet" },
    ...[1, 2, 3].map((nth) => {
      const star = icon("star");
      if (nth <= count) star.classList.add("full");
      return star;
    }));
}

/** @param {number} count */
function points(count) {
  return count === 1 ? "1 point" : `${count} points`;
}
