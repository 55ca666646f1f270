/** The answers that a page carries: to its own items, and to every single edit of the trees that its models read. */

import { same } from "./numbers.js";
import { inflate, readLevels, unpack, unpackLook } from "./packed_values.js";
import { afterMove, pairsOfMoves, phraseEdits, treeEdits } from "./trees.js";
import { shareOf } from "./wording.js";

const STRUCTURES = { dependency: ["heads", "labels"], constituency: ["phrases"] };

/**
 * A source of replies beside a server or instead of one.
 * @param {object} boot what the page is born with. @param {Function} otherwise asks for what the page does not carry.
 */
export function carried(boot, otherwise) {
  const items = boot.items.map((item) => new CarriedItem(item, boot));
  return async (request) => {
    const item = items.find((one) => one.hasWords(request.sentences));
    const reply = await item?.answer(request);
    if (reply) return { v: 1, id: request.id, ...reply };
    const asked = await otherwise(request);
    return asked.looks ? { ...asked, looks: await Promise.all(asked.looks.map(unpackLook)) } : asked;
  };
}

/** One item of a page: its replies, and the edits that it carries. */
class CarriedItem {
  constructor(item, boot) {
    Object.assign(this, { item, boot, unpacked: new Map() });
  }

  hasWords(sentences) {
    return same(
      sentences.map(({ words }) => words),
      this.item.sentences.map(({ words }) => words),
    );
  }

  /** The reply, or nothing if the page does not have it. */
  async answer(request) {
    const { do: what, models, sentences } = request;
    const answers = {
      look: () => this.look(models, sentences),
      flip: () => this.flips(models[0], sentences),
      moves: () => this.moves(request),
    };
    const isBorn = same(sentences, this.item.sentences);
    return answers[what] ? answers[what]() : isBorn ? this.item.replies?.[what]?.[models[0]] : null;
  }

  async look(models, sentences) {
    const looks = await Promise.all(models.map((model) => this.lookOf(model, sentences)));
    return looks.every(Boolean) ? { sentences, looks } : null;
  }

  base(model) {
    const look = this.item.replies?.look?.looks.find((one) => one.model === model);
    return look && this.once(`look ${model}`, () => unpackLook(look));
  }

  once(key, compute) {
    if (!this.unpacked.has(key)) this.unpacked.set(key, compute());
    return this.unpacked.get(key);
  }

  /** Which structures differ from those of the item, among those that the model reads. */
  changed(model, sentences) {
    const { reads = [] } = this.boot.models.find(({ name }) => name === model) ?? {};
    return Object.keys(STRUCTURES).filter(
      (structure) =>
        reads.includes(structure) &&
        sentences.some((sentence, i) =>
          STRUCTURES[structure].some((field) => !same(sentence[field], this.item.sentences[i][field])),
        ),
    );
  }

  edits(model, structure) {
    const record = this.item.edits?.[model]?.[structure];
    return record && this.once(`${structure} ${model}`, () => unpackEdits(record, structure, this));
  }

  async lookOf(model, sentences) {
    const base = await this.base(model);
    if (!base) return null;
    const structures = this.changed(model, sentences);
    if (!structures.length) return base;
    const edits = structures.length === 1 && (await this.edits(model, structures[0]));
    return edits ? edits.look(base, sentences) : null;
  }

  /** The edits that flip the prediction, the most probable new answer first. */
  async flips(model, sentences) {
    const [base, edits] = [await this.base(model), await this.edits(model, "dependency")];
    if (!base || !edits || !same(sentences, this.item.sentences)) return null;
    const score = base.answer.score ?? 0;
    const strength = ({ p, score: value }) => p ?? Math.abs(value - score);
    const all = edits.list.map(({ number, word, head, sentence: { heads, labels } }, k) => {
      const answer = edits.answers.at(k);
      const value = answer.label === null ? { score: answer.score } : { p: shareOf(answer) };
      return { sentence: number, word, head, heads, labels, label: answer.label, ...value };
    });
    const found = all.filter(({ label }) => label === null || label !== base.answer.label);
    found.sort((one, other) => strength(other) - strength(one));
    return { model, edits: found, found: found.length, tried: all.length, of: all.length };
  }

  /** The answers to some moves; `null` for those that the page does not carry. */
  async moves({ models: [model], sentences, number, moves }) {
    const [base, edits] = [await this.base(model), await this.edits(model, "dependency")];
    if (!base || !edits) return null;
    const answers = moves.map((move) => {
      const edited = sentences.with(number, afterMove(sentences[number], ...move));
      return this.changed(model, edited).length ? edits.answer(base, edited) : base.answer;
    });
    return { model, answers };
  }
}

