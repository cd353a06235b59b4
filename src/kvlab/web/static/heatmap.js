/** Two knobs against each other: a grid of setups around the one at hand, filled in as their runs come. */

import { queryOf } from "./api.js";
import { h, icon, setText } from "./dom.js";
import { Grid, saysUnit } from "./heatmap_grid.js";
import { LEVELS, best, levels, sentence, short } from "./heatmap_scale.js";
import { labelOf } from "./knobs.js";
import { lines } from "./lines.js";
import { DRAWN_FIELDS } from "./upload.js";

/** @typedef {import("./types.js").HeatStart} HeatStart */
/** @typedef {import("./types.js").HeatCell} HeatCell */
/** @typedef {import("./types.js").Control} Control */
/** @typedef {import("./types.js").State} State */

/** Knobs that show most, in this order; the first one of each that does something in the setup. */
const FIRST = { x: ["kv_memory_bytes", "max_num_seqs"], y: ["request_rate", "max_concurrency", "gpu_memory_utilization"] };
/** A list without an order can be swept while it is short. */
const MOST_LISTED = 7;

export class Heatmap {
  /** Chosen knobs of each lab. @type {Record<string, {x: string, y: string}>} */
  #chosen = {};
  #metric = "";
  /** @type {HeatStart|null} */
  #start = null;
  /** @type {Grid|null} */
  #grid = null;
  /** By place. @type {(HeatCell|undefined)[]} */
  #cells = [];
  /** What the grid is of: the setup without the two knobs, and which they are. */
  #of = "";
  /** Values of the two knobs when it was asked for. */
  #asked = { x: "", y: "" };
  /** What is on its way, and how to stop it. @type {{of: string, key: string, abort: AbortController}|null} */
  #flying = null;
  /** What the server could not give, and why. */
  #failed = { key: "", why: "" };
  #inView = false;
  #told = -1;
  #frame = 0;

