/** Edits of trees, twins of `DependencyTree.moved`, `.rerooted` and `ConstituencyTree.with_phrase`: they refuse before any request. */

/** Ids (from 1) of a word and of the words above it. */
export function pathToRoot(heads, word) {
  const path = [];
  for (let node = word; node && path.length <= heads.length; node = heads[node - 1]) path.push(node);
  return path;
}

/** @returns {object} the sentence with `word` (from 0) attached to `head` (CoNLL id). @throws {Error} for a cycle. */
export function moved(sentence, word, head) {
  const { words, heads } = sentence;
  if (!heads) throw new Error("This sentence has no dependency tree; Parse gives it one.");
  if (head === word + 1) throw new Error(`“${words[word]}” cannot be its own head.`);
  if (pathToRoot(heads, head).includes(word + 1))
    throw new Error(`“${words[head - 1]}” is below “${words[word]}”, so it cannot be its head: that would be a cycle.`);
  return { ...sentence, heads: heads.with(word, head) };
}

/** Reverse the path from a word to the root, with its labels; several roots stay several. */
export function rerooted(sentence, word) {
  if (!sentence.heads) throw new Error("This sentence has no dependency tree; Parse gives it one.");
  const path = pathToRoot(sentence.heads, word + 1);
  const heads = [...sentence.heads];
  const labels = sentence.labels && [...sentence.labels];
  for (let i = 0; i + 1 < path.length; i++) {
    heads[path[i + 1] - 1] = path[i];
    if (labels) labels[path[i + 1] - 1] = sentence.labels[path[i] - 1];
  }
  heads[word] = 0;
  if (labels) labels[word] = sentence.labels[path.at(-1) - 1];
  return { ...sentence, heads, labels };
}

/** The sentence with a word below another head (a CoNLL id), or as the root (0). */
export const afterMove = (sentence, word, head) => (head ? moved(sentence, word, head) : rerooted(sentence, word));

export function relabelled(sentence, word, label) {
  if (!sentence.labels) throw new Error("The arcs of this tree have no labels.");
  return { ...sentence, labels: sentence.labels.with(word, label) };
}

export const crosses = ([, a, b], [, c, d]) => (a < c && c < b && b < d) || (c < a && a < d && d < b);

/** @throws {Error} if the span from `start` up to, not including, `end` crosses a phrase. */
export function withPhrase(sentence, label, start, end) {
  const added = [label, start, end];
  const phrases = sentence.phrases ?? [];
  const crossed = phrases.find((phrase) => crosses(phrase, added));
  if (crossed)
    throw new Error(
      `“${stretch(sentence, added)}” crosses ${crossed[0]} “${stretch(sentence, crossed)}”; phrases must nest.`,
    );
  const order = (one, other) => one[1] - other[1] || other[2] - one[2];
  return { ...sentence, phrases: [...phrases, added].sort(order) };
}

export const stretch = (sentence, [, start, end]) => sentence.words.slice(start, end).join(" ");

/** Number of arcs between every two words; shows whether an edit changes undirected distances. */
export function distances(heads) {
  const paths = heads.map((_, word) => [...pathToRoot(heads, word + 1), 0]);
  return paths.map((one) =>
    paths.map((other) => {
      let shared = 0;
      while (shared < Math.min(one.length, other.length) && one.at(-1 - shared) === other.at(-1 - shared)) shared++;
      return one.length + other.length - 2 * shared;
    }),
  );
}

// All edits that are one step away, in the order of `list_edits` and `moved_twice` in `inspection/structure_edits.py`.

/** Every move of an arc, then every new root, of some sentences. */
export function treeEdits(sentences) {
  return sentences.flatMap((sentence, number) => {
    const words = (sentence.heads ?? []).flatMap((head, word) => (head ? [word] : []));
    const moves = words.flatMap((word) =>
      possibleHeads(sentence.heads, word).map((head) => ({
        number,
        word,
        head,
        sentence: moved(sentence, word, head),
      })),
    );
    return [...moves, ...words.map((word) => ({ number, word, head: 0, sentence: rerooted(sentence, word) }))];
  });
}

/** The other heads that a word can have, as CoNLL ids. */
function possibleHeads(heads, word) {
  return heads.flatMap((_, place) =>
    place + 1 === heads[word] || pathToRoot(heads, place + 1).includes(word + 1) ? [] : [place + 1],
  );
}

/** The phrases of some sentences without each of them, then with each further one of two words or more. */
export function phraseEdits(sentences) {
  return sentences.flatMap((sentence, number) => {
    const { words, phrases } = sentence;
    if (!phrases) return [];
    const removed = phrases.map((_, i) => ({ number, sentence: { ...sentence, phrases: phrases.toSpliced(i, 1) } }));
    const spans = words.flatMap((_, start) => words.slice(start + 1).map((_, i) => ["NP", start, start + 2 + i]));
    const isNew = (span) =>
      !phrases.some((phrase) => crosses(phrase, span) || (phrase[1] === span[1] && phrase[2] === span[2]));
    return [...removed, ...spans.filter(isNew).map((span) => ({ number, sentence: withPhrase(sentence, ...span) }))];
  });
}

/** Every tree in which two words have other heads, and the roots stay, as lists of heads. */
export function pairsOfMoves(heads) {
  const ids = heads.map((_, place) => place + 1);
  const moves = heads.flatMap((old, word) =>
    old ? ids.filter((head) => head !== old && head !== word + 1).map((head) => [word, head]) : [],
  );
  const isTree = (all, word) => {
    let head = all[word];
    for (let step = 0; step < all.length && head && head !== word + 1; step++) head = all[head - 1];
    return !head;
  };
  return moves.flatMap(([word, head], i) =>
    moves.slice(i + 1).flatMap(([other, above]) => {
      if (other === word) return [];
      const all = heads.with(word, head).with(other, above);
      return isTree(all, word) && isTree(all, other) ? [all] : [];
    }),
  );
}
