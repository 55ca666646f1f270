/** What the page says of answers, edits and the sources of trees. */

import { MOVED } from "./heads.js";
import { count, same, short } from "./numbers.js";
import { distances } from "./trees.js";

/** An answer in words: "plural, 98.6%". */
export function answerText(answer, exact = true) {
  if (!answer) return "no prediction";
  if (answer.text !== null && answer.text !== undefined) return `“${answer.text}”`;
  if (answer.label === null) return short(answer.score ?? 0, 2);
  const share = answer.probabilities?.[answer.label];
  if (share === undefined) return answer.label.replaceAll("|", ", ") || "none"; // any number of labels
  return exact ? `${answer.label}, ${(100 * share).toFixed(1)}%` : answer.label;
}

/** What models would answer for another tree, and which of them flip. */
export function outcomesText(app, looks) {
  const texts = looks.map(({ look: { model, answer } }) => {
    const now = app.now.find(({ look }) => look.model === model)?.look.answer;
    const flips = now?.label !== undefined && answer?.label !== now?.label;
    return `${looks.length > 1 ? `${model}: ` : ""}${answerText(answer)}${flips ? ", a flip" : ""}`;
  });
  return texts.join("; ");
}

/** The probability of the answer, or of the most probable of several labels. */
export const shareOf = ({ label, probabilities }) => probabilities[label] ?? Math.max(...Object.values(probabilities));

/** The labels of an answer. */
export const labelsOf = ({ label, probabilities }) => (label in probabilities ? [label] : (label ?? "").split("|"));

const READS = {
  dependency: "the dependency tree",
  constituency: "the phrases",
  order: "the order of words",
  labels: "relations",
  tags: "parts of speech",
  distance: "distances between words",
};
export const readsText = (reads) => reads.map((name) => READS[name] ?? name).join(" and ") || "the words alone";

const FIELDS = { dependency: ["heads", "labels"], constituency: ["phrases"] };

/** Whether a structure is not as it was found. */
export function isEditedIn({ sentences, born }, structure) {
  return sentences.some((sentence, i) => FIELDS[structure].some((field) => !same(sentence[field], born[i]?.[field])));
}

/** Where the trees come from: the data, a parser with its version, a chain of words, an edit. */
export function sourcesOf(app) {
  const { boot, state } = app;
  const said = new Map();
  state.sentences.forEach((sentence, number) => {
    for (const [kind, fields] of Object.entries(FIELDS)) {
      if (!sentence[fields[0]] || !app.shows(kind)) continue;
      const edited = fields.some((field) => !same(sentence[field], state.born[number]?.[field])) ? ", edited" : "";
      const source = sentence.found_by?.[kind];
      const made = { data: "the tree of the data", chain: "a chain of words" }[source] ?? `the tree by ${source}`;
      const text =
        kind === "constituency"
          ? `phrases ${source ? `made from ${made}` : "from the data"}`
          : source === "chain"
            ? "tree: a chain of words, not a parse"
            : `tree ${source ? `by ${source}` : "from the data"}`;
      said.set(text + edited, source === "chain");
      if (kind === "constituency" && source)
        for (const { name, reads, parsed_phrases: parsed } of boot.models)
          if (state.models.includes(name) && reads?.includes(kind) && !parsed)
            said.set(`${name} was trained on the phrases of its data, which may be of another kind`, true);
    }
  });
  return [...said].map(([text, doubtful]) => ({ text, doubtful }));
}

// What an edit did, for the live region.

/** The predictions, and what was expected. */
export function sentenceOfAnswers(app) {
  const said = app.now.map(({ look }) => `${look.model}: ${answerText(look.answer)}`).join("; ");
  const item = app.boot.items[app.state.item];
  const expected = item?.expected && same(item.sentences, app.state.sentences) ? ` Expected: ${item.expected}.` : "";
  return `${said}.${expected}`;
}

/** The edit that led to a state, within a sentence. */
export const nameOf = ({ said = "a saved state." }) => said.replace(/^Compared from here/, "compared from there");

/** What an edit did to each model: how many heads moved, whether the prediction changed. */
export function sentenceOf(app, { said, tree, number }) {
  const perModel = app.now.map(({ look }, i) => {
    const heads = app.heads[i].filter((head) => head.kind === "attention");
    const moves = heads.filter((head) => head.moved > MOVED).length;
    const before = app.earlier[i].look.answer;
    const name = app.now.length > 1 ? `${look.model}: ` : "";
    if (tree && cannotSee(app, i)) return blindness(app, i, tree, number ?? 0);
    const changed =
      answerText(before, false) === answerText(look.answer, false)
        ? "prediction unchanged"
        : `prediction ${answerText(before, false)} → ${answerText(look.answer, false)}`;
    const which = heads.length ? `${moves ? count(moves, "head") : "no head"} moved; ` : "";
    const result = `${which}${changed}.`;
    return name ? name + result : result[0].toUpperCase() + result.slice(1);
  });
  return `${said} ${perModel.join(" ")}`;
}

/** Whether the last edit changed neither a weight nor the answer of a model. */
function cannotSee(app, i) {
  const [{ look }, { look: last }] = [app.now[i], app.last[i]];
  if (!same(look.answer, last.answer) || look.maps.length !== last.maps.length) return false;
  return look.maps.every(({ weights }, number) => {
    const other = last.maps[number].weights;
    return weights.length === other.length && weights.every((value, place) => value === other[place]);
  });
}

function blindness(app, i, tree, number) {
  const { look } = app.now[i];
  const reads = look.reads ?? [];
  if (!reads.includes(tree)) return `${look.model} cannot see this: it reads ${readsText(reads)}.`;
  const [one, other] = [app.last[i].sentences[number], app.state.sentences[number]];
  if (tree === "dependency" && same(one.heads, other.heads))
    return `${look.model} cannot see this: only relations changed.`;
  if (tree === "dependency" && same(distances(one.heads), distances(other.heads)))
    return `${look.model} cannot see this: distances are undirected, and none has changed.`;
  return `${look.model} did not change: all its weights and its prediction are the same as before.`;
}

/** How to open an explorer that answers everything. */
export const liveHint = ({ command }) => `For a live explorer run: ${command ?? "structattn explore RUN"}`;

/** What a page without a server can answer about the shown item. */
export function carriedNote(app) {
  if (app.live) return "";
  const edits = Object.values(app.boot.items[app.state.item]?.edits ?? {}).flatMap((record) => Object.values(record));
  if (["dependency", "constituency"].some((structure) => app.isRead(structure) && !app.canEdit(structure)))
    return `This page has no answers to edits of this sentence. ${liveHint(app.boot)}`;
  const pairs = edits.some((record) => record.pairs) ? ", and the predictions of two" : "";
  const looks = edits.some((record) => !record.looks) ? "the predictions" : "the answers";
  return `This page has ${looks} of every single edit of this sentence${pairs}. ${liveHint(app.boot)}`;
}
