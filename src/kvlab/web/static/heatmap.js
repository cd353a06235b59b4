/** Two knobs against each other: a grid of setups around the one at hand, filled in as their runs come. */

import { queryOf } from "./api.js";
import { h, icon, setText } from "./dom.js";
import { Filling } from "./heatmap_fill.js";
import { Grid, saysUnit } from "./heatmap_grid.js";
import { offered, pair } from "./heatmap_knobs.js";
import { LEVELS, best, levels, sentence, short } from "./heatmap_scale.js";
import { labelOf } from "./knobs.js";

/** @typedef {import("./types.js").HeatAxis} HeatAxis */
/** @typedef {import("./types.js").Tile} Tile */

/** What is a screen away is filled already: it is there once somebody comes. */
const NEAR = { rootMargin: "100% 0px" };
const HINT = "Point at a cell to read it in full";

export class Heatmap {
  /** Chosen knobs of each lab. @type {Record<string, import("./heatmap_knobs.js").Pair>} */
  #chosen = {};
  #metric = "";
  /** Whose first goal was chosen as the figure. @type {string|null} */
  #mission = null;
  #lab = "";
  /** @type {Grid|null} */
  #grid = null;
  #inView = false;
  /** The cell that was pointed at last, -1 for none. */
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
    this.filling = new Filling({
      begun: () => this.#begin(),
      came: () => this.#soon(),
      ended: () => this.#follow(),
    });
    this.x = h("select", { id: "heat-x", change: () => this.#choose("x", this.x.value) });
    this.y = h("select", { id: "heat-y", change: () => this.#choose("y", this.y.value) });
    this.metric = h("select", { id: "heat-metric", change: () => this.#color(this.metric.value) });
    this.box = h("div", { id: "heat-grid" });
    this.status = h("p", { id: "heat-status", class: "note", role: "status" });
    this.live = h("p", { id: "heat-live", class: "live", role: "status" });
    this.legend = h("ul", { class: "legend", "aria-label": "Legend of the grid" });
    const fields = /** @type {const} */ ([
      ["Across", this.x],
      ["Upwards", this.y],
      ["Colour and figure", this.metric],
    ]);
    this.body = h(
      "div",
      { class: "heat-body" },
      h(
        "div",
        { class: "heat-fields" },
        ...fields.map(([label, select]) => h("div", {}, h("label", { for: select.id }, label), select)),
      ),
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
    }, NEAR).observe(panel);
    store.on(["lab", "changes", "mission", "locked", "settled", "shown", "payload", "error"], () => this.#follow());
    this.#follow();
  }

  /**
   * Brings everything in line with the page; asks for a grid when another is due.
   * @param {boolean} [seen]  whether somebody may be looking at it
   */
  #follow(seen = this.#inView) {
    if (!this.panel.open || document.hidden) return this.filling.stop();
    const { lab } = this.store.state;
    if (lab !== this.#lab) this.#clear(lab);
    const knobs = this.#offer();
    this.body.hidden = knobs.length < 2;
    if (knobs.length < 2) return this.filling.stop();
    const wish = this.#wish();
    this.filling.stop(wish);
    if (this.#isDone && seen) this.filling.want(wish);
    this.#draw();
  }

  /** Whether the setup at hand is meant, and its run is shown. */
  get #isDone() {
    const { shown, settled, locked } = this.store.state;
    return shown === settled && shown === this.session.query && !locked;
  }

  /** Whether the grid is of the knobs that are chosen. */
  get #isOfKnobs() {
    const { x, y } = this.#knobs;
    const { start } = this.filling;
    return start?.x.name === x && start.y.name === y;
  }

  /** Another lab has other knobs and figures. @param {string} lab */
  #clear(lab) {
    this.#lab = lab;
    this.#grid = null;
    this.#told = -1;
    this.filling.clear();
    this.box.replaceChildren();
    setText(this.live, "");
  }

  /** Shows the knobs and metrics to choose from, and what is chosen. */
  #offer() {
    const { tiles, missions } = this.session.lab;
    const { mission } = this.store.state;
    const knobs = offered(this.session);
    const { x, y } = (this.#chosen[this.#lab] = pair(knobs, this.#chosen[this.#lab]));
    fillSelect(this.x, knobs, x);
    fillSelect(this.y, knobs, y);
    if (mission !== this.#mission) {
      this.#mission = mission;
      const goals = missions.find(({ id }) => id === mission)?.goals ?? [];
      this.#metric = goals.find(({ metric }) => tiles.some(({ name }) => name === metric))?.metric ?? this.#metric;
    }
    if (!tiles.some(({ name }) => name === this.#metric))
      this.#metric = tiles.findLast(({ main, better }) => main && better === "lower")?.name ?? tiles[0]?.name ?? "";
    fillSelect(this.metric, tiles, this.#metric);
    return knobs;
  }

  /** @param {"x"|"y"} axis @param {string} name  of the other axis' knob: they change places */
  #choose(axis, name) {
    const { x, y } = this.#knobs;
    const swapped = name === (axis === "x" ? y : x);
    this.#chosen[this.#lab] = swapped ? { x: y, y: x } : axis === "x" ? { x: name, y } : { x, y: name };
    this.#follow(true);
  }

  /** @param {string} metric */
  #color(metric) {
    this.#metric = metric;
    this.#draw();
  }

  get #knobs() {
    return this.#chosen[this.#lab] ?? { x: "", y: "" };
  }

  /** The grid of the setup at hand. @returns {import("./heatmap_fill.js").Wish} */
  #wish() {
    const { lab, changes, mission } = this.store.state;
    const { x, y } = this.#knobs;
    const { [x]: _x, [y]: _y, ...rest } = changes;
    const chosen = new URLSearchParams({ x, y, ...(mission !== null && { mission }) }).toString();
    return {
      of: `${queryOf(lab, rest)}&${chosen}`,
      x: this.session.valueOf(x),
      y: this.session.valueOf(y),
      url: `api/heatmap?${this.session.query}&${chosen}`,
    };
  }

  /** Another grid is being filled: nothing of it is there yet. */
  #begin() {
    const { start } = this.filling;
    if (!start) return;
    const focused = this.#grid?.hasFocus;
    this.#told = -1;
    this.#grid = new Grid(start, { load: (place) => this.#load(place), tell: (place) => this.#tell(place) });
    this.box.replaceChildren(this.#grid.element);
    const here = this.filling.here(this.#wish());
    this.#grid.aim(here);
    this.#grid.reveal(here);
    if (focused) this.#grid.focus();
  }

  /** At most once a frame, however fast the cells come. */
  #soon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    setText(this.status, this.#progress());
    if (!this.#grid) return;
    const { tile, figures, here, top } = this.#figures();
    const shades = levels(figures, tile.better);
    figures.forEach(({ text: figure }, place) => {
      const cell = this.filling.cells[place];
      const kind = !cell ? "pending" : cell.error === undefined ? "known" : "failed";
      const text = kind === "known" ? short(figure) : kind === "failed" ? "×" : "";
      const look = { text, kind, level: shades[place] ?? null, here: place === here, best: place === top };
      this.#grid?.show(place, look);
    });
    const isNow = this.filling.isOf(this.#wish());
    this.box.classList.toggle("older", !isNow);
    this.box.classList.toggle("void", !this.#isOfKnobs);
    this.#drawLegend(tile);
    if (!this.#isOfKnobs) setText(this.live, "");
    else if (this.#told >= 0) this.#tell(this.#told);
    else setText(this.live, isNow ? `${HINT}; a click or Enter loads it.` : `${HINT}.`);
  }

  /** Of the metric that is chosen; `top` is the place of the best. */
  #figures() {
    const { cells, columns } = this.filling;
    const tile = /** @type {Tile} */ (this.session.lab.tiles.find(({ name }) => name === this.#metric));
    const figures = Array.from(cells, (cell) => ({
      value: cell?.metrics?.[tile.name] ?? null,
      text: cell?.texts?.[tile.name] ?? "–",
    }));
    const here = this.filling.here(this.#wish());
    const [column, row] = [here % columns, Math.floor(here / columns)];
    const away = (/** @type {number} */ place) =>
      Math.abs((place % columns) - column) + Math.abs(Math.floor(place / columns) - row);
    const top = best(
      figures.map(({ value }) => value),
      tile.better,
      away,
    );
    return { tile, figures, here, top };
  }

  #progress() {
    const { error, locked } = this.store.state;
    const { start, cells, count } = this.filling;
    const wish = this.#wish();
    const whyNot = this.filling.whyNot(wish);
    if (whyNot !== null) return whyNot;
    if (locked) return "The mission's question comes first.";
    if (!start) return "The first runs are on their way.";
    if (!this.filling.isOf(wish)) return this.#older(error !== null);
    const [seed] = start.seeds;
    const runs = seed === undefined ? "One run per cell" : `One run per cell, with seed ${seed}`;
    const done = count < cells.length ? `${count} of ${cells.length} are done.` : `All ${count} are done.`;
    return `${runs}: its figures are those that the page shows once it is loaded. ${done}`;
  }

  /** What is said of a grid of another setup. @param {boolean} failed  the setup at hand has no run */
  #older(failed) {
    const of = this.#isOfKnobs;
    if (failed) return `This setup can't be run: ${of ? "the grid is of the one before" : "there is no grid of it"}.`;
    const due = this.filling.isFilling || this.#inView ? "in a moment" : "when it is in view";
    const when = this.#isDone ? due : "when the change is done";
    return of ? `This grid is of what was set before. It fills again ${when}.` : `The grid fills ${when}.`;
  }

  /** @param {Tile} tile */
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
    const { start, cells, columns } = this.filling;
    if (!start) return;
    this.#told = place;
    const { tile, here, top } = this.#figures();
    const { payload, shown } = this.store.state;
    const now = shown === this.session.query ? payload?.header.tiles[tile.name]?.text : undefined;
    setText(
      this.live,
      sentence({
        x: this.#named(start.x, place % columns),
        y: this.#named(start.y, Math.floor(place / columns)),
        label: tile.label,
        cell: cells[place],
        metric: tile.name,
        here: place === here,
        best: place === top,
        now,
      }),
    );
  }

  /** @param {HeatAxis} axis @param {number} place */
  #named({ name, label, unit, values }, place) {
    const control = this.session.lab.controls.find((each) => each.name === name);
    const text = values[place]?.value ?? "";
    const value = control ? labelOf(control, text) : text;
    return `${label} ${saysUnit(label, unit) ? value.replace(` ${unit}`, "") : value}`;
  }

  /** @param {number} place */
  #load(place) {
    const { start, cells, columns } = this.filling;
    const [x, y] = [start?.x.values[place % columns], start?.y.values[Math.floor(place / columns)]];
    if (!start || !x || !y || cells[place]?.error !== undefined || !this.filling.isOf(this.#wish())) return;
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
