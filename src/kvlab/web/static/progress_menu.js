/** Handing progress over and starting again: the foot of the missions panel. */

import { byId, download, h } from "./dom.js";
import { copy, say } from "./toast.js";

/**
 * @param {import("./progress.js").Progress} progress
 * @param {() => void} changed
 */
export function progressMenu(progress, changed) {
  const ask = h("input", {
    type: "checkbox",
    role: "switch",
    class: "switch",
    id: "ask-first",
    checked: progress.saved.ask,
    change: () => {
      progress.setAsk(ask.checked);
      changed();
    },
  });
  const file = h("input", {
    type: "file",
    accept: ".json,application/json",
    class: "sr-only",
    id: "progress-file",
    tabIndex: -1,
    "aria-label": "Progress file",
    change: () => void load(),
  });
  const load = async () => {
    const [chosen] = file.files ?? [];
    if (!chosen) return;
    try {
      say(`${progress.addJson(await chosen.text())} missions taken over.`);
    } catch (reason) {
      say(reason instanceof Error ? reason.message : String(reason));
    }
    changed();
  };
  const link = () =>
    copy(
      `${location.origin}${location.pathname}${location.search}#progress=${progress.toText()}`,
      "Link with your progress copied.",
    );
  const save = () => download(new Blob([progress.toJson()], { type: "application/json" }), "kvlab-progress.json");
  return h(
    "div",
    { class: "progress" },
    h("label", { class: "knob-switch" }, h("span", {}, "Ask me for a guess first"), ask),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", class: "quiet", id: "progress-link", click: link }, "Copy as link"),
      h("button", { type: "button", class: "quiet", id: "progress-save", click: save }, "Save"),
      h("button", { type: "button", class: "quiet", id: "progress-load", click: () => file.click() }, "Load"),
      h(
        "button",
        { type: "button", class: "quiet", id: "progress-reset", click: () => confirmReset(progress, changed) },
        "Reset",
      ),
    ),
    file,
  );
}

/** @param {import("./progress.js").Progress} progress @param {() => void} changed */
function confirmReset(progress, changed) {
  const dialog = byId("confirm", HTMLDialogElement);
  dialog.replaceChildren(
    h("h2", { id: "confirm-title" }, "Forget all progress?"),
    h("p", {}, "Stars and guesses of both labs are deleted from this browser."),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", autofocus: true, click: () => dialog.close() }, "Keep it"),
      h(
        "button",
        {
          type: "button",
          class: "primary",
          id: "confirm-yes",
          click: () => {
            progress.reset();
            dialog.close();
            changed();
          },
        },
        "Forget it",
      ),
    ),
  );
  dialog.showModal();
}
