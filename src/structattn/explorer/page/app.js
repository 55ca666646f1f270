/** The state of the explorer, what it asks, and the views that draw it. */

import { Bar } from "./bar.js";
import { themeOf } from "./colours.js";
import { isField, keyOf, make, tag } from "./elements.js";
import { Examples } from "./examples.js";
import { headsBeside } from "./heads.js";
import { Latent } from "./latent.js";
import { Matrices } from "./matrices.js";
import { same } from "./numbers.js";
import { Answers, Flips, Ranking } from "./panels.js";
import { Extras, Replies } from "./replies.js";
import { Strips } from "./strips.js";
import { STYLE } from "./style.js";
import { Title } from "./title.js";
import { Trees } from "./tree_view.js";
import { afterMove } from "./trees.js";
import { isEditedIn, liveHint, nameOf, sentenceOf, sentenceOfAnswers } from "./wording.js";

const SOON = 8; // milliseconds until the new tree is drawn without its answer

/** What is shown, what was asked, and the views that draw it. */
export class Explorer {
  /** @param {HTMLElement} element where to draw. @param {object} boot see the protocol. @param {Function} ask the host. */
  constructor(element, boot, ask) {
    Object.assign(this, { boot, live: boot.host !== "frozen", turn: 0 });
    this.replies = new Replies(ask);
    this.extras = new Extras(this);
    const item = boot.view?.item ?? 0;
    const models = (boot.view?.models ?? []).slice(0, 2);
    const sentences = boot.items[item]?.sentences ?? [];
    const shown = models.length ? models : [boot.models[0].name];
    this.state = { sentences, before: sentences, born: sentences, models: shown, item };
    this.past = [];
    this.future = [];
    this.view = {
      mode: "weights",
      sort: "layer",
      scale: "shared",
      by: "words",
      path: null,
      head: null,
      pinned: null,
      threshold: 0.2,
      numbers: false,
      arcs: false,
    };
    this.painted = null;
    this.hover = null;
    this.hand = null;
    this.stretch = null;
    this.root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    element.setAttribute("data-lm-suppress-shortcuts", "true"); // keys belong to the explorer, not to a notebook
    this.build();
  }

  build() {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    this.root.adoptedStyleSheets = [sheet];
    this.status = make(tag("p", { class: "status", role: "status", "aria-live": "polite" }));
    const kinds = [Title, Bar, Trees, Answers, Ranking, Flips, Matrices, Strips, Latent, Examples];
    this.views = kinds.map((View) => new View(this));
    const [title, bar, trees, answers, ranking, flips, matrices, strips, latent, examples] = this.views;
    Object.assign(this, { trees, flips, matrices });
    const panels = tag("aside", {}, answers.element, flips.element, ranking.element);
    const columns = tag("div", { class: "columns" }, panels, matrices.large, matrices.element);
    const body = tag("div", { class: "body" }, trees.element, this.status, columns);
    const parts = [title.element, bar.element, body, latent.element, strips.element, examples.element];
    this.box = make(tag("div", { class: "explorer", onkeydown: (event) => this.key(event) }, parts));
    this.root.replaceChildren(this.box);
    const media = globalThis.matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => this.draw();
    media.addEventListener("change", redraw);
    const notebook = new MutationObserver(redraw);
    notebook.observe(document.body, { attributeFilter: ["data-jp-theme-light", "class"] });
    this.widths = new Map();
    const sizes = new ResizeObserver((entries) => {
      const widths = entries.map(({ target, contentRect }) => [target, Math.round(contentRect.width)]);
      const hasChanged = widths.some(([element, width]) => Math.abs(width - (this.widths.get(element) ?? 0)) > 1);
      for (const [element, width] of widths) this.widths.set(element, width);
      if (hasChanged) this.draw();
    });
    for (const element of [this.box, matrices.element]) sizes.observe(element);
    const outside = (event) => event.composedPath().includes(this.root) || this.closeMenus();
    document.addEventListener("pointerdown", outside);
    // On a page of its own the keys are those of the explorer, wherever the focus is.
    const anywhere = (event) => event.composedPath().includes(this.box) || this.key(event);
    if (this.boot.host !== "widget") document.addEventListener("keydown", anywhere);
    this.stop = () => {
      media.removeEventListener("change", redraw);
      notebook.disconnect();
      sizes.disconnect();
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("keydown", anywhere);
    };
  }

