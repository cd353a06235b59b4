/**
 * KV usage, queue and preemptions over the whole run. The static picture is drawn once per run; the moment shown is a
 * line on a second canvas above it.
 */

import { GUTTER, font, onSize, surface, tickStep } from "./canvas.js";
import { byId } from "./dom.js";
import { percent, whole } from "./format.js";
import { indexAt } from "./payload.js";
import { colorsOf } from "./theme.js";

/** @typedef {import("./payload.js").Payload} Payload */
/** @typedef {import("./theme.js").Colors} Colors */
/** @typedef {import("./types.js").Band} Band */
/** @typedef {{left: number, right: number, top: number, bottom: number, end: number, most: number}} Plot */

/** A run in which nothing happens still has an axis. */
const SHORTEST_S = 10;
const TICK = 7;
const TICK_PER_EVENT = 4;
const MOST_EVENTS = 6;
/** Above the plot, for the words over bands. */
const HEAD = 22;
/** A bar stands on each band, apart from a curve at 100 %. */
const BAR = 2;
const BAR_GAP = 3;

export class Chart {
  #size = { width: 0, height: 0 };
  /** @type {Plot} */
  #plot = { left: 0, right: 0, top: 0, bottom: 0, end: 1, most: 1 };

  /**
   * @param {import("./store.js").Store} store
   * @param {string} id  of the element that holds the two canvases
   * @param {boolean} compact  without axes, for the strip of phones
   */
  constructor(store, id, compact) {
    this.store = store;
    this.box = byId(id);
    this.compact = compact;
    const [picture, line] = this.box.querySelectorAll("canvas");
    this.picture = /** @type {HTMLCanvasElement} */ (picture);
    this.line = /** @type {HTMLCanvasElement} */ (line);
    onSize(this.box, (width, height) => {
      this.#size = { width, height };
      this.#draw();
    });
    store.on(["payload", "pin", "theme"], () => this.#draw());
    store.on(["t"], () => this.#mark());
  }

  #draw() {
    const { payload, pin, theme } = this.store.state;
    const { width, height } = this.#size;
    if (!payload || !width) return;
    const colors = colorsOf(theme);
    const { context } = surface(this.picture, width, height);
    const runs = pin ? [payload, pin.payload] : [payload];
    const top = Math.max(...runs.map(({ series }) => series.queue.reduce((a, b) => Math.max(a, b), 4)));
    const step = tickStep(top, 4);
    const gutter = this.compact ? 0 : GUTTER;
    this.#plot = {
      left: gutter,
      right: width - gutter,
      top: this.compact ? 2 : HEAD,
      bottom: height - (this.compact ? 2 : 22),
      end: Math.max(...runs.map(({ header }) => header.end_s), SHORTEST_S),
      most: this.compact ? top : step * Math.ceil(top / step),
    };
    this.#bands(context, colors, bandsOf(payload, this.#plot.end));
    if (!this.compact) this.#axes(context, colors, step);
    if (pin) this.#pinned(context, colors, pin.payload);
    this.#usage(context, colors, payload);
    this.#queue(context, colors, payload);
    this.#preemptions(context, colors, payload);
    if (!this.compact) this.picture.setAttribute("aria-label", describe(payload));
    this.#mark();
  }

