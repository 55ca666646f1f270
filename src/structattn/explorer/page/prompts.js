/** The line under the trees: what the next press does, and names that are asked for. */

import { button, fill, isolated, make, tag } from "./elements.js";
import { likeliest, readers } from "./hand.js";
import { same } from "./numbers.js";
import { relabelled, stretch, withPhrase } from "./trees.js";
import { outcomesText } from "./wording.js";

const PAUSE = 120; // milliseconds after a letter before the models are asked

export class Prompt {
  constructor(app) {
    this.app = app;
    this.element = make(tag("div", { class: "prompt" }));
  }

  /** Whether a name is being typed, which outlives a reply. */
  get isAsking() {
    const form = this.element.querySelector("form");
    return Boolean(form?.contains(this.app.root.activeElement));
  }

  /** Change what stands here; a control in focus that is gone leaves it to the word that had it. */
  show(...parts) {
    return this.app.keepingFocus(() => fill(this.element, parts));
  }

  /**
   * A small form under the tree; an empty name changes nothing.
   * @param {{number, tree, change, said}} edit what a name does: `change(name)` is a function of the sentence
   */
  ask(title, value, known, label, edit, others = []) {
    const preview = () => this.preview(edit.number, edit.change(field.value.trim()), edit.tree);
    const field = make(
      tag("input", {
        type: "text",
        value,
        "aria-label": title,
        list: "known-names",
        autocomplete: "off",
        maxlength: 60,
        oninput: preview,
      }),
    );
    const close = () => {
      this.hint();
      this.app.trees.focusWord(...this.app.trees.focus);
    };
    const submit = (event) => {
      event.preventDefault();
      const name = field.value.trim();
      if (!name) return this.app.say("Expected a name, got none.", true);
      close();
      return this.app.edit(edit.number, edit.change(name), { said: edit.said(name), tree: edit.tree });
    };
    const names = [...new Set(known)].map((name) => tag("option", { value: name }));
    this.show(
      tag(
        "form",
        { onsubmit: submit, onkeydown: (event) => event.key === "Escape" && close() },
        tag("label", {}, title, " ", field),
        tag("datalist", { id: "known-names" }, names),
        tag("button", { type: "submit" }, label),
        others.map(([name, other]) => button(name, () => (close(), other()))),
        button("Cancel", close),
      ),
      this.outcomeOf(),
    );
    field.focus();
    field.select();
    preview();
  }

  /** Where the outcome of what is being edited stands. */
  outcomeOf(text = "") {
    return tag("span", { class: "soft", "data-key": "outcome", ref: (element) => (this.meaning = element) }, text);
  }

  /** Say what the models would answer for an edit that is being made; of several only the last counts. */
  async preview(number, change, structure) {
    const { app } = this;
    const place = this.meaning;
    const turn = (this.turn = {});
    if (!app.isRead(structure)) return;
    const { models, sentences } = app.state;
    try {
      const edited = sentences.with(number, change(sentences[number]));
      await new Promise((resume) => setTimeout(resume, PAUSE));
      const looks = turn === this.turn && (await app.replies.looks(models, edited));
      if (looks && turn === this.turn) place.textContent = ` Here: ${outcomesText(app, looks)}.`;
    } catch (error) {
      place.textContent = ` ${error.message}`;
    }
  }

  askLabel(number, i) {
    const { app } = this;
    const sentence = app.state.sentences[number];
    if (!app.live) return app.refuse("A prediction for another relation");
    if (!sentence.labels) return app.say("The arcs of this tree have no labels.", true);
    const text = sentence.words[i];
    const change = (name) => (tree) => relabelled(tree, i, name);
    const said = (name) => `${text} is now ${name}.`;
    const edit = { number, tree: "dependency", change, said };
    return this.ask(`Relation of “${text}” to its head`, sentence.labels[i], sentence.labels, "Rename", edit);
  }

  askPhrase(number, i) {
    const { app } = this;
    if (!app.canEdit("constituency")) return app.refuse("A prediction for other phrases");
    const { start, end } = app.stretch?.number === number ? app.stretch : { start: i, end: i + 1 };
    const sentence = app.state.sentences[number];
    const text = stretch(sentence, ["", start, end]);
    const change = (name) => (tree) => withPhrase(tree, name, start, end);
    const edit = { number, tree: "constituency", change, said: (name) => `${name} “${text}” added.` };
    // A page without a server carries one name.
    if (!app.live) return app.edit(number, change("NP"), { said: edit.said("NP"), tree: edit.tree });
    const known = (sentence.phrases ?? []).map(([label]) => label);
    return this.ask(`Phrase over “${text}”`, "NP", known, "Add", edit);
  }

