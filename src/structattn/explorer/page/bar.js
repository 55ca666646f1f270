/** The bar at the top: which item, models and texts; undo; share and export. */

import { button, fill, isolated, make, tag } from "./elements.js";
import { exportPicture, exportable, isDrawnHere, save } from "./export.js";
import { MOST_WORDS } from "./numbers.js";
import { copyLink, openState, stateOf } from "./share.js";

/** Which item, models and texts; undo; share and export. */
export class Bar {
  constructor(app) {
    this.app = app;
    this.element = make(tag("header", { class: "bar" }));
    this.fields = [];
    this.written = []; // the texts that the fields were given
  }

  draw() {
    const { app } = this;
    const canEdit = ["dependency", "constituency"].some((structure) => app.canEdit(structure));
    fill(
      this.element,
      this.items(),
      this.models(),
      app.live && this.texts(), // a page without a server has no parser
      canEdit && this.history(),
      this.share(),
      this.export(),
    );
    this.writeTexts();
  }

  /** Fields have the words that are shown, but not in place of what is being typed. */
  writeTexts() {
    this.fields.forEach((field, i) => {
      const text = this.app.state.sentences[i]?.words.join(" ") ?? "";
      const isTyped = field === this.app.root.activeElement && field.value !== this.sent?.[i];
      if (text !== this.written[i] && !isTyped) field.value = text;
      this.written[i] = text;
    });
  }

  items() {
    const { items } = this.app.boot;
    if (items.length < 2) return null;
    const options = items.map((item, i) =>
      tag("option", { value: i, selected: i === this.app.state.item }, itemName(item, this.app.state.models[0])),
    );
    if (this.app.state.item === null) options.unshift(tag("option", { selected: true, disabled: true }, "your own"));
    return tag(
      "label",
      { class: "item" },
      tag("span", { class: "soft" }, "Sentence"),
      tag("select", { "data-key": "item", onchange: (event) => this.app.choose(Number(event.target.value)) }, options),
    );
  }

  models() {
    const { boot, state } = this.app;
    const names = boot.models.map((model) => model.name);
    const select = (chosen, choose, name) =>
      tag(
        "select",
        { "aria-label": name, "data-key": name, onchange: (event) => choose(event.target.value) },
        names.map((model) => tag("option", { value: model, selected: model === chosen }, model)),
      );
    const [first, second] = state.models;
    const set = (...models) => this.app.setModels(models);
    if (names.length === 1) return tag("strong", {}, isolated(first));
    const other = names.find((name) => name !== first);
    return tag(
      "span",
      { class: "models" },
      select(first, (name) => (second ? set(name, second === name ? first : second) : set(name)), "model"),
      second
        ? [
            tag("span", { class: "soft" }, "and"),
            select(second, (name) => (name === first ? set(second, first) : set(first, name)), "second model"),
            button("×", () => set(first), { "aria-label": "one model only", "data-key": "one" }),
          ]
        : button("+ compare", () => set(first, other), { "data-key": "compare" }),
    );
  }

  texts() {
    const { app } = this;
    const { arity } = app.boot.models[0];
    const fields = Array.from({ length: arity }, (_, i) =>
      tag("input", {
        type: "text",
        dir: "auto",
        "aria-label": arity > 1 ? `text ${i + 1}` : "text",
        "data-key": `text${i}`,
        spellcheck: "false",
        autocomplete: "off",
        ref: (field) => (this.fields[i] = field),
      }),
    );
    const submit = async (event) => {
      event.preventDefault();
      const texts = this.fields.map((field) => field.value.trim());
      const empty = texts.findIndex((text) => !text);
      if (empty >= 0)
        return app.say(`Expected a text to parse, got none${texts.length > 1 ? ` in field ${empty + 1}` : ""}.`, true);
      const long = texts.find((text) => text.split(/\s+/).length > MOST_WORDS);
      if (long) return app.say(`Expected at most ${MOST_WORDS} words, got ${long.split(/\s+/).length}.`, true);
      this.sent = this.fields.map((field) => field.value);
      const isParsed = await app.parse(texts);
      if (isParsed && this.fields.includes(app.root.activeElement)) app.trees.focusWord(0, 0); // to go on from there
      return undefined;
    };
    return tag(
      "form",
      { class: "texts", onsubmit: submit },
      fields,
      tag("button", { type: "submit", "data-key": "parse" }, "Parse"),
    );
  }

  history() {
    const { app } = this;
    return tag(
      "span",
      { class: "group" },
      button("↶", () => app.undo(), {
        "aria-label": "undo",
        title: "Undo (Ctrl+Z)",
        disabled: !app.past.length,
        "data-key": "undo",
      }),
      button("↷", () => app.redo(), {
        "aria-label": "redo",
        title: "Redo (Ctrl+Shift+Z)",
        disabled: !app.future.length,
        "data-key": "redo",
      }),
    );
  }

  share() {
    const { app } = this;
    const file = tag("input", {
      type: "file",
      accept: "application/json,.json",
      hidden: true,
      onchange: async (event) => openState(app, await event.target.files[0].text()),
    });
    const saved = () => JSON.stringify(stateOf(app), null, 1);
    return menu(
      app,
      "Share",
      app.live && button("One file", () => exportPicture(app, "page", "html"), { title: "a page that opens anywhere" }),
      button("Save state", () => save("structattn-state.json", "application/json", saved())),
      button("Open state…", (event) => event.target.nextElementSibling.click()),
      file,
      button("Copy link", () => copyLink(app)),
    );
  }

  export() {
    const { app } = this;
    const formats = (what) => (isDrawnHere(app, what) ? ["svg", "png"] : ["svg", "png", "pdf"]);
    const row = ([what, label, , heads]) =>
      tag(
        "div",
        { class: "group" },
        tag("span", { class: "soft" }, label),
        formats(what).map((format) =>
          button(format.toUpperCase(), () => exportPicture(app, what, format, heads), {
            "aria-label": `${label} as ${format.toUpperCase()}`,
          }),
        ),
      );
    return menu(app, "Export", exportable(app).map(row));
  }
}

/** The item's name and words, after a cross if the model is wrong. */
function itemName(item, model) {
  const answer = item.replies?.look?.looks.find((look) => look.model === model)?.answer;
  const wrong = item.expected && answer && answer.label !== null && answer.label !== item.expected;
  const text = item.sentences.map((sentence) => sentence.words.join(" ")).join(" / ");
  const name = text.startsWith(item.name.replace(/…$/, "")) ? "" : `${item.name}: `;
  return `${wrong ? "✗ " : ""}${name}${text.length > 80 ? `${text.slice(0, 79)}…` : text}`;
}

/** A menu; a press of one of its buttons closes it. */
function menu(app, name, ...content) {
  const press = ({ currentTarget, target }) => {
    if (target.tagName !== "BUTTON") return;
    currentTarget.open = false;
    currentTarget.firstChild.focus();
  };
  const toggle = ({ target }) => target.open && app.closeMenus(target);
  const title = tag("summary", { "data-key": name }, `${name} ▾`);
  return tag(
    "details",
    { class: "menu", "data-key": name, onclick: press, ontoggle: toggle },
    title,
    tag("div", {}, content),
  );
}
