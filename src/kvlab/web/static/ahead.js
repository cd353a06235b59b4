/** What a reader is likely to ask for next: the stops that the slider would come to if it went on, or back. */

export class Ahead {
  #name = "";
  /** @type {string[]} */
  #stops = [];
  /** Of the newest run that was asked for. */
  #place = -1;

  /**
   * A slider was moved.
   * @param {string} name  of the setting
   * @param {string[]} stops  its values in order
   * @param {string} before  where it was
   */
  moved(name, stops, before) {
    if (name !== this.#name) this.#place = stops.indexOf(before);
    this.#name = name;
    this.#stops = stops;
  }

  /** Something else was changed, and nothing is known of what comes next. */
  forget() {
    this.#name = "";
  }

  /**
   * Next stops of the slider that was moved last, likeliest first, as the server wants them.
   * @param {import("./types.js").Changes} changes  those whose run is asked for now
   * @param {(name: string) => string} valueOf  a setting of theirs
   * @returns {string|null}  null: nothing is likely
   */
  guess(changes, valueOf) {
    if (!this.#name) return null;
    const place = this.#stops.indexOf(valueOf(this.#name));
    const step = place - this.#place;
    this.#place = place;
    if (place < 0 || !step || "trace" in changes) return null;
    return listed(this.#name, this.#stops, [place + step, place + 2 * step, place - step]);
  }
}

/**
 * The stops on both sides of a slider that was not moved yet.
 * @param {string} name  of the setting
 * @param {string[]} stops  its values in order
 * @param {string} text  where it is
 */
export function around(name, stops, text) {
  const place = stops.indexOf(text);
  return place < 0 ? null : listed(name, stops, [place - 1, place + 1]);
}

/** @param {string} name @param {string[]} stops @param {number[]} places  some may be off either end */
function listed(name, stops, places) {
  const params = new URLSearchParams();
  for (const value of places.map((at) => stops[at])) if (value !== undefined) params.append(name, value);
  return params.toString() || null;
}
