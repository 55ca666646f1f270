/** Gates and pooling as strips of bars. */

import { isolated, make } from "./elements.js";
import { short } from "./numbers.js";

/** Gates and the weights of words in the sentence vector: a bar for each word. */
export class Strips {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "strips", "aria-label": "gates and pooling" });
  }

  draw() {
    const heads = this.app.heads.flat().filter((head) => head.kind !== "attention");
    this.element.hidden = !heads.length;
    this.element.replaceChildren(
      ...["gate", "pooling"].flatMap((kind) => {
        const found = heads.filter((head) => head.kind === kind);
        const title = kind === "gate" ? "Gates" : "Weights of the words in the sentence vector";
        return found.length ? [make("h2", {}, title), ...found.map((head) => this.strip(head))] : [];
      }),
    );
  }

  strip(head) {
    const units = head.kind === "gate" ? head.rows : head.columns;
    const top = head.kind === "gate" ? 1 : Math.max(...head.values, ...(head.before ?? []), 1e-9);
    const bars = units.map((unit, i) => {
      const bar = make("i");
      bar.style.height = `${(30 * Math.max(head.values[i], 0)) / top}px`;
      const before = head.before && Math.abs(head.before[i] - head.values[i]) >= 5e-4;
      const tick = before ? make("b") : "";
      if (before) tick.style.bottom = `${(28 * head.before[i]) / top}px`; // of 30, as it is 2 high
      const said = `${short(head.values[i])}${before ? `, before ${short(head.before[i])}` : ""}`;
      return make(
        "span",
        { class: "unit", title: said, role: "listitem", "aria-label": `${unit.text} ${said}` },
        make("span", { class: "well" }, bar, tick),
        isolated(unit.text),
      );
    });
    const title = this.app.state.models.length > 1 ? `${head.model} · ${head.title}` : head.title;
    return make(
      "figure",
      {},
      make(
        "figcaption",
        {},
        isolated(title),
        make("span", { class: "soft" }, head.kind === "gate" ? " from 0 to 1" : ` full height ${short(top)}`),
      ),
      make("div", { class: "units", role: "list" }, bars),
    );
  }
}
