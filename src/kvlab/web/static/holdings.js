/** Who holds how much memory at one moment, in numbers and in words. */

import { percent, whole } from "./format.js";
import { CACHED, KEPT, SHARED, isOwned, ownerOf } from "./payload.js";

/** @typedef {import("./payload.js").Payload} Payload */

const NOTHING = new Uint32Array(0);

export class Holdings {
  /** @param {Payload} payload @param {number} moment  index of the snapshot */
  constructor(payload, moment) {
    this.size = payload.header.num_blocks;
    this.blocks = payload.blocks?.at(moment) ?? NOTHING;
    this.cpu = payload.cpu?.at(moment) ?? NOTHING;
    const { offset, table } = payload.segments ?? { offset: NOTHING, table: NOTHING };
    /** Rows of start, reserved, used, owner: a contiguous address space has these, and no blocks. */
    this.segments = table.subarray(4 * (offset[moment] ?? 0), 4 * (offset[moment + 1] ?? 0));
    this.contiguous = payload.header.contiguous;
  }

  /** @param {number} place  block or token @param {boolean} onCpu @returns {number|null} */
  ownerAt(place, onCpu) {
    if (!this.contiguous) return ownerOf((onCpu ? this.cpu : this.blocks)[place] ?? 0);
    for (const { start, reserved, owner } of this.rows()) {
      if (place >= start && place < start + reserved) return owner;
    }
    return null;
  }

  *rows() {
    for (let i = 0; i < this.segments.length; i += 4) {
      const [start = 0, reserved = 0, used = 0, word = 0] = this.segments.subarray(i, i + 4);
      yield { start, reserved, used, owner: ownerOf(word) };
    }
  }

  /** @param {number|null} id @returns {id is number} whether that request has any memory now */
  has(id) {
    if (id === null) return false;
    if (this.contiguous) return [...this.rows()].some(({ owner }) => owner === id);
    return countOf(this.blocks, id) + countOf(this.cpu, id) > 0;
  }

  /** What a block is that no request owns. @param {number} place */
  unowned(place) {
    const word = this.contiguous ? 0 : (this.blocks[place] ?? 0);
    if (word === CACHED) return "free, with content that can be used again";
    return word === KEPT ? "never handed out" : "free";
  }

  /** What one request holds. @param {number} id */
  held(id) {
    if (this.contiguous) {
      let [reserved, used] = [0, 0];
      for (const row of this.rows()) {
        if (row.owner !== id) continue;
        reserved += row.reserved;
        used += row.used;
      }
      return `${whole(reserved)} tokens reserved, ${whole(used)} of them used`;
    }
    const copies = countOf(this.cpu, id);
    return `${whole(countOf(this.blocks, id))} blocks${copies ? `, ${whole(copies)} on the CPU` : ""}`;
  }

  /** What all hold together. */
  total() {
    return this.contiguous ? this.#totalTokens() : this.#totalBlocks();
  }

  #totalTokens() {
    let [reserved, used, end, hole] = [0, 0, 0, 0];
    for (const row of this.rows()) {
      hole = Math.max(hole, row.start - end);
      end = row.start + row.reserved;
      reserved += row.reserved;
      used += row.used;
    }
    hole = Math.max(hole, this.size - end);
    /** @param {number} tokens */
    const share = (tokens) => percent(tokens / this.size);
    const free = `${share(this.size - reserved)} is free; the largest hole has ${whole(hole)} tokens.`;
    return `${share(used)} holds tokens, ${share(reserved - used)} is reserved but unused, ${free}`;
  }

  #totalBlocks() {
    let [held, free, cached, shared] = [0, 0, 0, 0];
    const requests = new Set();
    for (const word of this.blocks) {
      if (isOwned(word)) {
        requests.add(word >>> 2);
        held += 1;
        shared += word & SHARED;
      } else if (word !== KEPT) {
        free += 1;
        if (word === CACHED) cached += 1;
      }
    }
    const hits = cached ? ` (${whole(cached)} of them with content that can be used again)` : "";
    const both = shared ? `, ${whole(shared)} are shared` : "";
    return `${whole(requests.size)} requests hold ${whole(held)} blocks, ${whole(free)} are free${hits}${both}.`;
  }
}

/** @param {Uint32Array} words @param {number} id */
function countOf(words, id) {
  let count = 0;
  for (const word of words) if (word >>> 2 === id + 1) count += 1;
  return count;
}
