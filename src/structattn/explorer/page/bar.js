/** The bar at the top: which item, models and texts; undo; share and export. */

import { button, isolated, make } from "./elements.js";
import { exportPicture, exportable, save } from "./export.js";
import { MOST_WORDS } from "./numbers.js";
import { copyLink, openState, stateOf } from "./share.js";

/** Which item, models and texts; undo; share and export. */
export class Bar {
  constructor(app) {
    this.app = app;
    this.element = make("header", { class: "bar" });
  }

  draw() {
    const { app } = this;
    const { state, past, future } = app;
    const texts = state.sentences.map(({ words }) => words);
    const key = JSON.stringify([
      state.item,
      state.models,
      texts,
      app.canEdit("dependency"),
      !past.length,
      !future.length,
    ]);
    if (isTyping(this.element) || key === this.key) return;
    this.key = key;
    this.element.replaceChildren(
      ...[
        this.items(),
        this.models(),
        app.live && this.texts(), // a page without a server has no parser
        ["dependency", "constituency"].some((structure) => app.canEdit(structure)) && this.history(),
        this.share(),
        this.export(),
      ].filter(Boolean),
    );
  }

  items() {
    const { items } = this.app.boot;
    if (items.length < 2) return null;
    const options = items.map((item, i) =>
      make("option", { value: i, selected: i === this.app.state.item }, itemName(item, this.app.state.models[0])),
    );
    if (this.app.state.item === null) options.unshift(make("option", { selected: true, disabled: true }, "your own"));
    return make(
      "label",
      { class: "item" },
      make("span", { class: "soft" }, "Sentence"),
      make("select", { "data-key": "item", onchange: (event) => this.app.choose(Number(event.target.value)) }, options),
    );
  }

  models() {
    const { boot, state } = this.app;
    const names = boot.models.map((model) => model.name);
    const select = (chosen, choose, name) =>
      make(
        "select",
        { "aria-label": name, "data-key": name, onchange: (event) => choose(event.target.value) },
        names.map((model) => make("option", { value: model, selected: model === chosen }, model)),
      );
    const [first, second] = state.models;
    const set = (...models) => this.app.setModels(models);
    if (names.length === 1) return make("strong", {}, isolated(first));
    const other = names.find((name) => name !== first);
    return make(
      "span",
      { class: "models" },
      select(first, (name) => (second ? set(name, second === name ? first : second) : set(name)), "model"),
      second
        ? [
            make("span", { class: "soft" }, "and"),
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
      make("input", {
        type: "text",
        dir: "auto",
        value: app.state.sentences[i]?.words.join(" ") ?? "",
        "aria-label": arity > 1 ? `text ${i + 1}` : "text",
        "data-key": `text${i}`,
        spellcheck: "false",
        autocomplete: "off",
      }),
    );
    const submit = (event) => {
      event.preventDefault();
      const texts = fields.map((field) => field.value.trim());
      const empty = texts.findIndex((text) => !text);
      if (empty >= 0)
        return app.say(`Expected a text to parse, got none${texts.length > 1 ? ` in field ${empty + 1}` : ""}.`, true);
      const long = texts.find((text) => text.split(/\s+/).length > MOST_WORDS);
      if (long) return app.say(`Expected at most ${MOST_WORDS} words, got ${long.split(/\s+/).length}.`, true);
      fields.forEach((field) => field.blur());
      return app.parse(texts);
    };
    return make(
      "form",
      { class: "texts", onsubmit: submit },
      fields,
      make("button", { type: "submit", "data-key": "parse" }, "Parse"),
    );
  }

  history() {
    const { app } = this;
    return make(
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
    const file = make("input", {
      type: "file",
      accept: "application/json,.json",
      hidden: true,
      onchange: async (event) => openState(app, await event.target.files[0].text()),
    });
    const saved = () => JSON.stringify(stateOf(app), null, 1);
    return menu(app, "Share", () => [
      app.live && button("One file", () => exportPicture(app, "page", "html"), { title: "a page that opens anywhere" }),
      button("Save state", () => save("structattn-state.json", "application/json", saved())),
      button("Open state…", () => file.click()),
      file,
      button("Copy link", () => copyLink(app)),
    ]);
  }

  export() {
    const { app } = this;
    const formats = app.live ? ["svg", "png", "pdf"] : ["svg", "png"];
    const row = ([what, label, , heads]) =>
      make(
        "div",
        { class: "group" },
        make("span", { class: "soft" }, label),
        formats.map((format) =>
          button(format.toUpperCase(), () => exportPicture(app, what, format, heads), {
            "aria-label": `${label} as ${format.toUpperCase()}`,
          }),
        ),
      );
    return menu(app, "Export", () => exportable(app).map(row));
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

const isTyping = (element) =>
  element.getRootNode().activeElement?.matches?.("input[type=text]") &&
  element.contains(element.getRootNode().activeElement);

/** A menu whose content is made anew when it is opened. */
function menu(app, name, content) {
  const list = make("div");
  const box = make("details", { class: "menu" }, make("summary", { "data-key": name }, `${name} ▾`), list);
  const fill = () => list.replaceChildren(...content().filter(Boolean));
  fill();
  box.firstChild.addEventListener("click", () => box.open || fill()); // before it opens, so that nothing jumps
  box.addEventListener("toggle", () => box.open && app.closeMenus(box));
  box.addEventListener("click", (event) => {
    if (event.target.tagName !== "BUTTON") return;
    box.open = false;
    box.firstChild.focus();
  });
  return box;
}
