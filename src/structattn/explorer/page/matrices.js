/** Attention heads as matrices. */

import { largest, perLine, syntacticCells } from "./cells.js";
import { Scale } from "./colours.js";
import { UPRIGHT, button, fill, isolated, make, segmented, tag, textWidth } from "./elements.js";
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
    this.element = make(tag("section", { class: "heads", "aria-label": "attention heads" }));
    this.large = make(tag("div"));
    this.framed = [];
    this.views = new Map();
  }

  get attention() {
    return this.app.heads.map((heads) => heads.filter((head) => head.kind === "attention"));
  }

  /** What matrices show: weights, their change since the edit, or the difference of two models. */
  get mode() {
    const { app } = this;
    const { mode } = app.view;
    const isThere = mode === "change" ? app.isEdited : mode === "difference" && this.differences.length;
    return isThere ? mode : "weights";
  }

  /** Heads of the same name in two models, with the weights of the second as those before: weights minus those. */
  get differences() {
    const [first, second, ...others] = this.attention;
    if (!second || others.length) return [];
    return first.flatMap((head) => {
      const fits = ({ title, rows, columns }) =>
        title === head.title && rows.length === head.rows.length && columns.length === head.columns.length;
      const other = second.find(fits);
      if (!other) return [];
      const isAllowed = head.allowed && other.allowed;
      const allowed = isAllowed ? head.allowed.map((may, i) => may || other.allowed[i]) : null;
      return [
        { ...head, allowed, before: other.values, against: other.model, model: `${head.model} − ${other.model}` },
      ];
    });
  }

  /** The heads that are shown, one list for each model. */
  get shown() {
    const { mode } = this;
    const { view } = this.app;
    if (mode === "difference") return [this.differences];
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
    const pool = this.mode === "difference" ? heads : this.attention.flat();
    const known = pool.find((head) => head.key === this.app.view.head);
    return known ?? heads.reduce((best, head) => (!best || head.moved > best.moved ? head : best), null);
  }

  draw() {
    const { app } = this;
    const chosen = this.chosen();
    const hasAnswersOnly = app.now?.some(({ look }) => look.answersOnly);
    this.element.hidden = !chosen && !hasAnswersOnly;
    this.large.hidden = !chosen;
    this.framed = [];
    if (!chosen) {
      const said = "For this edit the page has the prediction alone. ";
      return fill(this.element, tag("p", { class: "soft" }, said, liveHint(app.boot)));
    }
    const lists = this.shown;
    const change = this.mode !== "weights";
    const scale = new Scale(largest(lists.flat(), change), change, app.theme);
    const width = app.widthOf(this.element) || 600;
    const perRow = app.view.scale === "row";
    const options = { scale, change, perRow, theme: app.theme, sentences: app.state.sentences, chosen: chosen.key };
    const names = Math.min(130, Math.max(...chosen.rows.map((unit) => textWidth(unit.text, 12))));
    const inside = app.widthOf(app.box);
    const beside = inside > 760 ? 302 : 0; // the prediction
    const room = clamp(inside - beside - names - 20, 120, LARGEST);
    const numbers = app.view.numbers && numberTable(app, chosen, change);
    fill(this.large, this.enlarged(chosen, { ...options, room }), numbers);
    return fill(this.element, this.controls(), this.legendOf(scale, change), this.columns(lists, width, options));
  }

  /** The matrix of a head in a place, which stays the same element. */
  viewOf(place) {
    if (!this.views.has(place)) this.views.set(place, new MatrixView(this.app));
    const view = this.views.get(place);
    this.framed.push(view);
    return view;
  }

  /** The heads of each model, two models side by side. */
  columns(lists, width, options) {
    const isDifference = this.mode === "difference";
    const names = isDifference ? lists.map(([head]) => head.model) : this.app.now.map(({ look }) => look.model);
    const share = width / lists.filter((heads) => heads.length).length;
    const columns = lists.map((heads, i) => {
      if (!heads.length) return tag("p", { class: "soft" }, isolated(names[i]), " has no attention heads");
      const grid = this.grid(heads, share, options);
      return names.length > 1 || isDifference ? tag("div", {}, tag("h3", {}, isolated(names[i])), grid) : grid;
    });
    return tag("div", { class: share < width ? "pair" : "" }, columns);
  }

  grid(heads, width, options) {
    const line = perLine(heads.length, Math.floor(width / (LEAST_ROOM + 16)));
    const room = Math.min(width / line - 17, MOST_ROOM);
    const panels = heads.map((head) => this.panel(head, { ...options, room }));
    return tag("div", { class: "grid", style: { maxWidth: `${line * (room + 17)}px` } }, panels);
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
          ...(app.state.models.length > 1
            ? [
                [
                  "difference",
                  "Difference",
                  this.differences.length ? null : "the models have no heads of the same name",
                ],
              ]
            : []),
        ],
        this.mode,
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
    return tag("div", { class: "controls" }, parts);
  }

  /** The choice of the module whose heads are shown, if a model has several modules with several heads. */
  modules() {
    const { app } = this;
    const paths = [...new Set(this.attention.filter(hasModules).flatMap((heads) => heads.map((head) => head.path)))];
    const many = this.attention.some((heads) => heads.length > MOST_HEADS);
    const chosen = app.view.path ?? (many ? paths[0] : "all");
    const options = ["all", ...paths].map((path) => tag("option", { value: path, selected: path === chosen }, path));
    const choose = (event) => app.change({ path: event.target.value, head: null });
    return tag("label", {}, tag("span", { class: "soft" }, "Module "), tag("select", { onchange: choose }, options));
  }

  legendOf(scale, change) {
    const stops = Array.from({ length: 17 }, (_, i) =>
      scale.css(change ? ((i - 8) / 8) * scale.limit : (i / 16) * scale.limit),
    );
    const style = { background: `linear-gradient(to right, ${stops.join(",")})` };
    const bar = tag("span", { class: "ramp", role: "img", "aria-label": "colour scale", style });
    const [low, high] = scaleEnds(scale, this.app.view.scale === "row");
    const attention = this.shown.flat();
    return tag(
      "p",
      { class: "legend" },
      low,
      bar,
      high,
      attention.some((head) => head.allowed) && tag("span", {}, tag("i", { class: "swatch hatch" }), "not allowed"),
      attention.some((head) => syntacticCells(head, this.app.state.sentences).length) &&
        tag("span", {}, tag("i", { class: "swatch framed" }), "syntactic head"),
      tag("span", { class: "soft" }, "each row: where one word looks"),
      this.mode === "difference" && tag("span", { class: "soft" }, `weight in ${attention[0].model}`),
    );
  }

  /** A small matrix with the name of its head. */
  panel(head, options) {
    const { app } = this;
    const hasMoved = head.moved > MOVED;
    const view = this.viewOf(head.key);
    const said = `${head.title}: ${count(head.rows.length, "row")}, moved by ${short(head.moved)}`;
    view.update(head, options, said);
    const isChosen = options.chosen === head.key;
    const title = button(
      [isolated(head.title), tag("span", { class: "number" }, hasMoved && short(head.moved))],
      () => app.change({ head: head.key }),
      { class: "title", "data-key": head.key, "aria-pressed": String(isChosen) },
    );
    const marks = [isChosen && "chosen", hasMoved && "moved"].filter(Boolean);
    const style = { width: `${Math.ceil(options.room) + 4}px` };
    const attributes = { class: ["head", ...marks].join(" "), "data-key": head.key, style };
    return tag("figure", attributes, title, view.box, view.echo);
  }

  /** The chosen head with its rows and columns named. */
  enlarged(head, options) {
    const name = this.app.state.models.length > 1 ? `${head.model} · ${head.title}` : head.title;
    const view = this.viewOf("chosen");
    const cell = view.update(head, options, `${head.title}, large`);
    const isNamed = cell >= 11;
    const label = (unit, side) =>
      isolated(unit.text || "∅", {
        title: unit.text,
        class: UPRIGHT.test(unit.text) ? "upright" : null,
        style: {
          [side]: `${cell}px`,
          lineHeight: `${cell}px`,
          fontSize: `${Math.min(12, cell * 0.85)}px`,
        },
      });
    const names = (units, side, place) =>
      tag("div", { class: place, "aria-hidden": "true" }, isNamed && units.map((unit) => label(unit, side)));
    return tag(
      "figure",
      { class: "chosen-head" },
      tag(
        "figcaption",
        {},
        tag("strong", {}, isolated(name)),
        !isNamed && tag("span", { class: "soft" }, " words on hover"),
      ),
      tag(
        "div",
        { class: "large" },
        tag("span"),
        names(head.columns, "width", "column-names"),
        names(head.rows, "height", "row-names"),
        view.box,
      ),
      view.echo,
    );
  }

  mark() {
    for (const view of this.framed) view.mark();
  }
}
