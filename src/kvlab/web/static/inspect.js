/** The picked request: its block tables, logical to physical, and what happened to it. */

import { fetchRequest } from "./api.js";
import { byId, h, icon } from "./dom.js";
import { moment, whole } from "./format.js";
import { css, hueOf } from "./hues.js";
import { indexAt } from "./payload.js";
import { colorsOf, isDark } from "./theme.js";

/** @typedef {import("./types.js").RequestDetail} RequestDetail */

export class Inspect {
  #abort = new AbortController();
  /** @type {number|undefined} */
  #timer;

  /**
   * @param {import("./session.js").Session} session
   * @param {import("./store.js").Store} store
   * @param {import("./playback.js").Playback} playback
   */
  constructor(session, store, playback) {
    this.session = session;
    this.store = store;
    this.playback = playback;
    this.panel = byId("inspect");
    store.on(["picked", "payload", "t"], (_, changed) => this.#ask(changed.has("picked")));
  }

  /** Asks for the request at the moment shown; while the moment moves, a few times a second. @param {boolean} now */
  #ask(now) {
    const { picked, payload } = this.store.state;
    if (picked === null || !payload) {
      this.panel.hidden = true;
      this.store.set({ block: null });
      return;
    }
    if (now) clearTimeout(this.#timer);
    else if (this.#timer !== undefined) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        void this.#load();
      },
      now ? 0 : 150,
    );
  }

  async #load() {
    const { picked, payload, t: shown } = this.store.state;
    if (picked === null || !payload) return;
    const t = payload.moments[indexAt(payload.moments, shown)] ?? shown; // the moment of the map, so that both agree
    this.#abort.abort();
    this.#abort = new AbortController();
    try {
      const detail = await fetchRequest(this.session.query, picked, Number(t.toFixed(4)), this.#abort.signal);
      if (this.store.state.picked === picked) this.#show(detail);
    } catch (reason) {
      if (reason instanceof DOMException) return;
      this.panel.hidden = false;
      this.panel.replaceChildren(
        this.#head(`Request ${picked}`),
        h("p", {}, reason instanceof Error ? reason.message : ""),
      );
    }
  }

  /** @param {string} title */
  #head(title) {
    const { picked, theme } = this.store.state;
    const swatch = h("i", { class: "swatch" });
    swatch.style.background = css(hueOf(picked ?? 0, isDark(colorsOf(theme))));
    return h(
      "div",
      { class: "panel-head" },
      h("h2", { id: "inspect-title" }, swatch, title),
      h(
        "button",
        { type: "button", class: "icon-button", "aria-label": "Close the block table", click: () => this.#close() },
        icon("close"),
      ),
    );
  }

  #close() {
    this.store.set({ picked: null });
    byId("map").focus({ preventScroll: true });
  }

  /** @param {RequestDetail} detail */
  #show(detail) {
    this.panel.hidden = false;
    const held = detail.tables.reduce((sum, { blocks }) => sum + blocks.length, 0);
    const facts = [
      `arrived at ${moment(detail.arrival_s)}`,
      `${whole(detail.prompt_tokens)} tokens of prompt`,
      `${whole(detail.output_tokens)} of answer`,
      detail.state,
    ];
    this.panel.replaceChildren(
      this.#head(`Request ${detail.id}`),
      h("p", { class: "facts" }, facts.join(" · ")),
      ...detail.tables.map((table) => this.#table(table, detail.tables.length > 1)),
      ...(detail.cpu_blocks.length
        ? [h("h3", {}, `${whole(detail.cpu_blocks.length)} blocks in the CPU swap space`)]
        : []),
      ...(held || detail.cpu_blocks.length ? [] : [h("p", { class: "none" }, "It holds no blocks at this moment.")]),
      h("h3", {}, "What happened to it"),
      h(
        "ol",
        { class: "events" },
        ...detail.events.map(({ t, text }) =>
          h(
            "li",
            {},
            h("button", { type: "button", class: "quiet", click: () => this.playback.seek(t) }, moment(t)),
            ` ${text}`,
          ),
        ),
      ),
    );
  }

  /** Logical block above physical block. @param {import("./types.js").BlockTable} table @param {boolean} several */
  #table({ sample, blocks, shared, segment }, several) {
    if (segment) {
      const { start, reserved, used } = segment;
      const range = `range from token ${whole(start)} to ${whole(start + reserved - 1)}`;
      const size = `${whole(reserved)} tokens reserved, ${whole(used)} used.`;
      return h("p", {}, `${several ? `Sample ${sample + 1}: one` : "One"} ${range}: ${size}`);
    }
    const name = several ? `Sample ${sample + 1}: block table` : "Block table";
    const cells = blocks.map((block, logical) =>
      h(
        "li",
        {
          class: shared[logical] ? "shared" : "",
          title: `logical block ${logical} is physical block ${block}${shared[logical] ? ", shared" : ""}`,
          pointerenter: () => this.store.set({ block }),
          pointerleave: () => this.store.set({ block: null }),
        },
        h("span", {}, String(logical)),
        h("b", {}, String(block)),
      ),
    );
    const label = `${name}, logical to physical`;
    const list = { class: "blocks", tabIndex: 0, "aria-label": label }; // it scrolls, so the keyboard must reach it
    return h("div", {}, h("h3", {}, label), h("ol", list, ...cells));
  }
}
