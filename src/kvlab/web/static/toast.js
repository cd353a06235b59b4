/** Short messages at the foot of the window, and the clipboard. */

import { byId, h } from "./dom.js";

const SHOWN_MS = 3500;
/** @type {number|undefined} */
let timer;

/** @param {string} text */
export function say(text) {
  const toast = byId("toast");
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => {
    toast.hidden = true;
  }, SHOWN_MS);
}

/**
 * @param {string} text
 * @param {string} done  what to say then
 */
export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    say(copyOldWay(text) ? done : "The browser does not let this page copy. Please select and copy it yourself.");
  }
}

/** Pages that are not on this machine have no clipboard of their own. @param {string} text */
function copyOldWay(text) {
  const area = h("textarea", { value: text, class: "sr-only", readOnly: true });
  document.body.append(area);
  area.select();
  const worked = document.execCommand("copy");
  area.remove();
  return worked;
}
