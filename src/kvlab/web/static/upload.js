/** A trace of the reader's own: dropped anywhere on the page or chosen, parsed by the local server, replayed. */

import { sendTrace } from "./api.js";
import { byId, h, icon } from "./dom.js";
import { whole } from "./format.js";
import { say } from "./toast.js";

/** @typedef {import("./types.js").State} State */

/** Settings of a trace, which this panel shows. */
export const TRACE_FIELDS = ["trace", "trace_from_ns", "trace_until_ns", "trace_speed"];
/** Settings of drawn traffic, which a trace takes the place of. */
export const DRAWN_FIELDS = [
  "request_rate",
  "arrivals",
  "max_concurrency",
  "num_requests",
  "prompt_tokens",
  "output_tokens",
  "longer_answers",
  "burst",
  "long_report_users",
];

const MIB = 2 ** 20;
const PARTS = /** @type {const} */ ([
  ["trace_from_ns", "From", "0 s"],
  ["trace_until_ns", "Until", "end"],
  ["trace_speed", "Speed", "1"],
]);

export class Upload {
  /** Names of the traces that this page has sent, by token. @type {Map<string, string>} */
  #names = new Map();
  #drawn = "";
  /** Files taken so far: of several at work, the last one is meant. */
  #taken = 0;

  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.store = store;
    this.box = byId("traffic");
    this.file = h("input", {
      type: "file",
      id: "trace-file",
      class: "sr-only",
      tabIndex: -1,
      "aria-label": "Trace file",
      change: () => this.#take(this.file.files?.[0]),
    });
    store.on(["changes", "lab", "mission"], () => this.#draw());
    addEventListener("dragover", (event) => this.#drag(event, true));
    addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) this.#drag(event, false);
    });
    addEventListener("drop", (event) => {
      this.#drag(event, false);
      if (event.dataTransfer) this.#dropped(event.dataTransfer);
    });
  }

  /** @param {DragEvent} event @param {boolean} over */
  #drag(event, over) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    document.body.classList.toggle("dropping", over);
  }

  /** @param {DataTransfer} data */
  #dropped({ files, items }) {
    const [file] = files;
    if (!file) return;
    if (this.store.state.mission !== null)
      return say("A mission brings its own traffic. Leave it, then drop the file.");
    if (files.length > 1) return this.#say(`One file at a time, please: these are ${files.length}.`, true);
    if (items[0]?.webkitGetAsEntry()?.isDirectory)
      return this.#say(`${file.name} is a folder: drop one file of it.`, true);
    void this.#take(file);
  }

  /** @param {File|undefined} file */
  async #take(file) {
    this.file.value = "";
    if (!file) return;
    const turn = ++this.#taken;
    const problem = this.#tooLarge(file);
    if (problem !== null) return this.#say(problem, true);
    this.#say(`Reading ${file.name} …`);
    try {
      const { trace, requests } = await sendTrace(file);
      if (turn !== this.#taken) return;
      this.#names.set(trace, `${file.name}, ${whole(requests)} requests`);
      const kept = Object.entries(this.store.state.changes).filter(
        ([name]) => !DRAWN_FIELDS.includes(name) && !TRACE_FIELDS.includes(name),
      );
      this.session.replace({ ...Object.fromEntries(kept), trace }, null);
    } catch (reason) {
      if (turn === this.#taken) this.#say(reason instanceof Error ? reason.message : String(reason), true);
    }
  }

  /** Known before a byte is sent. @param {File} file */
  #tooLarge({ name, size }) {
    const most = this.session.labs.most_trace_bytes;
    if (size <= most) return null;
    const [has, takes] = [size, most].map((bytes) => `${whole(Math.ceil(bytes / MIB))} MiB`);
    return `${name} has ${has}, the page takes at most ${takes}. Cut it with “kvlab trace cut”, or run it with “kvlab run --trace FILE”.`;
  }

  /** @param {string} text @param {boolean} [bad] */
  #say(text, bad = false) {
    const line = byId("trace-note");
    line.textContent = text;
    line.classList.toggle("bad", bad);
    if (bad) line.scrollIntoView({ block: "nearest" }); // the file may have been dropped far from it
  }

  #draw() {
    const { changes, mission } = this.store.state;
    const token = changes["trace"];
    this.box.hidden = mission !== null;
    const key = JSON.stringify([TRACE_FIELDS.map((name) => changes[name])]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    const note = h("p", { id: "trace-note", class: "note", role: "status" });
    const choose = h(
      "button",
      { type: "button", id: "trace-choose", click: () => this.file.click() },
      token ? "Another trace …" : "Replay a trace …",
    );
    if (token === undefined) {
      note.textContent = "Drop a file anywhere: Azure, Mooncake, BurstGPT, CSV or JSONL. It stays on this machine.";
      return this.box.replaceChildren(h("h3", {}, "Your traffic"), choose, this.file, note);
    }
    this.box.replaceChildren(
      h("h3", {}, "Your traffic"),
      h(
        "p",
        { class: "trace-name" },
        h("span", {}, this.#names.get(token) ?? "A trace of this link"),
        h(
          "button",
          {
            type: "button",
            class: "icon-button",
            id: "trace-drop",
            "aria-label": "Back to drawn traffic",
            click: () => this.#drop(),
          },
          icon("close"),
        ),
      ),
      h(
        "div",
        { class: "trace-parts" },
        ...PARTS.map(([name, label, empty]) =>
          h(
            "label",
            {},
            h("span", {}, label),
            h("input", {
              type: "text",
              value: changes[name] ?? "",
              placeholder: empty,
              id: `knob-${name}`,
              change: (/** @type {Event} */ event) =>
                this.#part(name, /** @type {HTMLInputElement} */ (event.target).value.trim()),
            }),
          ),
        ),
      ),
      choose,
      this.file,
      note,
    );
  }

  #drop() {
    const kept = Object.entries(this.store.state.changes).filter(([name]) => !TRACE_FIELDS.includes(name));
    this.session.replace(Object.fromEntries(kept));
  }

  /** @param {string} name @param {string} text */
  #part(name, text) {
    const { [name]: _, ...rest } = this.store.state.changes;
    this.session.replace(text ? { ...rest, [name]: text } : rest);
  }
}
