/** The setup column: one native control per setting, made from the server's table. */

import { byId, h, icon, setText } from "./dom.js";
import { makeKnob } from "./knobs.js";
import { DRAWN_FIELDS, TRACE_FIELDS } from "./upload.js";

/** @typedef {import("./types.js").State} State */

const GROUPS = /** @type {const} */ ([
  ["server", "Server"],
  ["traffic", "Traffic"],
  ["event", "What if"],
]);

export class Controls {
  /** @type {import("./knobs.js").Knob[]} */
  #knobs = [];
  #lab = "";

  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.reset = byId("reset", HTMLButtonElement);
    this.reset.addEventListener("click", () => session.replace({}));
    this.others = byId("other-settings");
    store.on(["lab", "changes", "mission", "locked"], (state) => this.#show(state));
  }

  /** @param {State} state */
  #show(state) {
    if (state.lab !== this.#lab) this.#build(state.lab);
    const mission = this.session.lab.missions.find(({ id }) => id === state.mission);
    for (const { control, row, show, lock, price } of this.#knobs) {
      const { name } = control;
      const text = state.changes[name] ?? control.default;
      const lever = !mission || mission.levers.includes(name);
      const replaced = state.changes["trace"] !== undefined && DRAWN_FIELDS.includes(name);
      const idle = replaced || this.session.isIdle(name, state.changes);
      show(text, mission?.stops[name] ?? null);
      lock(!lever || idle || state.locked);
      row.classList.toggle("changed", text !== control.default);
      row.classList.toggle("locked", !lever || idle);
      setText(price, (mission && lever && mission.prices.find(({ field }) => field === name)?.text) || "");
    }
    this.reset.hidden = !Object.keys(state.changes).length || mission !== undefined;
    this.#showOthers(state);
  }

  /** @param {string} lab */
  #build(lab) {
    this.#lab = lab;
    this.#knobs = this.session.lab.controls.map((control) => makeKnob(control, this.session));
    const groups = GROUPS.flatMap(([group, title]) => {
      const rows = this.#knobs.filter(({ control }) => control.group === group).map(({ row }) => row);
      return rows.length
        ? [h("div", { class: "group", role: "group", "aria-label": title }, h("h3", {}, title), ...rows)]
        : [];
    });
    byId("controls").replaceChildren(...groups);
  }

  /** Settings that a link brought along and that have no control here. @param {State} state */
  #showOthers({ changes }) {
    const known = new Set([...this.#knobs.map(({ control }) => control.name), ...TRACE_FIELDS]);
    const others = Object.keys(changes).filter((name) => !known.has(name));
    /** @param {string} name */
    const drop = (name) => {
      const { [name]: _, ...rest } = changes;
      this.session.replace(rest);
    };
    this.others.replaceChildren(
      ...others.map((name) =>
        h(
          "li",
          {},
          h("code", {}, `${name} = ${changes[name]}`),
          h(
            "button",
            {
              class: "icon-button",
              type: "button",
              "aria-label": `Back to the default of ${name}`,
              click: () => drop(name),
            },
            icon("close"),
          ),
        ),
      ),
    );
    this.others.hidden = !others.length;
  }
}
