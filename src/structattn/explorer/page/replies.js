/** What was asked of the models, and what they replied. */

import { MOST_INFLUENCE, same, sum } from "./numbers.js";
import { unpackLook } from "./packed_values.js";

const REMEMBERED = 40; // replies kept for undo

/** The looks of models at sentences, asked for once. */
export class Replies {
  /** @param {object} boot with the replies that a page is born with. @param {Function} ask the host. */
  constructor(boot, ask) {
    Object.assign(this, { boot, ask, id: Math.floor(Math.random() * 2 ** 30) });
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
    const missing = models.filter((model) => !this.known.has(key(model)) && !this.fromBirth(model, sentences));
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

  /** Whether the initial data of the page have this reply. */
  fromBirth(model, sentences) {
    const item = this.boot.items.find((one) => one.replies?.look && same(one.sentences, sentences));
    const isThere = item?.replies.look.looks.some((look) => look.model === model);
    if (isThere) this.remember(model, sentences, pick(item.replies.look, model));
    return Boolean(isThere);
  }

  remember(model, sentences, reply) {
    this.known.set(keyOfLook(model, sentences), reply);
    if (this.known.size > REMEMBERED) this.known.delete(this.known.keys().next().value);
  }
}

const keyOfLook = (model, sentences) => JSON.stringify([model, sentences]);

const pick = async (reply, model) => ({
  sentences: reply.sentences,
  look: await unpackLook(reply.looks.find((look) => look.model === model)),
});

/** What is asked for beside the looks: influence of words and arcs, edits that flip the prediction. */
export class Extras {
  constructor(app) {
    this.app = app;
    this.known = new Map();
    this.asking = new Set();
    this.wanted = new Set(app.live ? [] : ["influence", "arcs"]); // a live model is asked on demand
  }

  /** Whether leave-one-out, a run of the model for each word, would take long. */
  get isLong() {
    return sum(this.app.state.sentences.map((sentence) => sentence.words.length)) > MOST_INFLUENCE;
  }

  /** Ask for the influence that is wanted once the weights are drawn. */
  follow() {
    if (!this.app.live || this.isLong) return;
    for (const what of this.wanted) for (const model of this.app.state.models) this.fetch(what, model);
  }

  /** What is known for the shown sentences. */
  get(what, model) {
    const { boot, state } = this.app;
    const born = boot.items[state.item];
    const isBorn = born && same(born.sentences, state.sentences);
    return (
      this.known.get(keyOfExtra(what, model, state.sentences)) ?? (isBorn ? born.replies?.[what]?.[model] : undefined)
    );
  }

  set(what, model, sentences, reply) {
    this.known.set(keyOfExtra(what, model, sentences), reply);
  }

  /** Ask for it; of several edits made meanwhile, only the last is asked about, so that requests do not queue. */
  async fetch(what, model) {
    const { app } = this;
    const { sentences } = app.state;
    const key = JSON.stringify([what, model]);
    if (this.get(what, model) || this.asking.has(key)) return;
    this.asking.add(key);
    try {
      this.set(what, model, sentences, await app.request(what, { models: [model] }));
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
