/** Trees over and under the words, where they are edited. */

import { WORD, drawArcs, layArcs, placeWords, treeArcs } from "./arcs.js";
import { Scale } from "./colours.js";
import { follow, gripped } from "./drag.js";
import { drawn, isRightToLeft, isolated, make, textWidth } from "./elements.js";
import { Hand } from "./hand.js";
import { rowOf } from "./heads.js";
import { clamp, same } from "./numbers.js";
import { Prompt } from "./prompts.js";
import { treeNotes } from "./tree_notes.js";
import { brackets, influenceBars, outcomeRows } from "./under_words.js";
import { carriedNote } from "./wording.js";

/** The words of each sentence with their dependency tree above and their phrases below; both are edited here. */
export class Trees {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "trees", "aria-label": "trees" });
    this.lines = make("div");
    this.prompt = new Prompt(app);
    this.notes = make("div", { class: "notes" });
    this.carried = make("p", { class: "soft carried" });
    this.element.append(this.notes, this.lines, this.prompt.element, this.carried);
    this.tallest = [];
    this.focus = [0, 0];
  }

  draw() {
    const { app } = this;
    const active = app.root.activeElement;
    const focused = active?.dataset.word !== undefined && this.lines.contains(active);
    this.buttons = [];
    this.outcomes = [];
    this.arcs = [];
    // The boxes stay, and so does how far each is scrolled: setting that would lay out the page.
    app.state.sentences.forEach((sentence, number) => {
      const box = this.lines.children[number] ?? this.lines.appendChild(make("div", { class: "scroll" }));
      box.replaceChildren(this.line(sentence, number));
    });
    this.notes.replaceChildren(...treeNotes(app));
    this.carried.textContent = carriedNote(app);
    if (!this.prompt.element.contains(active)) this.prompt.hint();
    if (focused) this.focusWord(...this.focus);
  }

  /** One sentence: arcs, words, bars and brackets on a common line. */
  line(sentence, number) {
    const { app } = this;
    const before = app.state.before[number];
    const coarse = globalThis.matchMedia("(pointer: coarse)").matches;
    const widths = sentence.words.map((text) => Math.max(textWidth(text, WORD) * 1.02 + 14, coarse ? 44 : 24));
    const arcs = treeArcs(sentence, before);
    const rightToLeft = isRightToLeft(sentence.words);
    const { width, centres } = placeWords(widths, arcs, rightToLeft);
    const laid = layArcs(arcs, centres, widths);
    const ink = (role) => `var(--${role})`;
    // As high as it ever was for these words, so that they stay where they are while arcs are edited.
    const wordsKey = sentence.words.join(" ");
    if (this.tallest[number]?.key !== wordsKey) this.tallest[number] = { key: wordsKey, height: 0 };
    laid.height = this.tallest[number].height = Math.max(laid.height, this.tallest[number].height);
    const svg = drawn(
      "svg",
      {
        class: "arcs",
        width: Math.max(width, 1),
        height: laid.height,
        viewBox: `0 ${-laid.height} ${Math.max(width, 1)} ${laid.height}`,
        "aria-hidden": "true",
      },
      this.gripping(number, laid.paths, drawArcs(laid, ink)),
    );
    const words = make(
      "div",
      {
        class: "words",
        role: "group",
        "aria-label": app.state.sentences.length > 1 ? `sentence ${number + 1}` : "words",
      },
      sentence.words.map((text, i) => this.word(sentence, number, i, centres[i] - widths[i] / 2, widths[i])),
    );
    this.listen(words, number);
    this.outcomes[number] = outcomeRows(app, centres);
    const bars = influenceBars(app, number, centres, widths);
    const rename = (phrase) => this.prompt.askRename(number, phrase);
    const room = this.complete(number, words, width);
    const inner = make(
      "div",
      { class: "line", dir: "ltr" },
      svg,
      words,
      ...this.outcomes[number].rows,
      bars,
      brackets(sentence, centres, widths, rename),
    );
    inner.style.width = `${width + room}px`;
    this.listenToDrags({ number, centres, inner }, laid.paths);
    return inner;
  }

  /** The elements of arcs, each with a wide line to grab it by. */
  gripping(number, paths, elements) {
    if (!this.app.canEdit("dependency")) return elements;
    paths.forEach(({ arc, d }, i) => {
      if (arc.dashed) return;
      const grip = drawn("path", { class: "grip", d, fill: "none", stroke: "transparent", "stroke-width": 13 });
      grip.dataset.arc = i;
      elements[i].append(grip);
      this.arcs.push({ number, arc, element: elements[i] });
    });
    return elements;
  }

  /** Add the word that the first model would go on with, in the empty place after the sentence; returns its room. */
  complete(number, words, width) {
    const { boot, state, now } = this.app;
    const completions = boot.items[state.item]?.completions;
    const next = now && completions?.[now[0].look.answer?.label];
    if (!next || number !== state.sentences.length - 1) return 0;
    const title = `what ${now[0].look.model} would go on with`;
    const element = make("span", { class: "completion", title }, isolated(next));
    element.style.insetInlineStart = `${width + 6}px`;
    words.append(element);
    return 32 + Math.max(...Object.values(completions).map((text) => textWidth(text, WORD))); // the same for each
  }

  word(sentence, number, i, left, width) {
    const { app } = this;
    const head = sentence.heads
      ? sentence.heads[i]
        ? sentence.words[sentence.heads[i] - 1]
        : "none, it is the root"
      : null;
    const label = sentence.labels?.[i];
    const look = app.now?.[0]?.look;
    const unknown = look?.unknown?.[number]?.includes(i);
    const name = `${sentence.words[i]}${head === null ? "" : `, head ${head}`}${label ? `, ${label}` : ""}${unknown ? ", unknown to the model" : ""}`;
    const element = make(
      "button",
      {
        type: "button",
        class: unknown ? "word unknown" : "word",
        "data-word": i,
        "aria-label": name,
        tabindex: number === this.focus[0] && i === Math.min(this.focus[1], sentence.words.length - 1) ? 0 : -1,
        title: sentence.tags?.[i]
          ? `${sentence.tags[i]}${unknown ? ", unknown word" : ""}`
          : unknown
            ? "unknown word"
            : null,
      },
      isolated(sentence.words[i] || "∅"),
    );
    element.named = name;
    element.style.left = `${left}px`;
    element.style.width = `${width}px`;
    (this.buttons[number] ??= [])[i] = element;
    return element;
  }

  listenToDrags(line, paths) {
    const { app } = this;
    line.inner.addEventListener("pointerdown", (event) => {
      if (!app.canEdit("dependency") || event.button !== 0) return;
      const { arc, word } = event.target.closest("[data-arc],[data-word]")?.dataset ?? {};
      if (arc !== undefined) this.startDrag(event, line, paths[arc].arc, null);
      else if (word !== undefined && event.pointerType !== "touch") this.startDrag(event, line, null, Number(word));
    });
  }

  listen(words, number) {
    const { app } = this;
    const at = (event) => {
      const found = event.composedPath().find((element) => element.dataset?.word !== undefined);
      return found ? Number(found.dataset.word) : null;
    };
    words.addEventListener(
      "pointerover",
      (event) => event.pointerType !== "touch" && at(event) !== null && app.point([number, at(event)]),
    );
    words.addEventListener("pointerleave", () => app.point(null));
    words.addEventListener("focusin", (event) => {
      this.focus = [number, at(event)];
      this.rove();
      app.point([number, at(event)]);
    });
    words.addEventListener("focusout", () => app.point(null));
    words.addEventListener("click", (event) => at(event) !== null && this.press(number, at(event), event.shiftKey));
    words.addEventListener("keydown", (event) => at(event) !== null && this.key(event, number, at(event)));
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
    const x = event.clientX - inner.getBoundingClientRect().left;
    const hand = () =>
      this.grab(arc ? gripped(app, number, arc, x, centres) : new Hand(app, number, "dependent", from));
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
    const steps = {
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
      const next = clamp(i + steps[event.key], 0, words.length - 1);
      if (event.shiftKey) this.select(number, app.stretch?.number === number ? app.stretch.anchor : i, next);
      this.focusWord(number, next);
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
    const line = this.buttons[number] ?? [];
    this.focus = [number, clamp(i, 0, line.length - 1)];
    this.rove();
    line[this.focus[1]]?.focus();
  }

  /** Only one word can be reached by the tab key. */
  rove() {
    this.buttons.forEach((line, number) =>
      line.forEach((element, i) =>
        element.setAttribute("tabindex", number === this.focus[0] && i === this.focus[1] ? "0" : "-1"),
      ),
    );
  }

  /** Shade the words by the weights of the word that is looked at, in the chosen head. */
  mark() {
    const { app } = this;
    const head = app.matrices.chosen();
    const row = head && app.spot && !app.hand ? rowOf(head, app.spot) : null; // else shades hide what is grey
    const scale = new Scale(row ? Math.max(...row.values()) : 1, false, app.theme);
    this.buttons.forEach((line, number) =>
      line.forEach((element, i) => {
        const value = row?.get(`${number} ${i}`);
        element.style.background = value === undefined ? "" : scale.css(value);
        element.style.color = value === undefined ? "" : scale.inkOn(value);
        const at = (place) => same(place, [number, i]);
        element.classList.toggle("spot", at(app.spot));
        const hand = app.hand?.number === number ? app.hand : null;
        element.classList.toggle("hand", hand?.word === i);
        const isOff = Boolean(hand) && hand.word !== i && !hand.moves[i];
        element.classList.toggle("off", isOff);
        element.setAttribute("aria-disabled", String(isOff));
        element.setAttribute(
          "aria-label",
          hand && hand.word !== i ? `${element.named}, ${hand.said(i)}` : element.named,
        );
        element.classList.toggle("key", at(app.keyWord));
        const { stretch: chosen } = app;
        element.classList.toggle("chosen", chosen?.number === number && chosen.start <= i && i < chosen.end);
        element.setAttribute("aria-pressed", String(at(app.view.pinned)));
      }),
    );
    for (const { number, arc, element } of this.arcs)
      element.classList.toggle("lifted", isLifted(app.hand, number, arc));
    this.outcomes.forEach((rows, number) => rows.mark(app.hand?.number === number ? app.hand : null));
    this.prompt.outcome();
  }
}

/** Whether an arc is the one in hand, whose upper end or whose root moves. */
const isLifted = (hand, number, arc) =>
  hand?.number === number &&
  hand.end !== "dependent" &&
  (hand.word === null ? arc.from === null : arc.to === hand.word);