  /**
   * @param {import("./session.js").Session} session
   * @param {import("./store.js").Store} store
   * @param {HTMLDetailsElement} panel
   */
  constructor(session, store, panel) {
    this.session = session;
    this.store = store;
    this.panel = panel;
    this.x = h("select", { id: "heat-x", change: () => this.#choose("x", this.x.value) });
    this.y = h("select", { id: "heat-y", change: () => this.#choose("y", this.y.value) });
    this.metric = h("select", { id: "heat-metric", change: () => this.#choose("metric", this.metric.value) });
    this.box = h("div", { id: "heat-grid" });
    this.status = h("p", { id: "heat-status", class: "note", role: "status" });
    this.live = h("p", { id: "heat-live", class: "live", role: "status" });
    this.legend = h("ul", { class: "legend", "aria-label": "Legend of the grid" });
    const field = (/** @type {string} */ label, /** @type {HTMLSelectElement} */ select) =>
      h("div", {}, h("label", { for: select.id }, label), select);
    this.body = h(
      "div",
      { class: "heat-body" },
      h("div", { class: "heat-fields" }, field("Across", this.x), field("Upwards", this.y), field("Colour and figure", this.metric)),
      this.status,
      this.box,
      this.live,
      this.legend,
    );
    panel.append(this.body);
    panel.addEventListener("toggle", () => this.#follow());
    document.addEventListener("visibilitychange", () => this.#follow());
    new IntersectionObserver((entries) => {
      this.#inView = entries.at(-1)?.isIntersecting ?? false;
      this.#follow();
    }).observe(panel);
    store.on(["lab", "changes", "mission", "locked", "settled", "shown", "payload", "error"], () => this.#follow());
    this.#follow();
  }

  /** Brings everything in line with the page; asks for a grid when another is due. */
  #follow() {
    if (!this.panel.open || document.hidden) return this.#stop();
    const { shown, settled, locked } = this.store.state;
    const knobs = this.#offer();
    this.body.hidden = knobs.length < 2;
    if (knobs.length < 2) return this.#stop();
    if (this.#flying && this.#flying.of !== this.#base()) this.#stop(); // what still comes is of another setup
    const committed = shown === settled && shown === this.session.query && !locked;
    if (committed && this.#inView && this.#isDue()) void this.#fill();
    this.#draw();
  }

  /** Knobs to choose from, and the two that are chosen: those that do something and may be moved. */
  #offer() {
    const { lab, changes, mission } = this.store.state;
    const { controls, missions, tiles } = this.session.lab;
    const levers = missions.find(({ id }) => id === mission)?.levers;
    const knobs = controls.filter(
      ({ name, kind, values, brings }) =>
        kind !== "text" &&
        (kind !== "select" || (values.length <= MOST_LISTED && !Object.keys(brings).length)) &&
        (levers?.includes(name) ?? true) &&
        !(changes["trace"] !== undefined && DRAWN_FIELDS.includes(name)) &&
        !this.session.isIdle(name, changes),
    );
    const names = knobs.map(({ name }) => name);
    const before = this.#chosen[lab];
    const x = [before?.x ?? "", ...FIRST.x, ...names].find((name) => names.includes(name)) ?? "";
    const y = [before?.y ?? "", ...FIRST.y, ...names].find((name) => names.includes(name) && name !== x) ?? "";
    this.#chosen[lab] = { x, y };
    fillSelect(this.x, knobs, x);
    fillSelect(this.y, knobs, y);
    if (!tiles.some(({ name }) => name === this.#metric))
      this.#metric = tiles.findLast(({ main, better }) => main && better === "lower")?.name ?? tiles[0]?.name ?? "";
    fillSelect(this.metric, tiles, this.#metric);
    return knobs;
  }

  /** @param {"x"|"y"|"metric"} what @param {string} name */
  #choose(what, name) {
    const { lab } = this.store.state;
    const { x, y } = this.#knobs();
    if (what === "metric") this.#metric = name;
    else if (name === (what === "x" ? y : x)) this.#chosen[lab] = { x: y, y: x };
    else this.#chosen[lab] = what === "x" ? { x: name, y } : { x, y: name };
    this.#follow();
    this.#tell(this.#told);
  }

  #knobs() {
    return this.#chosen[this.store.state.lab] ?? { x: "", y: "" };
  }

  /** The setup without the two knobs, and which they are. */
  #base() {
    const { lab, changes, mission } = this.store.state;
    const { x, y } = this.#knobs();
    const { [x]: _x, [y]: _y, ...rest } = changes;
    return [queryOf(lab, rest), x, y, mission].join(" ");
  }

  /** The same, and the knobs' values. */
  #key() {
    const { x, y } = this.#knobs();
    return [this.#base(), this.session.valueOf(x), this.session.valueOf(y)].join(" ");
  }

  /** Whether the setup at hand has no grid, or one that is not full, and nothing is on its way. */
  #isDue() {
    const key = this.#key();
    if (key === this.#failed.key) return false;
    if (this.#here() < 0) return this.#flying?.key !== key;
    return !this.#flying && this.#count() < this.#cells.length;
  }

  /** Place of the setup at hand, -1 for none. */
  #here() {
    if (!this.#start || this.#base() !== this.#of) return -1;
    const { x, y, here } = this.#start;
    const column = this.#placeOn(x, this.#asked.x, here.x);
    const row = this.#placeOn(y, this.#asked.y, here.y);
    return column < 0 || row < 0 ? -1 : column + row * x.values.length;
  }

  /** @param {import("./types.js").HeatAxis} axis @param {string} asked @param {number} here  of that text */
  #placeOn({ name, values }, asked, here) {
    const text = this.session.valueOf(name);
    const place = values.findIndex(({ value }) => value === text);
    return place >= 0 || text !== asked ? place : here;
  }

  async #fill() {
    this.#stop();
    const { x, y } = this.#knobs();
    const { mission } = this.store.state;
    const flying = { of: this.#base(), key: this.#key(), abort: new AbortController() };
    const asked = { x: this.session.valueOf(x), y: this.session.valueOf(y) };
    this.#flying = flying;
    const chosen = new URLSearchParams({ x, y, ...(mission !== null && { mission }) });
    try {
      const url = `api/heatmap?${this.session.query}&${chosen}`;
      /** @type {AsyncGenerator<import("./types.js").HeatLine, void, void>} */
      const found = lines(url, { signal: flying.abort.signal });
      for await (const line of found) {
        if (this.#flying !== flying) return;
        if (line.start) this.#begin(line.start, flying.of, asked);
        if (line.cell) this.#cells[line.cell.x + line.cell.y * (this.#grid?.columns ?? 0)] = line.cell;
        this.#soon();
      }
    } catch (reason) {
      if (this.#flying !== flying) return;
      this.#failed = { key: flying.key, why: reason instanceof Error ? reason.message : String(reason) };
    }
    this.#flying = null;
    this.#follow();
  }

  /** Nobody looks, or at something else; what is missing is asked for when somebody does. */
  #stop() {
    this.#flying?.abort.abort();
    this.#flying = null;
    this.#failed = { key: "", why: "" };
  }

  /** @param {HeatStart} start @param {string} base @param {{x: string, y: string}} asked */
  #begin(start, base, asked) {
    const same = base === this.#of && JSON.stringify([start.x, start.y]) === JSON.stringify([this.#start?.x, this.#start?.y]);
    this.#start = start;
    this.#of = base;
    this.#asked = asked;
    if (same) return; // it goes on
    const focused = this.#grid?.hasFocus;
    this.#cells = new Array(start.x.values.length * start.y.values.length).fill(undefined);
    this.#told = -1;
    this.#grid = new Grid(start, { load: (place) => this.#load(place), tell: (place) => this.#tell(place) });
    this.box.replaceChildren(this.#grid.element);
    const here = this.#here();
    this.#grid.aim(here);
    this.#grid.reveal(here);
    if (focused) this.#grid.focus();
  }

  #count() {
    return this.#cells.filter((cell) => cell !== undefined).length;
  }

  /** At most once a frame, however fast the cells come. */
  #soon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    const older = this.#start !== null && this.#base() !== this.#of;
    setText(this.status, this.#progress(older));
    if (!this.#grid) return;
    const { tile, figures, here, best: bestPlace } = this.#figures();
    const shades = levels(figures, tile.better);
    figures.forEach(({ text: figure }, place) => {
      const cell = this.#cells[place];
      const kind = !cell ? "pending" : cell.error === undefined ? "known" : "failed";
      const text = kind === "known" ? short(figure) : kind === "failed" ? "×" : "";
      const look = { text, kind, level: shades[place] ?? null, here: place === here, best: place === bestPlace };
      this.#grid?.show(place, look);
    });
    this.box.classList.toggle("older", older);
    this.#drawLegend(tile);
    if (this.#told >= 0) this.#tell(this.#told);
  }

  /** Of the metric that is chosen. */
  #figures() {
    const tile = /** @type {import("./types.js").Tile} */ (
      this.session.lab.tiles.find(({ name }) => name === this.#metric)
    );
    const figures = Array.from(this.#cells, (cell) => ({
      value: cell?.metrics?.[tile.name] ?? null,
      text: cell?.texts?.[tile.name] ?? "–",
    }));
    const values = figures.map(({ value }) => value);
    const here = this.#here();
    const columns = this.#start?.x.values.length ?? 1;
    const distance = (/** @type {number} */ place) =>
      Math.abs((place % columns) - (here % columns)) + Math.abs(Math.floor(place / columns) - Math.floor(here / columns));
    return { tile, figures, here, best: best(values, tile.better, distance) };
  }

  /** @param {boolean} older */
  #progress(older) {
    if (this.#failed.key === this.#key()) return this.#failed.why;
    if (older && this.store.state.error) return "This setup can't be run: the grid is of the one before.";
    if (older) return "This grid is of what was set before; it is filled again once the change is committed.";
    const [done, all] = [this.#count(), this.#cells.length];
    if (!all) return this.store.state.locked ? "The mission's question comes first." : "The first runs are on their way.";
    const [seed] = this.#start?.seeds ?? [];
    const runs = seed === undefined ? "One run per cell" : `One run per cell, with seed ${seed}`;
    const count = done < all ? `${done} of ${all} are done.` : `All ${all} are done.`;
    return `${runs}: its figures are those that the page shows once it is loaded. ${count}`;
  }

  /** @param {import("./types.js").Tile} tile */
  #drawLegend({ better }) {
    const [from, to] = better === null ? ["lowest", "highest"] : ["worst", "best"];
    if (this.legend.dataset["of"] === from) return;
    this.legend.dataset["of"] = from;
    const keys = Array.from({ length: LEVELS }, (_, level) => h("i", { class: `key heat level-${level}` }));
    this.legend.replaceChildren(
      h("li", {}, from, h("span", { class: "heat-keys" }, ...keys), `${to}, by rank`),
      ...(better === null ? [] : [h("li", {}, icon("star"), "the best, nearest to the setup")]),
      h("li", {}, h("i", { class: "key heat shown" }), "the setup shown"),
      h("li", {}, h("i", { class: "key heat pending" }), "not run yet"),
    );
  }

  /** @param {number} place */
  #tell(place) {
    const start = this.#start;
    if (!start || place < 0) return;
    this.#told = place;
    const columns = start.x.values.length;
    const { tile, here, best: bestPlace } = this.#figures();
    const { payload, shown } = this.store.state;
    const now = shown === this.session.query ? payload?.header.tiles[tile.name]?.text : undefined;
    setText(
      this.live,
      sentence({
        x: this.#named(start.x, place % columns),
        y: this.#named(start.y, Math.floor(place / columns)),
        label: tile.label,
        cell: this.#cells[place],
        metric: tile.name,
        here: place === here,
        best: place === bestPlace,
        now,
      }),
    );
  }

  /** @param {import("./types.js").HeatAxis} axis @param {number} place */
  #named({ name, label, unit, values }, place) {
    const control = this.session.lab.controls.find((each) => each.name === name);
    const text = values[place]?.value ?? "";
    const value = control ? labelOf(control, text) : text;
    return `${label} ${saysUnit(label, unit) ? value.replace(` ${unit}`, "") : value}`;
  }

  /** @param {number} place */
  #load(place) {
    const start = this.#start;
    if (!start || this.#cells[place]?.error !== undefined || this.store.state.locked) return;
    const columns = start.x.values.length;
    const [x, y] = [start.x.values[place % columns], start.y.values[Math.floor(place / columns)]];
    if (!x || !y) return;
    this.session.replace({ ...this.store.state.changes, [start.x.name]: x.value, [start.y.name]: y.value });
  }
}

/** @param {HTMLSelectElement} select @param {{name: string, label: string}[]} options @param {string} chosen */
function fillSelect(select, options, chosen) {
  const key = options.map(({ name }) => name).join(" ");
  if (select.dataset["of"] !== key) {
    select.dataset["of"] = key;
    select.replaceChildren(...options.map(({ name, label }) => h("option", { value: name }, label)));
  }
  select.value = chosen;
}
