/** Pictures of what is shown. */

import { WORD, drawArcs, layArcs, placeWords, treeArcs } from "./arcs.js";
import { largest, outlineOf, rowLimits, shownValues, syntacticCells } from "./cells.js";
import { INKS, Scale } from "./colours.js";
import { drawn, isRightToLeft, make, tag, textWidth } from "./elements.js";
import { MOVED } from "./heads.js";
import { latentPicture } from "./latent.js";
import { clamp, short } from "./numbers.js";
import { FONT } from "./style.js";

/** Let the browser download a file. */
export function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  make(tag("a", { href: url, download: name })).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** What can be exported now: [its name in a request, its name in the menu, which heads]. */
export function exportable(app) {
  const { sentences } = app.state;
  const isDifference = app.matrices.mode === "difference";
  const heads = isDifference ? app.matrices.differences : app.matrices.attention.flat();
  const chosen = app.matrices.chosen();
  const ofMoved = isDifference ? [] : heads.filter((head) => head.moved > MOVED);
  const pictures = [
    ["tree", "Dependency tree", sentences.some((sentence) => sentence.heads)],
    ["heads", "Chosen head", heads.length > 1, chosen && [chosen]],
    ["heads", "Heads that moved", ofMoved.length && ofMoved.length < heads.length, ofMoved],
    ["heads", heads.length > 1 ? "All heads" : "Head", heads.length, heads],
    ["latent", "Latent trees", app.now?.some(({ look }) => look.latent.some(Boolean))],
    ["phrases", "Phrases", app.live && sentences.some((sentence) => sentence.phrases?.length)],
    ["pooling", "Pooling", app.live && app.heads.flat().some((head) => head.kind === "pooling")],
  ];
  return pictures.filter(([, , there]) => there);
}

/** Whether the page draws a picture itself: on a page without a server, and the difference of two models. */
export const isDrawnHere = (app, what) => !app.live || (what === "heads" && app.matrices.mode === "difference");

/** A live explorer draws in Python, as `structattn plot --state` does; a frozen page draws itself. */
export async function exportPicture(app, what, format, heads) {
  const types = { html: "text/html", svg: "image/svg+xml", png: "image/png", pdf: "application/pdf" };
  try {
    if (!isDrawnHere(app, what)) {
      const { type, data } = await app.request("draw", { figure: { what, format, ...since(app, what, heads) } });
      save(
        `structattn-${what}.${format}`,
        type,
        Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)),
      );
    } else {
      const svg = pictureOf(app, what, heads);
      save(`structattn-${what}.${format}`, types[format], format === "svg" ? svg : await rasterised(svg));
    }
    app.say(`Saved structattn-${what}.${format}.`);
  } catch (error) {
    app.say(error.message, true);
  }
}

/** What a picture is compared with, as on the page: former arcs always, former weights where their change is shown. */
const since = (app, what, heads) => {
  const compared =
    app.isEdited && (what === "tree" || what === "page" || (what === "heads" && app.view.mode === "change"));
  const ofHeads = what === "heads" ? { scale: app.view.scale, heads: heads.map((head) => head.key) } : {};
  return { ...ofHeads, ...(compared ? { before: app.state.before } : {}) };
};

const onPaper = (role) => INKS.light[role];

/** What is shown, as one SVG document on light paper. */
function pictureOf(app, what, heads) {
  const parts = {
    tree: () => app.state.sentences.map((sentence, i) => treePicture(sentence, app.state.before[i])),
    heads: () => [headsPicture(app, heads)],
    latent: () =>
      app.now.flatMap(({ look, sentences }) =>
        look.latent.flatMap((tree, i) =>
          tree ? [latentPicture(tree, sentences[i], app.view.threshold, onPaper)] : [],
        ),
      ),
  }[what]();
  const margin = 16;
  let height = margin;
  const width = Math.max(...parts.map((part) => part.attributes.width)) + 2 * margin;
  const placed = parts.map((part) => {
    const attributes = { ...part.attributes, x: margin, y: height };
    height += part.attributes.height + margin;
    return { ...part, attributes };
  });
  const document = drawn(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT },
    drawn("rect", { width, height, fill: onPaper("paper") }),
    placed,
  );
  return new XMLSerializer().serializeToString(make(document));
}

function treePicture(sentence, before) {
  const widths = sentence.words.map((text) => textWidth(text, WORD) * 1.02 + 14);
  const arcs = treeArcs(sentence, before);
  const { width, centres } = placeWords(widths, arcs, isRightToLeft(sentence.words));
  const laid = layArcs(arcs, centres, widths);
  const height = laid.height + 26;
  return drawn(
    "svg",
    { width, height, viewBox: `0 ${-laid.height} ${width} ${height}` },
    drawArcs(laid, onPaper),
    sentence.words.map((text, i) =>
      drawn("text", { x: centres[i], y: 18, "text-anchor": "middle", "font-size": WORD, fill: onPaper("ink") }, text),
    ),
  );
}

