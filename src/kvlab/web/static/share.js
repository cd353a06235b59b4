/** Handing over what is on the screen: a link, the command line, flags, the scenario, a picture. */

import { fetchScenario } from "./api.js";
import { byId, download, h, icon } from "./dom.js";
import { place } from "./explain.js";
import { addressOf } from "./link.js";
import { pictureOf } from "./picture.js";
import { copy, say } from "./toast.js";

export class Share {
  /** @param {import("./session.js").Session} session @param {import("./store.js").Store} store */
  constructor(session, store) {
    this.session = session;
    this.store = store;
    this.menu = byId("share-menu");
    this.button = byId("share", HTMLButtonElement);
    this.button.setAttribute("aria-label", "Share");
    this.button.append(icon("share"), h("span", { class: "word" }, "Share"));
    this.button.addEventListener("click", () => this.#open());
    byId("copy-link").addEventListener("click", () => copy(this.link(), "Link copied."));
  }

  /** The same picture and the same numbers elsewhere. */
  link() {
    const { lab, changes, t, picked, pin } = this.store.state;
    const look = new URLSearchParams({ t: t.toFixed(1) });
    if (picked !== null) look.set("request", String(picked));
    if (pin) look.set("pin", pin.query);
    return `${new URL(addressOf(this.session.labs, lab, changes, null), location.href.split("#")[0])}#${look}`;
  }

  #open() {
    const header = this.store.state.payload?.header;
    if (!header) return;
    this.menu.replaceChildren(
      h("h2", {}, "Share"),
      row("Link", this.link(), "share-link", "Link copied."),
      row("The same numbers on the command line", header.command, "share-command", "Command copied."),
      header.flags.startsWith("vllm serve")
        ? row("The command that starts this server", header.flags, "share-flags", "Command copied.")
        : row("Flags for vllm serve", header.flags, "share-flags", "Flags copied."),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", id: "share-scenario", click: () => this.#scenario() }, "Scenario (JSON)"),
        h("button", { type: "button", id: "share-picture", click: () => this.#picture() }, "Picture (PNG)"),
      ),
    );
    place(this.menu, this.button);
  }

  async #scenario() {
    try {
      download(await fetchScenario(this.session.query), `kvlab-${this.store.state.lab}.json`);
    } catch (reason) {
      say(reason instanceof Error ? reason.message : String(reason));
    }
  }

  async #picture() {
    const redraw = () => this.store.set({ theme: this.store.state.theme + 1 });
    const blob = await pictureOf(this.store.state, this.session.lab, this.link(), redraw);
    if (blob) download(blob, `kvlab-${this.store.state.lab}.png`);
    else say("The browser could not draw the picture.");
  }
}

/** Lines end before a flag, not between its two hyphens. */
const BEFORE_FLAGS = /(?<= )(?=--)/;

/** @param {string} label @param {string} text @param {string} id @param {string} done */
function row(label, text, id, done) {
  return h(
    "div",
    { class: "share-row" },
    h("h3", {}, label),
    h(
      "div",
      {},
      h("code", {}, ...text.split(BEFORE_FLAGS).map((part) => h("span", {}, part))),
      h("button", { type: "button", id, "aria-label": `Copy: ${label}`, click: () => copy(text, done) }, "Copy"),
    ),
  );
}
