/** One colour per request: hues a golden angle apart, three lightnesses, so that neighbours in time differ in both. */

const GOLDEN_ANGLE = 137.50776405;
const CHROMA = 0.105;
const LIGHT = [0.6, 0.7, 0.8];
const DARK = [0.5, 0.61, 0.72];

/** @typedef {[number, number, number]} Rgb  0..255 */

/** @type {Map<string, Rgb>} */
const known = new Map();

/**
 * @param {number} id
 * @param {boolean} dark
 * @returns {Rgb}
 */
export function hueOf(id, dark) {
  const key = `${id}${dark}`;
  let rgb = known.get(key);
  if (!rgb) {
    const lightness = (dark ? DARK : LIGHT)[id % 3] ?? 0.6;
    rgb = oklch(lightness, CHROMA, (id * GOLDEN_ANGLE) % 360);
    known.set(key, rgb);
  }
  return rgb;
}

/** @param {Rgb} rgb */
export function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}

/** @param {Rgb} rgb  as a pixel of ImageData on a little-endian machine */
export function pixel([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** @param {string} text  as computed styles give it: rgb(r, g, b) @returns {Rgb} */
export function parseRgb(text) {
  const [red = 0, green = 0, blue = 0] = (text.match(/[\d.]+/g) ?? []).map(Number);
  return [Math.round(red), Math.round(green), Math.round(blue)];
}

/** @param {Rgb} a @param {Rgb} b @param {number} share  of b @returns {Rgb} */
export function mix(a, b, share) {
  return /** @type {Rgb} */ (a.map((part, i) => Math.round(part + ((b[i] ?? 0) - part) * share)));
}

/**
 * OKLCH to sRGB, clipped.
 * @param {number} lightness
 * @param {number} chroma
 * @param {number} degrees
 * @returns {Rgb}
 */
function oklch(lightness, chroma, degrees) {
  const angle = (degrees * Math.PI) / 180;
  const a = chroma * Math.cos(angle);
  const b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

/** @param {number} linear */
function gamma(linear) {
  const clipped = Math.max(0, Math.min(1, linear));
  return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
}
