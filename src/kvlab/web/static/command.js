/** A `vllm serve` command that the reader pastes: its flags as settings, and what became of each. */

import { fetchCommand } from "./api.js";
import { byId, h } from "./dom.js";

/** @typedef {import("./types.js").Pasted} Pasted */

export class Command {
  #field = h("textarea", {
    id: "command-text",
    rows: 3,
    spellcheck: false,
    "aria-label": "Command of your server",
    placeholder: "vllm serve Qwen/Qwen3-8B --max-num-seqs 128 …",
  });
  #said = h("div", { id: "command-said", class: "said", role: "status" });

  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.store = store;
    const take = h("button", { type: "button", id: "command-take", click: () => this.#take() }, "Take over");
    const box = byId("command");
    box.append(h("summary", {}, h("h3", {}, "Paste a command")), this.#field, take, this.#said);
    store.on(["lab"], () => (box.hidden = !("model" in session.lab.defaults)));
  }

  async #take() {
    const text = this.#field.value.trim();
    if (!text) return this.#field.focus();
    try {
      this.#show(await fetchCommand(text, this.session.valueOf("gpu")));
    } catch (reason) {
      this.#said.replaceChildren(h("p", { class: "note bad" }, reason instanceof Error ? reason.message : ""));
    }
  }

  /** The traffic stays; the server is the command's. @param {Pasted} pasted */
  #show({ changes, mapped, noted, ignored, assumed }) {
    const traffic = new Set(this.session.labs.traffic_fields);
    const kept = Object.entries(this.store.state.changes).filter(([name]) => traffic.has(name));
    this.session.replace({ ...Object.fromEntries(kept), ...changes }, null);
    this.#said.replaceChildren(
      ...part("Taken", mapped, ({ from, setting, value }) => `${from}: ${setting} = ${value}`),
      ...part("Not simulated", noted, ({ from, why }) => `${from}: ${why}`),
      ...part("Without effect here", ignored, ({ from, why }) => `${from}: ${why}`),
      ...part("Assumed", assumed, ({ setting, value, why }) => `${setting} = ${value}: ${why}`),
    );
  }
}

/**
 * A heading and a list; nothing where the list is empty.
 * @template T
 * @param {string} title
 * @param {T[]} entries
 * @param {(entry: T) => string} show
 */
function part(title, entries, show) {
  return entries.length
    ? [h("p", { class: "price" }, h("b", {}, title)), h("ul", {}, ...entries.map((entry) => h("li", {}, show(entry))))]
    : [];
}
