/** Latent trees and their marginal probabilities. */

import { WORD, drawArcs, layArcs, placeWords, treeArcs } from "./arcs.js";
import { SVG, drawn, fill, isRightToLeft, isolated, make, tag, textWidth } from "./elements.js";
import { short } from "./numbers.js";

/** Marginal probabilities of latent trees: arcs by probability, the best tree solid, the given tree below. */
export class Latent {
  constructor(app) {
    this.app = app;
    this.element = make(tag("section", { class: "latent", "aria-label": "latent trees" }));
  }

  draw() {
    const { app } = this;
    const found = (app.now ?? []).filter(({ look }) => look.latent.some(Boolean));
    this.element.hidden = !found.length;
    const { threshold } = app.view;
    const choose = (event) => {
      app.view.threshold = Number(event.target.value);
      this.draw();
    };
    const slider = tag("input", {
      type: "range",
      min: 0.01,
      max: 0.99,
      step: 0.01,
      value: String(threshold),
      "aria-label": "least probability of an arc",
      oninput: choose,
    });
    const pictures = found.flatMap(({ look, sentences }) =>
      look.latent.flatMap((tree, i) => (tree ? [this.picture(look, tree, sentences[i], found.length > 1)] : [])),
    );
    const output = tag("output", { class: "number" }, short(threshold, 2));
    const label = tag("label", { class: "soft" }, "arcs of probability above ", slider, output);
    fill(this.element, tag("h2", {}, "Latent trees"), label, tag("div", {}, pictures));
  }

  picture(look, tree, sentence, isNamed) {
    const picture = latentPicture(tree, sentence, this.app.view.threshold, (role) => `var(--${role})`);
    const caption = isNamed && tag("figcaption", {}, isolated(look.model));
    return tag("figure", {}, caption, tag("div", { class: "scroll" }, picture));
  }
}

/** Arcs of a latent tree as data: all above the threshold, and the best tree whatever its probability. */
function latentArcs(tree, threshold) {
  const [, columns] = tree.shape.slice(-2);
  return tree.heads.flatMap((best, to) =>
    Array.from({ length: columns }, (_, head) => ({ head, p: tree.weights[to * columns + head] }))
      .filter(({ head, p }) => head === best || p > threshold)
      .map(({ head, p }) => ({ from: head ? head - 1 : null, to, p, best: head === best })),
  );
}

export function latentPicture(tree, sentence, threshold, ink) {
  const { words } = sentence;
  const widths = words.map((text) => textWidth(text, WORD) * 1.02 + 14);
  const above = latentArcs(tree, threshold).map((arc) => ({
    ...arc,
    role: arc.best ? "accent" : "soft",
    width: arc.best ? 2 : 1.3,
    opacity: arc.best ? 0.4 + 0.6 * arc.p : Math.max(0.25, arc.p),
    label: arc.from === null ? "" : arc.best ? short(arc.p, 2) : "",
    dashed: !arc.best,
    said: `${arc.from === null ? "root" : words[arc.from]} → ${words[arc.to]}: ${short(arc.p)}`,
  }));
  const below = treeArcs(sentence, null).map((arc) => ({ ...arc, label: "" }));
  const { width, centres } = placeWords(widths, above, isRightToLeft(words));
  const [over, under] = [layArcs(above, centres, widths), layArcs(below, centres, widths, { below: true })];
  const line = over.height + 26;
  const height = line + under.height + (below.length ? 8 : 0);
  const shift = (y, ...children) => drawn("g", { transform: `translate(0 ${y})` }, ...children);
  return drawn(
    "svg",
    {
      xmlns: SVG,
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `latent tree of ${words.join(" ")}`,
    },
    shift(over.height, drawArcs(over, ink)),
    words.map((text, i) =>
      drawn("text", { x: centres[i], y: line - 8, "text-anchor": "middle", "font-size": WORD, fill: ink("ink") }, text),
    ),
    shift(line, drawArcs(under, ink)),
  );
}