  askRename(number, phrase) {
    const { app } = this;
    if (!app.canEdit("constituency")) return app.refuse("A prediction for other phrases");
    const { phrases } = app.state.sentences[number];
    const text = stretch(app.state.sentences[number], phrase);
    const last = phrases.findLastIndex((other) => same(other, phrase));
    const without = (tree) => ({ ...tree, phrases: tree.phrases.toSpliced(last, 1) });
    const [label, start, end] = phrase;
    const remove = () => app.edit(number, without, { said: `${label} “${text}” deleted.`, tree: "constituency" });
    if (!app.live) {
      const cancel = button("Cancel", () => this.hint(), { "data-key": "cancel" });
      const parts = [tag("span", {}, `${label} “${text}” `), button("Delete", remove), cancel];
      this.show(parts, this.outcomeOf());
      return this.preview(number, without, "constituency");
    }
    const change = (name) => (tree) => (name === label ? tree : withPhrase(without(tree), name, start, end));
    const edit = { number, tree: "constituency", change, said: (name) => `${label} “${text}” is now ${name}.` };
    const known = phrases.map(([name]) => name);
    return this.ask(`Phrase over “${text}”`, label, known, "Rename", edit, [["Delete", remove]]);
  }

  /** What the next press or key does. */
  hint() {
    const { app } = this;
    const words = app.state.sentences[app.stretch?.number ?? 0]?.words ?? [];
    const say = (...parts) => tag("span", { class: "soft" }, ...parts);
    if (app.hand) return this.hintOfHand(app.hand);
    if (app.stretch) {
      const text = isolated(words.slice(app.stretch.start, app.stretch.end).join(" "));
      const name = () => this.askPhrase(app.stretch.number, app.stretch.start);
      const said = say("“", text, "” is selected: N makes it a phrase, Esc cancels.");
      const { number, start, end } = app.stretch;
      this.show(said, button("Name the phrase", name, { "data-key": "name" }), this.outcomeOf());
      return (
        app.canEdit("constituency") &&
        this.preview(number, (tree) => withPhrase(tree, "NP", start, end), "constituency")
      );
    }
    if (!app.canEdit("dependency") || !app.shows("dependency")) return this.show(say("Press a word to pin it."));
    const isOfPhrases = app.isRead("constituency") && app.canEdit("constituency");
    const title = app.flips?.played === undefined ? "Try an edit that flips it" : "Try another that flips it";
    const play = () => app.flips.play();
    return this.show(
      app.flips?.canPlay && button(title, play, { class: "primary", "data-key": "play" }),
      say(
        "Drag an arc by either end, or press a head, then its dependent.",
        isOfPhrases && " Shift selects several words for a phrase.",
      ),
    );
  }

  /** What is in hand, where it may go, and what the numbers under the words mean. */
  hintOfHand({ number, end, word, sentence: { words } }) {
    const { app } = this;
    const name = () => ["“", isolated(words[word]), "”"];
    const said = {
      dependent: () => [...name(), " is the head: choose its dependent."],
      head: () => ["Choose the head of ", ...name(), "."],
      root: () => ["Choose the root."],
    }[end]();
    const answers = readers(app).map((model) => app.now.find(({ look }) => look.model === model).look.answer);
    const names = [...new Set(answers.filter(({ label }) => label !== null).map(likeliest))];
    this.legend = names.length ? ` Numbers: % ${names.join(", ")}; marked: a flip. ` : "";
    this.show(
      tag("span", {}, ...said),
      ...(end === "dependent"
        ? [
            button("Move its own arc", () => app.trees.grabArc(number, word), { title: "A", "data-key": "own" }),
            button("Make it the root", () => app.move(number, word, 0), { title: "R", "data-key": "root" }),
            app.live
              ? button("Name its relation", () => this.askLabel(number, word), { title: "L", "data-key": "relation" })
              : "",
          ]
        : []),
      button("Cancel", () => app.trees.escape(), { title: "Esc", "data-key": "cancel" }),
      this.outcomeOf(this.legend), // last, as its length changes while the pointer is on its way to a button
    );
  }

  /** What the models would answer at the word that is looked at. */
  outcome() {
    const { hand, spot } = this.app;
    const said = hand && spot?.[0] === hand.number && spot[1] !== hand.word ? hand.said(spot[1]) : "";
    if (hand && this.meaning) this.meaning.textContent = said ? ` Here: ${said}. ` : this.legend;
  }
}
