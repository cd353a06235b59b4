/** Light, dark or as the system has it; and the style sheet's colours for canvases. */

import { byId } from "./dom.js";

const KEY = "kvlab.theme";

const NAMES = /** @type {const} */ ([
  "ink",
  "muted",
  "faint",
  "line",
  "panel",
  "free",
  "cached",
  "used",
  "used-fill",
  "queue",
  "recompute",
  "redo",
  "swap",
  "prefill",
  "running",
  "pinned",
  "band",
  "accent",
  "flash",
]);
/** @typedef {Record<typeof NAMES[number], string>} Colors */

/** @type {{theme: number, colors: Colors}|null} */
let cached = null;

/**
 * The colours of the theme in force, resolved.
 * @param {number} theme  the store's count of changes
 * @returns {Colors}
 */
export function colorsOf(theme) {
  if (cached?.theme === theme) return cached.colors;
  const probe = byId("color-probe");
  const colors = /** @type {Colors} */ ({});
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    colors[name] = getComputedStyle(probe).color;
  }
  cached = { theme, colors };
  return colors;
}

/** @param {import("./store.js").Store} store */
export function initTheme(store) {
  const radios = [...document.querySelectorAll("#theme input")].filter((input) => input instanceof HTMLInputElement);
  const saved = read();
  for (const radio of radios) {
    radio.checked = radio.value === saved;
    radio.addEventListener("change", () => {
      document.documentElement.dataset["theme"] = radio.value;
      localStorage.setItem(KEY, radio.value);
      store.set({ theme: store.state.theme + 1 });
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    store.set({ theme: store.state.theme + 1 });
  });
}

function read() {
  const saved = document.documentElement.dataset["theme"];
  return saved === "light" || saved === "dark" ? saved : "system";
}

/** @param {Colors} colors */
export function isDark({ panel }) {
  const [red = 0, green = 0, blue = 0] = (panel.match(/[\d.]+/g) ?? []).map(Number);
  return red + green + blue < 384;
}