/** Predictions of edits: `at(k)` is that of the k-th. */
async function unpackAnswers({ labels, probabilities, score, chosen }) {
  const columns = await Promise.all(probabilities.map(unpack));
  const scores = score && (await unpack(score));
  const places = chosen && (await unpack(chosen));
  if (columns.length < labels.length && columns.length) columns.push(columns[0].map((share) => 1 - share));
  const read = (k) => {
    const shares = columns.map((column) => column[k]);
    const best = chosen ? chosen.names[Math.round(places[k])] : (labels[shares.indexOf(Math.max(...shares))] ?? null);
    return {
      label: scores ? null : best,
      probabilities: Object.fromEntries(labels.map((label, i) => [label, shares[i]])),
      score: scores ? score.low + scores[k] : null,
      text: null,
    };
  };
  const before = JSON.stringify(read(0));
  return { at: (k) => read(k + 1), isBefore: (k) => JSON.stringify(read(k + 1)) === before };
}

/** All edits of one structure, as a page carries them for a model. */
async function unpackEdits(record, structure, { item }) {
  const list = (structure === "dependency" ? treeEdits : phraseEdits)(item.sentences);
  const fields = STRUCTURES[structure];
  const key = (number, sentence) => JSON.stringify([number, ...fields.map((field) => sentence[field])]);
  const places = new Map(list.map(({ number, sentence }, k) => [key(number, sentence), k]));
  const [answers, pairs, looks] = await Promise.all([
    unpackAnswers(record.answers),
    record.pairs && unpackAnswers(record.pairs),
    record.looks && unpackLooks(record.looks),
  ]);
  const place = (sentences) => {
    const edited = sentences.flatMap((sentence, i) =>
      fields.every((field) => same(sentence[field], item.sentences[i][field])) ? [] : [i],
    );
    return edited.length === 1 ? places.get(key(edited[0], sentences[edited[0]])) : undefined;
  };
  let pairPlaces = null;
  const pairPlace = (sentences) => {
    if (!pairs || !same(sentences[0].labels, item.sentences[0].labels)) return undefined;
    pairPlaces ??= new Map(pairsOfMoves(item.sentences[0].heads).map((heads, k) => [heads.join(), k]));
    return pairPlaces.get(sentences[0].heads.join());
  };
  const answer = (base, sentences) => {
    const [k, pair] = [place(sentences), pairPlace(sentences)];
    if (k !== undefined) return answers.isBefore(k) ? base.answer : answers.at(k);
    return pair === undefined ? null : pairs.at(pair);
  };
  const look = (base, sentences) => {
    const given = answer(base, sentences);
    if (!given) return null;
    const k = place(sentences);
    const maps = k === undefined || !looks ? null : looks.at(k, base.maps);
    return { ...base, answer: given, maps: maps ?? [], answersOnly: !maps };
  };
  return { list, answers, answer, look };
}

/** The weights of edits: `at(k, base)` are the maps after the k-th, of which `base` are those before. */
async function unpackLooks({ levels, allowed, axes }) {
  const [numbers, flags, named] = await Promise.all([
    inflate(levels).then(readLevels),
    allowed && inflate(allowed),
    axes && inflate(axes).then((bytes) => JSON.parse(new TextDecoder().decode(bytes))),
  ]);
  const size = (shape) => shape.reduce((product, side) => product * side, 1);
  const starts = [];
  const flag = (i) => (flags ? (flags[i >> 3] >> (7 - (i & 7))) & 1 : 0);
  const at = (k, base) => {
    const shapes = (n) => (named?.[n] ?? base).map(({ shape }) => shape);
    if (!starts.length) starts.push(0);
    while (starts.length <= k)
      starts.push(starts.at(-1) + shapes(starts.length - 1).reduce((total, shape) => total + size(shape), 0));
    let start = starts[k];
    return base.map((map, i) => {
      const others = named?.[k]?.[i];
      const count = size(others?.shape ?? map.shape);
      const first = start;
      start += count;
      const hasChanged = Boolean(others) || numbers.subarray(first, first + count).some(Boolean);
      const weights = hasChanged ? new Float32Array(count) : map.weights;
      if (hasChanged)
        for (let j = 0; j < count; j++) {
          const before = others ? 0 : Math.round((map.weights[j] / map.scale) * 65535);
          weights[j] = (map.scale * ((before + numbers[first + j]) & 65535)) / 65535;
        }
      if (!hasChanged && !flags) return map;
      const may = Uint8Array.from(
        { length: count },
        (_, j) => (others ? 0 : (map.allowed?.[j] ?? 1)) ^ flag(first + j),
      );
      return { ...map, ...others, weights, allowed: may.every(Boolean) ? null : may };
    });
  };
  return { at };
}
