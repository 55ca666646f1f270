/** What was asked of the models, and what they replied. */

import { MOST_INFLUENCE, same, sum } from "./numbers.js";

const REMEMBERED = 40; // replies kept for undo

/** The looks of models at sentences, asked for once. */
export class Replies {
  /** @param {Function} ask the source. */
  constructor(ask) {
    Object.assign(this, { ask, id: Math.floor(Math.random() * 2 ** 30) });
    this.known = new Map();
  }

  async request(what, fields) {
    const reply = await this.ask({ v: 1, id: ++this.id, do: what, text: null, figure: null, ...fields });
    if (reply.error) throw Object.assign(new Error(reply.error.message), { place: reply.error });
    return reply;
  }

  /** The replies of some models for some sentences; what was answered before is not asked again. */
  looks(models, sentences) {
    const key = (model) => keyOfLook(model, sentences);
    const missing = models.filter((model) => !this.known.has(key(model)));
    if (missing.length) {
      const asked = this.request("look", { models: missing, sentences });
      for (const model of missing)
        this.remember(
          model,
          sentences,
          asked.then((reply) => pick(reply, model)),
        );
      asked.catch(() => missing.forEach((model) => this.known.delete(key(model))));
    }
    return Promise.all(models.map((model) => this.known.get(key(model))));
  }

  remember(model, sentences, reply) {
    this.known.set(keyOfLook(model, sentences), reply);
    if (this.known.size > REMEMBERED) this.known.delete(this.known.keys().next().value);
  }
}

const keyOfLook = (model, sentences) => JSON.stringify([model, sentences]);

const pick = (reply, model) => ({
  sentences: reply.sentences,
  look: reply.looks.find((look) => look.model === model),
});

/** What is asked for beside the looks: influence of words and arcs, edits that flip the prediction. */
export class Extras {
  constructor(app) {
    this.app = app;
    this.known = new Map();
    this.asking = new Set();
    this.wanted = new Set(); // asked for on demand
  }

  /** Whether leave-one-out, a run of the model for each word, would take long. */
  get isLong() {
    return sum(this.app.state.sentences.map((sentence) => sentence.words.length)) > MOST_INFLUENCE;
  }

  /** Ask for the influence that is wanted once the weights are drawn. */
  follow() {
    const { app } = this;
    const hasMoves = (model) => app.boot.items[app.state.item]?.edits?.[model]?.dependency;
    if (!app.live) for (const model of app.state.models.filter(hasMoves)) this.fetch("flip", model);
    if (!app.live) return;
    const wanted = [...this.wanted].filter((what) => what === "gradient" || !this.isLong);
    for (const what of wanted) for (const model of app.state.models) this.fetch(what, model);
  }

  /** The sentences that it is about: those shown; for edits that flip, on a page without a server, those of the item. */
  about(what) {
    const { boot, live, state } = this.app;
    return what === "flip" && !live ? (boot.items[state.item]?.sentences ?? state.sentences) : state.sentences;
  }

  /** What is known of it. */
  get(what, model) {
    const { boot, state } = this.app;
    const born = boot.items[state.item];
    const isBorn = born && same(born.sentences, state.sentences);
    return (
      this.known.get(keyOfExtra(what, model, this.about(what))) ?? (isBorn ? born.replies?.[what]?.[model] : undefined)
    );
  }

  set(what, model, sentences, reply) {
    this.known.set(keyOfExtra(what, model, sentences), reply);
  }

  /** Ask for it; of several edits made meanwhile, only the last is asked about, so that requests do not queue. */
  async fetch(what, model) {
    const { app } = this;
    const { sentences } = app.state;
    const about = this.about(what);
    const key = JSON.stringify([what, model]);
    if (this.get(what, model) || this.asking.has(key)) return;
    this.asking.add(key);
    try {
      let reply = await app.request(what, { models: [model], sentences: about });
      // A long sentence is answered in parts, so that others are answered between them.
      while (what !== "flip" && reply.tried < reply.of && same(sentences, app.state.sentences)) {
        const next = await app.request(what, { models: [model], sentences: about, from: reply.tried });
        const before = reply.values;
        const merge = (row, at) => row && row.map((value, word) => value ?? before[at][word]);
        reply = { ...next, values: next.values.map(merge) };
      }
      if (what === "flip" || !(reply.tried < reply.of)) this.set(what, model, about, reply);
      if (same(sentences, app.state.sentences)) app.draw();
    } catch (error) {
      app.say(error.message, true);
    } finally {
      this.asking.delete(key);
    }
    if (!same(sentences, app.state.sentences)) this.follow();
  }
}

const keyOfExtra = (what, model, sentences) => JSON.stringify([what, model, sentences]);
