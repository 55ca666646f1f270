/** Trees over and under the words, where they are edited. */

import { WORD, drawArcs, layArcs, placeWords, treeArcs } from "./arcs.js";
import { Scale } from "./colours.js";
import { button, drawn, isRightToLeft, isolated, make, textWidth } from "./elements.js";
import { MOST_INFLUENCE, clamp, same, sum } from "./numbers.js";
import { Prompt } from "./prompts.js";
import { brackets, influenceBars } from "./under_words.js";
import { carriedNote, readsText, sourcesOf } from "./wording.js";

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
    // The boxes stay, and so does how far each is scrolled: setting that would lay out the page.
    app.state.sentences.forEach((sentence, number) => {
      const box = this.lines.children[number] ?? this.lines.appendChild(make("div", { class: "scroll" }));
      box.replaceChildren(this.line(sentence, number));
    });
    this.notes.replaceChildren(...this.notesOf());
    this.carried.textContent = carriedNote(app);
    if (!this.prompt.element.contains(active)) this.prompt.hint();
    if (focused) this.focusWord(...this.focus);
  }

  notesOf() {
    const { app } = this;
    const models = app.state.models.map((name) => app.boot.models.find((model) => model.name === name)).filter(Boolean);
    const chips = models.map((model) =>
      make("span", { class: "chip" }, isolated(model.name), ` reads ${readsText(model.reads ?? [])}`),
    );
    const known = ["influence", "arcs"].map((what) => this.influence(what));
    return [
      ...chips,
      ...sourcesOf(app).map(({ text, doubtful }) => make("span", { class: doubtful ? "chip doubtful" : "chip" }, text)),
      ...known,
      app.canEdit("dependency") &&
        button("Compare from here", () => app.compareFromHere(), { disabled: !app.isEdited }),
    ].filter(Boolean);
  }

  /** The switch for the bars under the words. */
  influence(what) {
    const { app } = this;
    const names = { influence: "influence of words", arcs: "influence of arcs" };
    if (!app.live && !app.state.models.some((model) => app.extras.get(what, model)?.values.some(Boolean))) return null;
    const on = app.extras.wanted.has(what);
    const toggle = () => {
      if (on) app.extras.wanted.delete(what);
      else app.extras.wanted.add(what);
      app.draw();
      app.extras.follow();
    };
    const off = app.live && app.extras.isLong;
    const title = off ? `for texts of at most ${MOST_INFLUENCE} words: it takes a run of the model per word` : null;
    return button(names[what], toggle, { "aria-pressed": String(on), class: "toggle", disabled: off, title });
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
      drawArcs(laid, ink),
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
    this.listen(words, number, centres);
    const bars = influenceBars(app, number, centres, widths);
    const rename = (phrase) => this.prompt.askRename(number, phrase);
    const completion = this.completion(number);
    if (completion) words.append(completion);
    const inner = make(
      "div",
      { class: "line", dir: "ltr" },
      svg,
      words,
      bars,
      brackets(sentence, centres, widths, rename),
    );
    inner.style.width = `${width}px`;
    return inner;
  }

  /** The word that the first model would go on with, in the empty place after the sentence. */
  completion(number) {
    const { boot, state, now } = this.app;
    const completions = boot.items[state.item]?.completions;
    const next = now && completions?.[now[0].look.answer?.label];
    if (!next || number !== state.sentences.length - 1) return null;
    return make("span", { class: "completion", title: `what ${now[0].look.model} would go on with` }, isolated(next));
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
    element.style.left = `${left}px`;
    element.style.width = `${width}px`;
    (this.buttons[number] ??= [])[i] = element;
    return element;
  }

  listen(words, number, centres) {
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
    words.addEventListener("pointerdown", (event) => {
      if (app.canEdit("dependency") && event.pointerType !== "touch" && event.button === 0 && at(event) !== null)
        this.startDrag(event, number, at(event), centres, words);
    });
  }

  /** Drag from a head to its dependent; a line follows the pointer. */
  startDrag(start, number, from, centres, words) {
    const { app } = this;
    const box = words.getBoundingClientRect();
    const line = drawn("path", { fill: "none", stroke: "var(--edit)", "stroke-width": 2 });
    const svg = words.previousSibling;
    const under = (event) => app.root.elementFromPoint(event.clientX, event.clientY)?.closest?.("[data-word]");
    const move = (event) => {
      const x = event.clientX - box.left;
      const height = clamp(Math.abs(x - centres[from]) / 2, 8, svg.viewBox.baseVal.height - 4);
      line.setAttribute("d", `M${centres[from]} 0C${centres[from]} ${-height} ${x} ${-height} ${x} -4`);
      if (!line.parentNode) svg.append(line);
    };
    const end = (event) => {
      globalThis.removeEventListener("pointermove", move);
      globalThis.removeEventListener("pointerup", end);
      globalThis.removeEventListener("pointercancel", end);
      line.remove();
      const found = event.type === "pointerup" ? under(event) : null;
      const to = found && words.contains(found) ? Number(found.dataset.word) : from;
      if (to === from) return;
      if (start.shiftKey) this.select(number, from, to);
      else app.move(number, to, from + 1);
    };
    globalThis.addEventListener("pointermove", move);
    globalThis.addEventListener("pointerup", end);
    globalThis.addEventListener("pointercancel", end);
  }

  /** Press a word: it is pinned and offered as a head; the next word pressed becomes its dependent. */
  press(number, i, extend) {
    const { app } = this;
    if (extend) return this.select(number, app.stretch?.number === number ? app.stretch.anchor : (this.anchor ?? i), i);
    this.anchor = i;
    const { hand } = app;
    if (hand && hand.number === number && hand.word !== i) {
      app.view.pinned = null;
      return app.move(number, i, hand.word + 1);
    }
    const canEdit = app.canEdit("dependency") && app.state.sentences[number].heads;
    const off = hand?.word === i || (!canEdit && same(app.view.pinned, [number, i]));
    app.hand = off || !canEdit ? null : { number, word: i };
    app.stretch = null;
    app.view.pinned = off ? null : [number, i];
    this.prompt.hint();
    return app.mark();
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
      r: () => app.reroot(number, i),
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

  escape() {
    const { app } = this;
    app.hand = app.stretch = null;
    app.view.pinned = null;
    this.prompt.hint();
    app.mark();
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
    const row = head && app.spot ? rowOf(head, app.spot) : null;
    const scale = new Scale(row ? Math.max(...row.values()) : 1, false, app.theme);
    this.buttons.forEach((line, number) =>
      line.forEach((element, i) => {
        const value = row?.get(`${number} ${i}`);
        element.style.background = value === undefined ? "" : scale.css(value);
        element.style.color = value === undefined ? "" : scale.inkOn(value);
        const at = (place) => same(place, [number, i]);
        element.classList.toggle("spot", at(app.spot));
        element.classList.toggle("hand", app.hand?.number === number && app.hand.word === i);
        element.classList.toggle("key", at(app.keyWord));
        const { stretch: chosen } = app;
        element.classList.toggle("chosen", chosen?.number === number && chosen.start <= i && i < chosen.end);
        element.setAttribute("aria-pressed", String(at(app.view.pinned)));
      }),
    );
  }
}

/** Weights from a word to the words, by sentence and place; over several rows the mean. */
function rowOf(head, [sentence, place]) {
  const rows = head.rows
    .map((unit, i) => [unit, i])
    .filter(([unit]) => unit.sentence === sentence && unit.word === place);
  if (!rows.length) return null;
  const found = new Map();
  head.columns.forEach((unit, j) => {
    if (unit.word === null) return;
    const value = sum(rows.map(([, i]) => head.values[i * head.columns.length + j])) / rows.length;
    const key = `${unit.sentence} ${unit.word}`;
    found.set(key, (found.get(key) ?? 0) + value);
  });
  return found;
}
