/** Native controls for one setting: a slider of stops, a choice, a switch, a list, a text. */

import { cssVar, h, setText } from "./dom.js";
import { termButton } from "./explain.js";

/** @typedef {import("./types.js").Control} Control */
/** @typedef {import("./session.js").Session} Session */
/**
 * @typedef {object} Knob
 * @property {Control} control
 * @property {HTMLElement} row
 * @property {HTMLElement} price
 * @property {(text: string, stops: string[]|null) => void} show  stops: those of a mission, in place of all
 * @property {(locked: boolean) => void} lock
 */

/** @param {Control} control @param {Session} session @returns {Knob} */
export function makeKnob(control, session) {
  const price = h("p", { class: "price" });
  if (control.kind === "range") return rangeKnob(control, session, price);
  if (control.kind === "select") return selectKnob(control, session, price);
  if (control.kind === "text") return textKnob(control, session, price);
  return control.kind === "choice" ? choiceKnob(control, session, price) : switchKnob(control, session, price);
}

/** @param {Control} control @param {Session} session @param {HTMLElement} price @returns {Knob} */
function rangeKnob(control, session, price) {
  const id = `knob-${control.name}`;
  const output = h("output", { for: id });
  let stops = control.values;
  const input = h("input", {
    type: "range",
    id,
    min: "0",
    step: "1",
    "aria-labelledby": `${id}-label`,
    input: () => session.edit(control.name, stops[input.valueAsNumber] ?? control.default, stops),
    change: () => session.commit(),
    focus: () => session.aim(control.name, stops),
  });
  const row = h(
    "div",
    { class: "knob", "data-knob": control.name },
    h("div", { class: "knob-head" }, termButton(control.name, control.label, `${id}-label`), output),
    input,
    price,
  );
  return {
    control,
    row,
    price,
    show(text, offered) {
      stops = offered ?? control.values;
      const last = Math.max(1, stops.length - 1);
      input.max = String(last);
      const exact = stops.indexOf(text);
      const place = exact >= 0 ? exact : nearest(stops, text);
      if (input.valueAsNumber !== place) input.value = String(place);
      const label = labelOf(control, text);
      cssVar(input, "--at", place / last);
      input.setAttribute("aria-valuetext", label);
      setText(output, label);
    },
    lock(locked) {
      input.disabled = locked;
    },
  };
}

/** @param {Control} control @param {Session} session @param {HTMLElement} price @returns {Knob} */
function choiceKnob(control, session, price) {
  const id = `knob-${control.name}`;
  const radios = control.values.map((value) =>
    h("input", { type: "radio", name: control.name, value, change: () => session.choose(control.name, value) }),
  );
  const options = radios.map((radio, i) => h("label", {}, radio, h("span", {}, control.labels[i] ?? radio.value)));
  const set = h("fieldset", { class: "segments", role: "radiogroup", "aria-labelledby": `${id}-label` }, ...options);
  const row = h(
    "div",
    { class: "knob", "data-knob": control.name },
    h("div", { class: "knob-head" }, termButton(control.name, control.label, `${id}-label`)),
    set,
    price,
  );
  return {
    control,
    row,
    price,
    show(text) {
      for (const radio of radios) radio.checked = radio.value === text;
    },
    lock(locked) {
      set.disabled = locked;
    },
  };
}

/** @param {Control} control @param {Session} session @param {HTMLElement} price @returns {Knob} */
function switchKnob(control, session, price) {
  const id = `knob-${control.name}`;
  const input = h("input", {
    type: "checkbox",
    role: "switch",
    id,
    class: "switch",
    "aria-labelledby": `${id}-label`,
    change: () => session.choose(control.name, (input.checked ? control.on : control.off) ?? control.default),
  });
  const row = h(
    "div",
    { class: "knob", "data-knob": control.name },
    h("div", { class: "knob-switch" }, termButton(control.name, control.label, `${id}-label`), input),
    price,
  );
  return {
    control,
    row,
    price,
    show(text) {
      input.checked = text !== control.off;
    },
    lock(locked) {
      input.disabled = locked;
    },
  };
}

/** @param {Control} control @param {HTMLElement} field @param {HTMLElement} price */
function fieldRow(control, field, price) {
  const head = h("div", { class: "knob-head" }, termButton(control.name, control.label, `knob-${control.name}-label`));
  return h("div", { class: "knob", "data-knob": control.name }, head, field, price);
}

/** @param {Control} control @param {Session} session @param {HTMLElement} price @returns {Knob} */
function selectKnob(control, session, price) {
  const id = `knob-${control.name}`;
  const options = control.values.map((value, i) => h("option", { value }, control.labels[i] ?? value));
  const other = h("option", { hidden: true }); // of a link: a value that the table does not offer
  const select = h(
    "select",
    { id, "aria-labelledby": `${id}-label`, change: () => session.choose(control.name, select.value) },
    ...options,
    other,
  );
  return {
    control,
    row: fieldRow(control, select, price),
    price,
    show(text) {
      if (!control.values.includes(text)) other.value = other.textContent = text;
      select.value = text;
    },
    lock(locked) {
      select.disabled = locked;
    },
  };
}

/** @param {Control} control @param {Session} session @param {HTMLElement} price @returns {Knob} */
function textKnob(control, session, price) {
  const id = `knob-${control.name}`;
  const input = h("input", {
    type: "text",
    id,
    spellcheck: false,
    autocomplete: "off",
    "aria-labelledby": `${id}-label`,
    change: () => session.choose(control.name, input.value.trim() || control.default),
  });
  input.setAttribute("list", `${id}-list`);
  const list = h("datalist", { id: `${id}-list` }, ...control.values.map((value) => h("option", { value })));
  return {
    control,
    row: fieldRow(control, h("div", {}, input, list), price),
    price,
    show(text) {
      if (input.value !== text) input.value = text;
    },
    lock(locked) {
      input.disabled = locked;
    },
  };
}

/**
 * What the page shows for a value: its label with the unit, or the text itself where the table has no such stop.
 * @param {Control} control
 * @param {string} text
 */
export function labelOf(control, text) {
  if (control.kind === "switch") return text === control.off ? "off" : text === control.on ? "on" : text;
  if (text === "none" && control.unset) return control.unset;
  const stop = control.values.indexOf(text);
  if (control.kind === "select" || control.kind === "text") return control.labels[stop] ?? text;
  if (stop < 0) return /^[\d.]+$/.test(text) && control.unit !== "%" ? `${text} ${control.unit}`.trim() : text;
  const label = control.labels[stop] ?? text;
  return /^[\d.]+$/.test(label) ? `${label} ${control.unit}`.trim() : label;
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
