/** One sentence on the page: arcs, words, bars and brackets along a common line. Words that do not fit side by side stand
 * one under the other, with the arcs on their left and all else on their right. */

import { WORD, drawArcs, layArcs, placeWords, tallestOf, treeArcs } from "./arcs.js";
import { drawn, isRightToLeft, isolated, tag, textWidth } from "./elements.js";
import { readers } from "./hand.js";
import { clamp, same } from "./numbers.js";
import { treeEdits } from "./trees.js";
import { brackets, influenceBars, outcomeRows } from "./under_words.js";
import { DEEPEST_UPRIGHT, weightArcs } from "./weight_arcs.js";

const MARGIN = 28; // of the box of a line, on both sides
const PITCH = 28; // from a word to the one below it
const MOST_TRIED = 24; // words; of more it takes long to find the edit with the highest arcs

export class TreeLine {
  constructor(trees, number) {
    Object.assign(this, { app: trees.app, trees, number, words: [], arcs: [] });
  }

  /** The description of the line, which is laid out anew only for other words, trees or widths. */
  describe() {
    const { app, number } = this;
    const sentence = app.state.sentences[number];
    this.lay(sentence, app.state.before[number]);
    this.words.length = this.arcs.length = 0;
    this.outcomes = outcomeRows(app, this);
    const words = {
      class: "words",
      role: "group",
      "aria-label": app.state.sentences.length > 1 ? `sentence ${number + 1}` : "words",
      style: this.isUpright ? { width: `${this.deep}px`, height: `${this.length + this.room}px` } : {},
    };
    const bars = influenceBars(app, this);
    const rename = (phrase) => this.trees.prompt.askRename(number, phrase);
    const parts = [
      this.svg(),
      tag(
        "div",
        words,
        sentence.words.map((_, i) => this.word(sentence, i)),
        this.completion(),
      ),
      this.isUpright && this.relations(sentence),
      weightArcs(app, this),
      this.outcomes.rows,
      bars.map(({ row, note }) => [row, !this.isUpright && note]),
      app.shows("constituency") && brackets(sentence, this, rename),
    ];
    const style = this.isUpright ? {} : { width: `${this.length + this.room}px` };
    const attributes = { dir: "ltr", style, ref: (element) => (this.inner = element) };
    const kind = this.isUpright ? "line upright" : "line";
    return [tag("div", { class: kind, ...attributes }, parts), this.isUpright && bars.map(({ note }) => note)];
  }

  /** Words stand where the tree that the sentence was born with has room, so that none moves while arcs are edited. */
  lay(sentence, before) {
    const { app } = this;
    const coarse = globalThis.matchMedia("(pointer: coarse)").matches;
    const born = app.state.born[this.number];
    const place = same(born?.words, sentence.words) && born.heads ? born : sentence;
    const inside = app.widthOf(app.box) || Infinity;
    const isShown = app.shows("dependency");
    const key = JSON.stringify([place.words, place.heads, place.labels, coarse, isShown, inside, this.roomBeside]);
    if (this.key !== key) this.place(place, isShown ? treeArcs(place, null) : [], coarse, inside - MARGIN);
    this.key = key;
    const { centres, extents, height } = this;
    const laid = layArcs(isShown ? treeArcs(sentence, before) : [], centres, extents, { room: this.deepest });
    this.height = Math.max(laid.height, height); // as high as it ever was for these words
    this.paths = this.isUpright ? laid.paths.map((path) => ({ ...path, label: null })) : laid.paths;
  }

  /** Where the words stand: their centres and extents along the line, its length, and how deep the arcs may be. */
  place(sentence, arcs, coarse, inside) {
    const { words, labels } = sentence;
    const widths = words.map((text) => Math.max(textWidth(text, WORD) * 1.02 + 14, coarse ? 44 : 24));
    const { width, centres } = placeWords(widths, arcs, isRightToLeft(words));
    this.room = this.completionRoom();
    this.isUpright = width + this.room > inside;
    Object.assign(this, { widths, extents: widths, centres, length: width, deepest: 300 });
    if (this.isUpright) {
      const pitch = coarse ? 44 : PITCH;
      this.extents = words.map(() => pitch);
      this.centres = words.map((_, i) => (i + 0.5) * pitch);
      this.length = words.length * pitch;
      this.room = this.room && pitch + 6;
      this.deep = Math.max(...widths);
      this.named = arcs.length && labels ? Math.max(...labels.map((label) => textWidth(label, 11))) + 8 : 0;
      const numbers = 46 * Math.max(readers(this.app).length, 1) + this.roomBeside;
      this.deepest = clamp(inside - this.deep - this.named - numbers - 24, 30, 260);
    }
    const edits = arcs.length && words.length <= MOST_TRIED ? treeEdits([sentence]) : [];
    const trees = [arcs, ...edits.map(({ sentence: edited }) => treeArcs(edited, sentence))];
    this.height = tallestOf(trees, this.deepest);
  }

