/** Panels at the side: predictions, heads that moved, edits that flip. */

import { button, fill, isolated, make, tag } from "./elements.js";
import { MOVED } from "./heads.js";
import { count, difference, same, short } from "./numbers.js";
import { answerText, labelsOf } from "./wording.js";

/** Answers of the models, with a tick at the values before the edit. */
export class Answers {
  constructor(app) {
    this.app = app;
    this.element = make(tag("section", { class: "card answers", "aria-label": "prediction" }));
  }

  draw() {
    const { app } = this;
    const item = app.boot.items[app.state.item];
    const expected = item && same(item.sentences, app.state.sentences) ? item.expected : null;
    const isKnown = expected !== null && expected !== undefined;
    fill(
      this.element,
      tag("h2", {}, "Prediction"),
      app.now?.map(({ look }, i) => this.answer(look, app.earlier[i].look.answer)),
      isKnown && tag("p", { class: "soft" }, "expected ", isolated(String(expected))),
      app.isEdited && tag("p", { class: "soft" }, "▏ before the edit"),
    );
  }

  answer(look, before) {
    const { answer } = look;
    const name = this.app.now.length > 1 ? [tag("h3", {}, isolated(look.model))] : [];
    if (!answer) return [...name, tag("p", { class: "soft" }, `${look.model} predicts nothing; it has only weights.`)];
    const probabilities = Object.entries(answer.probabilities ?? {});
    if (answer.label === null) {
      const was =
        before && answerText(before) !== answerText(answer)
          ? tag("span", { class: "soft" }, ` before ${answerText(before)}`)
          : null;
      name.push(tag("p", { class: "score" }, isolated(answerText(answer)), was));
    } else probabilities.sort((one, other) => other[1] - one[1]); // whole-number scores stay in their order
    if (!probabilities.length) return name;
    const shown = probabilities.slice(0, 8);
    const answered = labelsOf(answer);
    const rows = shown.map(([label, share]) =>
      this.row(label, share, before?.probabilities?.[label], answered.includes(label)),
    );
    const left = probabilities.length - shown.length;
    return [
      ...name,
      tag("div", { class: "classes" }, rows.flat()),
      left ? tag("p", { class: "soft" }, `and ${count(left, "class")}`.replace(/classs$/, "classes")) : null,
    ].filter(Boolean);
  }

  row(label, share, before, first) {
    const changed = before !== undefined && Math.abs(share - before) >= 5e-4;
    const inside = `calc(${before} * (100% - 2px))`; // at 0 and at 1 too
    const tick = this.app.isEdited && before !== undefined && tag("b", { style: { insetInlineStart: inside } });
    const filled = tag("i", { style: { width: `${100 * share}%` } });
    const bar = tag("span", { class: "bar-box", "aria-hidden": "true" }, filled, tick);
    return [
      tag(first ? "strong" : "span", { class: /\S{13}/.test(label) ? "class long" : "class" }, isolated(label)),
      bar,
      tag("span", { class: "number" }, `${(100 * share).toFixed(1)}%`),
      tag("span", { class: "number soft" }, changed ? difference(share - before, false) : ""),
    ];
  }
}

/** Heads by how far they moved. */
export class Ranking {
  constructor(app) {
    this.app = app;
    this.element = make(tag("section", { class: "card", "aria-label": "heads that moved" }));
  }

  draw() {
    const { app } = this;
    const heads = app.matrices.attention
      .flat()
      .filter((head) => head.moved > MOVED)
      .sort((one, other) => other.moved - one.moved);
    this.element.hidden = !app.isEdited;
    const rows = heads
      .slice(0, 8)
      .map((head) =>
        button(
          [
            isolated(app.state.models.length > 1 ? `${head.model} · ${head.title}` : head.title),
            tag("span", { class: "number" }, short(head.moved)),
          ],
          () => app.change({ head: head.key, path: null }),
          { class: "line-button" },
        ),
      );
    fill(
      this.element,
      tag("h2", { title: "½ Σ|Δ| of a row, as a mean over the rows" }, "Heads that moved"),
      rows.length ? rows : tag("p", { class: "soft" }, "none"),
      heads.length > 8 && tag("p", { class: "soft" }, `and ${count(heads.length - 8, "head")}`),
    );
  }
}

/** Edits that change the answer: single moves and new roots. A long text has thousands, so they are tried in parts. */
export class Flips {
  constructor(app) {
    this.app = app;
    this.element = make(tag("section", { class: "card", "aria-label": "edits that flip the prediction" }));
    this.searches = new Map(); // by model: the search in progress
  }

  draw() {
    const { app } = this;
    const parts = app.state.models.flatMap((model) => this.of(model));
    this.element.hidden = !parts.length;
    const scored = app.now?.every(({ look }) => look.answer?.label === null);
    fill(
      this.element,
      tag("h2", {}, scored ? "Edits that move the score most" : "Edits that flip the prediction"),
      parts,
    );
  }

