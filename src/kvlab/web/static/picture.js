/** The view as one picture for a chat or a report: figures, chart, memory, and how to get the same numbers. */

import { font, forceRatio } from "./canvas.js";
import { moment } from "./format.js";
import { colorsOf } from "./theme.js";

/** @typedef {CanvasRenderingContext2D} Context */

const WIDTH = 1200;
const MARGIN = 32;
const SCALE = 2;
const TILE_HEIGHT = 58;
const PER_ROW = 5;

/**
 * A PNG; null where the browser can't make one.
 * @param {import("./types.js").State} state
 * @param {import("./types.js").Lab} lab
 * @param {string} link
 * @param {() => void} redraw  draws all canvases again
 * @returns {Promise<Blob|null>}
 */
export async function pictureOf(state, lab, link, redraw) {
  const { payload, t, theme } = state;
  if (!payload) return null;
  forceRatio(SCALE);
  redraw();
  const colors = colorsOf(theme);
  const inner = WIDTH - 2 * MARGIN;
  const chart = canvasesOf("chart");
  const map = canvasesOf("map");
  const tileRows = Math.ceil(lab.tiles.length / PER_ROW);
  const heights = [chart, map].map(([first]) => (first ? (inner * first.height) / first.width : 0));
  const [chartHeight = 0, mapHeight = 0] = heights;
  const height = 130 + tileRows * TILE_HEIGHT + chartHeight + mapHeight + 130;
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH * SCALE;
  canvas.height = height * SCALE;
  const context = /** @type {Context} */ (canvas.getContext("2d"));
  context.scale(SCALE, SCALE);
  context.fillStyle = colors.panel;
  context.fillRect(0, 0, WIDTH, height);
  context.textBaseline = "top";
  /**
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {number} size
   * @param {string} color
   * @param {string} [weight]
   */
  const write = (text, x, y, size, color, weight = "") => {
    context.font = `${weight} ${font(size)}`;
    context.fillStyle = color;
    context.fillText(text, x, y, WIDTH - MARGIN - x);
  };
  write(`kvlab · ${lab.title}`, MARGIN, 28, 22, colors.ink, "bold");
  const changes = Object.entries(payload.header.changes).map(([name, text]) => `${name} = ${text}`);
  write(changes.length ? changes.join(" · ") : "default setup", MARGIN, 60, 14, colors.muted);
  let y = 96;
  lab.tiles.forEach((tile, i) => {
    const x = MARGIN + (i % PER_ROW) * (inner / PER_ROW);
    const top = y + Math.floor(i / PER_ROW) * TILE_HEIGHT;
    write(tile.label, x, top, 12, colors.muted);
    write(payload.header.tiles[tile.name]?.text ?? "–", x, top + 17, 20, colors.ink, "bold");
  });
  y += tileRows * TILE_HEIGHT + 12;
  y = stack(context, chart, y, inner, chartHeight) + 16;
  write(`Memory at ${moment(t)}`, MARGIN, y, 13, colors.ink, "bold");
  y = stack(context, map, y + 22, inner, mapHeight) + 16;
  forceRatio(0);
  redraw();
  write(payload.header.command, MARGIN, y, 12, colors.ink);
  write(link, MARGIN, y + 20, 12, colors.muted);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** @param {string} id  of a canvas, or of what holds some @returns {HTMLCanvasElement[]} */
function canvasesOf(id) {
  return /** @type {HTMLCanvasElement[]} */ ([...document.querySelectorAll(`canvas#${id}, #${id} canvas`)]);
}

/**
 * Draws canvases over each other.
 * @param {Context} context
 * @param {HTMLCanvasElement[]} canvases
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function stack(context, canvases, y, width, height) {
  for (const canvas of canvases) context.drawImage(canvas, MARGIN, y, width, height);
  return y + height;
}
