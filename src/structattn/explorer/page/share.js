/** States that are shared: files, links, and what keeps one from being shown. */

import { fill, make, tag } from "./elements.js";
import { MOST_WORDS, clamp, count, same } from "./numbers.js";
import { crosses, pathToRoot } from "./trees.js";

/** The content of a state file: enough to see the same again with the same runs. */
export function stateOf(app) {
  const { sentences, before, models } = app.state;
  const { mode, scale, pinned, head, sort, by, path, numbers, threshold, arcs } = app.view;
  const influence = [...app.extras.wanted];
  const runs = Object.fromEntries(app.boot.models.map((model) => [model.name, model.sha256]));
  const view = { models, mode, scale, word: pinned, head, sort, by, path, numbers, threshold, influence, arcs };
  return { v: 1, sentences, before, view, runs };
}

/** Show a state that was saved; says what does not fit. */
export async function openState(app, text) {
  let state = null;
  try {
    state = JSON.parse(text);
  } catch {
    return app.say("Expected a state file of the explorer, got something that is not JSON.", true);
  }
  const problem = stateProblem(app, state);
  if (problem) return app.say(problem, true);
  const view = isObject(state.view) ? state.view : {};
  const models = isListOf(view.models, isText) ? view.models : [];
  const known = models.filter((name) => app.boot.models.some((model) => model.name === name)).slice(0, 2);
  const place = isListOf(view.word, Number.isInteger) ? view.word : [];
  Object.assign(app.view, {
    mode: ["change", "difference"].includes(view.mode) ? view.mode : "weights",
    scale: view.scale === "row" ? "row" : "shared",
    sort: view.sort === "moved" ? "moved" : "layer",
    by: view.by === "tokens" ? "tokens" : "words",
    head: isText(view.head) ? view.head : null,
    path: isText(view.path) ? view.path : null,
    numbers: view.numbers === true,
    arcs: view.arcs === true,
    threshold: Number.isFinite(view.threshold) ? clamp(view.threshold, 0.01, 0.99) : app.view.threshold,
    pinned: state.sentences[place[0]]?.words[place[1]] === undefined ? null : place.slice(0, 2),
  });
  if (isListOf(view.influence, isText))
    app.extras.wanted = new Set(view.influence.filter((what) => ["influence", "gradient", "arcs"].includes(what)));
  const item = app.boot.items.findIndex((one) => same(one.sentences, state.before));
  await app.show({
    sentences: state.sentences,
    before: state.before,
    born: state.before,
    models: known.length ? known : app.state.models,
    item: item < 0 ? null : item,
  });
  const runs = isObject(state.runs) ? state.runs : {};
  const other = app.boot.models.filter((model) => runs[model.name] && runs[model.name] !== model.sha256);
  if (other.length)
    app.say(
      `The state was saved with another ${other.map((model) => model.name).join(" and ")}: predictions and weights may differ.`,
    );
  return undefined;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value) => typeof value === "string";
const isListOf = (value, isEntry) => Array.isArray(value) && value.every(isEntry);

/** What keeps a value from outside from being a sentence that the page can draw; `null` if nothing does. */
function sentenceProblem(sentence) {
  if (!isObject(sentence) || !isListOf(sentence.words, isText)) return "words";
  const { words, tags, heads, labels, phrases, leaves, text, found_by: sources } = sentence;
  const size = words.length;
  if (!size || size > MOST_WORDS || words.some((word) => !word.trim())) return "words";
  const isRow = (row, isEntry) => row === null || row === undefined || (isListOf(row, isEntry) && row.length === size);
  if (!isRow(tags, isText)) return "tags";
  if (!isRow(leaves, (tag) => tag === null || isText(tag))) return "leaves";
  if (!isRow(labels, isText) || (labels && !heads)) return "labels";
  if (!isRow(heads, (head) => Number.isInteger(head) && head >= 0 && head <= size)) return "heads";
  if (heads?.some((_, word) => pathToRoot(heads, word + 1).length > size)) return "heads without a cycle";
  const isPhrase = (span) =>
    Array.isArray(span) &&
    span.length === 3 &&
    isText(span[0]) &&
    span.slice(1).every(Number.isInteger) &&
    span[1] >= 0 &&
    span[1] < span[2] &&
    span[2] <= size;
  if (phrases !== null && phrases !== undefined && !isListOf(phrases, isPhrase)) return "phrases";
  if (phrases?.some((one, i) => phrases.slice(0, i).some((other) => crosses(one, other)))) return "phrases that nest";
  if (text !== null && text !== undefined && !isText(text)) return "a text";
  if (sources !== undefined && !(isObject(sources) && Object.values(sources).every(isText))) return "sources of trees";
  return null;
}

function stateProblem(app, state) {
  if (state?.v !== 1) return `Expected a state of version 1, got ${JSON.stringify(state?.v)?.slice(0, 40) ?? "none"}.`;
  const { arity } = app.boot.models[0];
  for (const name of ["sentences", "before"]) {
    const list = state[name];
    if (!Array.isArray(list) || list.length !== arity)
      return `Expected a state with ${count(arity, "sentence")} now and before, got ${Array.isArray(list) ? list.length : "none"}.`;
    const problem = list.map(sentenceProblem).find(Boolean);
    if (problem) return `Expected ${problem} in the ${name} of this state, got something else.`;
  }
  if (
    !same(
      state.sentences.map(({ words }) => words),
      state.before.map(({ words }) => words),
    )
  )
    return "Expected the same words now and before, got others.";
  return null;
}

/** Base64 without characters that a URL would escape. */
function toFragment(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");
}

export function fromFragment(fragment) {
  const text = atob(fragment.replace(/-/g, "+").replace(/_/g, "/"));
  return new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
}

export async function copyLink(app) {
  const { origin, pathname, href, protocol } = globalThis.location;
  const page = protocol.startsWith("http") ? origin + pathname : href.replace(/#.*$/, ""); // never with a token
  const link = `${page}#${toFragment(stateOf(app))}`;
  try {
    await navigator.clipboard.writeText(link);
    app.say("Link copied. The part after the # stays in the browser: it is never sent.");
  } catch {
    const field = make(tag("input", { type: "text", readonly: true, value: link, "aria-label": "link to copy" }));
    fill(app.status, "Copy this link: ", field);
    field.select();
  }
}
