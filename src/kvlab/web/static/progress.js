/** Which missions are solved, and how well: kept in this browser, handed over as a link or a file. */

const KEY = "kvlab.missions";
const VERSION = 1;
const MOST_STARS = 3;

/** @typedef {{version: number, stars: Record<string, number>, guesses: Record<string, number>, ask: boolean}} Saved */

export class Progress {
  /** @param {Iterable<string>} ids  of all missions: others are not taken in */
  constructor(ids) {
    this.ids = new Set(ids);
    this.saved = this.#read();
  }

  /** @param {string} id @returns {number} 0 as long as it isn't solved */
  stars(id) {
    return this.saved.stars[id] ?? 0;
  }

  /** @param {string} id @returns {number|undefined} index of the option */
  guess(id) {
    return this.saved.guesses[id];
  }

  /** @param {string} id @param {number} option  -1: the reader would not guess */
  setGuess(id, option) {
    this.saved.guesses[id] = option;
    this.#write();
  }

  /** @param {string} id */
  forgetGuess(id) {
    delete this.saved.guesses[id];
    this.#write();
  }

  /** @param {string} id @param {number} stars @returns {boolean} whether that is better than before */
  award(id, stars) {
    if (stars <= this.stars(id)) return false;
    this.saved.stars[id] = stars;
    this.#write();
    return true;
  }

  /** @param {boolean} ask  for a guess before a mission */
  setAsk(ask) {
    this.saved.ask = ask;
    this.#write();
  }

  reset() {
    this.saved = { ...nothing(), ask: this.saved.ask };
    this.#write();
  }

  /** As a short text for links. */
  toText() {
    return Object.entries(this.saved.stars)
      .map(([id, stars]) => `${id}.${stars}`)
      .join("_");
  }

  toJson() {
    return JSON.stringify({ kvlab_progress: VERSION, stars: this.saved.stars }, null, 2);
  }

  /** Takes over what is better than what is here. @param {string} text @returns {number} missions that got better */
  addText(text) {
    return this.#add(
      text.split("_").map((part) => {
        const dot = part.lastIndexOf(".");
        return [part.slice(0, dot), Number(part.slice(dot + 1))];
      }),
    );
  }

  /** The same from a file. @param {string} text @returns {number} @throws {Error} not such a file */
  addJson(text) {
    let document;
    try {
      document = JSON.parse(text);
    } catch {
      throw new Error("This file is not JSON.");
    }
    if (document?.kvlab_progress !== VERSION || typeof document.stars !== "object" || document.stars === null) {
      throw new Error("This file holds no mission progress of kvlab.");
    }
    return this.#add(Object.entries(document.stars));
  }

  /** @param {unknown[][]} entries */
  #add(entries) {
    let better = 0;
    for (const [id, stars] of entries) {
      if (typeof id === "string" && this.ids.has(id) && isStars(stars) && this.award(id, stars)) better += 1;
    }
    return better;
  }

  /** @returns {Saved} */
  #read() {
    try {
      const found = JSON.parse(localStorage.getItem(KEY) ?? "null");
      if (found?.version === VERSION) return { ...nothing(), ...found };
    } catch {
      // what can't be read counts as nothing
    }
    return nothing();
  }

  #write() {
    try {
      localStorage.setItem(KEY, JSON.stringify(this.saved));
    } catch {
      // a browser that keeps nothing still plays
    }
  }
}

/** @returns {Saved} */
function nothing() {
  return { version: VERSION, stars: {}, guesses: {}, ask: true };
}

/** @param {unknown} value @returns {value is number} */
function isStars(value) {
  return typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= MOST_STARS;
}
