/** What is asked of "What is the cheapest fix?": the limits as text, common ones one click away, find and stop. */

import { byId, h, setText } from "./dom.js";

export class AdviseForm {
  /** @param {{find: () => void, stop: () => void}} act */
  constructor({ find, stop }) {
    this.field = h("input", {
      type: "text",
      id: "advise-goals",
      autocomplete: "off",
      spellcheck: false,
      "aria-describedby": "advise-problem",
      input: () => this.#showChips(),
    });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Common limits" });
    this.find = h("button", { type: "submit", id: "advise-find", class: "primary" }, "Find");
    this.stop = h("button", { type: "button", id: "advise-stop", hidden: true, click: stop }, "Stop");
    this.problem = h("p", { id: "advise-problem", class: "note bad", role: "alert" });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      find();
    };
    this.form = h(
      "form",
      { submit },
      h("label", { for: "advise-goals" }, "Limits that have to hold"),
      h("div", { class: "advise-row" }, this.field, this.find, this.stop),
      this.problem,
      this.chips,
    );
  }

  get text() {
    return this.field.value;
  }

  /**
   * @param {string} text  the limits to begin with
   * @param {string[]} common
   */
  begin(text, common) {
    this.field.value = text;
    this.chips.replaceChildren(
      ...common.map((limit) =>
        h("button", { type: "button", class: "chip", value: limit, click: () => this.#put(limit) }, limit),
      ),
    );
    this.#showChips();
  }

  /** @param {boolean} busy @param {boolean} again */
  showBusy(busy, again) {
    const focused = document.activeElement === this.stop;
    this.stop.hidden = !busy;
    setText(this.find, again ? "Find again" : "Find");
    if (focused && !busy) this.find.focus(); // the button that had the focus is gone
  }

  /** @param {string} text  what is wrong; empty: nothing @param {boolean} here  with the limits */
  showProblem(text, here) {
    setText(this.problem, text);
    if (text && here) this.field.setAttribute("aria-invalid", "true");
    else this.field.removeAttribute("aria-invalid");
  }

  get #parts() {
    const parts = this.field.value.split(",").map((part) => part.trim());
    return parts.filter(Boolean);
  }

  #showChips() {
    const parts = this.#parts;
    for (const chip of this.chips.querySelectorAll("button"))
      chip.setAttribute("aria-pressed", String(parts.includes(chip.value)));
  }

  /** Puts a limit in, in place of another on the same figure; or takes it out. @param {string} limit */
  #put(limit) {
    const parts = this.#parts;
    const others = parts.filter((part) => figureOf(part) !== figureOf(limit));
    this.field.value = (parts.includes(limit) ? others : [...others, limit]).join(", ");
    this.#showChips();
  }
}

/** @param {string} limit */
function figureOf(limit) {
  return limit.split(/[<>≤≥]/)[0]?.trim().toLowerCase();
}

/** A mission's answer is not given away by accident. @param {() => void} show */
export function confirmAnswer(show) {
  const dialog = byId("confirm", HTMLDialogElement);
  const yes = () => {
    dialog.close();
    show();
  };
  dialog.replaceChildren(
    h("h2", { id: "confirm-title" }, "See the answer?"),
    h(
      "p",
      {},
      "This finds what the mission asks you to find; one click on the cheapest fix then earns its three stars.",
    ),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", autofocus: true, click: () => dialog.close() }, "Let me try"),
      h("button", { type: "button", class: "primary", id: "confirm-yes", click: yes }, "Show it"),
    ),
  );
  dialog.showModal();
}