  /** @param {number} t */
  #x(t) {
    const { left, right, end } = this.#plot;
    return left + (t / end) * (right - left);
  }

  /** @param {number} share  of the plot's height */
  #y(share) {
    const { top, bottom } = this.#plot;
    return bottom - share * (bottom - top);
  }

  /**
   * Shaded stretches of time, each with a bar on top and a word above it where there is room for it.
   * @param {CanvasRenderingContext2D} context
   * @param {Colors} colors
   * @param {Band[]} bands  in order of time
   */
  #bands(context, colors, bands) {
    const { bottom, top, right } = this.#plot;
    context.font = font(11);
    context.textAlign = "left";
    context.textBaseline = "bottom";
    const bar = this.compact ? 0 : top - BAR_GAP - BAR;
    let free = 0;
    for (const { from_s, to_s, label } of bands) {
      const [from, to] = [this.#x(from_s), this.#x(to_s)];
      context.fillStyle = colors.band;
      context.fillRect(from, bar, to - from, bottom - bar);
      context.fillStyle = colors.faint;
      context.fillRect(from, bar, to - from, BAR);
      const { width } = context.measureText(label);
      const at = Math.min(from, right - width);
      if (this.compact || at < free) continue;
      context.fillStyle = colors.muted;
      context.fillText(label, at, bar - 2);
      free = at + width + 8;
    }
  }

  /**
   * Grid and labels.
   * @param {CanvasRenderingContext2D} context
   * @param {Colors} colors
   * @param {number} step  of the queue's axis
   */
  #axes(context, colors, step) {
    const { left, right, bottom, end, most } = this.#plot;
    context.font = font(11);
    context.textBaseline = "middle";
    context.strokeStyle = colors.line;
    context.lineWidth = 1;
    for (let quarter = 0; quarter <= 4; quarter++) {
      const y = Math.round(this.#y(quarter / 4)) + 0.5;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(right, y);
      context.stroke();
      context.textAlign = "right";
      context.fillStyle = colors.used;
      context.fillText(`${quarter * 25} %`, left - 8, y);
    }
    context.textAlign = "left";
    context.fillStyle = colors.queue;
    for (let value = 0; value <= most; value += step) context.fillText(whole(value), right + 8, this.#y(value / most));
    context.fillStyle = colors.muted;
    context.textAlign = "center";
    const every = tickStep(end, Math.max(2, Math.min(10, (right - left) / 70)));
    for (let t = 0; t <= end; t += every) context.fillText(`${whole(t)} s`, this.#x(t), bottom + 13);
  }

  /** @param {CanvasRenderingContext2D} context @param {Colors} colors @param {Payload} payload */
  #usage(context, colors, { series, header }) {
    const { bottom } = this.#plot;
    this.#trace(context, series.t, series.usage, 1, header.end_s);
    context.strokeStyle = colors.used;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(this.#x(header.end_s), bottom);
    context.lineTo(this.#x(0), bottom);
    context.fillStyle = colors["used-fill"];
    context.fill();
  }

  /** @param {CanvasRenderingContext2D} context @param {Colors} colors @param {Payload} payload */
  #queue(context, colors, { series, header }) {
    this.#trace(context, series.t, series.queue, this.#plot.most, header.end_s);
    context.strokeStyle = colors.queue;
    context.lineWidth = 1.75;
    context.stroke();
  }

  /**
   * Both curves of the pinned run, dashed.
   * @param {CanvasRenderingContext2D} context
   * @param {Colors} colors
   * @param {Payload} payload
   */
  #pinned(context, colors, { series, header }) {
    context.strokeStyle = colors.pinned;
    context.lineWidth = 1.25;
    context.setLineDash([5, 3]);
    this.#trace(context, series.t, series.usage, 1, header.end_s);
    context.stroke();
    context.setLineDash([2, 3]);
    this.#trace(context, series.t, series.queue, this.#plot.most, header.end_s);
    context.stroke();
    context.setLineDash([]);
  }

  /**
   * A path through all points; a value holds until the next.
   * @param {CanvasRenderingContext2D} context
   * @param {Float32Array} times
   * @param {Float32Array} values
   * @param {number} most
   * @param {number} end
   */
  #trace(context, times, values, most, end) {
    context.beginPath();
    for (let i = 0; i < times.length; i++) {
      context.lineTo(this.#x(/** @type {number} */ (times[i])), this.#y(/** @type {number} */ (values[i]) / most));
    }
    if (times.length) context.lineTo(this.#x(end), this.#y((values.at(-1) ?? 0) / most));
  }

  /**
   * Ticks from the top: plain for recompute, with a dot at its end for swap.
   * @param {CanvasRenderingContext2D} context
   * @param {Colors} colors
   * @param {Payload} payload
   */
  #preemptions(context, colors, { series }) {
    const { top } = this.#plot;
    const scale = this.compact ? 0.5 : 1;
    for (let i = 0; i < series.t.length; i++) {
      const x = this.#x(/** @type {number} */ (series.t[i]));
      let from = top;
      for (const [counts, color, dot] of /** @type {const} */ ([
        [series.recomputes, colors.recompute, false],
        [series.swaps, colors.swap, true],
      ])) {
        const count = counts[i] ?? 0;
        if (!count) continue;
        const to = from + scale * (TICK + TICK_PER_EVENT * Math.min(count, MOST_EVENTS));
        context.fillStyle = color;
        context.fillRect(x - 0.75, from, 1.5, to - from);
        if (dot) {
          context.beginPath();
          context.arc(x, to, 2.25 * scale, 0, 2 * Math.PI);
          context.fill();
        }
        from = to;
      }
    }
  }

  /** The moment shown: a dashed line, and a dot on each curve. */
  #mark() {
    const { payload, t, theme } = this.store.state;
    const { width, height } = this.#size;
    if (!payload || !width) return;
    const colors = colorsOf(theme);
    const { context } = surface(this.line, width, height);
    const { top, bottom, most } = this.#plot;
    const x = this.#x(t);
    context.strokeStyle = colors.ink;
    context.lineWidth = 1.5;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, top - 2);
    context.lineTo(x, bottom);
    context.stroke();
    context.setLineDash([]);
    const place = indexAt(payload.series.t, t);
    for (const [values, color, scale] of /** @type {const} */ ([
      [payload.series.usage, colors.used, 1],
      [payload.series.queue, colors.queue, most],
    ])) {
      context.beginPath();
      context.arc(x, this.#y((values[place] ?? 0) / scale), 3.5, 0, 2 * Math.PI);
      context.fillStyle = color;
      context.fill();
      context.strokeStyle = colors.panel;
      context.stroke();
    }
  }
}

/**
 * What is marked in the chart: events, and the time after the last arrival.
 * @param {Payload} payload
 * @param {number} end  of the chart, in s
 * @returns {Band[]}
 */
function bandsOf({ header }, end) {
  const { bands, window_s } = header;
  const after = window_s === null ? [] : [{ from_s: window_s, to_s: end, label: "arrivals stop" }];
  return [...bands, ...after]
    .filter(({ from_s }) => from_s < end)
    .map((band) => ({ ...band, to_s: Math.min(band.to_s, end) }));
}

/** What the chart shows, in a sentence. @param {Payload} payload */
function describe({ series, header }) {
  const full =
    series.usage.reduce((count, share) => count + Number(share >= 0.999), 0) / Math.max(1, series.usage.length);
  /** @param {Float32Array} values */
  const sum = (values) => whole(values.reduce((a, b) => a + b, 0));
  const most = series.queue.reduce((a, b) => Math.max(a, b), 0);
  const events = header.bands.map(({ from_s, to_s, label }) => ` Marked: ${label} from ${from_s} to ${to_s} s.`);
  const preemptions = `${sum(series.recomputes)} preemptions by recompute, ${sum(series.swaps)} by swap`;
  return (
    `Chart of ${Math.round(header.end_s)} seconds: KV memory is full for ${percent(full)} of the time, ` +
    `the queue holds up to ${whole(most)} requests; ${preemptions}.${events.join("")}`
  );
}
