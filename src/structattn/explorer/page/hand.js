/** An arc in hand: which of its ends moves, where that may go, and what the models would answer at each place. */

import { short } from "./numbers.js";
import { afterMove } from "./trees.js";
import { answerText } from "./wording.js";

export class Hand {
  /**
   * @param {"dependent" | "head" | "root"} end which end moves; of a root, the word that is one
   * @param {number | null} word the word at the end that stays
   */
  constructor(app, number, end, word) {
    Object.assign(this, { app, number, end, word, answers: new Map() });
    const { sentences } = app.state;
    this.sentence = sentences[number];
    this.moves = this.sentence.words.map((_, i) => (this.isTree(i) ? this.moveTo(i) : null));
    this.ask(sentences);
  }

  /** The word that would move, and its new head as a CoNLL id, if the end were dropped at a word. */
  moveTo(i) {
    if (this.end === "root") return [i, 0];
    return this.end === "head" ? [this.word, i + 1] : [i, this.word + 1];
  }

  isTree(i) {
    try {
      return Boolean(afterMove(this.sentence, ...this.moveTo(i)));
    } catch {
      return false;
    }
  }

  drop(i) {
    return this.app.move(this.number, ...this.moveTo(i));
  }

  /** Ask each model that reads the tree for its answer at every place, in one batch. */
  async ask(sentences) {
    const { app, number } = this;
    const places = this.moves.flatMap((move, i) => (move ? [i] : []));
    if (!places.length) return;
    const moves = places.map((i) => this.moves[i]);
    for (const model of readers(app)) {
      try {
        const reply = await app.request("moves", { models: [model], sentences, number, moves });
        this.answers.set(model, new Map(places.map((i, k) => [i, reply.answers[k]])));
      } catch (error) {
        if (app.hand === this) app.say(error.message, true);
      }
      if (app.hand !== this) return;
      app.mark();
    }
  }

  /** What a model would answer at a word: how likely its present answer is there, and whether another one is likelier. */
  outcome(model, i) {
    const now = this.app.now.find(({ look }) => look.model === model).look.answer;
    const answer = this.answers.get(model)?.get(i);
    if (!answer) return null;
    const isScore = now.label === null;
    const value = isScore ? short(answer.score, 2) : (100 * answer.probabilities[likeliest(now)]).toFixed(1);
    return { value, flips: answer.label !== now.label, answer };
  }

  /** "ms_san: singular, 89.0%, another answer" for a word. */
  said(i) {
    const parts = [...this.answers.keys()].flatMap((model) => {
      const outcome = this.outcome(model, i);
      const name = this.app.now.length > 1 ? `${model}: ` : "";
      return outcome ? [`${name}${answerText(outcome.answer)}${outcome.flips ? ", a flip" : ""}`] : [];
    });
    return this.moves[i] ? parts.join("; ") : "not possible: a cycle";
  }
}

/** The label of an answer, or the most probable one of several or of none. */
export const likeliest = ({ label, probabilities }) =>
  label in probabilities
    ? label
    : Object.keys(probabilities).reduce((a, b) => (probabilities[b] > probabilities[a] ? b : a));

/** The models whose answer can change with the dependency tree, and is one label or score. */
export function readers(app) {
  const shown = app.now ?? [];
  const reads = (name) => app.boot.models.find((model) => model.name === name)?.reads.includes("dependency");
  const answers = ({ answer }) => answer && (answer.label !== null || answer.score !== null);
  return shown.flatMap(({ look }) => (reads(look.model) && answers(look) ? [look.model] : []));
}