  get theme() {
    return themeOf(document.body);
  }

  /** The width inside the box or the heads as last laid out: asking the element would lay out what is half drawn. */
  widthOf(element) {
    return this.widths.get(element) || element.clientWidth;
  }

  draw() {
    this.box.dataset.theme = this.theme;
    this.keepingFocus(() => this.views.forEach((view) => view.draw()));
    this.mark();
  }

  /** Draw anew without losing the focus: it goes to the same control, or to the word that was in focus last. */
  keepingFocus(draw) {
    const active = this.root.activeElement;
    const key = active && keyOf(active);
    draw();
    if (!active || (active.isConnected && !active.disabled)) return;
    const controls = this.root.querySelectorAll("button:not(:disabled),select,input,summary,[tabindex]");
    const heir = [...controls].find((control) => keyOf(control) === key);
    if (heir) heir.focus();
    else this.trees.focusWord(...this.trees.focus);
  }

  /** Only what follows the pointer: shades of words and frames of rows. */
  mark() {
    for (const view of this.views) view.mark?.();
  }

  say(text, isError = false) {
    this.status.textContent = text;
    this.status.classList.toggle("error", isError);
  }

  change(view) {
    Object.assign(this.view, view);
    this.draw();
  }

  closeMenus(except) {
    for (const open of this.root.querySelectorAll("details[open].menu")) if (open !== except) open.open = false;
  }

  // Asking ..........................................................................................................

  request(what, fields = {}) {
    const { models, sentences } = this.state;
    return this.replies.request(what, { models, sentences, ...fields });
  }

  /**
   * Show a state. Trees are drawn at once, the rest when its replies arrive; if a newer state was asked for in the
   * meantime they are dropped, and after an error the state before is restored.
   * @param {object} next the state. @param {{record?: boolean, edit?: object}} how whether it can be undone; what was done
   */
  async show(next, { record = true, edit = null } = {}) {
    const turn = ++this.turn;
    if (record) {
      this.past = [...this.past, this.state];
      this.future = [];
    }
    this.state = next;
    this.hand = this.stretch = null;
    this.box.setAttribute("aria-busy", "true");
    if (edit) this.say(edit.said);
    // What a page carries is there at once, and drawn once; a server's answer is not waited for.
    const early = setTimeout(() => this.painted && this.keepingFocus(() => this.trees.draw()), SOON);
    try {
      const [now, before] = await Promise.all([
        this.replies.looks(next.models, next.sentences),
        this.replies.looks(next.models, next.before),
      ]);
      if (turn !== this.turn) return;
      this.paint(now, before, edit);
    } catch (error) {
      if (turn === this.turn) this.back(error);
    } finally {
      clearTimeout(early);
    }
    if (turn === this.turn) this.box.removeAttribute("aria-busy");
  }

  paint(now, before, edit) {
    const { state } = this;
    const completed = now[0].sentences;
    const known = same(state.before, state.sentences) ? completed : before[0].sentences;
    const born = same(state.born, state.sentences) ? completed : same(state.born, state.before) ? known : state.born;
    this.state = { ...state, sentences: completed, before: known, born };
    for (const reply of now) this.replies.remember(reply.look.model, completed, Promise.resolve(reply));
    this.last = this.now?.length === now.length ? this.now : now;
    this.now = now;
    this.earlier = before;
    this.painted = { state: this.state, past: this.past, future: this.future };
    this.draw();
    this.say(edit ? sentenceOf(this, edit) : sentenceOfAnswers(this));
    this.extras.follow();
  }

  /** Go back to the state that is painted, with the error in the live region. */
  back(error) {
    if (this.painted) Object.assign(this, this.painted);
    this.draw();
    const { sentence, word } = error.place ?? {};
    const words = this.state.sentences[sentence]?.words;
    const at = words && Number.isInteger(word) && words[word] !== undefined ? ` (at “${words[word]}”)` : "";
    this.say(`${error.message}${at}`, true);
  }

  // Doing ...........................................................................................................

  get models() {
    return this.boot.models.filter(({ name }) => this.state.models.includes(name));
  }

  isRead(structure) {
    return this.models.some(({ reads }) => reads?.includes(structure));
  }

