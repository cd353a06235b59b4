/** One run as it comes from the server: a JSON header, then little-endian arrays that are used where they lie. */

/** @typedef {import("./types.js").Header} Header */

/** Low bits of an owner word; the rest is the request's id + 1. */
export const SHARED = 1;
export const COPIED = 2;

/** Words of blocks that no request owns, besides 0: content that can be hit again; what the engine keeps for itself. */
export const CACHED = 1;
export const KEPT = 2;

/** @param {number} word @returns {number|null} the request that owns a block; null where none does */
export function ownerOf(word) {
  return isOwned(word) ? (word >>> 2) - 1 : null;
}

/** @param {number} word */
export function isOwned(word) {
  return word > 3;
}

const EMPTY = new Float32Array(0);
const NONE = new Uint32Array(0);

/**
 * Who holds each block, at any of the moments kept. The server sends only what changed between two moments; this
 * walks forward from the nearest map that it has kept on the way.
 */
export class Snapshots {
  #every = 16;
  /** @type {Uint32Array[]} */
  #kept = [];
  #at = -1;

  /**
   * @param {number} size  units of memory
   * @param {Uint32Array} offset  of each moment's first run; one more at the end
   * @param {Uint32Array} runs  start, length, owner
   */
  constructor(size, offset, runs) {
    this.size = size;
    this.offset = offset;
    this.runs = runs;
    this.owner = new Uint32Array(size);
  }

  /**
   * The owners at a moment. The array is reused: the next call changes it.
   * @param {number} moment
   */
  at(moment) {
    const page = Math.min(Math.floor(moment / this.#every), this.#kept.length - 1);
    const start = page * this.#every;
    if (page >= 0 && (moment < this.#at || start > this.#at)) {
      this.owner.set(/** @type {Uint32Array} */ (this.#kept[page]));
      this.#at = start;
    }
    while (this.#at < moment) this.#step();
    return this.owner;
  }

  #step() {
    this.#at += 1;
    const { owner, offset, runs } = this;
    const end = 3 * (offset[this.#at + 1] ?? 0);
    for (let i = 3 * (offset[this.#at] ?? 0); i < end; i += 3) {
      const first = /** @type {number} */ (runs[i]);
      owner.fill(/** @type {number} */ (runs[i + 2]), first, first + /** @type {number} */ (runs[i + 1]));
    }
    if (this.#at === this.#kept.length * this.#every) this.#kept.push(owner.slice());
  }
}

/**
 * @typedef {object} Payload
 * @property {Header} header
 * @property {Record<"t"|"usage"|"queue"|"running"|"swapped"|"recomputes"|"swaps", Float32Array>} series
 * @property {Float32Array} moments  seconds of the snapshots
 * @property {Snapshots|null} blocks  null: a contiguous address space
 * @property {Snapshots|null} cpu
 * @property {{offset: Uint32Array, table: Uint32Array}|null} segments  start, reserved, used, owner
 * @property {import("./lane_index.js").LaneIndex} lanes
 */

import { LaneIndex } from "./lane_index.js";

/**
 * Reads a run.
 * @param {ArrayBuffer} buffer
 * @returns {Payload}
 */
export function decode(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < 8 || view.getUint32(0, false) !== 0x4b564c31) throw new Error("not a run of kvlab");
  const length = view.getUint32(4, true);
  /** @type {Header} */
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  /** @type {Map<string, {type: string, at: number, count: number}>} */
  const places = new Map();
  let at = 8 + length;
  for (const { name, type, count } of header.sections) {
    places.set(name, { type, at, count });
    at += 4 * Math.ceil((count * (type === "u16" ? 2 : 4)) / 4);
  }
  /** @param {string} name */
  const floats = (name) => {
    const place = places.get(name);
    return place ? new Float32Array(buffer, place.at, place.count) : EMPTY;
  };
  /** @param {string} name */
  const words = (name) => {
    const place = places.get(name);
    if (!place) return NONE;
    if (place.type === "u32") return new Uint32Array(buffer, place.at, place.count);
    return Uint32Array.from(new Uint16Array(buffer, place.at, place.count));
  };
  const blocks = once(() => new Snapshots(header.num_blocks, words("snap_offset"), words("runs")));
  const cpu = once(() => new Snapshots(header.num_cpu_blocks, words("cpu_offset"), words("cpu_runs")));
  const segments = once(() => ({ offset: words("seg_offset"), table: words("segments") }));
  const lanes = once(() => new LaneIndex(words("lanes")));
  return {
    header,
    series: {
      t: floats("t"),
      usage: floats("usage"),
      queue: floats("queue"),
      running: floats("running"),
      swapped: floats("swapped"),
      recomputes: floats("recomputes"),
      swaps: floats("swaps"),
    },
    moments: floats("snap_t"),
    get blocks() {
      return header.contiguous ? null : blocks();
    },
    get cpu() {
      return header.num_cpu_blocks ? cpu() : null;
    },
    get segments() {
      return header.contiguous ? segments() : null;
    },
    get lanes() {
      return lanes();
    },
  };
}

/**
 * What the chart has no use for is read when a view first asks for it: the chart is on the screen by then.
 * @template {object} T
 * @param {() => T} make
 * @returns {() => T}
 */
function once(make) {
  /** @type {T|undefined} */
  let made;
  return () => (made ??= make());
}

/**
 * The last of the sorted times that is not after `t`; 0 when all are.
 * @param {Float32Array} times
 * @param {number} t
 */
export function indexAt(times, t) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (/** @type {number} */ (times[middle]) <= t) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
