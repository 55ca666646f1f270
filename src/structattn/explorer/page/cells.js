/** Matrices painted on a canvas. */

import { INKS } from "./colours.js";
import { clamp } from "./numbers.js";

const FRAME = 5; // cells below this many pixels have no frame

const tiles = new Map();

/** Diagonal lines over cells where attention is forbidden. */
function hatch(context, colour) {
  if (!tiles.has(colour)) tiles.set(colour, context.createPattern(tileOf(colour), "repeat"));
  return tiles.get(colour);
}

function tileOf(colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (const offset of [-6, 0, 6]) (pen.moveTo(offset, 6), pen.lineTo(offset + 6, 0));
  pen.stroke();
  return tile;
}

let scratch = null;

/** A canvas of one pixel per cell, the same one each time; `paint(data)` fills in red, green, blue and opacity. */
function pixels(rows, columns, paint) {
  scratch ??= document.createElement("canvas");
  const canvas = scratch;
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  paint(image.data);
  context.putImageData(image, 0, 0);
  return canvas;
}

/** What a head shows: its weights, or the change since before. */
export function shownValues(head, change) {
  if (!change) return head.values;
  return head.before ? head.values.map((value, i) => value - head.before[i]) : new Float32Array(head.values.length);
}

/** The largest absolute value of all heads, the end of their common scale. */
export function largest(heads, change) {
  let most = 0;
  for (const head of heads) for (const value of shownValues(head, change)) most = Math.max(most, Math.abs(value));
  return most;
}

/** As many heads side by side as fit, or fewer if that takes no more lines. */
export function perLine(number, fits) {
  return Math.ceil(number / Math.ceil(number / Math.max(fits, 1)));
}

/** The largest absolute value of each row. */
export function rowLimits(values, columns) {
  const limits = new Float32Array(values.length / Math.max(columns, 1));
  values.forEach((value, i) => {
    const row = Math.floor(i / columns);
    limits[row] = Math.max(limits[row], Math.abs(value));
  });
  return limits;
}

/** Paint a head: colours, hatch where attention is forbidden, a frame at each word's syntactic head. */
export function paintHead(canvas, head, { scale, change, perRow, theme, room, sentences }) {
  const [rows, columns] = [head.rows.length, head.columns.length];
  const ratio = globalThis.devicePixelRatio || 1;
  const cell = clamp(Math.floor((room * ratio) / Math.max(rows, columns, 1)), 1, Math.floor(26 * ratio));
  canvas.width = Math.max(cell * columns, 1);
  canvas.height = Math.max(cell * rows, 1);
  canvas.style.width = `${canvas.width / ratio}px`;
  if (!rows || !columns) return cell / ratio;
  const values = shownValues(head, change);
  const limits = perRow ? rowLimits(values, columns) : null;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  if (head.allowed) {
    context.fillStyle = hatch(context, INKS[theme].hatch);
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.globalCompositeOperation = "destination-in";
    const forbidden = (data) => head.allowed.forEach((may, i) => (data[4 * i + 3] = may ? 0 : 255));
    context.drawImage(pixels(rows, columns, forbidden), 0, 0, canvas.width, canvas.height);
    context.globalCompositeOperation = "destination-over";
  }
  const colours = (data) =>
    values.forEach((value, i) => {
      if (head.allowed && !head.allowed[i]) return;
      const [red, green, blue] = scale.rgb(value, limits ? limits[Math.floor(i / columns)] || 1 : undefined);
      data[4 * i] = red;
      data[4 * i + 1] = green;
      data[4 * i + 2] = blue;
      data[4 * i + 3] = 255;
    });
  context.drawImage(pixels(rows, columns, colours), 0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "source-over";
  if (cell >= FRAME)
    for (const [row, column] of syntacticCells(head, sentences))
      for (const [colour, width, inset] of outlineOf(cell, Math.max(1, Math.round(ratio)))) {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.strokeRect(column * cell + inset, row * cell + inset, cell - 2 * inset, cell - 2 * inset);
      }
  return cell / ratio;
}

/** The lines of a frame, as in `pictures/cells.py`: a dark one in a light one, so that it is seen on every colour. */
export function outlineOf(cell, line = 1) {
  const lines = ["#ffffff", "#14171c", ...(cell < 10 * line ? [] : ["#ffffff"])];
  return lines.map((colour, i) => [colour, line, (i + 0.5) * line]); // on whole pixels, so that neither is blurred
}

/** Cells in which a word, or a token of it, attends to its syntactic head, if it may. */
export function syntacticCells(head, sentences) {
  const columns = new Map();
  head.columns.forEach(({ sentence, word: place }, j) => {
    if (place !== null) columns.set(`${sentence} ${place}`, [...(columns.get(`${sentence} ${place}`) ?? []), j]);
  });
  const cells = head.rows.flatMap(({ sentence, word: place }, i) => {
    const above = place === null ? 0 : (sentences[sentence]?.heads?.[place] ?? 0);
    return above ? (columns.get(`${sentence} ${above - 1}`) ?? []).map((j) => [i, j]) : [];
  });
  return cells.filter(([i, j]) => !head.allowed || head.allowed[i * head.columns.length + j]);
}
