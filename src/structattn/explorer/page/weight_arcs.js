/** The weights of the chosen head as arcs between the words, beside the tree. */

import { shownValues } from "./cells.js";
import { button, drawn, tag } from "./elements.js";
import { short } from "./numbers.js";

const DEEPEST = 84; // pixels
export const DEEPEST_UPRIGHT = 44; // where words stand one under the other

/** The weights of the chosen head above the threshold, as [query, key, weight] between words of one sentence. */
export function weightsBetween(app, number) {
  const head = app.matrices.chosen();
  if (!head) return [];
  const values = shownValues(head, app.matrices.mode !== "weights");
  const isHere = ({ sentence, word }) => sentence === number && word !== null;
  return head.rows.flatMap((row, i) =>
    head.columns.flatMap((column, j) => {
      const value = values[i * head.columns.length + j];
      const isShown = isHere(row) && isHere(column) && Math.abs(value) >= app.view.threshold;
      return isShown ? [[row.word, column.word, value]] : [];
    }),
  );
}

/** Arcs from each word to the words that it looks at; where words stand one under the other, on their right. */
export function weightArcs(app, line) {
  line.weights = [];
  if (!app.view.arcs) return null;
  const found = weightsBetween(app, line.number);
  const isSigned = app.matrices.mode !== "weights";
  const deepest = line.isUpright ? DEEPEST_UPRIGHT : DEEPEST;
  const reach = (from, to) => Math.min(deepest, 18 + 0.3 * Math.abs(line.centres[from] - line.centres[to]));
  const arcs = found.map(([from, to, value]) => {
    const [x, y, depth] = [line.centres[from] - 3, line.centres[to] + 3, (4 / 3) * reach(from, to)];
    const colour = !isSigned ? "var(--accent)" : value > 0 ? "var(--raises)" : "var(--lowers)";
    const share = Math.min(Math.abs(value), 1);
    const path = drawn("path", {
      d: `M${x} 0C${x} ${depth} ${y} ${depth} ${y} 7`,
      fill: "none",
      stroke: colour,
      "stroke-width": 0.8 + 2.4 * share,
      "stroke-dasharray": isSigned && value < 0 ? "4 3" : null,
    });
    const tip = drawn("path", { d: `M${y} 1l-3.4 7h6.8z`, fill: colour });
    const attributes = { opacity: 0.3 + 0.7 * share, ref: (element) => line.weights.push({ from, element }) };
    return drawn("g", attributes, path, tip);
  });
  const deep = Math.max(8, ...found.map(([from, to]) => reach(from, to))) + 6;
  const length = Math.max(line.length, 1);
  const [width, height] = line.isUpright ? [deep, length] : [length, deep];
  const head = app.matrices.chosen();
  const label = `${found.length} weights of ${head?.title ?? "no head"} of at least ${short(app.view.threshold, 2)}`;
  return drawn(
    "svg",
    { class: "weights", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    drawn("g", { transform: line.isUpright ? "matrix(0 1 1 0 0 0)" : null }, arcs),
  );
}

/** Arcs of other words than the one that is looked at step back. */
export function markWeights({ weights, number }, spot) {
  for (const { from, element } of weights ?? [])
    element.classList.toggle("dim", Boolean(spot) && (spot[0] !== number || spot[1] !== from));
}

/** The switch, and the least weight. */
export function weightSwitch(app) {
  if (!app.matrices.chosen()) return null;
  const isOn = Boolean(app.view.arcs);
  const toggle = button("weights as arcs", () => app.change({ arcs: !isOn }), {
    "aria-pressed": String(isOn),
    class: "toggle",
    "data-key": "weight arcs",
  });
  const slider = tag("input", {
    type: "range",
    min: 0.02,
    max: 0.98,
    step: 0.02,
    value: String(app.view.threshold),
    "aria-label": "least weight of an arc",
    "data-key": "least weight",
    oninput: (event) => app.change({ threshold: Number(event.target.value) }),
  });
  const head = app.matrices.chosen();
  const least = tag("output", { class: "number" }, short(app.view.threshold, 2));
  return [toggle, isOn && tag("label", { class: "soft" }, `${head.title}: at least `, slider, least)];
}
