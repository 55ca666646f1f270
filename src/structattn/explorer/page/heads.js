/** Attention heads of a reply: their rows and columns, by token or by word, beside those before an edit. */

import { same, sum } from "./numbers.js";

export const MOVED = 0.005; // a head counts as moved when half of Σ|Δ|, as a mean over rows, is above this

/** The units of the rows or columns of a map: a text, and the word that it belongs to, if there is one. */
function unitsOf(map, axis, sentences) {
  const { words } = sentences[map.sentence] ?? sentences[0];
  const size = map.shape[axis === "rows" ? 1 : 2];
  const names = map[axis] ?? words;
  const places = map.words?.[axis];
  const ofWords = !map[axis] || (size >= words.length && words.every((text, i) => names[i] === text));
  return Array.from({ length: size }, (_, i) => {
    const place = places ? places[i] : ofWords && i < words.length ? i : null;
    const [sentence, index] = Array.isArray(place) ? place : [map.sentence, place];
    return { text: names[i] ?? "", sentence, word: index ?? null };
  });
}

/** Neighbouring tokens of one word, as [first, after the last] with the unit of the word. */
function wordGroups(units, sentences) {
  const groups = [];
  units.forEach((unit, i) => {
    const last = groups.at(-1);
    if (last && unit.word !== null && last.word === unit.word && last.sentence === unit.sentence) last.end = i + 1;
    else {
      const text = unit.word === null ? unit.text : sentences[unit.sentence].words[unit.word];
      groups.push({ ...unit, text, start: i, end: i + 1 });
    }
  });
  return groups;
}

/** Attention between words: that to a word is the sum over its tokens, that from a word the mean (Clark et al. 2019). */
function byWords(head, sentences) {
  const [rows, columns] = [wordGroups(head.rows, sentences), wordGroups(head.columns, sentences)];
  const width = head.columns.length;
  const values = new Float32Array(rows.length * columns.length);
  const allowed = head.allowed && new Uint8Array(values.length);
  rows.forEach((row, i) => {
    columns.forEach((column, j) => {
      let total = 0;
      for (let query = row.start; query < row.end; query++)
        for (let key = column.start; key < column.end; key++) {
          total += head.values[query * width + key];
          if (allowed && head.allowed[query * width + key]) allowed[i * columns.length + j] = 1;
        }
      values[i * columns.length + j] = total / (row.end - row.start);
    });
  });
  return { ...head, rows, columns, values, allowed };
}

/** All heads of a reply: one matrix each, with the names and the words of its rows and columns. */
function headsOf(look, sentences, tokens) {
  const severalSentences = new Set(look.maps.map((map) => map.sentence)).size > 1;
  // Within one kind: a gate may have the name of the head that feeds it.
  const isDistinct = (kind) => {
    const ofKind = new Map(look.maps.filter((map) => map.kind === kind).map((map) => [map.name, map.heads]));
    const names = [...ofKind.values()].flat();
    return new Set(names).size === names.length;
  };
  const distinct = new Set(look.maps.map((map) => map.kind).filter(isDistinct));
  return look.maps.flatMap((map) => {
    const [rows, columns] = [unitsOf(map, "rows", sentences), unitsOf(map, "columns", sentences)];
    const size = rows.length * columns.length;
    const path = map.title || map.name;
    return map.heads.map((name, number) => {
      const own = distinct.has(map.kind) ? name : map.heads.length === 1 ? path : `${path} · ${name}`;
      const title = severalSentences ? `${map.sentence + 1}: ${own}` : own;
      const values = map.weights.subarray(number * size, (number + 1) * size);
      const allowed = map.allowed && map.allowed.subarray(number * size, (number + 1) * size);
      const key = `${look.model}/${map.name}/${map.sentence}/${number}`;
      const head = {
        key,
        path,
        title,
        kind: map.kind,
        model: look.model,
        sentence: map.sentence,
        rows,
        columns,
        values,
        allowed,
      };
      return map.words && !tokens ? byWords(head, sentences) : head;
    });
  });
}

/** Distinct keys of the units of an axis: the word or name, and the number of the unit among those that share it. */
function unitKeys(units) {
  const counts = new Map();
  return units.map(({ sentence, word, text }) => {
    const key = word === null ? text : `${sentence} ${word}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return `${key} ${counts.get(key)}`;
  });
}

/** The weights of a head before the edit, for the present rows and columns; a new phrase had no weight. */
function aligned(head, before) {
  const [rows, columns] = ["rows", "columns"].map((axis) => {
    const places = new Map(unitKeys(before[axis]).map((key, i) => [key, i]));
    return unitKeys(head[axis]).map((key) => places.get(key));
  });
  const inPlace = (places) => places.every((place, i) => place === i);
  if (before.values.length === head.values.length && inPlace(rows) && inPlace(columns)) return before.values;
  const values = new Float32Array(head.values.length);
  rows.forEach((row, i) =>
    columns.forEach((column, j) => {
      const known = row !== undefined && column !== undefined;
      if (known) values[i * columns.length + j] = before.values[row * before.columns.length + column];
    }),
  );
  return values;
}

/** The heads of a reply joined to those before the edit, with ½ Σ|Δ| of each row as a mean over the rows. */
function joined(heads, before) {
  const known = new Map(before.map((head) => [head.key, head]));
  return heads.map((head) => {
    const other = known.get(head.key);
    if (!other) return { ...head, before: null, moved: 0 };
    const values = aligned(head, other);
    const total = head.values.reduce((moves, value, i) => moves + Math.abs(value - values[i]), 0);
    return { ...head, before: values, moved: total / 2 / Math.max(head.rows.length, 1) };
  });
}

/** The heads of replies, joined to those of earlier replies to the same words. */
export function headsBeside(now, earlier, tokens) {
  const of = ({ look, sentences }) => headsOf(look, sentences, tokens);
  const hasWordsOf = (reply, other) => reply.sentences.every(({ words }, i) => same(words, other.sentences[i]?.words));
  return now.map((reply, i) => joined(of(reply), hasWordsOf(reply, earlier[i]) ? of(earlier[i]) : []));
}

/** Weights from a word to the words, by sentence and place; over several rows the mean. */
export function rowOf(head, [sentence, place]) {
  const rows = head.rows
    .map((unit, i) => [unit, i])
    .filter(([unit]) => unit.sentence === sentence && unit.word === place);
  if (!rows.length) return null;
  const found = new Map();
  head.columns.forEach((unit, j) => {
    if (unit.word === null) return;
    const value = sum(rows.map(([, i]) => head.values[i * head.columns.length + j])) / rows.length;
    const key = `${unit.sentence} ${unit.word}`;
    found.set(key, (found.get(key) ?? 0) + value);
  });
  return found;
}
