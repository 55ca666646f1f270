/** One head on the page: its matrix, a frame around the row that is looked at, the value under the pointer. */

import { paintHead, syntacticCells } from "./cells.js";
import { fill, isolated, make, tag } from "./elements.js";
import { same, short } from "./numbers.js";

const equal = (one, other) =>
  one === other || Boolean(one && other && one.length === other.length && one.every((value, i) => value === other[i]));

export class MatrixView {
  constructor(app) {
    this.app = app;
    this.canvas = make(tag("canvas", { role: "img" }));
    this.frame = make(tag("div", { class: "frame", hidden: true }));
    this.box = make(tag("div", { class: "matrix" }, this.canvas, this.frame));
    this.echo = make(tag("p", { class: "echo" }));
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => {
      fill(this.echo);
      this.look(null, null);
    });
    this.canvas.addEventListener("click", () => app.change({ head: this.head.key }));
  }

  /** Show a head; it is painted only if something that can be seen has changed. Returns the pixels of a cell. */
  update(head, options, name) {
    const last = this.head;
    this.head = head;
    if (name !== this.name) this.canvas.setAttribute("aria-label", name);
    this.name = name;
    const { scale, change, perRow, theme, room, sentences } = options;
    const shape = [head.rows.length, head.columns.length];
    const ratio = globalThis.devicePixelRatio;
    const cells = syntacticCells(head, sentences);
    const key = JSON.stringify([shape, scale.limit, change, perRow, theme, room, ratio, cells]);
    const isSame =
      key === this.key &&
      equal(last.values, head.values) &&
      equal(last.allowed, head.allowed) &&
      (!change || equal(last.before, head.before));
    if (isSame) return this.cell;
    this.key = key;
    this.cell = paintHead(this.canvas, head, options);
    this.box.style.width = this.canvas.style.width;
    return this.cell;
  }

  point(event) {
    const { head } = this;
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - left) / width) * head.columns.length);
    const row = Math.floor(((event.clientY - top) / height) * head.rows.length);
    if (row < 0 || column < 0 || row >= head.rows.length || column >= head.columns.length) return;
    fill(this.echo, cellSaid(head, row, column));
    this.look(head.rows[row], head.columns[column]);
  }

  look(from, to) {
    const placeOf = (unit) => (unit && unit.word !== null ? [unit.sentence, unit.word] : null);
    this.app.keyWord = placeOf(to);
    this.app.hover = placeOf(from);
    this.app.mark();
  }

  /** Move the frame to the row that is looked at. */
  mark() {
    const { spot } = this.app;
    const { rows } = this.head;
    const found = spot ? rows.flatMap(({ sentence, word }, i) => (same([sentence, word], spot) ? [i] : [])) : [];
    this.frame.hidden = !found.length;
    const share = (number) => `${(100 * number) / rows.length}%`;
    if (found.length)
      Object.assign(this.frame.style, { top: share(found[0]), height: share(found.at(-1) - found[0] + 1) });
  }
}
/** "behind → child: .132, before .120", or that it is not allowed. */
function cellSaid(head, row, column) {
  const place = row * head.columns.length + column;
  const value = head.values[place];
  const hasMoved = head.before && Math.abs(head.before[place] - value) >= 5e-4;
  const before = hasMoved ? `, ${head.against ?? "before"} ${short(head.before[place])}` : "";
  const said = head.allowed && !head.allowed[place] ? "not allowed" : short(value) + before;
  return [isolated(head.rows[row].text), " → ", isolated(head.columns[column].text), `: ${said}`];
}
