/** The lives of all requests: found by id, and by the moment when they were first admitted. */

export const STATES = /** @type {const} */ (["queued", "prefill", "decode", "paused", "swapped", "recomputing"]);
/** @typedef {typeof STATES[number]} LaneState */
/** @typedef {{state: LaneState, start: number, end: number}} Span  seconds */

/** What each state means, for legends and for the reader who can't see colours. */
export const STATE_TEXT = /** @type {Record<LaneState, string>} */ ({
  queued: "waiting in the queue",
  prefill: "reading its prompt (prefill)",
  decode: "streaming its answer (decode)",
  paused: "paused: it lost its memory and waits",
  swapped: "swapped out to the CPU",
  recomputing: "computing lost tokens again",
});

export class LaneIndex {
  /** Ids in order. @type {number[]} */
  ids = [];
  /** @type {Map<number, number>} */
  #place = new Map();
  /** @type {number[]} */
  #first = [];
  /** Per place, the latest that any request up to it was first admitted, in seconds. @type {number[]} */
  #admitted = [];

  /** @param {Uint32Array} rows  request id, state, start ms, end ms; sorted by id, then start */
  constructor(rows) {
    this.rows = rows;
    let latest = 0;
    for (let i = 0; i < rows.length; i += 4) {
      const id = /** @type {number} */ (rows[i]);
      if (this.ids.at(-1) !== id) {
        this.#place.set(id, this.ids.length);
        this.ids.push(id);
        this.#first.push(i);
        this.#admitted.push(Infinity);
      }
      const place = this.ids.length - 1;
      if (rows[i + 1] !== 0 && this.#admitted[place] === Infinity) {
        latest = Math.max(latest, /** @type {number} */ (rows[i + 2]) / 1000);
        this.#admitted[place] = latest;
      }
    }
    this.#first.push(rows.length);
  }

  /** @param {number} id @returns {number|undefined} its place among the ids */
  placeOf(id) {
    return this.#place.get(id);
  }

  /**
   * A life in order.
   * @param {number} id
   * @returns {Span[]}
   */
  spans(id) {
    const place = this.#place.get(id);
    if (place === undefined) return [];
    const spans = [];
    const end = this.#first[place + 1] ?? 0;
    for (let i = this.#first[place] ?? 0; i < end; i += 4) {
      const [, state = 0, start = 0, stop = 0] = this.rows.subarray(i, i + 4);
      spans.push({ state: STATES[state] ?? "queued", start: start / 1000, end: stop / 1000 });
    }
    return spans;
  }

  /**
   * What a request does at a moment; null before it arrives and after it ends.
   * @param {number} id
   * @param {number} t
   */
  spanAt(id, t) {
    return this.spans(id).findLast((span) => span.start <= t && t < span.end) ?? null;
  }

  /**
   * Place of the newest request that has been admitted by `t`: below it the queue, above it those who got in.
   * @param {number} t
   */
  frontier(t) {
    let low = 0;
    let high = this.#admitted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (/** @type {number} */ (this.#admitted[middle]) <= t) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }
}
