/** Attention heads as matrices. */

import { largest, perLine, syntacticCells } from "./cells.js";
import { Scale } from "./colours.js";
import { UPRIGHT, button, isolated, make, segmented, textWidth } from "./elements.js";
import { scaleEnds } from "./export.js";
import { MOVED } from "./heads.js";
import { MatrixView } from "./matrix_view.js";
import { numberTable } from "./number_table.js";
import { clamp, count, short } from "./numbers.js";
import { liveHint } from "./wording.js";

const MOST_HEADS = 24; // more are shown one module at a time
const LEAST_ROOM = 92; // pixels of a small matrix
const MOST_ROOM = 150;
const LARGEST = 320; // of the chosen one

/** Whether heads belong to several modules, one of which has several heads. */
function hasModules(heads) {
  const paths = new Set(heads.map((head) => head.path)).size;
  return paths > 1 && paths < heads.length;
}

/** The heads as matrices, the chosen one large with its words, a legend, and its numbers. */
export class Matrices {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "heads", "aria-label": "attention heads" });
    this.figure = make("figure", { class: "chosen-head" });
    this.numbers = make("div");
    this.large = make("div", {}, this.figure, this.numbers);
    this.framed = [];
    this.panels = new Map();
  }

  get attention() {
    return this.app.heads.map((heads) => heads.filter((head) => head.kind === "attention"));
  }

  /** The heads that are shown, one list for each model. */
  get shown() {
    const { view } = this.app;
    return this.attention.map((heads) => {
      const paths = [...new Set(heads.map((head) => head.path))];
      const path = view.path ?? (heads.length > MOST_HEADS ? paths[0] : null);
      const kept = path && path !== "all" && paths.includes(path) ? heads.filter((head) => head.path === path) : heads;
      return view.sort === "moved" ? [...kept].sort((one, other) => other.moved - one.moved) : kept;
    });
  }

  /** The head that is shown large: the one that was pressed, or the one that moved most. */
  chosen() {
    const heads = this.shown.flat();
    const known = this.attention.flat().find((head) => head.key === this.app.view.head);
    return known ?? heads.reduce((best, head) => (!best || head.moved > best.moved ? head : best), null);
  }

  draw() {
    const { app } = this;
    const chosen = this.chosen();
    const hasAnswersOnly = app.now?.some(({ look }) => look.answersOnly);
    this.element.hidden = !chosen && !hasAnswersOnly;
    this.large.hidden = !chosen;
    if (!chosen) {
      this.key = null;
      this.framed = [];
      return this.element.replaceChildren(
        make("p", { class: "soft" }, "For this edit the page has the prediction alone. ", liveHint(app.boot)),
      );
    }
    const lists = this.shown;
    const change = app.view.mode === "change" && app.isEdited;
    const scale = new Scale(largest(lists.flat(), change), change, app.theme);
    const width = app.widthOf(this.element) || 600;
    const perRow = app.view.scale === "row";
    const options = { scale, change, perRow, theme: app.theme, sentences: app.state.sentences, chosen: chosen.key };
    this.arrange(lists, width, options);
    const names = Math.min(130, Math.max(...chosen.rows.map((unit) => textWidth(unit.text, 12))));
    const inside = app.widthOf(app.box);
    const beside = inside > 760 ? 302 : 0; // the prediction
    const room = clamp(inside - beside - names - 20, 120, LARGEST);
    this.enlarge(chosen, { ...options, room });
    this.numbers.replaceChildren(...(app.view.numbers ? [numberTable(app, chosen, change)] : []));
    this.framed = [...lists.flat().map((head) => this.panels.get(head.key).view), this.enlarged];
  }

  /** Controls, legend and heads: what is the same but for its numbers changes in place. */
  arrange(lists, width, { scale, change, ...options }) {
    const { app } = this;
    const { head: _, ...view } = app.view;
    const keys = lists.map((heads) => heads.map(({ key, title, allowed }) => [key, title, Boolean(allowed)]));
    const byToken = app.now.map(({ look }) => [look.model, look.maps.some((map) => map.words)]);
    const framed = app.state.sentences.map(({ heads }) => Boolean(heads));
    const key = JSON.stringify([view, app.isEdited, keys, byToken, framed, width]);
    if (key === this.key)
      for (const head of lists.flat()) this.panels.get(head.key).update(head, { scale, change, ...options });
    else {
      this.panels.clear();
      this.legend = make("div");
      this.element.replaceChildren(
        this.controls(),
        this.legend,
        this.columns(lists, width, { scale, change, ...options }),
      );
    }
    this.key = key;
    const legendKey = JSON.stringify([scale.limit, change, options.theme]);
    if (legendKey !== this.legend.dataset.key) this.legend.replaceChildren(this.legendOf(scale, change));
    this.legend.dataset.key = legendKey;
  }

  /** The heads of each model, two models side by side. */
  columns(lists, width, options) {
    const names = this.app.now.map(({ look }) => look.model);
    const share = width / lists.filter((heads) => heads.length).length;
    const columns = lists.map((heads, i) => {
      if (!heads.length) return make("p", { class: "soft" }, isolated(names[i]), " has no attention heads");
      const grid = this.grid(heads, share, options);
      return names.length > 1 ? make("div", {}, make("h3", {}, isolated(names[i])), grid) : grid;
    });
    return make("div", { class: share < width ? "pair" : "" }, columns);
  }

  grid(heads, width, options) {
    const line = perLine(heads.length, Math.floor(width / (LEAST_ROOM + 16)));
    const room = Math.min(width / line - 17, MOST_ROOM);
    const panels = heads.map((head) => this.panel(head, { ...options, room }));
    const box = make("div", { class: "grid" }, panels);
    box.style.maxWidth = `${line * (room + 17)}px`;
    return box;
  }

  controls() {
    const { app } = this;
    const { view } = app;
    const set = (key) => (value) => app.change({ [key]: value });
    const off = app.isEdited ? null : "nothing has changed yet";
    const parts = [
      segmented(
        "Show",
        [
          ["weights", "Weights"],
          ["change", "Change", off],
        ],
        off ? "weights" : view.mode,
        set("mode"),
      ),
      segmented(
        "Sort",
        [
          ["layer", "layer"],
          ["moved", "moved", off],
        ],
        off ? "layer" : view.sort,
        set("sort"),
      ),
      segmented(
        "Scale",
        [
          ["shared", "shared"],
          ["row", "row"],
        ],
        view.scale,
        set("scale"),
      ),
    ];
    if (app.now.some(({ look }) => look.maps.some((map) => map.words)))
      parts.push(
        segmented(
          "By",
          [
            ["words", "word"],
            ["tokens", "token"],
          ],
          view.by,
          set("by"),
        ),
      );
    if (this.attention.some(hasModules)) parts.push(this.modules());
    parts.push(
      button("Numbers", () => app.change({ numbers: !view.numbers }), {
        "aria-pressed": String(view.numbers),
        class: "toggle",
      }),
    );
    return make("div", { class: "controls" }, parts);
  }

  /** The choice of the module whose heads are shown, if a model has several modules with several heads. */
  modules() {
    const { app } = this;
    const paths = [...new Set(this.attention.filter(hasModules).flatMap((heads) => heads.map((head) => head.path)))];
    const many = this.attention.some((heads) => heads.length > MOST_HEADS);
    const chosen = app.view.path ?? (many ? paths[0] : "all");
    const options = ["all", ...paths].map((path) => make("option", { value: path, selected: path === chosen }, path));
    const choose = (event) => app.change({ path: event.target.value, head: null });
    return make("label", {}, make("span", { class: "soft" }, "Module "), make("select", { onchange: choose }, options));
  }

  legendOf(scale, change) {
    const bar = make("span", { class: "ramp", role: "img", "aria-label": "colour scale" });
    const stops = Array.from({ length: 17 }, (_, i) =>
      scale.css(change ? ((i - 8) / 8) * scale.limit : (i / 16) * scale.limit),
    );
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const [low, high] = scaleEnds(scale, this.app.view.scale === "row");
    const attention = this.shown.flat();
    return make(
      "p",
      { class: "legend" },
      low,
      bar,
      high,
      attention.some((head) => head.allowed) && make("span", {}, make("i", { class: "swatch hatch" }), "not allowed"),
      attention.some((head) => syntacticCells(head, this.app.state.sentences).length) &&
        make("span", {}, make("i", { class: "swatch framed" }), "syntactic head"),
      make("span", { class: "soft" }, "each row: where one word looks"),
    );
  }

  /** A small matrix with the name of its head, which changes in place. */
  panel(head, options) {
    const { app } = this;
    const view = new MatrixView(app);
    const moves = make("span", { class: "number" });
    const title = button([isolated(head.title), moves], () => app.change({ head: head.key }), {
      class: "title",
      "data-key": head.key,
    });
    const figure = make("figure", { class: "head" }, title, view.box, view.echo);
    figure.style.width = `${Math.ceil(options.room) + 4}px`;
    const update = (shown, given) => {
      const chosen = given.chosen === shown.key;
      const hasMoved = shown.moved > MOVED;
      view.update(
        shown,
        { ...given, room: options.room },
        `${shown.title}: ${count(shown.rows.length, "row")}, moved by ${short(shown.moved)}`,
      );
      moves.textContent = hasMoved ? short(shown.moved) : "";
      title.setAttribute("aria-pressed", String(chosen));
      figure.classList.toggle("chosen", chosen);
      figure.classList.toggle("moved", hasMoved);
    };
    update(head, options);
    this.panels.set(head.key, { view, update });
    return figure;
  }

  /** The chosen head with its rows and columns named. */
  enlarge(head, options) {
    const name = this.app.state.models.length > 1 ? `${head.model} · ${head.title}` : head.title;
    const key = JSON.stringify([name, head.rows, head.columns, options.room, globalThis.devicePixelRatio]);
    if (key !== this.figure.dataset.key) this.enlarged = new MatrixView(this.app);
    const cell = this.enlarged.update(head, options, `${head.title}, large`);
    if (key === this.figure.dataset.key) return;
    this.figure.dataset.key = key;
    const named = cell >= 11;
    const names = (units, side) =>
      make(
        "div",
        { class: side, "aria-hidden": "true" },
        units.map((unit) => {
          const label = isolated(unit.text || "∅", { title: unit.text });
          label.classList.toggle("upright", UPRIGHT.test(unit.text));
          label.style[side === "row-names" ? "height" : "width"] = `${cell}px`;
          label.style.lineHeight = `${cell}px`;
          label.style.fontSize = `${Math.min(12, cell * 0.85)}px`;
          return label;
        }),
      );
    const axes = named
      ? [names(head.columns, "column-names"), names(head.rows, "row-names")]
      : [make("span"), make("span")];
    this.figure.replaceChildren(
      make(
        "figcaption",
        {},
        make("strong", {}, isolated(name)),
        named ? null : make("span", { class: "soft" }, " words on hover"),
      ),
      make("div", { class: "large" }, make("span"), ...axes, this.enlarged.box),
      this.enlarged.echo,
    );
  }

  mark() {
    for (const view of this.framed) view.mark();
  }
}