  of(model) {
    const { app } = this;
    const name = app.state.models.length > 1 ? [tag("h3", {}, isolated(model))] : [];
    const found = app.extras.get("flip", model);
    const reads = app.boot.models.find((one) => one.name === model)?.reads ?? [];
    if (!reads.includes("dependency")) return [];
    const goesOn = this.searches.get(model)?.sentences === app.state.sentences;
    const press = (label, act) => button(label, act, { "data-key": model });
    if (!found && !app.live) return [];
    if (!found && !goesOn) return [...name, press("Find an edit that flips", () => this.search(model))];
    const { edits = [], found: all = 0, tried = 0, of = null } = found ?? {};
    const shown = edits.slice(0, 8).map((edit) => this.edit(edit));
    const notes = [];
    if (all > shown.length) notes.push(`and ${count(all - shown.length, "edit")}`);
    if (tried !== of) notes.push(of === null ? "Searching …" : `${tried} of ${count(of, "edit")} tried`);
    else if (!all) notes.push("No single edit of the tree changes the prediction.");
    if (shown.length) notes.push("head → dependent; then the new prediction");
    const lines = notes.map((note) => tag("p", { class: "soft" }, note));
    if (goesOn) lines.push(press("Stop", () => this.stop(model)));
    else if (tried !== of && app.live) lines.push(press("Try the others", () => this.search(model)));
    return [...name, ...shown, ...lines];
  }

  /** Try one part after the other, until all are tried, the sentences change, or the user stops it. */
  async search(model) {
    const { app } = this;
    const { sentences } = app.state;
    const search = { sentences };
    const goesOn = () => this.searches.get(model) === search && app.state.sentences === sentences;
    this.searches.set(model, search);
    app.keepingFocus(() => this.draw());
    try {
      for (let found = app.extras.get("flip", model); goesOn() && found?.tried !== (found?.of ?? null);) {
        const reply = await app.request("flip", { models: [model], sentences, from: found?.tried ?? 0 });
        if (this.searches.get(model) !== search) return; // stopped meanwhile, or started again
        found = this.joined(found, reply, model);
        app.extras.set("flip", model, sentences, found);
        if (goesOn()) app.keepingFocus(() => this.draw());
      }
    } catch (error) {
      app.say(error.message, true);
    }
    if (this.searches.get(model) === search) this.stop(model);
  }

  /** Whether there is an edit to play, as far as is known. */
  get canPlay() {
    const { live, state, extras } = this.app;
    const [model] = state.models;
    const reply = extras.get("flip", model);
    const hasTree = this.of(model).length > 0 && state.sentences.some(({ heads }) => heads);
    return hasTree && (reply && reply.tried === reply.of ? reply.edits.length > 0 : live);
  }

  /** Play the next edit that flips the first model: the arc is shown in hand, then dropped. */
  async play() {
    const { app } = this;
    const [model] = app.state.models;
    if (app.live && !app.extras.get("flip", model)?.edits.length) await this.search(model);
    const edits = app.extras.get("flip", model)?.edits ?? [];
    if (!edits.length) return app.say("No single edit of the tree changes the prediction.");
    this.played = (this.played ?? -1) + 1;
    return this.apply(edits[this.played % edits.length]);
  }

  stop(model) {
    this.searches.delete(model);
    this.app.keepingFocus(() => this.draw());
  }

  /** The edits found in two parts, the most probable new answer first; for scores, the largest change first. */
  joined(earlier, reply, model) {
    if (!earlier) return reply;
    const score = this.app.now?.find(({ look }) => look.model === model)?.look.answer?.score ?? 0;
    const strength = (edit) => edit.p ?? Math.abs(edit.score - score);
    const edits = [...earlier.edits, ...reply.edits].sort((one, other) => strength(other) - strength(one));
    return { ...reply, edits, found: earlier.found + reply.found };
  }

  edit({ sentence = 0, word: place, head, heads, labels, label, p, score }) {
    const { app } = this;
    const { words } = app.state.sentences[sentence];
    const what = head ? `${words[head - 1]} → ${words[place]}` : `${words[place]} as the root`;
    const value = p === undefined || p === null ? short(score ?? 0, 2) : `${label} ${(100 * p).toFixed(0)}%`;
    const apply = () => this.apply({ sentence, word: place, head, heads, labels });
    return button([isolated(what), tag("span", { class: "number" }, value)], apply, { class: "line-button" });
  }

  apply({ sentence = 0, word, head, heads, labels }) {
    const { words } = this.app.state.sentences[sentence];
    return this.app.edit(sentence, (tree) => ({ ...tree, heads, labels: labels ?? tree.labels }), {
      said: head ? `${words[head - 1]} → ${words[word]}.` : `${words[word]} is the root.`,
      tree: "dependency",
    });
  }
}
