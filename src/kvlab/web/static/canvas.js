/** Canvases at the screen's own resolution, and what all of them share. */

/** Space left and right of the plot, in CSS pixels: chart, scrubber and lanes stand exactly below each other. */
export const GUTTER = 44;

let forced = 0;

/** Device pixels per CSS pixel. */
export function pixelRatio() {
  return forced || devicePixelRatio || 1;
}

/** Draws as for another screen until it is called with 0: for pictures to take away. @param {number} ratio */
export function forceRatio(ratio) {
  forced = ratio;
}

/** @typedef {{context: CanvasRenderingContext2D, width: number, height: number, ratio: number}} Surface */

/**
 * Sizes a canvas to `width` x `height` CSS pixels and clears it.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {Surface}
 */
export function surface(canvas, width, height) {
  const ratio = pixelRatio();
  const across = Math.round(width * ratio);
  const down = Math.round(height * ratio);
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height, ratio };
}

let family = "";

/** @param {number} size */
export function font(size) {
  family ||= getComputedStyle(document.body).fontFamily;
  return `${size}px ${family}`;
}

/**
 * Round distances for axis labels.
 * @param {number} top  the largest value
 * @param {number} most  labels
 */
export function tickStep(top, most) {
  const rough = top / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((step) => step * power >= rough) ?? 10);
}

/**
 * Calls back with an element's size, at first and after every change. Views keep it: asking the element while other
 * views change the page would lay everything out anew each time.
 * @param {HTMLElement} element
 * @param {(width: number, height: number) => void} run
 */
export function onSize(element, run) {
  new ResizeObserver(() => run(element.clientWidth, element.clientHeight)).observe(element);
}

/**
 * Moment under the pointer.
 * @param {MouseEvent} event
 * @param {HTMLElement} element  as wide as the chart
 * @param {number} end  seconds
 */
export function momentUnder(event, element, end) {
  const box = element.getBoundingClientRect();
  const share = (event.clientX - box.left - GUTTER) / (box.width - 2 * GUTTER);
  return Math.max(0, Math.min(1, share)) * end;
}
