/** Trees over and under the words, where they are edited. */

import { Scale } from "./colours.js";
import { follow, gripped } from "./drag.js";
import { fill, isRightToLeft, make, tag } from "./elements.js";
import { Hand } from "./hand.js";
import { rowOf } from "./heads.js";
import { clamp, same } from "./numbers.js";
import { Prompt } from "./prompts.js";
import { TreeLine } from "./tree_line.js";
import { treeNotes } from "./tree_notes.js";
import { markWeights } from "./weight_arcs.js";
import { carriedNote } from "./wording.js";

/** The words of each sentence with their dependency tree above and their phrases below; both are edited here. */
export class Trees {
  constructor(app) {
    this.app = app;
    this.prompt = new Prompt(app);
    this.notes = make(tag("div", { class: "notes" }));
    this.boxes = make(tag("div"));
    this.carried = make(tag("p", { class: "soft carried" }));
    const parts = [this.boxes, this.prompt.element, this.notes, this.carried];
    this.element = make(tag("section", { class: "trees", "aria-label": "trees" }, parts));
    this.lines = [];
    this.focus = [0, 0];
    this.listen();
  }

  draw() {
    const { app } = this;
    const { sentences } = app.state;
    this.lines = sentences.map((_, number) => this.lines[number] ?? new TreeLine(this, number));
    fill(
      this.boxes,
      this.lines.map((line) => tag("div", { class: "scroll" }, line.describe())),
    );
    fill(this.notes, treeNotes(app));
    fill(this.carried, carriedNote(app));
    if (!this.prompt.isAsking) this.prompt.hint();
  }

  /** The line of words of an event, and the word if it is at one. */
  placeOf({ target }) {
    const line = this.lines.find(({ inner }) => inner.contains(target));
    const { word } = target.closest("[data-word]")?.dataset ?? {};
    return { line, number: line?.number, i: word === undefined ? null : Number(word) };
  }

  listen() {
    const { app, boxes } = this;
    const on = (name, act) => boxes.addEventListener(name, (event) => act(this.placeOf(event), event));
    const atWord = (name, act) => on(name, (place, event) => place.i !== null && act(place, event));
    const point = ({ number, i }) => app.point(i === null ? null : [number, i]);
    on("pointerover", (place, event) => event.pointerType !== "touch" && !event.buttons && point(place));
    boxes.addEventListener("pointerleave", (event) => event.buttons || app.point(null));
    atWord("focusin", ({ number, i }) => {
      this.focus = [number, i];
      this.rove();
      app.point([number, i]);
    });
    atWord("focusout", () => app.point(null));
    atWord("click", ({ number, i }, event) => this.press(number, i, event.shiftKey));
    atWord("keydown", ({ number, i }, event) => this.key(event, number, i));
    on("pointerdown", ({ line, i }, event) => {
      if (!line || !app.canEdit("dependency") || event.button !== 0) return;
      const { arc } = event.target.dataset;
      if (arc !== undefined) this.startDrag(event, line, line.paths[arc].arc, null);
      else if (i !== null && event.pointerType !== "touch") this.startDrag(event, line, null, i);
    });
  }

  /** Take an end of an arc in hand, or let it go. */
  grab(hand) {
    const { app } = this;
    app.hand = hand;
    app.stretch = null;
    this.prompt.hint();
    app.mark();
    return hand;
  }

  /** Drop what is in hand at a word; nowhere, it is let go. */
  drop(place) {
    const { hand } = this.app;
    this.grab(null);
    if (hand && place !== null) hand.drop(place);
  }

  /** Drag an arc by the end that is nearer, a new one from a head, or, with Shift, over several words. */
  startDrag(event, line, arc, from) {
    const { app } = this;
    const { number, centres, inner } = line;
    const { along } = line.pointer(event, inner.getBoundingClientRect());
    const hand = () =>
      this.grab(arc ? gripped(app, number, arc, along, centres) : new Hand(app, number, "dependent", from));
    const drop = (place) => this.drop(place);
    if (arc) follow(app, event, line, { grip: hand, drop, press: hand });
    else if (!event.shiftKey) follow(app, event, line, { grip: hand, drop });
    else
      follow(app, event, line, {
        grip: () => ({ word: from }),
        drop: (place) => place !== null && this.select(number, from, place),
      });
  }

  /** Press a word: it is pinned and offered as a head; the next word pressed becomes its dependent. */
  press(number, i, extend) {
    const { app } = this;
    if (extend) return this.select(number, app.stretch?.number === number ? app.stretch.anchor : (this.anchor ?? i), i);
    this.anchor = i;
    const { hand } = app;
    if (hand && hand.number === number && hand.word !== i) {
      app.view.pinned = null;
      return this.drop(i);
    }
    const canEdit = app.canEdit("dependency") && app.state.sentences[number].heads;
    const off = hand?.word === i || (!canEdit && same(app.view.pinned, [number, i]));
    app.view.pinned = off ? null : [number, i];
    return this.grab(off || !canEdit ? null : new Hand(app, number, "dependent", i));
  }

