/** Latent trees and their marginal probabilities. */

import { WORD, drawArcs, layArcs, placeWords, treeArcs } from "./arcs.js";
import { SVG, drawn, isRightToLeft, isolated, make, textWidth } from "./elements.js";
import { short } from "./numbers.js";

/** Marginal probabilities of latent trees: arcs by probability, the best tree solid, the given tree below. */
export class Latent {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "latent", "aria-label": "latent trees" });
  }

  draw() {
    const { app } = this;
    const found = (app.now ?? []).filter(({ look }) => look.latent.some(Boolean));
    this.element.hidden = !found.length;
    if (this.element.contains(app.root.activeElement)) return this.redraw(found);
    const slider = make("input", {
      type: "range",
      min: 0.01,
      max: 0.99,
      step: 0.01,
      value: app.view.threshold,
      "aria-label": "least probability of an arc",
      oninput: (event) => ((app.view.threshold = Number(event.target.value)), this.redraw(found)),
    });
    this.output = make("output", { class: "number" });
    this.trees = make("div");
    this.element.replaceChildren(
      make("h2", {}, "Latent trees"),
      make("label", { class: "soft" }, "arcs of probability above ", slider, this.output),
      this.trees,
    );
    return this.redraw(found);
  }

  redraw(found) {
    this.output.textContent = short(this.app.view.threshold, 2);
    this.trees.replaceChildren(
      ...found.flatMap(({ look, sentences }) =>
        look.latent
          .map(
            (tree, number) =>
              tree &&
              make(
                "figure",
                {},
                found.length > 1 ? make("figcaption", {}, isolated(look.model)) : null,
                make(
                  "div",
                  { class: "scroll" },
                  latentPicture(tree, sentences[number], this.app.view.threshold, (role) => `var(--${role})`),
                ),
              ),
          )
          .filter(Boolean),
      ),
    );
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
  const [over, under] = [layArcs(above, centres, widths), layArcs(below, centres, widths, true)];
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
