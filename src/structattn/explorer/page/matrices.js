/** Attention heads as matrices. */

import { largest, paintHead, perLine, syntacticCells } from "./cells.js";
import { Scale } from "./colours.js";
import { UPRIGHT, button, isolated, make, segmented, textWidth } from "./elements.js";
import { scaleEnds } from "./export.js";
import { MOVED } from "./heads.js";
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
    this.large = make("div");
    this.frames = [];
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
    this.frames = [];
    const chosen = this.chosen();
    const hasAnswersOnly = app.now?.some(({ look }) => look.answersOnly);
    this.element.hidden = !chosen && !hasAnswersOnly;
    this.large.hidden = !chosen;
    if (!chosen)
      return this.element.replaceChildren(
        make("p", { class: "soft" }, "For this edit the page has the prediction alone. ", liveHint(app.boot)),
      );
    const lists = this.shown;
    const change = app.view.mode === "change" && app.isEdited;
    const scale = new Scale(largest(lists.flat(), change), change, app.theme);
    const width = app.widthOf(this.element) || 600;
    const perRow = app.view.scale === "row";
    const options = { scale, change, perRow, theme: app.theme, sentences: app.state.sentences, chosen: chosen.key };
    this.element.replaceChildren(this.controls(), this.legend(scale, change), this.columns(lists, width, options));
    const names = Math.min(130, Math.max(...chosen.rows.map((unit) => textWidth(unit.text, 12))));
    const inside = app.widthOf(app.box);
    const beside = inside > 760 ? 302 : 0; // the prediction
    const room = clamp(inside - beside - names - 20, 120, LARGEST);
    const large = this.enlarged(chosen, { ...options, room });
    this.large.replaceChildren(large, ...(app.view.numbers ? [numberTable(app, chosen, change)] : []));
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

  legend(scale, change) {
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

  panel(head, options) {
    const { app } = this;
    const canvas = make("canvas", {
      role: "img",
      "aria-label": `${head.title}: ${count(head.rows.length, "row")}, moved by ${short(head.moved)}`,
    });
    paintHead(canvas, head, options);
    const chosen = options.chosen === head.key;
    const hasMoved = head.moved > MOVED;
    const title = button(
      [isolated(head.title), hasMoved ? make("span", { class: "number" }, short(head.moved)) : ""],
      () => app.change({ head: head.key }),
      { class: "title", "aria-pressed": String(chosen), "data-key": head.key },
    );
    const echo = make("p", { class: "echo" });
    const box = this.framed(head, canvas, echo);
    const figure = make(
      "figure",
      { class: `head${chosen ? " chosen" : ""}${hasMoved ? " moved" : ""}` },
      title,
      box,
      echo,
    );
    figure.style.width = `${Math.ceil(options.room) + 4}px`;
    return figure;
  }

  /** The canvas with a frame around the row that is looked at; it shows the value of the cell under the pointer. */
  framed(head, canvas, echo) {
    const frame = make("div", { class: "frame", hidden: true });
    const box = make("div", { class: "matrix" }, canvas, frame);
    box.style.width = canvas.style.width;
    this.frames.push({ head, frame });
    const at = (event) => {
      const { left, top, width, height } = canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - left) / width) * head.columns.length);
      const row = Math.floor(((event.clientY - top) / height) * head.rows.length);
      return row >= 0 && column >= 0 && row < head.rows.length && column < head.columns.length ? [row, column] : null;
    };
    canvas.addEventListener("pointermove", (event) => {
      const place = at(event);
      if (!place) return;
      const [row, column] = place;
      const [from, to] = [head.rows[row], head.columns[column]];
      echo.replaceChildren(...cellSaid(head, row, column));
      this.app.keyWord = to.word === null ? null : [to.sentence, to.word];
      this.app.hover = from.word === null ? null : [from.sentence, from.word];
      this.app.mark();
    });
    canvas.addEventListener("pointerleave", () => {
      echo.replaceChildren();
      this.app.keyWord = null;
      this.app.hover = null;
      this.app.mark();
    });
    canvas.addEventListener("click", () => this.app.change({ head: head.key }));
    return box;
  }

  /** The chosen head with its rows and columns named. */
  enlarged(head, options) {
    const canvas = make("canvas", { role: "img", "aria-label": `${head.title}, large` });
    const cell = paintHead(canvas, head, options);
    const echo = make("p", { class: "echo" });
    const named = cell >= 11;
    const names = (units, side) =>
      make(
        "div",
        { class: side, "aria-hidden": "true" },
        units.map((unit) => {
          const name = isolated(unit.text || "∅", { title: unit.text });
          name.classList.toggle("upright", UPRIGHT.test(unit.text));
          name.style[side === "row-names" ? "height" : "width"] = `${cell}px`;
          name.style.lineHeight = `${cell}px`;
          name.style.fontSize = `${Math.min(12, cell * 0.85)}px`;
          return name;
        }),
      );
    const box = this.framed(head, canvas, echo);
    const body = make(
      "div",
      { class: "large" },
      make("span"),
      ...(named ? [names(head.columns, "column-names"), names(head.rows, "row-names")] : [make("span"), make("span")]),
      box,
    );
    const models = this.app.state.models.length > 1 ? `${head.model} · ` : "";
    return make(
      "figure",
      { class: "chosen-head" },
      make(
        "figcaption",
        {},
        make("strong", {}, isolated(`${models}${head.title}`)),
        named ? null : make("span", { class: "soft" }, " words on hover"),
      ),
      body,
      echo,
    );
  }

  /** Move the frames to the row that is looked at. */
  mark() {
    const { spot } = this.app;
    for (const { head, frame } of this.frames) {
      const rows = spot
        ? head.rows
            .map((unit, i) => [unit, i])
            .filter(([unit]) => unit.sentence === spot[0] && unit.word === spot[1])
            .map(([, i]) => i)
        : [];
      frame.hidden = !rows.length;
      const share = (number) => `${(100 * number) / head.rows.length}%`;
      if (rows.length)
        Object.assign(frame.style, { top: share(rows[0]), height: share(rows.at(-1) - rows[0] + 1) });
    }
  }
}

/** "behind → child: .132, before .120", or that it is not allowed. */
function cellSaid(head, row, column) {
  const place = row * head.columns.length + column;
  const forbidden = head.allowed && !head.allowed[place];
  const before =
    head.before && Math.abs(head.before[place] - head.values[place]) >= 5e-4
      ? `, before ${short(head.before[place])}`
      : "";
  return [
    isolated(head.rows[row].text),
    " → ",
    isolated(head.columns[column].text),
    `: ${forbidden ? "not allowed" : short(head.values[place]) + before}`,
  ];
}