  select(number, anchor, i) {
    const { app } = this;
    app.hand = null;
    app.stretch = { number, anchor, start: Math.min(anchor, i), end: Math.max(anchor, i) + 1 };
    this.prompt.hint();
    app.mark();
  }

  key(event, number, i) {
    const { app } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { words } = app.state.sentences[number];
    const forward = isRightToLeft(words) ? "ArrowLeft" : "ArrowRight";
    const next = event.key === "ArrowDown" ? 1 : -1;
    const isAmong = this.lines[number].isUpright && words[i + next] !== undefined;
    const steps = {
      ...(isAmong ? { ArrowDown: 1, ArrowUp: -1 } : {}),
      [forward]: 1,
      [forward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft"]: -1,
      Home: -words.length,
      End: words.length,
    };
    const letters = {
      r: () => app.move(number, i, 0),
      a: () => this.grabArc(number, i),
      l: () => this.prompt.askLabel(number, i),
      n: () => this.prompt.askPhrase(number, i),
      p: () => app.change({ pinned: same(app.view.pinned, [number, i]) ? null : [number, i] }),
    };
    const letter = event.key.toLowerCase();
    if (event.key in steps) {
      const place = clamp(i + steps[event.key], 0, words.length - 1);
      if (event.shiftKey) this.select(number, app.stretch?.number === number ? app.stretch.anchor : i, place);
      this.focusWord(number, place);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && app.state.sentences.length > 1) {
      this.focusWord(number ? 0 : 1, i);
    } else if (event.key === "Escape") this.escape();
    else if (letter in letters) letters[letter]();
    else return;
    event.preventDefault();
  }

  /** Take the upper end of the arc of a word in hand; that of a root goes to another word. */
  grabArc(number, i) {
    const { app } = this;
    const { heads } = app.state.sentences[number];
    if (!app.canEdit("dependency") || !heads) return app.refuse("A prediction for another tree");
    return this.grab(new Hand(app, number, heads[i] ? "head" : "root", heads[i] ? i : null));
  }

  escape() {
    this.app.view.pinned = null;
    this.grab(null);
  }

  focusWord(number, i) {
    const words = this.lines[number]?.words ?? [];
    this.focus = [number, clamp(i, 0, words.length - 1)];
    this.rove();
    words[this.focus[1]]?.focus();
  }

  /** Only one word can be reached by the tab key. */
  rove() {
    for (const { words, number } of this.lines)
      words.forEach((element, i) =>
        element.setAttribute("tabindex", number === this.focus[0] && i === this.focus[1] ? "0" : "-1"),
      );
  }

  /** Shade the words by the weights of the word that is looked at, in the chosen head. */
  mark() {
    const { app } = this;
    const head = app.matrices.chosen();
    const row = head && app.spot && !app.hand ? rowOf(head, app.spot) : null; // else shades hide what is grey
    const scale = new Scale(row ? Math.max(...row.values()) : 1, false, app.theme);
    for (const line of this.lines) {
      const hand = app.hand?.number === line.number ? app.hand : null;
      line.words.forEach((element, i) => this.markWord(element, line.number, i, hand, row && [row, scale]));
      for (const { arc, element } of line.arcs) element.classList.toggle("lifted", isLifted(hand, arc));
      line.outcomes.mark(hand);
      markWeights(line, app.hand ? null : app.spot);
    }
    this.prompt.outcome();
  }

  markWord(element, number, i, hand, shade) {
    const { app } = this;
    const value = shade?.[0].get(`${number} ${i}`);
    element.style.background = value === undefined ? "" : shade[1].css(value);
    element.style.color = value === undefined ? "" : shade[1].inkOn(value);
    const at = (place) => place?.[0] === number && place[1] === i;
    const isOff = Boolean(hand) && hand.word !== i && !hand.moves[i];
    const { stretch } = app;
    const marks = {
      spot: at(app.spot),
      hand: hand?.word === i,
      off: isOff,
      key: at(app.keyWord),
      chosen: stretch?.number === number && stretch.start <= i && i < stretch.end,
    };
    for (const [name, isOn] of Object.entries(marks)) element.classList.toggle(name, isOn);
    const said = {
      "aria-disabled": String(isOff),
      "aria-label": hand && hand.word !== i ? `${element.named}, ${hand.said(i)}` : element.named,
      "aria-pressed": String(at(app.view.pinned)),
    };
    for (const [name, text] of Object.entries(said))
      if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Whether an arc is the one in hand, whose upper end or whose root moves. */
const isLifted = (hand, arc) =>
  Boolean(hand) && hand.end !== "dependent" && (hand.word === null ? arc.from === null : arc.to === hand.word);