/** Some heads side by side, each with its model, its words and its axes; below, what colours and marks mean. */
function headsPicture(app, heads) {
  const change = app.matrices.mode !== "weights";
  const scale = new Scale(largest(app.matrices.shown.flat(), change), change, "light");
  const perRow = app.view.scale === "row";
  const { sentences, models } = app.state;
  const longest = Math.max(...heads.map((head) => Math.max(head.rows.length, head.columns.length)));
  const cell = clamp(Math.floor(260 / longest), 2, 18);
  const names =
    cell < 8
      ? 0
      : 8 +
        Math.max(...heads.flatMap((head) => [...head.rows, ...head.columns].map((unit) => textWidth(unit.text, 10))));
  const titles = heads.map((head) => (models.length > 1 ? `${head.model}: ${head.title}` : head.title));
  const wide = Math.max(names + longest * cell, ...titles.map((title) => 1.15 * textWidth(title, 12))) + 22;
  const high = 22 + names + longest * cell + 22;
  const across = clamp(Math.floor(1000 / wide), 1, heads.length);
  const write = (content, attributes) =>
    drawn("text", { "font-size": 10, fill: onPaper("ink"), ...attributes }, content);
  const panels = heads.map((head, i) => {
    const left = (i % across) * wide;
    const top = Math.floor(i / across) * high;
    const column = (unit, j) =>
      write(unit.text, { transform: `translate(${names + (j + 0.75) * cell} ${18 + names})rotate(-90)` });
    const row = (unit, j) =>
      write(unit.text, { x: names - 4, y: 22 + names + (j + 0.75) * cell, "text-anchor": "end" });
    return drawn(
      "g",
      { transform: `translate(${left} ${top})` },
      write(titles[i], { y: 12, "font-size": 12, "font-weight": 700 }),
      names ? [head.columns.map(column), head.rows.map(row)] : [],
      drawn(
        "g",
        { transform: `translate(${names} ${22 + names})` },
        headCells(head, { scale, change, cell, perRow, sentences }),
      ),
    );
  });
  const hatched = heads.some((head) => head.allowed);
  const framed = heads.some((head) => syntacticCells(head, sentences).length);
  const keys = [
    [
      drawn("rect", { width: 11, height: 11, fill: "url(#forbidden)", stroke: onPaper("rule") }),
      "not allowed",
      hatched,
    ],
    [
      [drawn("rect", { width: 11, height: 11, fill: scale.hex(0.5 * scale.limit) }), outlined(0, 0, 11)],
      "syntactic head",
      framed,
    ],
    [
      [],
      app.matrices.mode === "difference"
        ? `difference of the weights, ${heads[0].model}`
        : change
          ? "change of the weight since the edit"
          : "weight; rows attend (query), columns are attended to (key)",
      true,
    ],
  ].filter(([, , isShown]) => isShown);
  const bottom = Math.ceil(heads.length / across) * high;
  let x = 196 + 1.1 * textWidth(scaleEnds(scale, perRow)[1], 10);
  const legend = keys.map(([sign, label], i) => {
    const place = [x, bottom];
    x += 34 + 1.1 * textWidth(label, 10);
    const indent = i < keys.length - 1 ? 16 : 0;
    return drawn("g", { transform: `translate(${place.join(" ")})` }, sign, write(label, { x: indent, y: 9 }));
  });
  const width = Math.max(across * wide, x);
  const height = bottom + 16;
  const lines = drawn("path", { d: "M0 5L5 0", stroke: onPaper("hatch") });
  const pattern = { id: "forbidden", width: 5, height: 5, patternUnits: "userSpaceOnUse" };
  return drawn(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}` },
    drawn("defs", {}, drawn("pattern", pattern, lines)),
    panels,
    drawn("g", { transform: `translate(0 ${bottom})` }, legendOf(scale, perRow)),
    legend,
  );
}

/** A colour bar with its ends. */
function legendOf(scale, perRow) {
  const value = (i) => (scale.diverging ? (i - 16) / 16 : i / 32) * scale.limit;
  const steps = Array.from({ length: 33 }, (_, i) =>
    drawn("rect", { class: "step", x: 40 + 4 * i, y: 0, width: 4.2, height: 10, fill: scale.hex(value(i)) }),
  );
  const text = (x, anchor, content) =>
    drawn("text", { x, y: 9, "font-size": 10, "text-anchor": anchor, fill: onPaper("ink") }, content);
  const [low, high] = scaleEnds(scale, perRow);
  return [text(34, "end", low), steps, text(178, "start", high)];
}

/** The labels at the ends of a colour bar. */
export function scaleEnds(scale, perRow) {
  if (perRow) return [scale.diverging ? "−max" : "0", "row's max"];
  return [scale.diverging ? short(-scale.limit, 2) : "0", short(scale.limit, 2)];
}

/** Cells of a head; neighbours of the same colour are merged into one rectangle. */
function headCells(head, { scale, change, cell, perRow, sentences }) {
  const columns = head.columns.length;
  const values = shownValues(head, change);
  const limits = perRow ? rowLimits(values, columns) : null;
  const colour = (i) =>
    head.allowed && !head.allowed[i]
      ? "url(#forbidden)"
      : scale.hex(values[i], limits ? limits[Math.floor(i / columns)] || 1 : undefined);
  const cells = [];
  head.rows.forEach((_, row) => {
    for (let column = 0, from = 0; column < columns; column++) {
      const fill = colour(row * columns + from);
      if (column + 1 < columns && colour(row * columns + column + 1) === fill) continue;
      cells.push(
        drawn("rect", { x: from * cell, y: row * cell, width: (column + 1 - from) * cell, height: cell, fill }),
      );
      from = column + 1;
    }
  });
  return [
    ...cells,
    ...syntacticCells(head, sentences).map(([row, column]) => outlined(column * cell, row * cell, cell)),
  ];
}

/** The frame of a cell. */
function outlined(x, y, cell) {
  return outlineOf(cell).map(([stroke, width, inset]) => {
    const side = cell - 2 * inset;
    const place = { x: x + inset, y: y + inset, width: side, height: side };
    return drawn("rect", { ...place, fill: "none", stroke, "stroke-width": width });
  });
}

/** The SVG as PNG, twice as large. */
async function rasterised(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;base64,${btoa(Array.from(new TextEncoder().encode(svg), (byte) => String.fromCharCode(byte)).join(""))}`;
  await image.decode();
  const canvas = make(tag("canvas", { width: 2 * image.width, height: 2 * image.height }));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
