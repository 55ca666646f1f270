/** The line under the trees: what the next press does, and names that are asked for. */

import { button, fill, isolated, make, tag } from "./elements.js";
import { likeliest, readers } from "./hand.js";
import { same } from "./numbers.js";
import { relabelled, stretch, withPhrase } from "./trees.js";

export class Prompt {
  constructor(app) {
    this.app = app;
    this.element = make(tag("div", { class: "prompt" }));
  }

  /** Change what stands here; a control in focus that is gone leaves it to the word that had it. */
  show(...parts) {
    return this.app.keepingFocus(() => fill(this.element, parts));
  }

  /** A small form under the tree; an empty name changes nothing. */
  ask(title, value, known, buttons) {
    const field = make(
      tag("input", {
        type: "text",
        value,
        "aria-label": title,
        list: "known-names",
        autocomplete: "off",
        maxlength: 60,
      }),
    );
    const close = () => {
      this.hint();
      this.app.trees.focusWord(...this.app.trees.focus);
    };
    const run = (action) => {
      const name = field.value.trim();
      if (!name) return this.app.say("Expected a name, got none.", true);
      close();
      return action(name);
    };
    const [[label, action], ...others] = buttons;
    this.show(
      tag(
        "form",
        {
          onsubmit: (event) => (event.preventDefault(), run(action)),
          onkeydown: (event) => event.key === "Escape" && close(),
        },
        tag("label", {}, title, " ", field),
        tag(
          "datalist",
          { id: "known-names" },
          [...new Set(known)].map((name) => tag("option", { value: name })),
        ),
        tag("button", { type: "submit" }, label),
        others.map(([name, other]) => button(name, () => (close(), other()))),
        button("Cancel", close),
      ),
    );
    field.focus();
    field.select();
  }

  askLabel(number, i) {
    const { app } = this;
    const sentence = app.state.sentences[number];
    if (!app.live) return app.refuse("A prediction for another relation");
    if (!sentence.labels) return app.say("The arcs of this tree have no labels.", true);
    const text = sentence.words[i];
    return this.ask(`Relation of “${text}” to its head`, sentence.labels[i], sentence.labels, [
      [
        "Rename",
        (name) =>
          app.edit(number, (tree) => relabelled(tree, i, name), {
            said: `${text} is now ${name}.`,
            tree: "dependency",
          }),
      ],
    ]);
  }

  askPhrase(number, i) {
    const { app } = this;
    if (!app.canEdit("constituency")) return app.refuse("A prediction for other phrases");
    const chosen = app.stretch?.number === number ? app.stretch : { start: i, end: i + 1 };
    const sentence = app.state.sentences[number];
    const text = stretch(sentence, ["", chosen.start, chosen.end]);
    const add = (name) =>
      app.edit(number, (tree) => withPhrase(tree, name, chosen.start, chosen.end), {
        said: `${name} “${text}” added.`,
        tree: "constituency",
      });
    if (!app.live) return add("NP"); // the name that the page carries
    const known = (sentence.phrases ?? []).map(([label]) => label);
    return this.ask(`Phrase over “${text}”`, "NP", known, [["Add", add]]);
  }

  askRename(number, phrase) {
    const { app } = this;
    if (!app.canEdit("constituency")) return app.refuse("A prediction for other phrases");
    const text = stretch(app.state.sentences[number], phrase);
    const last = app.state.sentences[number].phrases.findLastIndex((other) => same(other, phrase));
    const without = (tree) => ({ ...tree, phrases: tree.phrases.toSpliced(last, 1) });
    const [label, start, end] = phrase;
    const remove = () => app.edit(number, without, { said: `${label} “${text}” deleted.`, tree: "constituency" });
    if (!app.live)
      return this.show(
        tag("span", {}, `${label} “${text}” `),
        button("Delete", remove),
        button("Cancel", () => this.hint()),
      );
    return this.ask(
      `Phrase over “${text}”`,
      label,
      app.state.sentences[number].phrases.map(([name]) => name),
      [
        [
          "Rename",
          (name) =>
            name !== label &&
            app.edit(number, (tree) => withPhrase(without(tree), name, start, end), {
              said: `${label} “${text}” is now ${name}.`,
              tree: "constituency",
            }),
        ],
        ["Delete", remove],
      ],
    );
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
      return this.show(said, button("Name the phrase", name));
    }
    if (!app.canEdit("dependency")) return this.show(say("Press a word to pin it."));
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
    this.legend = names.length ? ` Below: % ${names.join(", ")}; marked: a flip. ` : "";
    const meaning = tag("span", { class: "soft", ref: (element) => (this.meaning = element) }, this.legend);
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
      meaning, // last, as its length changes while the pointer is on its way to a button
    );
  }

  /** What the models would answer at the word that is looked at. */
  outcome() {
    const { hand, spot } = this.app;
    const said = hand && spot?.[0] === hand.number && spot[1] !== hand.word ? hand.said(spot[1]) : "";
    if (hand && this.meaning) this.meaning.textContent = said ? ` Here: ${said}. ` : this.legend;
  }
}
