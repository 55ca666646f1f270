/** One sentence on the page: arcs, words, bars and brackets on a common line. */

import { WORD, drawArcs, layArcs, placeWords, treeArcs } from "./arcs.js";
import { drawn, isRightToLeft, isolated, tag, textWidth } from "./elements.js";
import { same } from "./numbers.js";
import { brackets, influenceBars, outcomeRows } from "./under_words.js";

export class TreeLine {
  constructor(trees, number) {
    Object.assign(this, { app: trees.app, trees, number, words: [], arcs: [] });
  }

  /** The description of the line, which is laid out anew only for other words, trees or widths. */
  describe() {
    const { app, number } = this;
    const sentence = app.state.sentences[number];
    const laid = this.lay(sentence, app.state.before[number]);
    const { width, centres, widths } = laid;
    this.words.length = this.arcs.length = 0;
    this.outcomes = outcomeRows(app, centres);
    const next = this.completion(width);
    const room = next ? next.room : 0;
    const words = {
      class: "words",
      role: "group",
      "aria-label": app.state.sentences.length > 1 ? `sentence ${number + 1}` : "words",
    };
    return tag(
      "div",
      { class: "line", dir: "ltr", style: { width: `${width + room}px` }, ref: (element) => (this.inner = element) },
      this.svg(laid),
      tag(
        "div",
        words,
        sentence.words.map((_, i) => this.word(sentence, i)),
        next?.element,
      ),
      this.outcomes.rows,
      influenceBars(app, number, centres, widths),
      app.shows("constituency") &&
        brackets(sentence, centres, widths, (phrase) => this.trees.prompt.askRename(number, phrase)),
    );
  }

  /** Words stand where the tree that the sentence was born with has room, so that none moves while arcs are edited. */
  lay(sentence, before) {
    const coarse = globalThis.matchMedia("(pointer: coarse)").matches;
    const born = this.app.state.born[this.number];
    const place = same(born?.words, sentence.words) && born.heads ? born : sentence;
    const key = JSON.stringify([place.words, place.heads, place.labels, coarse, this.app.shows("dependency")]);
    if (this.key !== key) {
      const widths = sentence.words.map((text) => Math.max(textWidth(text, WORD) * 1.02 + 14, coarse ? 44 : 24));
      this.placed = { widths, ...placeWords(widths, treeArcs(place, null), isRightToLeft(sentence.words)) };
      this.tallest = 0;
    }
    this.key = key;
    const arcs = this.app.shows("dependency") ? treeArcs(sentence, before) : [];
    const laid = { ...this.placed, ...layArcs(arcs, this.placed.centres, this.placed.widths) };
    laid.height = this.tallest = Math.max(laid.height, this.tallest); // as high as it ever was for these words
    Object.assign(this, laid);
    return laid;
  }

  /** The arcs, each with a wide line to grab it by. */
  svg(laid) {
    const { height, paths } = laid;
    const width = Math.max(laid.width, 1);
    const arcs = drawArcs(laid, (role) => `var(--${role})`);
    if (this.app.canEdit("dependency"))
      paths.forEach(({ arc, d }, i) => {
        if (arc.dashed) return;
        const grip = { class: "grip", d, fill: "none", stroke: "transparent", "stroke-width": 13, "data-arc": i };
        arcs[i].children.push(drawn("path", grip));
        arcs[i].attributes.ref = (element) => this.arcs.push({ arc, element });
      });
    const viewBox = `0 ${-height} ${width} ${height}`;
    return drawn("svg", { class: "arcs", width, height, viewBox, "aria-hidden": "true" }, arcs);
  }

  /** The word that the first model would go on with, in the empty place after the sentence, which has room for any. */
  completion(width) {
    const { boot, state, now } = this.app;
    const completions = boot.items[state.item]?.completions;
    const next = now && completions?.[now[0].look.answer?.label];
    if (!next || this.number !== state.sentences.length - 1) return null;
    const title = `what ${now[0].look.model} would go on with`;
    const style = { insetInlineStart: `${width + 6}px` };
    const element = tag("span", { class: "completion", title, style }, isolated(next));
    return { element, room: 32 + Math.max(...Object.values(completions).map((text) => textWidth(text, WORD))) };
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
      style: { left: `${this.centres[i] - this.widths[i] / 2}px`, width: `${this.widths[i]}px` },
      ref: (element) => (this.words[i] = Object.assign(element, { named: name })),
    };
    return tag("button", attributes, isolated(words[i] || "∅"));
  }
}