  /** The room that arcs of weights and bars of influence take, where words stand one under the other. */
  get roomBeside() {
    const { view, extras, state } = this.app;
    return (view.arcs ? DEEPEST_UPRIGHT + 6 : 0) + 40 * extras.wanted.size * state.models.length;
  }

  /** The style of what stands at a place along the line. */
  at(along, length, across, depth) {
    const [left, width, top, height] = this.isUpright
      ? [across, depth, along - length / 2, length]
      : [along - length / 2, length, across, depth];
    const pixels = Object.entries({ left, width, top, height });
    return Object.fromEntries(pixels.flatMap(([name, value]) => (value === undefined ? [] : [[name, `${value}px`]])));
  }

  /** How far along the line, and how far beside it, the pointer is; `box` is where the line is on the screen. */
  pointer({ clientX, clientY }, box) {
    const beside = Math.max(box.top - clientY, clientY - box.bottom);
    if (!this.isUpright) return { along: clientX - box.left, beside };
    return { along: clientY - box.top, beside: Math.max(box.left - clientX, clientX - box.right) };
  }

  /** The arcs, each with a wide line to grab it by. */
  svg() {
    const { height, paths } = this;
    const arcs = drawArcs({ paths }, (role) => `var(--${role})`);
    if (this.app.canEdit("dependency"))
      paths.forEach(({ arc, d }, i) => {
        if (arc.dashed) return;
        const grip = { class: "grip", d, fill: "none", stroke: "transparent", "stroke-width": 13, "data-arc": i };
        arcs[i].children.push(drawn("path", grip));
        arcs[i].attributes.ref = (element) => this.arcs.push({ arc, element });
      });
    const length = Math.max(this.length, 1);
    const turn = this.isUpright ? "matrix(0 1 1 0 0 0)" : null; // what is above the words comes to stand on their left
    const [width, high, origin] = this.isUpright ? [height, length, `${-height} 0`] : [length, height, `0 ${-height}`];
    const attributes = {
      class: "arcs",
      width,
      height: high,
      viewBox: `${origin} ${width} ${high}`,
      "aria-hidden": "true",
    };
    return drawn("svg", attributes, drawn("g", { transform: turn, ref: (element) => (this.drawing = element) }, arcs));
  }

  /** Where words stand one under the other, the relation of each to its head. */
  relations({ heads, labels }) {
    if (!this.named || !heads || !labels) return null;
    const name = (label, i) => tag("span", { style: this.at(this.centres[i], this.extents[i]) }, isolated(label));
    return tag(
      "div",
      { class: "relations", "aria-hidden": "true", style: { width: `${this.named}px` } },
      labels.map(name),
    );
  }

  /** The word that the first model would go on with, in the empty place after the sentence, which has room for any. */
  completion() {
    const { now } = this.app;
    const next = now && this.completions?.[now[0].look.answer?.label];
    if (!next) return null;
    const title = `what ${now[0].look.model} would go on with`;
    const style = this.isUpright ? { top: `${this.length + 2}px` } : { insetInlineStart: `${this.length + 6}px` };
    return tag("span", { class: "completion", title, style }, isolated(next));
  }

  get completions() {
    const { boot, state } = this.app;
    return this.number === state.sentences.length - 1 ? boot.items[state.item]?.completions : null;
  }

  completionRoom() {
    const texts = Object.values(this.completions ?? {});
    return texts.length && 32 + Math.max(...texts.map((text) => textWidth(text, WORD)));
  }

  word(sentence, i) {
    const { app, number, trees } = this;
    const { words, heads, labels, tags } = sentence;
    const isUnknown = app.now?.[0]?.look.unknown?.[number]?.includes(i);
    const head = heads && `head ${heads[i] ? words[heads[i] - 1] : "none, it is the root"}`;
    const name = [words[i], head, labels?.[i], isUnknown && "unknown to the model"].filter(Boolean).join(", ");
    const isInFocus = number === trees.focus[0] && i === Math.min(trees.focus[1], words.length - 1);
    const attributes = {
      type: "button",
      class: isUnknown ? "word unknown" : "word",
      "data-word": i,
      "aria-label": name,
      tabindex: isInFocus ? 0 : -1,
      title: [tags?.[i], isUnknown && "unknown word"].filter(Boolean).join(", ") || null,
      style: this.isUpright
        ? { left: "", width: `${this.widths[i]}px`, top: `${this.centres[i] - 14}px` }
        : { left: `${this.centres[i] - this.widths[i] / 2}px`, width: `${this.widths[i]}px`, top: "" },
      ref: (element) => (this.words[i] = Object.assign(element, { named: name })),
    };
    return tag("button", attributes, isolated(words[i] || "∅"));
  }
}
