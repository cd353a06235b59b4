/** The missions: in order, each unlocked by the one before; a guess first, then levers, goals, stars and the reason. */

import { byId, h, icon } from "./dom.js";
import { goalList, guessLine, points, questionOf, rewardOf, starRow } from "./mission_parts.js";
import { progressMenu } from "./progress_menu.js";
import { say } from "./toast.js";

/** @typedef {import("./types.js").MissionCard} Card */
/** @typedef {import("./types.js").State} State */

/** CSS pixels left above the goals when a reward is shown. */
const REWARD_TOP = 8;

export class Missions {
  /** Hints shown so far in the mission being played. */
  #hints = 0;
  /** Whether the setup was moved since the mission was loaded: then the guess is held against what happened. */
  #moved = false;
  /** Whether the reward is new, and should come into sight. */
  #won = false;
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
    if (!verdict?.met || this.#asks(card) || !this.progress.award(card.id, verdict.stars)) return;
    say(`Solved: ${verdict.stars} of 3 stars.`); // the card may be out of sight of the lever that did it
    this.#won = true;
  }

  /** @param {Card} card */
  #load(card) {
    this.#enter();
    this.session.replace({ ...card.setup }, card.id);
    this.store.set({ before: null }); // what was set before was another server
    this.#draw();
    this.#focus();
  }

  /** The button that was pressed is gone: the keyboard goes on where the mission begins. */
  #focus() {
    const playing = this.panel.querySelector(".playing");
    if (playing instanceof HTMLElement) playing.focus();
  }

  #draw() {
    this.panel.hidden = !this.cards.length;
    const { lab, payload, shown, settled } = this.store.state;
    const card = this.card;
    const locked = card !== undefined && this.#asks(card);
    this.store.set({ locked });
    const verdict = card && payload?.header.missions[card.id];
    const solved = this.cards.map(({ id }) => this.progress.stars(id));
    const key = JSON.stringify([
      lab,
      card?.id,
      verdict,
      solved,
      this.#hints,
      this.#moved,
      locked,
      this.progress.saved,
      card !== undefined && shown === settled,
    ]);
    if (key === this.#drawn) return; // the reader's place in the panel is not lost while a slider moves
    this.#drawn = key;
    const focused = document.activeElement?.id;
    const won = solved.filter(Boolean).length;
    const stars = solved.reduce((sum, count) => sum + count, 0);
    this.panel.replaceChildren(
      h(
        "div",
        { class: "panel-head" },
        h("h2", { id: "missions-title" }, "Missions"),
        h("span", { class: "tally" }, `${won} of ${this.cards.length} · ${stars} stars`),
      ),
      h("ol", { class: "missions" }, ...this.cards.map((each, i) => this.#item(each, i, solved))),
      progressMenu(this.progress, () => this.#draw()),
    );
    if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
    if (this.#won) this.#showReward();
  }

  /** Moves the panel where it scrolls by itself, and never the page under the reader's hand. */
  #showReward() {
    this.#won = false;
    const goals = this.panel.querySelector(".playing .goals");
    if (!goals) return;
    this.panel.scrollTop += goals.getBoundingClientRect().top - this.panel.getBoundingClientRect().top - REWARD_TOP;
  }

  /** @param {Card} card @param {number} place @param {number[]} solved */
  #item(card, place, solved) {
    const stars = solved[place] ?? 0;
    const open = place === 0 || Boolean(solved[place - 1]) || stars > 0;
    const active = card.id === this.store.state.mission;
    const next = open && !stars && !this.card;
    const state = active ? "playing" : stars ? "solved" : open ? "open" : "locked";
    const head = h(
      "div",
      { class: "mission-head" },
      h("h3", {}, `${place + 1}. ${card.title}`),
      open
        ? starRow(stars)
        : h("span", { class: "lock", role: "img", "aria-label": "locked: solve the one before" }, icon("lock")),
    );
    const body = active
      ? this.#body(card, place)
      : !open
        ? []
        : [
            ...(next ? [h("p", {}, card.story)] : []),
            h(
              "button",
              {
                type: "button",
                id: `load-${card.id}`,
                class: next ? "primary" : stars ? "quiet" : "",
                click: () => this.#load(card),
                "aria-label": `Load mission setup: ${card.title}`,
              },
              stars && !next ? "Play again" : "Load mission setup",
            ),
          ];
    return h(
      "li",
      {
        class: `mission ${state}`,
        "data-mission": card.id,
        tabIndex: active ? -1 : undefined,
        "aria-current": active ? "step" : null,
      },
      head,
      ...body,
    );
  }

  /** The mission being played. @param {Card} card @param {number} place */
  #body(card, place) {
    const { payload, shown, settled } = this.store.state;
    const verdict = payload?.header.missions[card.id];
    const asks = this.#asks(card);
    const won = this.progress.stars(card.id) > 0 && verdict?.met && !asks && shown === settled;
    return [
      h("p", {}, card.story),
      asks ? questionOf(card, (option) => this.#guess(card, option)) : null,
      goalList(card, verdict),
      asks || won
        ? null
        : h("p", { class: "cost" }, `Cost so far: ${points(verdict?.cost ?? 0)}. The cheapest fix earns three stars.`),
      guessLine(card, this.progress.guess(card.id), this.#moved),
      ...(won && verdict ? this.#reward(card, verdict, place) : asks ? [] : this.#help(card)),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", id: "mission-restart", click: () => this.#load(card) }, "Load again"),
        h(
          "button",
          { type: "button", id: "mission-leave", click: () => this.session.replace(this.store.state.changes, null) },
          "Leave",
        ),
      ),
    ].filter((part) => part !== null);
  }

  /** @param {Card} card @param {number} option */
  #guess(card, option) {
    this.progress.setGuess(card.id, option);
    this.#draw();
    this.#focus();
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
      left
        ? h(
            "button",
            { type: "button", id: "mission-hint", class: "quiet", click: more },
            `Hint ${this.#hints + 1} of ${card.hints.length}`,
          )
        : null,
    ];
  }

  /** @param {Card} card @param {import("./types.js").Verdict} verdict @param {number} place */
  #reward(card, verdict, place) {
    const next = this.cards[place + 1];
    return [
      ...rewardOf(card, verdict),
      next
        ? h(
            "button",
            { type: "button", id: "mission-next", class: "primary", click: () => this.#load(next) },
            `Next: ${next.title}`,
          )
        : h("p", { class: "note" }, "That was the last mission of this lab."),
    ];
  }
}