  /** Whether a structure is on the page: one that a model reads, that was edited, or that was asked for. */
  shows(structure) {
    return this.view.unread || this.isRead(structure) || isEditedIn(this.state, structure);
  }

  /** Whether edits of a structure are answered: by a server, or by what the page carries about this item. */
  canEdit(structure) {
    if (this.live) return true;
    const edits = this.boot.items[this.state.item]?.edits;
    const isAnswered = ({ name, reads }) => !reads.includes(structure) || edits[name]?.[structure];
    return Boolean(edits) && this.models.every(isAnswered);
  }

  /** Say that only a live explorer can do this. */
  refuse(what) {
    this.say(`${what} needs the model, and this page contains replies only. ${liveHint(this.boot)}`, true);
  }

  /** Replace one sentence by an edited one; `change` may throw an error to refuse. */
  edit(number, change, edit) {
    if (!this.canEdit(edit.tree)) return this.refuse("A prediction for an edited tree");
    const { state } = this;
    try {
      const sentence = change(state.sentences[number]);
      if (same(sentence, state.sentences[number])) return undefined;
      const next = { ...state, sentences: state.sentences.with(number, sentence), said: edit.said };
      return this.show(next, { edit: { ...edit, number } });
    } catch (error) {
      this.hand = null;
      this.draw();
      return this.say(error.message, true);
    }
  }

  /** Hang a word below a head (a CoNLL id), or make it the root (0). */
  move(number, word, head) {
    const { words } = this.state.sentences[number];
    const said = head ? `${words[head - 1]} → ${words[word]}.` : `${words[word]} is the root.`;
    return this.edit(number, (sentence) => afterMove(sentence, word, head), { said, tree: "dependency" });
  }

  undo() {
    if (!this.past.length) return this.say("Nothing to undo.");
    const last = this.past.at(-1);
    this.future = [this.state, ...this.future];
    this.past = this.past.slice(0, -1);
    return this.show(last, { record: false, edit: { said: `Undone: ${nameOf(this.state)}` } });
  }

  redo() {
    if (!this.future.length) return this.say("Nothing to redo.");
    const [next, ...later] = this.future;
    this.past = [...this.past, this.state];
    this.future = later;
    return this.show(next, { record: false, edit: { said: `Redone: ${nameOf(next)}` } });
  }

  choose(item) {
    return this.showOther(this.boot.items[item].sentences, item);
  }

  /** Show other sentences, with nothing edited yet. */
  showOther(sentences, item) {
    this.view.pinned = null;
    const said = "another sentence.";
    return this.show({ ...this.state, sentences, before: sentences, born: sentences, item, said });
  }

  setModels(models) {
    this.view.head = this.view.path = null;
    return this.show({ ...this.state, models, said: "other models." });
  }

  compareFromHere() {
    const said = "Compared from here.";
    return this.show({ ...this.state, before: this.state.sentences, said }, { edit: { said } });
  }

  /** Show texts with the trees that a parser finds; whether that went well. */
  async parse(texts) {
    this.say("Parsing …");
    this.box.setAttribute("aria-busy", "true");
    try {
      const { sentences } = await this.request("parse", { text: texts, sentences: [] });
      await this.showOther(sentences, null);
      return true;
    } catch (error) {
      this.box.removeAttribute("aria-busy");
      this.say(error.message, true);
      return false;
    }
  }

  key(event) {
    const letter = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && (letter === "z" || letter === "y") && !isField(event)) {
      event.preventDefault();
      if (letter === "y" || event.shiftKey) this.redo();
      else this.undo();
    }
    if (event.key === "Escape") this.closeMenus();
    event.stopPropagation();
  }

  // Words and heads .................................................................................................

  /** The word that is looked at: under the pointer, else in focus or pinned. */
  get spot() {
    return this.hover ?? this.view.pinned;
  }

  point(place) {
    if (same(place, this.hover)) return;
    this.hover = place;
    this.mark();
  }

  /** The heads of each model that is shown, joined to those before; computed once for what is painted. */
  get heads() {
    const { now, earlier, view, known } = this;
    if (!known || known.now !== now || known.earlier !== earlier || known.by !== view.by)
      this.known = { now, earlier, by: view.by, heads: headsBeside(now ?? [], earlier, view.by === "tokens") };
    return this.known.heads;
  }

  get isEdited() {
    return !same(this.state.sentences, this.state.before);
  }
}
