/** Gates and pooling as strips of bars. */

import { fill, isolated, make, tag } from "./elements.js";
import { short } from "./numbers.js";

/** Gates and the weights of words in the sentence vector: a bar for each word. */
export class Strips {
  constructor(app) {
    this.app = app;
    this.element = make(tag("section", { class: "strips", "aria-label": "gates and pooling" }));
  }

  draw() {
    const heads = this.app.heads.flat().filter((head) => head.kind !== "attention");
    this.element.hidden = !heads.length;
    fill(
      this.element,
      ["gate", "pooling"].map((kind) => {
        const found = heads.filter((head) => head.kind === kind);
        const title = kind === "gate" ? "Gates" : "Weights of the words in the sentence vector";
        return found.length ? [tag("h2", {}, title), found.map((head) => this.strip(head))] : [];
      }),
    );
  }

  strip(head) {
    const units = head.kind === "gate" ? head.rows : head.columns;
    const top = head.kind === "gate" ? 1 : Math.max(...head.values, ...(head.before ?? []), 1e-9);
    const title = this.app.state.models.length > 1 ? `${head.model} · ${head.title}` : head.title;
    if (units.length > 1 && head.values.every((value) => Math.abs(value - head.values[0]) < 1e-6))
      return tag(
        "p",
        {},
        isolated(title),
        tag("span", { class: "soft" }, ` the same for each word: ${short(head.values[0])}`),
      );
    const bars = units.map((unit, i) => {
      const bar = tag("i", { style: { height: `${(30 * Math.max(head.values[i], 0)) / top}px` } });
      const before = head.before && Math.abs(head.before[i] - head.values[i]) >= 5e-4;
      const bottom = before && `${(28 * head.before[i]) / top}px`; // of 30, as it is 2 high
      const tick = before && tag("b", { style: { bottom } });
      const said = `${short(head.values[i])}${before ? `, before ${short(head.before[i])}` : ""}`;
      return tag(
        "span",
        { class: "unit", title: said, role: "listitem", "aria-label": `${unit.text} ${said}` },
        tag("span", { class: "well" }, bar, tick),
        isolated(unit.text),
      );
    });
    return tag(
      "figure",
      {},
      tag(
        "figcaption",
        {},
        isolated(title),
        tag("span", { class: "soft" }, head.kind === "gate" ? " from 0 to 1" : ` full height ${short(top)}`),
      ),
      tag("div", { class: "units", role: "list" }, bars),
    );
  }
}
