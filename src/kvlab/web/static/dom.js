/** Elements in one line each. Text is always set as text, never as markup. */

/** @typedef {Node|string|null|undefined|false} Child */

/**
 * A new element. Names with a dash, `role`, `for` and `class` become attributes, functions listeners, the rest
 * properties; null and undefined are left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name, /** @type {EventListener} */ (value));
    else if (name.includes("-") || ATTRIBUTES.has(name)) element.setAttribute(name, String(value));
    else Reflect.set(element, name, value);
  }
  element.append(...children.filter(isShown));
  return element;
}

const ATTRIBUTES = new Set(["class", "for", "role", "popover"]);

/** @param {Child} child @returns {child is Node|string} */
function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * An icon of the sprite in index.html, hidden from screen readers.
 * @param {string} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/**
 * The element with that id, of that class.
 * @template {HTMLElement} E
 * @param {string} id
 * @param {new () => E} [type]
 * @returns {E}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  const expected = type ?? HTMLElement;
  if (!(found instanceof expected)) throw new Error(`the page has no ${expected.name} #${id}`);
  return /** @type {E} */ (found);
}

/** @param {HTMLElement} element @param {string} name @param {string|number} value  a CSS variable */
export function cssVar(element, name, value) {
  element.style.setProperty(name, String(value));
}

/** @param {HTMLElement} element @param {string} text  set only when it differs: nothing is laid out in vain */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Calls back in the frame after the next one.
 * @param {() => void} run
 */
export function afterNextFrame(run) {
  requestAnimationFrame(() => requestAnimationFrame(run));
}

/**
 * Saves a file on the reader's machine.
 * @param {Blob} blob
 * @param {string} name
 */
export function download(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
