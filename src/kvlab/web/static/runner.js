/** One run in flight, the latest wins: what is asked for meanwhile is run next, what lies between is never run. */

/** A run that took longer than this is given up for a committed newer one; a quicker one is shown on the way. */
const PATIENCE_MS = 1000;

/** @template T */
export class Runner {
  /** @type {string|null} */
  #flying = null;
  /** @type {string|null} */
  #next = null;
  #abort = new AbortController();
  #since = 0;

  /**
   * @param {(query: string, signal: AbortSignal) => Promise<T>} run
   * @param {{done: (result: T, query: string) => void, failed: (reason: unknown, query: string) => void,
   *   busy: (busy: boolean) => void}} tell
   */
  constructor(run, tell) {
    this.run = run;
    this.tell = tell;
  }

  /**
   * Asks for a run.
   * @param {string} query
   * @param {boolean} now  do not wait for long for an older one: it is of little use any more
   */
  want(query, now) {
    if (query === this.#flying) {
      this.#next = null;
      return;
    }
    this.#next = query;
    if (this.#flying === null) void this.#fly();
    else if (now && performance.now() - this.#since > PATIENCE_MS) this.#abort.abort();
  }

  async #fly() {
    this.tell.busy(true);
    while (this.#next !== null) {
      const query = this.#next;
      this.#flying = query;
      this.#next = null;
      this.#since = performance.now();
      this.#abort = new AbortController();
      try {
        this.tell.done(await this.run(query, this.#abort.signal), query);
      } catch (reason) {
        if (!this.#abort.signal.aborted) this.tell.failed(reason, query);
      }
    }
    this.#flying = null;
    this.tell.busy(false);
  }
}
