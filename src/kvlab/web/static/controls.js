/** The setup column: one native control per setting, made from the server's table. */

import { byId, cssVar, h, icon, setText } from "./dom.js";
import { termButton } from "./explain.js";

/** @typedef {import("./types.js").Control} Control */
/** @typedef {import("./types.js").State} State */
/** @typedef {{control: Control, row: HTMLElement, show: (text: string) => void, lock: (locked: boolean) => void,
 *   price: HTMLElement}} Knob */

const GROUPS = /** @type {const} */ ([["server", "Server"], ["traffic", "Traffic"], ["event", "What if"]]);

export class Controls {
  /** @type {Knob[]} */
  #knobs = [];
  #lab = "";

  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.reset = byId("reset", HTMLButtonElement);
    this.reset.addEventListener("click", () => session.replace({}));
    this.others = byId("other-settings");
    store.on(["lab", "changes", "mission"], (state) => this.#show(state));
  }

  /** @param {State} state */
  #show(state) {
    if (state.lab !== this.#lab) this.#build(state.lab);
    const mission = this.session.lab.missions.find((card) => card.id === state.mission);
    for (const { control, row, show, lock, price } of this.#knobs) {
      const text = state.changes[control.name] ?? control.default;
      show(text);
      row.classList.toggle("changed", text !== control.default);
      const locked = mission !== undefined && !mission.levers.includes(control.name);
      lock(locked);
      row.classList.toggle("locked", locked);
      setText(price, (!locked && mission?.prices.find(({ field }) => field === control.name)?.text) || "");
    }
    this.reset.hidden = !Object.keys(state.changes).length || mission !== undefined;
    this.#showOthers(state);
  }

  /** @param {string} lab */
  #build(lab) {
    this.#lab = lab;
    const { controls } = this.session.lab;
    this.#knobs = controls.map((control) => knob(control, this.session));
    const groups = GROUPS.map(([group, title]) => {
      const rows = this.#knobs.filter(({ control }) => control.group === group).map(({ row }) => row);
      return rows.length ? h("div", { class: "group", role: "group", "aria-label": title }, h("h3", {}, title), ...rows) : null;
    });
    byId("controls").replaceChildren(...groups.filter((group) => group !== null));
  }

  /** Settings that a link brought along and that have no control here. @param {State} state */
  #showOthers(state) {
    const known = new Set([...this.#knobs.map(({ control }) => control.name), ...TRACE_FIELDS]);
    const others = Object.keys(state.changes).filter((name) => !known.has(name));
    this.others.replaceChildren(
      ...others.map((name) =>
        h("li", {},
          h("code", {}, `${name} = ${state.changes[name]}`),
          h("button", { class: "icon-button", type: "button", "aria-label": `Back to the default of ${name}`,
            click: () => this.session.choose(name, this.session.lab.defaults[name] ?? "") }, icon("close")))),
    );
    this.others.hidden = !others.length;
  }
}

/** Shown by the panel "Your traffic". */
export const TRACE_FIELDS = ["trace", "trace_from_ns", "trace_until_ns", "trace_speed"];

/** @param {Control} control @param {import("./session.js").Session} session @returns {Knob} */
function knob(control, session) {
  const price = h("span", { class: "price" });
  if (control.kind === "range") return rangeKnob(control, session, price);
  return control.kind === "choice" ? choiceKnob(control, session, price) : switchKnob(control, session, price);
}

/** @param {Control} control @param {import("./session.js").Session} session @param {HTMLElement} price @returns {Knob} */
function rangeKnob(control, session, price) {
  const id = `knob-${control.name}`;
  const last = control.values.length - 1;
  const output = h("output", { for: id });
  const input = h("input", {
    type: "range", id, min: "0", max: String(last), step: "1", "aria-labelledby": `${id}-label`,
    input: () => session.edit(control.name, control.values[input.valueAsNumber] ?? control.default),
    change: () => session.commit(),
  });
  cssVar(input, "--default", control.values.indexOf(control.default) / last);
  const row = h("div", { class: "knob" },
    h("div", { class: "knob-head" }, termButton(control.name, control.label, `${id}-label`), price, output), input);
  return {
    control, row, price,
    show(text) {
      const stop = control.values.indexOf(text);
      const label = stop >= 0 ? `${control.labels[stop] ?? text} ${control.unit}` : text;
      const place = stop >= 0 ? stop : nearest(control.values, text);
      if (input.valueAsNumber !== place) input.value = String(place);
      cssVar(input, "--at", place / last);
      input.setAttribute("aria-valuetext", label);
      setText(output, label);
    },
    lock(locked) {
      input.disabled = locked;
    },
  };
}

/** @param {Control} control @param {import("./session.js").Session} session @param {HTMLElement} price @returns {Knob} */
function choiceKnob(control, session, price) {
  const id = `knob-${control.name}`;
  const radios = control.values.map((value) =>
    h("input", { type: "radio", name: control.name, value, change: () => session.choose(control.name, value) }));
  const options = radios.map((radio, i) => h("label", {}, radio, h("span", {}, control.labels[i] ?? radio.value)));
  const set = h("fieldset", { class: "segments", role: "radiogroup", "aria-labelledby": `${id}-label` }, ...options);
  const row = h("div", { class: "knob" },
    h("div", { class: "knob-head" }, termButton(control.name, control.label, `${id}-label`), price), set);
  return {
    control, row, price,
    show(text) {
      for (const radio of radios) radio.checked = radio.value === text;
    },
    lock(locked) {
      set.disabled = locked;
    },
  };
}

/** @param {Control} control @param {import("./session.js").Session} session @param {HTMLElement} price @returns {Knob} */
function switchKnob(control, session, price) {
  const id = `knob-${control.name}`;
  const input = h("input", {
    type: "checkbox", role: "switch", id, class: "switch", "aria-labelledby": `${id}-label`,
    change: () => session.choose(control.name, (input.checked ? control.on : control.off) ?? control.default),
  });
  const row = h("div", { class: "knob knob-switch" }, termButton(control.name, control.label, `${id}-label`), price, input);
  return {
    control, row, price,
    show(text) {
      input.checked = text !== control.off;
    },
    lock(locked) {
      input.disabled = locked;
    },
  };
}

/**
 * The stop that is closest to a text that is none, by its leading number.
 * @param {string[]} stops
 * @param {string} text
 */
function nearest(stops, text) {
  const wanted = Number.parseFloat(text);
  if (Number.isNaN(wanted)) return 0;
  const far = stops.map((stop) => Math.abs(Number.parseFloat(stop) - wanted));
  return far.indexOf(Math.min(...far));
}
