/**
 * The explorer: view and edit a sentence and its trees, and see how a model responds.
 *
 * One module without dependencies, for three hosts: a page that contains its replies, a page that asks a server, and a
 * notebook widget that asks its kernel. A host is one method, `ask(request) → Promise<reply>`; `protocol.py` describes
 * requests and replies. Text from outside enters the document through `textContent` and attributes only.
 */

// ------------------------------------------------------------------------------------------------ values on the wire

const MOVED = 0.005; // a head counts as moved when half of Σ|Δ|, as a mean over rows, is above this
const MOST_INFLUENCE = 60; // leave-one-out runs the model once per word
const MOST_WORDS = 256;

/** @param {string} text base64 of zlib. @returns {Promise<Uint8Array>} */
async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Weights from 16 bits each: all high bytes, then all low bytes. */
async function unpack({ scale, data }) {
  const bytes = await inflate(data);
  const size = bytes.length / 2;
  const values = new Float32Array(size);
  for (let i = 0; i < size; i++) values[i] = (scale * (256 * bytes[i] + bytes[size + i])) / 65535;
  return values;
}

/** One byte for each bit, the first bit being the highest of its byte; `null` stays `null`: all keys are allowed. */
async function unpackBits(data, size) {
  if (!data) return null;
  const bytes = await inflate(data);
  return Uint8Array.from({ length: size }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);
}

async function unpackMap(map) {
  const size = map.shape.reduce((product, side) => product * side, 1);
  const [weights, allowed] = await Promise.all([unpack(map), unpackBits(map.allowed, size)]);
  return { ...map, weights, allowed };
}

async function unpackLook(look) {
  const [maps, latent] = await Promise.all([
    Promise.all(look.maps.map(unpackMap)),
    Promise.all((look.latent ?? []).map(async (tree) => tree && { ...tree, weights: await unpack(tree) })),
  ]);
  return { ...look, maps, latent };
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const sum = (values) => values.reduce((total, value) => total + value, 0);

/** A number with a real minus sign: "0.079", "−0.9", "1.4". */
function short(value, digits = 3) {
  const text = Math.abs(value).toFixed(digits);
  return (value < 0 && Number(text) !== 0 ? "−" : "") + text;
}
const signed = (value, digits) => (value > 0 ? "+" : "") + short(value, digits);

/** A difference of two answers: in points of a probability, or of a score. */
const difference = (value, isScore) => (isScore ? signed(value, 2) : `${signed(100 * value, 1)} points`);

// ------------------------------------------------------------------------------------------------------------- trees
// Twins of `DependencyTree.moved`, `.rerooted`, `ConstituencyTree.with_phrase`: they refuse an edit before any request.

/** Ids (from 1) of a word and of the words above it. */
function pathToRoot(heads, word) {
  const path = [];
  for (let node = word; node && path.length <= heads.length; node = heads[node - 1]) path.push(node);
  return path;
}

/** @returns {object} the sentence with `word` (from 0) attached to `head` (CoNLL id). @throws {Error} for a cycle. */
function moved(sentence, word, head) {
  const { words, heads } = sentence;
  if (!heads) throw new Error("This sentence has no dependency tree; Parse gives it one.");
  if (head === word + 1) throw new Error(`“${words[word]}” cannot be its own head.`);
  if (pathToRoot(heads, head).includes(word + 1))
    throw new Error(`“${words[head - 1]}” is below “${words[word]}”, so it cannot be its head: that would be a cycle.`);
  return { ...sentence, heads: heads.with(word, head) };
}

/** Reverse the path from a word to the root, with its labels; several roots stay several. */
function rerooted(sentence, word) {
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

function relabelled(sentence, word, label) {
  if (!sentence.labels) throw new Error("The arcs of this tree have no labels.");
  return { ...sentence, labels: sentence.labels.with(word, label) };
}

const crosses = ([, a, b], [, c, d]) => (a < c && c < b && b < d) || (c < a && a < d && d < b);

/** @throws {Error} if the span from `start` up to, not including, `end` crosses a phrase. */
function withPhrase(sentence, label, start, end) {
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

const stretch = (sentence, [, start, end]) => sentence.words.slice(start, end).join(" ");

/** Number of arcs between every two words; shows whether an edit changes undirected distances. */
function distances(heads) {
  const paths = heads.map((_, word) => [...pathToRoot(heads, word + 1), 0]);
  return paths.map((one) =>
    paths.map((other) => {
      let shared = 0;
      while (shared < Math.min(one.length, other.length) && one.at(-1 - shared) === other.at(-1 - shared)) shared++;
      return one.length + other.length - 2 * shared;
    }),
  );
}

// ----------------------------------------------------------------------------------------------------------- colours
// The palettes of `pictures/colours.py`, as even steps; a test compares them.

const PALETTES = {
  sequential: {
    light:
      "f6fbfd dcf2f7 c1e9ef a5e0e7 8ad0de 71c1d7 5ab2d0 48a4ca 3e96c4 3788bd 347bb7 326db0 3260a7 305098 2d4088 2a3078 262067",
    dark: "1b1e24 20293b 273253 2f3b6a 344d84 32649d 2a79b1 218bba 1c9cc1 21adc6 31bfca 4ccbc6 6cd6bf 8de0ba aee9b7 d0f1b8 f1fac0",
  },
  diverging: {
    light:
      "1e3f7f 2c599a 3b75b6 4f90cf 6ea8db 8fc1e9 b2d9f5 d4e7f6 f6f6f6 f5e1d0 f3ceac ecb689 e49c68 dd824a ca6632 a84822 852a12",
    dark: "97ddf9 72c0e9 54a5db 3b8ccd 3973ad 395d87 344863 2c3442 232323 45312a 663e2e 864a31 a75631 c56533 d7884d e7aa6d f7cc91",
  },
};

// Orange is what raises or supports, blue what lowers or opposes, as at the ends of the diverging palette.
const INKS = {
  light: {
    paper: "#ffffff",
    ground: "#f4f6f8",
    ink: "#1b1f24",
    soft: "#5b6470",
    rule: "#d5dae0",
    hatch: "#b4bbc4",
    chip: "#f1f4f7",
    border: "#848d99",
    raises: "#b8520f",
    lowers: "#2b5fa8",
    edit: "#8a3a8f",
    accent: "#12766a",
    error: "#a1283f",
  },
  dark: {
    paper: "#14171c",
    ground: "#0d0f12",
    ink: "#e8eaed",
    soft: "#a3abb6",
    rule: "#39404a",
    hatch: "#4a525d",
    chip: "#21262d",
    border: "#6f7883",
    raises: "#f0a15c",
    lowers: "#6fb1f0",
    edit: "#d79be0",
    accent: "#4cc9b0",
    error: "#f08a9b",
  },
};

const LEVELS = 256;
const tables = new Map();

/** Red, green and blue of every level of a palette. */
function levels(palette, theme) {
  const key = `${palette} ${theme}`;
  if (!tables.has(key)) {
    const stops = PALETTES[palette][theme]
      .split(" ")
      .map((stop) => [0, 2, 4].map((i) => parseInt(stop.slice(i, i + 2), 16)));
    const table = Array.from({ length: LEVELS + 1 }, (_, level) => {
      const place = (level / LEVELS) * (stops.length - 1);
      const step = Math.min(Math.floor(place), stops.length - 2);
      return stops[step].map((from, i) => Math.round(from + (stops[step + 1][i] - from) * (place - step)));
    });
    tables.set(key, table);
  }
  return tables.get(key);
}

/** How a number becomes a colour: from 0 to `limit`, or from −`limit` to `limit` for changes. */
class Scale {
  constructor(limit, diverging, theme) {
    Object.assign(this, { limit: limit || 1, diverging });
    this.table = levels(diverging ? "diverging" : "sequential", theme);
  }

  rgb(value, limit = this.limit) {
    const share = this.diverging ? (value / limit + 1) / 2 : value / limit;
    return this.table[Math.round(LEVELS * clamp(share, 0, 1))];
  }

  css(value, limit) {
    return `rgb(${this.rgb(value, limit).join(" ")})`;
  }

  hex(value, limit) {
    return (
      "#" +
      this.rgb(value, limit)
        .map((part) => part.toString(16).padStart(2, "0"))
        .join("")
    );
  }

  /** Ink that can be read on the colour of a value. */
  inkOn(value, limit) {
    const [red, green, blue] = this.rgb(value, limit).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.205 ? "#14171c" : "#ffffff";
  }
}

// ---------------------------------------------------------------------------------------------------------- elements

const SVG = "http://www.w3.org/2000/svg";

/** An element; `on…` are listeners, the rest attributes; children are elements or texts. */
function make(name, attributes = {}, ...children) {
  return dress(document.createElement(name), attributes, children);
}
function drawn(name, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, name), attributes, children);
}
function dress(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

const button = (label, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, label);

/** Text of either direction within other text. */
const isolated = (text, attributes = {}) => make("bdi", attributes, text);

/** A row of buttons, one of which is pressed. */
function segmented(name, options, chosen, choose) {
  const buttons = options.map(([value, label, off]) =>
    button(label, () => choose(value), {
      "aria-pressed": String(value === chosen),
      disabled: Boolean(off),
      title: off,
    }),
  );
  return make(
    "span",
    { class: "segments", role: "group", "aria-label": name },
    make("span", { class: "soft" }, name),
    buttons,
  );
}

let measuring = null;

/** Width of a text in the font of the page. */
function textWidth(text, size) {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = `${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/u;
const LETTER = /\p{L}/u;
const UPRIGHT = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}]/u; // in columns

/** Whether most letters are of a right-to-left script. */
function isRightToLeft(words) {
  const letters = [...words.join("")].filter((letter) => LETTER.test(letter));
  return letters.filter((letter) => RIGHT_TO_LEFT.test(letter)).length * 2 > letters.length;
}

// ------------------------------------------------------------------------------------------------------------- heads

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

// -------------------------------------------------------------------------------------------------------------- arcs

const LEAST_REACH = 0.05; // influence below five points has no full bar
const WORD = 15;
const LABEL = 11;

/** Centres of words in a line that leaves every arc room for its label, and the width of the line. */
function placeWords(widths, arcs, rightToLeft) {
  const centres = [];
  widths.forEach((width, i) => centres.push(i ? centres[i - 1] + (widths[i - 1] + width) / 2 + 4 : width / 2 + 2));
  const shifts = new Float64Array(widths.length);
  const long = arcs.filter((arc) => arc.label && arc.from !== null).sort((one, other) => span(one) - span(other));
  for (const arc of long) {
    const [left, right] = ends(arc);
    let shift = 0;
    for (let i = left + 1; i <= right; i++) shift += shifts[i];
    shifts[right] += Math.max(0, textWidth(arc.label, LABEL) + 26 - (centres[right] - centres[left] + shift));
  }
  let shifted = 0;
  const placed = centres.map((centre, i) => centre + (shifted += shifts[i]));
  const line = widths.length ? placed.at(-1) + widths.at(-1) / 2 + 2 : 0;
  const finalCentres = rightToLeft ? placed.map((centre) => line - centre) : placed;
  const roots = arcs.filter((arc) => arc.from === null && arc.label);
  const width = Math.max(
    line,
    ...roots.map((arc) => finalCentres[arc.to] + widths[arc.to] / 2 + 8 + textWidth(arc.label, LABEL)),
  );
  return { width, centres: finalCentres };
}

const ends = ({ from, to }) => (from === null ? [to, to] : [Math.min(from, to), Math.max(from, to)]);
const span = (arc) => ends(arc)[1] - ends(arc)[0];

function overlap(one, other) {
  const [[a, b], [c, d]] = [ends(one), ends(other)];
  return one.from === null ? c <= a && a <= d : Math.max(a, c) < Math.min(b, d);
}

/** How high each arc reaches, in steps: above all shorter arcs that it covers. */
function arcLevels(arcs) {
  const level = new Map();
  const order = [...arcs].sort((one, other) => (one.from === null) - (other.from === null) || span(one) - span(other));
  order.forEach((arc, rank) => {
    let highest = 0;
    for (let i = 0; i < rank; i++) if (overlap(arc, order[i])) highest = Math.max(highest, level.get(order[i]));
    level.set(arc, highest + 1);
  });
  return level;
}

/** Where each end of each arc meets its word: short arcs outside, long arcs inside, so that none cross there. */
function arcPorts(arcs, centres, widths) {
  const atWord = new Map();
  const add = (here, there, arc, end) => {
    const reach = centres[there] - centres[here];
    if (!atWord.has(here)) atWord.set(here, []);
    atWord.get(here).push({ order: reach ? 1 / reach : 0, arc, end });
  };
  for (const arc of arcs) {
    add(arc.to, arc.from ?? arc.to, arc, "to");
    if (arc.from !== null) add(arc.from, arc.to, arc, "from");
  }
  const ports = new Map(arcs.map((arc) => [arc, {}]));
  for (const [here, meeting] of atWord) {
    const step = Math.min(9, widths[here] / meeting.length);
    meeting.sort((one, other) => one.order - other.order);
    meeting.forEach(({ arc, end }, rank) => {
      ports.get(arc)[end] = centres[here] + (rank - (meeting.length - 1) / 2) * step;
    });
  }
  return ports;
}

/**
 * Arcs over (or, with `below`, under) a line of words.
 * @returns {{height: number, paths: {arc, d: string, tip: string, label: number[] | null}[]}} with y = 0 at the words
 */
function layArcs(arcs, centres, widths, below = false) {
  const level = arcLevels(arcs);
  const highest = Math.max(0, ...level.values());
  const step = clamp(300 / Math.max(highest, 1), 5, 21);
  const ports = arcPorts(arcs, centres, widths);
  const sign = below ? 1 : -1;
  const paths = arcs.map((arc) => {
    const { from, to } = ports.get(arc);
    const peak = sign * (level.get(arc) * step + 6);
    const tip = `M${to} 0l-3.6 ${sign * 7}h7.2z`;
    if (arc.from === null)
      return { arc, d: `M${to} ${peak - sign * 2}V${sign * 5}`, tip, label: [to + 6, peak + 6, "start"] };
    const turn = Math.min(9, Math.abs(to - from) / 2, Math.abs(peak) / 2);
    const way = Math.sign(to - from);
    const d =
      `M${from} 0V${peak - sign * turn}Q${from} ${peak} ${from + way * turn} ${peak}` +
      `H${to - way * turn}Q${to} ${peak} ${to} ${peak - sign * turn}V${sign * 5}`;
    return { arc, d, tip, label: [(from + to) / 2, peak + LABEL * 0.36, "middle"] };
  });
  if (step < 13) for (const path of paths) if (!path.arc.role || path.arc.role === "soft") path.label = null;
  return { height: arcs.length ? highest * step + 20 : 4, paths };
}

/** The elements of arcs; `ink` turns a role into a colour. */
function drawArcs({ paths }, ink) {
  const lines = paths.map(({ arc, d, tip }) => {
    const colour = ink(arc.role ?? "soft");
    const line = drawn("path", {
      d,
      fill: "none",
      stroke: colour,
      "stroke-width": arc.width ?? 1.3,
      "stroke-dasharray": arc.dashed ? "4 3" : null,
    });
    const group = drawn(
      "g",
      { class: "arc", opacity: arc.opacity ?? null },
      line,
      drawn("path", { d: tip, fill: colour }),
    );
    if (arc.said) group.append(drawn("title", {}, arc.said));
    return group;
  });
  const labels = paths
    .filter(({ arc, label }) => label && arc.label)
    .map(({ arc, label: [x, y, anchor] }) =>
      drawn(
        "text",
        {
          x,
          y,
          "text-anchor": anchor,
          "font-size": LABEL,
          fill: ink(arc.role ?? "soft"),
          stroke: ink("paper"),
          "stroke-width": 3.5,
          "stroke-linejoin": "round",
          "paint-order": "stroke",
        },
        arc.label,
      ),
    );
  return [...lines, ...labels];
}

/** The arcs of a tree; where `before` had another head for a word, the arc counts as moved and leaves a dashed one. */
function treeArcs(sentence, before) {
  if (!sentence.heads) return [];
  const name = (head) => (head ? sentence.words[head - 1] : "root");
  const known = before?.heads && same(before.words, sentence.words) ? before : null;
  const arc = (head, to, label, more) => ({
    from: head ? head - 1 : null,
    to,
    label: label ?? (head ? "" : "root"),
    said: `${name(head)} → ${sentence.words[to]}${label ? ` (${label})` : ""}`,
    ...more,
  });
  const arcs = sentence.heads.map((head, to) => {
    const label = sentence.labels?.[to];
    const other = known && (known.heads[to] !== head || known.labels?.[to] !== label);
    return arc(head, to, label, other ? { role: "edit", width: 2.4 } : {});
  });
  const gone = known
    ? known.heads.map((head, to) => [head, to]).filter(([head, to]) => head !== sentence.heads[to])
    : [];
  return [
    ...arcs,
    ...gone.map(([head, to]) =>
      arc(head, to, "", { dashed: true, said: `before: ${name(head)} → ${sentence.words[to]}` }),
    ),
  ];
}

/** The level of each phrase above the words: 0 if it contains no other. */
function phraseLevels(phrases) {
  const order = phrases
    .map((phrase, i) => i)
    .sort((one, other) => phrases[one][2] - phrases[one][1] - (phrases[other][2] - phrases[other][1]) || other - one);
  const level = Array(phrases.length).fill(0);
  order.forEach((i, rank) => {
    for (const j of order.slice(0, rank))
      if (phrases[i][1] <= phrases[j][1] && phrases[j][2] <= phrases[i][2]) level[i] = Math.max(level[i], level[j] + 1);
  });
  return level;
}

// ---------------------------------------------------------------------------------------------------------- matrices

const FRAME = 5; // cells below this many pixels have no frame

/** Diagonal lines over cells where attention is forbidden. */
function hatch(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (const offset of [-6, 0, 6]) (pen.moveTo(offset, 6), pen.lineTo(offset + 6, 0));
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

/** A canvas of one pixel per cell; `paint(data)` fills in red, green, blue and opacity. */
function pixels(rows, columns, paint) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  paint(image.data);
  context.putImageData(image, 0, 0);
  return canvas;
}

/** What a head shows: its weights, or the change since before. */
function shownValues(head, change) {
  if (!change) return head.values;
  return head.before ? head.values.map((value, i) => value - head.before[i]) : new Float32Array(head.values.length);
}

/** The largest absolute value of all heads, the end of their common scale. */
function largest(heads, change) {
  let most = 0;
  for (const head of heads) for (const value of shownValues(head, change)) most = Math.max(most, Math.abs(value));
  return most;
}

/** As many heads side by side as fit, or fewer if that takes no more lines. */
function perLine(number, fits) {
  return Math.ceil(number / Math.ceil(number / Math.max(fits, 1)));
}

/** The largest absolute value of each row. */
function rowLimits(values, columns) {
  const limits = new Float32Array(values.length / Math.max(columns, 1));
  values.forEach((value, i) => {
    const row = Math.floor(i / columns);
    limits[row] = Math.max(limits[row], Math.abs(value));
  });
  return limits;
}

/** Paint a head: colours, hatch where attention is forbidden, a frame at each word's syntactic head. */
function paintHead(canvas, head, { scale, change, perRow, theme, room, sentences }) {
  const [rows, columns] = [head.rows.length, head.columns.length];
  const ratio = globalThis.devicePixelRatio || 1;
  const cell = clamp(Math.floor((room * ratio) / Math.max(rows, columns, 1)), 1, Math.floor(26 * ratio));
  canvas.width = Math.max(cell * columns, 1);
  canvas.height = Math.max(cell * rows, 1);
  canvas.style.width = `${canvas.width / ratio}px`;
  if (!rows || !columns) return cell / ratio;
  const values = shownValues(head, change);
  const limits = perRow ? rowLimits(values, columns) : null;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  if (head.allowed) {
    context.fillStyle = hatch(context, INKS[theme].hatch);
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.globalCompositeOperation = "destination-in";
    const forbidden = (data) => head.allowed.forEach((may, i) => (data[4 * i + 3] = may ? 0 : 255));
    context.drawImage(pixels(rows, columns, forbidden), 0, 0, canvas.width, canvas.height);
    context.globalCompositeOperation = "destination-over";
  }
  const colours = (data) =>
    values.forEach((value, i) => {
      if (head.allowed && !head.allowed[i]) return;
      const [red, green, blue] = scale.rgb(value, limits ? limits[Math.floor(i / columns)] || 1 : undefined);
      data[4 * i] = red;
      data[4 * i + 1] = green;
      data[4 * i + 2] = blue;
      data[4 * i + 3] = 255;
    });
  context.drawImage(pixels(rows, columns, colours), 0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "source-over";
  if (cell >= FRAME)
    for (const [row, column] of syntacticCells(head, sentences))
      for (const [colour, width, inset] of outlineOf(cell, Math.max(1, Math.round(ratio)))) {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.strokeRect(column * cell + inset, row * cell + inset, cell - 2 * inset, cell - 2 * inset);
      }
  return cell / ratio;
}

/** The lines of a frame, as in `pictures/cells.py`: a dark one in a light one, so that it is seen on every colour. */
function outlineOf(cell, line = 1) {
  const lines = ["#ffffff", "#14171c", ...(cell < 10 * line ? [] : ["#ffffff"])];
  return lines.map((colour, i) => [colour, line, (i + 0.5) * line]); // on whole pixels, so that neither is blurred
}

/** Cells in which a word, or a token of it, attends to its syntactic head, if it may. */
function syntacticCells(head, sentences) {
  const columns = new Map();
  head.columns.forEach(({ sentence, word: place }, j) => {
    if (place !== null) columns.set(`${sentence} ${place}`, [...(columns.get(`${sentence} ${place}`) ?? []), j]);
  });
  const cells = head.rows.flatMap(({ sentence, word: place }, i) => {
    const above = place === null ? 0 : (sentences[sentence]?.heads?.[place] ?? 0);
    return above ? (columns.get(`${sentence} ${above - 1}`) ?? []).map((j) => [i, j]) : [];
  });
  return cells.filter(([i, j]) => !head.allowed || head.allowed[i * head.columns.length + j]);
}

// --------------------------------------------------------------------------------------------------- state and asking

const REMEMBERED = 40; // replies kept for undo

/** What is shown, what was asked, and the views that draw it. */
class Explorer {
  /** @param {HTMLElement} element where to draw. @param {object} boot see the protocol. @param {Function} ask the host. */
  constructor(element, boot, ask) {
    Object.assign(this, { boot, ask, live: boot.host !== "frozen", id: Math.floor(Math.random() * 2 ** 30), turn: 0 });
    this.replies = new Map();
    this.extras = new Map();
    const item = boot.view?.item ?? 0;
    const models = (boot.view?.models ?? []).slice(0, 2);
    const sentences = boot.items[item]?.sentences ?? [];
    const shown = models.length ? models : [boot.models[0].name];
    this.state = { sentences, before: sentences, born: sentences, models: shown, item };
    this.past = [];
    this.future = [];
    this.view = {
      mode: "weights",
      sort: "layer",
      scale: "shared",
      by: "words",
      path: null,
      head: null,
      pinned: null,
      threshold: 0.2,
      numbers: false,
    };
    this.painted = null;
    this.hover = null;
    this.hand = null;
    this.stretch = null;
    this.root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    this.asking = new Set();
    this.wanted = new Set(this.live ? [] : ["influence", "arcs"]); // a live model is asked on demand
    element.setAttribute("data-lm-suppress-shortcuts", "true"); // keys belong to the explorer, not to a notebook
    this.build();
  }

  build() {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    this.root.adoptedStyleSheets = [sheet];
    this.status = make("p", { class: "status", role: "status", "aria-live": "polite" });
    const [bar, answers, ranking, flips, strips, latent] = [Bar, Answers, Ranking, Flips, Strips, Latent].map(
      (View) => new View(this),
    );
    this.trees = new Trees(this);
    this.matrices = new Matrices(this);
    this.views = [bar, this.trees, answers, ranking, flips, this.matrices, strips, latent];
    this.box = make(
      "div",
      { class: "explorer", onkeydown: (event) => this.key(event) },
      bar.element,
      make(
        "div",
        { class: "columns" },
        make(
          "div",
          { class: "main" },
          this.trees.element,
          this.status,
          this.matrices.large,
          this.matrices.element,
          latent.element,
          strips.element,
        ),
        make("aside", {}, answers.element, ranking.element, flips.element),
      ),
    );
    this.root.replaceChildren(this.box);
    const media = globalThis.matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => this.draw();
    media.addEventListener("change", redraw);
    const notebook = new MutationObserver(redraw);
    notebook.observe(document.body, { attributeFilter: ["data-jp-theme-light", "class"] });
    this.width = 0;
    const sizes = new ResizeObserver(([entry]) => {
      if (Math.abs(entry.contentRect.width - this.width) > 1) this.draw();
      this.width = entry.contentRect.width;
    });
    sizes.observe(this.box);
    const outside = (event) => event.composedPath().includes(this.root) || this.closeMenus();
    document.addEventListener("pointerdown", outside);
    // On a page of its own the keys are those of the explorer, wherever the focus is.
    const anywhere = (event) => event.composedPath().includes(this.box) || this.key(event);
    if (this.boot.host !== "widget") document.addEventListener("keydown", anywhere);
    this.stop = () => {
      media.removeEventListener("change", redraw);
      notebook.disconnect();
      sizes.disconnect();
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("keydown", anywhere);
    };
  }

  /** "dark" or "light": that of the notebook if there is one, else of the system. */
  get theme() {
    const { body } = document;
    if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false" ? "dark" : "light";
    if (body.classList.contains("vscode-dark")) return "dark";
    return globalThis.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  draw() {
    this.box.dataset.theme = this.theme;
    this.keepingFocus(() => this.views.forEach((view) => view.draw()));
    this.mark();
  }

  /** Draw anew without losing the focus: it goes to the same control, or to the word that was in focus last. */
  keepingFocus(draw) {
    const active = this.root.activeElement;
    const key = active && keyOf(active);
    draw();
    if (!active || (active.isConnected && !active.disabled)) return;
    const controls = this.root.querySelectorAll("button:not(:disabled),select,input,summary,[tabindex]");
    const heir = [...controls].find((control) => keyOf(control) === key);
    if (heir) heir.focus();
    else this.trees.focusWord(...this.trees.focus);
  }

  /** Only what follows the pointer: shades of words and frames of rows. */
  mark() {
    for (const view of this.views) view.mark?.();
  }

  say(text, isError = false) {
    this.status.textContent = text;
    this.status.classList.toggle("error", isError);
  }

  change(view) {
    Object.assign(this.view, view);
    this.draw();
  }

  closeMenus(except) {
    for (const open of this.root.querySelectorAll("details[open].menu")) if (open !== except) open.open = false;
  }

  // Asking ..........................................................................................................

  async request(what, fields = {}) {
    const { models, sentences } = this.state;
    const reply = await this.ask({
      v: 1,
      id: ++this.id,
      do: what,
      models,
      sentences,
      text: null,
      figure: null,
      ...fields,
    });
    if (reply.error) throw Object.assign(new Error(reply.error.message), { place: reply.error });
    return reply;
  }

  /** The replies of some models for some sentences; what was answered before is not asked again. */
  looks(models, sentences) {
    const key = (model) => JSON.stringify([model, sentences]);
    const missing = models.filter(
      (model) => !this.replies.has(key(model)) && !this.fromBirth(model, sentences, key(model)),
    );
    if (missing.length) {
      const asked = this.request("look", { models: missing, sentences });
      for (const model of missing)
        this.remember(
          key(model),
          asked.then((reply) => pick(reply, model)),
        );
      asked.catch(() => missing.forEach((model) => this.replies.delete(key(model))));
    }
    return Promise.all(models.map((model) => this.replies.get(key(model))));
  }

  /** Whether the initial data of the page have this reply. */
  fromBirth(model, sentences, key) {
    const item = this.boot.items.find((one) => one.replies?.look && same(one.sentences, sentences));
    const known = item?.replies.look.looks.some((look) => look.model === model);
    if (known) this.remember(key, pick(item.replies.look, model));
    return Boolean(known);
  }

  remember(key, reply) {
    this.replies.set(key, reply);
    if (this.replies.size > REMEMBERED) this.replies.delete(this.replies.keys().next().value);
  }

  /**
   * Show a state. Trees are drawn at once, the rest when its replies arrive; if a newer state was asked for in the
   * meantime they are dropped, and after an error the state before is restored.
   * @param {object} next the state. @param {{record?: boolean, edit?: object}} how whether it can be undone; what was done
   */
  async show(next, { record = true, edit = null } = {}) {
    const turn = ++this.turn;
    if (record) {
      this.past = [...this.past, this.state];
      this.future = [];
    }
    this.state = next;
    this.hand = this.stretch = null;
    this.box.setAttribute("aria-busy", "true");
    if (edit) this.say(edit.said);
    try {
      if (this.painted) this.keepingFocus(() => this.trees.draw());
      const [now, before] = await Promise.all([
        this.looks(next.models, next.sentences),
        this.looks(next.models, next.before),
      ]);
      if (turn !== this.turn) return;
      this.paint(now, before, edit);
    } catch (error) {
      if (turn === this.turn) this.back(error);
    }
    if (turn === this.turn) this.box.removeAttribute("aria-busy");
  }

  paint(now, before, edit) {
    const { state } = this;
    const completed = now[0].sentences;
    const known = same(state.before, state.sentences) ? completed : before[0].sentences;
    const born = same(state.born, state.sentences) ? completed : same(state.born, state.before) ? known : state.born;
    this.state = { ...state, sentences: completed, before: known, born };
    for (const reply of now) this.remember(JSON.stringify([reply.look.model, completed]), Promise.resolve(reply));
    this.last = this.now?.length === now.length ? this.now : now;
    this.now = now;
    this.earlier = before;
    this.painted = { state: this.state, past: this.past, future: this.future };
    this.draw();
    this.say(edit ? this.sentenceOf(edit) : this.sentenceOfAnswers());
    this.follow();
  }

  /** Go back to the state that is painted, with the error in the live region. */
  back(error) {
    if (this.painted) Object.assign(this, this.painted);
    this.draw();
    const { sentence, word } = error.place ?? {};
    const words = this.state.sentences[sentence]?.words;
    const at = words && Number.isInteger(word) && words[word] !== undefined ? ` (at “${words[word]}”)` : "";
    this.say(`${error.message}${at}`, true);
  }

  /** Whether leave-one-out, a run of the model for each word, would take long. */
  get isLong() {
    return sum(this.state.sentences.map((sentence) => sentence.words.length)) > MOST_INFLUENCE;
  }

  /** Ask for the influence of words and arcs once the weights are drawn. */
  follow() {
    if (!this.live || this.isLong) return;
    for (const what of this.wanted) for (const model of this.state.models) this.fetch(what, model);
  }

  /** Influence of words or arcs, or edits that flip the prediction: what is known for the shown sentences. */
  extra(what, model) {
    const { sentences, item } = this.state;
    const found = this.extras.get(JSON.stringify([what, model, sentences]));
    const born = this.boot.items[item];
    return found ?? (born && same(born.sentences, sentences) ? born.replies?.[what]?.[model] : undefined);
  }

  /** Ask for it; of several edits made meanwhile, only the last is asked about, so that requests do not queue. */
  async fetch(what, model) {
    const { sentences } = this.state;
    const key = JSON.stringify([what, model]);
    if (this.extra(what, model) || this.asking.has(key)) return;
    this.asking.add(key);
    try {
      const reply = await this.request(what, { models: [model] });
      this.extras.set(JSON.stringify([what, model, sentences]), reply);
      if (same(sentences, this.state.sentences)) this.draw();
    } catch (error) {
      this.say(error.message, true);
    } finally {
      this.asking.delete(key);
    }
    if (!same(sentences, this.state.sentences)) this.follow();
  }

  // Doing ...........................................................................................................

  /** Say that only a live explorer can do this. */
  refuse(what) {
    const how = this.boot.command ?? "structattn explore RUN";
    this.say(`${what} needs the model, and this page contains replies only. For a live explorer run: ${how}`, true);
  }

  /** Replace one sentence by an edited one; `change` may throw an error to refuse. */
  edit(number, change, edit) {
    if (!this.live) return this.refuse("A prediction for an edited tree");
    const { state } = this;
    try {
      const sentence = change(state.sentences[number]);
      if (same(sentence, state.sentences[number])) return undefined;
      return this.show({ ...state, sentences: state.sentences.with(number, sentence) }, { edit: { ...edit, number } });
    } catch (error) {
      this.hand = null;
      this.draw();
      return this.say(error.message, true);
    }
  }

  move(number, dependent, head) {
    const words = this.state.sentences[number].words;
    const said = head ? `${words[head - 1]} → ${words[dependent]}.` : `${words[dependent]} is a root.`;
    return this.edit(number, (sentence) => moved(sentence, dependent, head), { said, tree: "dependency" });
  }

  reroot(number, place) {
    const said = `${this.state.sentences[number].words[place]} is the root.`;
    return this.edit(number, (sentence) => rerooted(sentence, place), { said, tree: "dependency" });
  }

  undo() {
    if (!this.past.length) return this.say("Nothing to undo.");
    const last = this.past.at(-1);
    this.future = [this.state, ...this.future];
    this.past = this.past.slice(0, -1);
    return this.show(last, { record: false, edit: { said: "Undone." } });
  }

  redo() {
    if (!this.future.length) return this.say("Nothing to redo.");
    const [next, ...later] = this.future;
    this.past = [...this.past, this.state];
    this.future = later;
    return this.show(next, { record: false, edit: { said: "Redone." } });
  }

  choose(item) {
    const { sentences } = this.boot.items[item];
    this.view.pinned = null;
    return this.show({ ...this.state, sentences, before: sentences, born: sentences, item });
  }

  setModels(models) {
    this.view.head = this.view.path = null;
    return this.show({ ...this.state, models });
  }

  compareFromHere() {
    return this.show({ ...this.state, before: this.state.sentences }, { edit: { said: "Compared from here." } });
  }

  async parse(texts) {
    if (!this.live) return this.refuse("Parsing another sentence");
    this.say("Parsing …");
    this.box.setAttribute("aria-busy", "true");
    try {
      const { sentences } = await this.request("parse", { text: texts, sentences: [] });
      this.view.pinned = null;
      return await this.show({ ...this.state, sentences, before: sentences, born: sentences, item: null });
    } catch (error) {
      this.box.removeAttribute("aria-busy");
      return this.say(error.message, true);
    }
  }

  key(event) {
    const letter = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && (letter === "z" || letter === "y") && !isField(event)) {
      event.preventDefault();
      if (letter === "y" || event.shiftKey) this.redo();
      else this.undo();
    }
    if (event.key === "Escape") this.closeMenus();
    event.stopPropagation();
  }

  // Words and heads .................................................................................................

  /** The word that is looked at: under the pointer, else in focus or pinned. */
  get spot() {
    return this.hover ?? this.view.pinned;
  }

  point(place) {
    if (same(place, this.hover)) return;
    this.hover = place;
    this.mark();
  }

  /** The heads of each model that is shown, joined to those before; computed once for what is painted. */
  get heads() {
    const { now, earlier, view, known } = this;
    if (!now) return [];
    if (known?.now !== now || known.earlier !== earlier || known.by !== view.by) {
      const of = ({ look, sentences }) => headsOf(look, sentences, view.by === "tokens");
      const sameWords = ({ sentences }, i) =>
        sentences.every(({ words }, n) => same(words, earlier[i].sentences[n]?.words));
      const heads = now.map((reply, i) => joined(of(reply), sameWords(reply, i) ? of(earlier[i]) : []));
      this.known = { now, earlier, by: view.by, heads };
    }
    return this.known.heads;
  }

  get isEdited() {
    return !same(this.state.sentences, this.state.before);
  }

  // Sentences for the live region ...................................................................................

  sentenceOfAnswers() {
    const said = this.now.map(({ look }) => `${look.model}: ${answerText(look.answer)}`).join("; ");
    const item = this.boot.items[this.state.item];
    const expected = item?.expected && same(item.sentences, this.state.sentences) ? ` Expected: ${item.expected}.` : "";
    return `${said}.${expected}`;
  }

  sentenceOf({ said, tree, number }) {
    const perModel = this.now.map(({ look }, i) => {
      const heads = this.heads[i].filter((head) => head.kind === "attention");
      const moves = heads.filter((head) => head.moved > MOVED).length;
      const before = this.earlier[i].look.answer;
      const name = this.now.length > 1 ? `${look.model}: ` : "";
      if (tree && this.cannotSee(i)) return this.blindness(i, tree, number ?? 0);
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
  cannotSee(i) {
    const [{ look }, { look: last }] = [this.now[i], this.last[i]];
    if (!same(look.answer, last.answer) || look.maps.length !== last.maps.length) return false;
    return look.maps.every(({ weights }, number) => {
      const other = last.maps[number].weights;
      return weights.length === other.length && weights.every((value, place) => value === other[place]);
    });
  }

  blindness(i, tree, number) {
    const { look } = this.now[i];
    const reads = look.reads ?? [];
    if (!reads.includes(tree)) return `${look.model} cannot see this: it reads ${readsText(reads)}.`;
    const [one, other] = [this.last[i].sentences[number], this.state.sentences[number]];
    if (tree === "dependency" && same(one.heads, other.heads))
      return `${look.model} cannot see this: only relations changed.`;
    if (tree === "dependency" && same(distances(one.heads), distances(other.heads)))
      return `${look.model} cannot see this: distances are undirected, and none has changed.`;
    return `${look.model} did not change: all its weights and its prediction are the same as before.`;
  }
}

const pick = async (reply, model) => ({
  sentences: reply.sentences,
  look: await unpackLook(reply.looks.find((look) => look.model === model)),
});

const isField = (event) => ["INPUT", "TEXTAREA", "SELECT"].includes(event.composedPath()[0].tagName);

/** What identifies a control when it is drawn anew. */
function keyOf(control) {
  const { key, word } = control.dataset;
  const name = key ?? word ?? control.getAttribute("aria-label") ?? control.textContent;
  return [
    control.closest("[aria-label]:not(button,input,select)")?.getAttribute("aria-label"),
    control.tagName,
    name,
  ].join();
}

/** An answer in words: "plural, 98.6%". */
function answerText(answer, exact = true) {
  if (!answer) return "no prediction";
  if (answer.text !== null && answer.text !== undefined) return `“${answer.text}”`;
  if (answer.label === null) return short(answer.score ?? 0, 2);
  const share = answer.probabilities?.[answer.label];
  return exact && share !== undefined ? `${answer.label}, ${(100 * share).toFixed(1)}%` : answer.label;
}

const READS = {
  dependency: "the dependency tree",
  constituency: "the phrases",
  order: "the order of words",
  labels: "relations",
  tags: "parts of speech",
  distance: "distances between words",
};
const readsText = (reads) => reads.map((name) => READS[name] ?? name).join(" and ") || "the words alone";

// --------------------------------------------------------------------------------------------------- the bar at the top

/** Which item, models and texts; undo; share and export. */
class Bar {
  constructor(app) {
    this.app = app;
    this.element = make("header", { class: "bar" });
  }

  draw() {
    const { app } = this;
    if (isTyping(this.element)) return;
    this.element.replaceChildren(
      ...[
        this.items(),
        this.models(),
        ...(app.live ? [this.texts(), this.history()] : []), // a frozen page has no parser and no edits
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
    return menu(
      app,
      "Share",
      button("Save state", () =>
        save("structattn-state.json", "application/json", JSON.stringify(stateOf(app), null, 1)),
      ),
      button("Open state…", () => file.click()),
      file,
      button("Copy link", () => copyLink(app)),
    );
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
    return menu(app, "Export", exportable(app).map(row));
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

function menu(app, name, ...children) {
  const box = make(
    "details",
    { class: "menu" },
    make("summary", { "data-key": name }, `${name} ▾`),
    make("div", {}, ...children),
  );
  box.addEventListener("toggle", () => box.open && app.closeMenus(box));
  box.addEventListener("click", (event) => {
    if (event.target.tagName !== "BUTTON") return;
    box.open = false;
    box.firstChild.focus();
  });
  return box;
}

// ------------------------------------------------------------------------------------------------ trees over the words

/** The words of each sentence with their dependency tree above and their phrases below; both are edited here. */
class Trees {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "trees", "aria-label": "trees" });
    this.lines = make("div");
    this.prompt = make("div", { class: "prompt" });
    this.notes = make("div", { class: "notes" });
    this.element.append(this.notes, this.lines, this.prompt);
    this.tallest = [];
    this.focus = [0, 0];
  }

  draw() {
    const { app } = this;
    const active = app.root.activeElement;
    const focused = active?.dataset.word !== undefined && this.lines.contains(active);
    const scrolled = [...this.lines.children].map((line) => line.scrollLeft);
    this.buttons = [];
    this.lines.replaceChildren(...app.state.sentences.map((sentence, number) => this.line(sentence, number)));
    [...this.lines.children].forEach((line, i) => (line.scrollLeft = scrolled[i] ?? 0));
    this.notes.replaceChildren(...this.notesOf());
    if (!this.prompt.contains(active)) this.hint();
    if (focused) this.focusWord(...this.focus);
  }

  notesOf() {
    const { app } = this;
    const models = app.state.models.map((name) => app.boot.models.find((model) => model.name === name)).filter(Boolean);
    const chips = models.map((model) =>
      make("span", { class: "chip" }, isolated(model.name), ` reads ${readsText(model.reads ?? [])}`),
    );
    const known = ["influence", "arcs"].map((what) => this.influence(what));
    return [
      ...chips,
      ...sourcesOf(app).map(({ text, doubtful }) => make("span", { class: doubtful ? "chip doubtful" : "chip" }, text)),
      ...known,
      app.live && button("Compare from here", () => app.compareFromHere(), { disabled: !app.isEdited }),
    ].filter(Boolean);
  }

  /** The switch for the bars under the words. */
  influence(what) {
    const { app } = this;
    const names = { influence: "influence of words", arcs: "influence of arcs" };
    if (!app.live && !app.state.models.some((model) => app.extra(what, model)?.values.some(Boolean))) return null;
    const on = app.wanted.has(what);
    const toggle = () => {
      if (on) app.wanted.delete(what);
      else app.wanted.add(what);
      app.draw();
      app.follow();
    };
    const off = app.live && app.isLong;
    const title = off ? `for texts of at most ${MOST_INFLUENCE} words: it takes a run of the model per word` : null;
    return button(names[what], toggle, { "aria-pressed": String(on), class: "toggle", disabled: off, title });
  }

  /** One sentence: arcs, words, bars and brackets on a common line. */
  line(sentence, number) {
    const { app } = this;
    const before = app.state.before[number];
    const coarse = globalThis.matchMedia("(pointer: coarse)").matches;
    const widths = sentence.words.map((text) => Math.max(textWidth(text, WORD) * 1.02 + 14, coarse ? 44 : 24));
    const arcs = treeArcs(sentence, before);
    const rightToLeft = isRightToLeft(sentence.words);
    const { width, centres } = placeWords(widths, arcs, rightToLeft);
    const laid = layArcs(arcs, centres, widths);
    const ink = (role) => `var(--${role})`;
    // As high as it ever was for these words, so that they stay where they are while arcs are edited.
    const wordsKey = sentence.words.join(" ");
    if (this.tallest[number]?.key !== wordsKey) this.tallest[number] = { key: wordsKey, height: 0 };
    laid.height = this.tallest[number].height = Math.max(laid.height, this.tallest[number].height);
    const svg = drawn(
      "svg",
      {
        class: "arcs",
        width: Math.max(width, 1),
        height: laid.height,
        viewBox: `0 ${-laid.height} ${Math.max(width, 1)} ${laid.height}`,
        "aria-hidden": "true",
      },
      drawArcs(laid, ink),
    );
    const words = make(
      "div",
      {
        class: "words",
        role: "group",
        "aria-label": app.state.sentences.length > 1 ? `sentence ${number + 1}` : "words",
      },
      sentence.words.map((text, i) => this.word(sentence, number, i, centres[i] - widths[i] / 2, widths[i])),
    );
    this.listen(words, number, centres);
    const bars = this.bars(number, centres, widths);
    const brackets = this.brackets(sentence, number, centres, widths);
    const inner = make("div", { class: "line", dir: "ltr" }, svg, words, bars, brackets);
    inner.style.width = `${width}px`;
    return make("div", { class: "scroll" }, inner);
  }

  word(sentence, number, i, left, width) {
    const { app } = this;
    const head = sentence.heads
      ? sentence.heads[i]
        ? sentence.words[sentence.heads[i] - 1]
        : "none, it is the root"
      : null;
    const label = sentence.labels?.[i];
    const look = app.now?.[0]?.look;
    const unknown = look?.unknown?.[number]?.includes(i);
    const name = `${sentence.words[i]}${head === null ? "" : `, head ${head}`}${label ? `, ${label}` : ""}${unknown ? ", unknown to the model" : ""}`;
    const element = make(
      "button",
      {
        type: "button",
        class: unknown ? "word unknown" : "word",
        "data-word": i,
        "aria-label": name,
        tabindex: number === this.focus[0] && i === Math.min(this.focus[1], sentence.words.length - 1) ? 0 : -1,
        title: sentence.tags?.[i]
          ? `${sentence.tags[i]}${unknown ? ", unknown word" : ""}`
          : unknown
            ? "unknown word"
            : null,
      },
      isolated(sentence.words[i] || "∅"),
    );
    element.style.left = `${left}px`;
    element.style.width = `${width}px`;
    (this.buttons[number] ??= [])[i] = element;
    return element;
  }

  listen(words, number, centres) {
    const { app } = this;
    const at = (event) => {
      const found = event.composedPath().find((element) => element.dataset?.word !== undefined);
      return found ? Number(found.dataset.word) : null;
    };
    words.addEventListener(
      "pointerover",
      (event) => event.pointerType !== "touch" && at(event) !== null && app.point([number, at(event)]),
    );
    words.addEventListener("pointerleave", () => app.point(null));
    words.addEventListener("focusin", (event) => {
      this.focus = [number, at(event)];
      this.rove();
      app.point([number, at(event)]);
    });
    words.addEventListener("focusout", () => app.point(null));
    words.addEventListener("click", (event) => at(event) !== null && this.press(number, at(event), event.shiftKey));
    words.addEventListener("keydown", (event) => at(event) !== null && this.key(event, number, at(event)));
    words.addEventListener("pointerdown", (event) => {
      if (app.live && event.pointerType !== "touch" && event.button === 0 && at(event) !== null)
        this.startDrag(event, number, at(event), centres, words);
    });
  }

  /** Drag from a head to its dependent; a line follows the pointer. */
  startDrag(start, number, from, centres, words) {
    const { app } = this;
    const box = words.getBoundingClientRect();
    const line = drawn("path", { fill: "none", stroke: "var(--edit)", "stroke-width": 2 });
    const svg = words.previousSibling;
    const under = (event) => app.root.elementFromPoint(event.clientX, event.clientY)?.closest?.("[data-word]");
    const move = (event) => {
      const x = event.clientX - box.left;
      const height = clamp(Math.abs(x - centres[from]) / 2, 8, svg.viewBox.baseVal.height - 4);
      line.setAttribute("d", `M${centres[from]} 0C${centres[from]} ${-height} ${x} ${-height} ${x} -4`);
      if (!line.parentNode) svg.append(line);
    };
    const end = (event) => {
      globalThis.removeEventListener("pointermove", move);
      globalThis.removeEventListener("pointerup", end);
      globalThis.removeEventListener("pointercancel", end);
      line.remove();
      const found = event.type === "pointerup" ? under(event) : null;
      const to = found && words.contains(found) ? Number(found.dataset.word) : from;
      if (to === from) return;
      if (start.shiftKey) this.select(number, from, to);
      else app.move(number, to, from + 1);
    };
    globalThis.addEventListener("pointermove", move);
    globalThis.addEventListener("pointerup", end);
    globalThis.addEventListener("pointercancel", end);
  }

  /** Press a word: it is pinned and offered as a head; the next word pressed becomes its dependent. */
  press(number, i, extend) {
    const { app } = this;
    if (extend) return this.select(number, app.stretch?.number === number ? app.stretch.anchor : (this.anchor ?? i), i);
    this.anchor = i;
    const { hand } = app;
    if (hand && hand.number === number && hand.word !== i) {
      app.view.pinned = null;
      return app.move(number, i, hand.word + 1);
    }
    const off = hand?.word === i || (!app.live && same(app.view.pinned, [number, i]));
    app.hand = off || !app.live ? null : { number, word: i };
    app.stretch = null;
    app.view.pinned = off ? null : [number, i];
    this.hint();
    return app.mark();
  }

  select(number, anchor, i) {
    const { app } = this;
    app.hand = null;
    app.stretch = { number, anchor, start: Math.min(anchor, i), end: Math.max(anchor, i) + 1 };
    this.hint();
    app.mark();
  }

  key(event, number, i) {
    const { app } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { words } = app.state.sentences[number];
    const forward = isRightToLeft(words) ? "ArrowLeft" : "ArrowRight";
    const steps = {
      [forward]: 1,
      [forward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft"]: -1,
      Home: -words.length,
      End: words.length,
    };
    const letters = {
      r: () => app.reroot(number, i),
      l: () => this.askLabel(number, i),
      n: () => this.askPhrase(number, i),
      p: () => app.change({ pinned: same(app.view.pinned, [number, i]) ? null : [number, i] }),
    };
    const letter = event.key.toLowerCase();
    if (event.key in steps) {
      const next = clamp(i + steps[event.key], 0, words.length - 1);
      if (event.shiftKey) this.select(number, app.stretch?.number === number ? app.stretch.anchor : i, next);
      this.focusWord(number, next);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && app.state.sentences.length > 1) {
      this.focusWord(number ? 0 : 1, i);
    } else if (event.key === "Escape") this.escape();
    else if (letter in letters) letters[letter]();
    else return;
    event.preventDefault();
  }

  escape() {
    const { app } = this;
    app.hand = app.stretch = null;
    app.view.pinned = null;
    this.hint();
    app.mark();
  }

  focusWord(number, i) {
    const line = this.buttons[number] ?? [];
    this.focus = [number, clamp(i, 0, line.length - 1)];
    this.rove();
    line[this.focus[1]]?.focus();
  }

  /** Only one word can be reached by the tab key. */
  rove() {
    this.buttons.forEach((line, number) =>
      line.forEach((element, i) =>
        element.setAttribute("tabindex", number === this.focus[0] && i === this.focus[1] ? "0" : "-1"),
      ),
    );
  }

  // Bars and brackets ...............................................................................................

  /** All bars have one scale, so that those of words, arcs, sentences and models can be compared. */
  get reach() {
    const { app } = this;
    const values = [...app.wanted].flatMap((what) =>
      app.state.models.flatMap((model) => app.extra(what, model)?.values.flat() ?? []),
    );
    return Math.max(LEAST_REACH, ...values.map((value) => Math.abs(value ?? 0)));
  }

  whyNone(what, model) {
    const { reads = [] } = this.app.boot.models.find(({ name }) => name === model) ?? {};
    const lacks = what === "arcs" && !reads.includes("dependency") ? "reads no dependency tree" : "predicts no label";
    return ` ${lacks}, so it has no influence of ${what === "arcs" ? "arcs" : "words"}.`;
  }

  bars(number, centres, widths) {
    const { app } = this;
    const rows = [];
    const { reach } = this;
    for (const [what, title] of [
      ["influence", "influence of each word on the prediction"],
      ["arcs", "influence of each arc, under its dependent, on the prediction"],
    ])
      for (const model of app.state.models) {
        const found = app.wanted.has(what) ? app.extra(what, model) : null;
        const values = found?.values[number];
        if (found && !values && app.live)
          rows.push(make("p", { class: "soft" }, isolated(model), this.whyNone(what, model)));
        if (!values) continue;
        const isScore = app.now?.find(({ look }) => look.model === model)?.look.answer?.label === null;
        const bars = values.map((value, i) => {
          const bar = make("i", {
            class: (value ?? 0) < 0 ? "bar-down" : "bar-up",
            title: value === null ? "not defined" : difference(value, isScore),
          });
          const height = (18 * Math.abs(value ?? 0)) / reach;
          Object.assign(bar.style, {
            left: `${centres[i] - Math.min(widths[i] / 2, 9)}px`,
            width: `${Math.min(widths[i], 18)}px`,
            height: `${height}px`,
            top: `${(value ?? 0) < 0 ? 20 : 20 - height}px`,
          });
          return bar;
        });
        const largest = values.reduce((a, b) => (Math.abs(b ?? 0) > Math.abs(a ?? 0) ? b : a), 0);
        const end = isScore ? short(reach, 2) : `${short(100 * reach, 1)} points`;
        const note = `${title}${app.state.models.length > 1 ? ` of ${model}` : ""}: largest ${difference(largest, isScore)}, full height ${end}`;
        rows.push(
          make("div", { class: "bars", role: "img", "aria-label": note }, bars),
          make("div", { class: "bars-note" }, make("span", {}, note)),
        );
      }
    return rows;
  }

  brackets(sentence, number, centres, widths) {
    if (!sentence.phrases?.length) return null;
    const depths = phraseLevels(sentence.phrases);
    const box = make(
      "div",
      { class: "brackets", role: "group", "aria-label": "phrases" },
      sentence.phrases.map((phrase, i) => {
        const [label, start, end] = phrase;
        const lefts = [start, end - 1].map((place) => centres[place] - widths[place] / 2 + 2);
        const rights = [start, end - 1].map((place) => centres[place] + widths[place] / 2 - 2);
        const element = button(isolated(label), () => this.askRename(number, phrase), {
          class: "phrase",
          "aria-label": `phrase ${label}: ${stretch(sentence, phrase)}`,
        });
        Object.assign(element.style, {
          left: `${Math.min(...lefts)}px`,
          width: `${Math.max(...rights) - Math.min(...lefts)}px`,
          top: `${depths[i] * 22}px`,
        });
        return element;
      }),
    );
    box.style.height = `${(Math.max(...depths) + 1) * 22}px`;
    return box;
  }

  // Names that are asked for ........................................................................................

  /** A small form under the tree; an empty name changes nothing. */
  ask(title, value, known, buttons) {
    const field = make("input", {
      type: "text",
      value,
      "aria-label": title,
      list: "known-names",
      autocomplete: "off",
      maxlength: 60,
    });
    const close = () => {
      this.hint();
      this.focusWord(...this.focus);
    };
    const run = (action) => {
      const name = field.value.trim();
      if (!name) return this.app.say("Expected a name, got none.", true);
      close();
      return action(name);
    };
    const [[label, action], ...others] = buttons;
    this.prompt.replaceChildren(
      make(
        "form",
        {
          onsubmit: (event) => (event.preventDefault(), run(action)),
          onkeydown: (event) => event.key === "Escape" && close(),
        },
        make("label", {}, title, " ", field),
        make(
          "datalist",
          { id: "known-names" },
          [...new Set(known)].map((name) => make("option", { value: name })),
        ),
        make("button", { type: "submit" }, label),
        others.map(([name, other]) => button(name, () => (close(), other()))),
        button("Cancel", close),
      ),
    );
    field.focus();
    field.select();
  }

  askLabel(number, i) {
    const { app } = this;
    const sentence = app.state.sentences[number];
    if (!app.live) return app.refuse("A prediction for an edited tree");
    if (!sentence.labels) return app.say("The arcs of this tree have no labels.", true);
    const text = sentence.words[i];
    return this.ask(`Relation of “${text}” to its head`, sentence.labels[i], sentence.labels, [
      [
        "Rename",
        (name) =>
          app.edit(number, (tree) => relabelled(tree, i, name), {
            said: `${text} is now ${name}.`,
            tree: "dependency",
          }),
      ],
    ]);
  }

  askPhrase(number, i) {
    const { app } = this;
    if (!app.live) return app.refuse("A prediction for an edited tree");
    const chosen = app.stretch?.number === number ? app.stretch : { start: i, end: i + 1 };
    const sentence = app.state.sentences[number];
    const text = stretch(sentence, ["", chosen.start, chosen.end]);
    return this.ask(
      `Phrase over “${text}”`,
      "NP",
      (sentence.phrases ?? []).map(([label]) => label),
      [
        [
          "Add",
          (name) =>
            app.edit(number, (tree) => withPhrase(tree, name, chosen.start, chosen.end), {
              said: `${name} “${text}” added.`,
              tree: "constituency",
            }),
        ],
      ],
    );
  }

  askRename(number, phrase) {
    const { app } = this;
    if (!app.live) return app.refuse("A prediction for an edited tree");
    const text = stretch(app.state.sentences[number], phrase);
    const last = app.state.sentences[number].phrases.findLastIndex((other) => same(other, phrase));
    const without = (tree) => ({ ...tree, phrases: tree.phrases.toSpliced(last, 1) });
    const [label, start, end] = phrase;
    return this.ask(
      `Phrase over “${text}”`,
      label,
      app.state.sentences[number].phrases.map(([name]) => name),
      [
        [
          "Rename",
          (name) =>
            name !== label &&
            app.edit(number, (tree) => withPhrase(without(tree), name, start, end), {
              said: `${label} “${text}” is now ${name}.`,
              tree: "constituency",
            }),
        ],
        ["Delete", () => app.edit(number, without, { said: `${label} “${text}” deleted.`, tree: "constituency" })],
      ],
    );
  }

  /** What the next press or key does. */
  hint() {
    const { app } = this;
    const words = app.state.sentences[app.hand?.number ?? app.stretch?.number ?? 0]?.words ?? [];
    const say = (...parts) => this.prompt.replaceChildren(make("span", { class: "soft" }, ...parts));
    if (app.hand)
      say(
        "“",
        isolated(words[app.hand.word]),
        "” is the head: press its dependent. R makes it the root, L names its relation, Esc cancels.",
      );
    else if (app.stretch)
      say(
        "“",
        isolated(words.slice(app.stretch.start, app.stretch.end).join(" ")),
        "” is selected: N makes it a phrase, Esc cancels.",
      );
    else if (app.live) say("Press a head, then its dependent, or drag. Shift selects several words for a phrase.");
    else say("Press a word to pin it.");
    if (app.stretch)
      this.prompt.append(button("Name the phrase", () => this.askPhrase(app.stretch.number, app.stretch.start)));
    if (app.hand && app.live)
      this.prompt.append(
        button("Make it the root", () => app.reroot(app.hand.number, app.hand.word)),
        button("Name its relation", () => this.askLabel(app.hand.number, app.hand.word)),
      );
  }

  /** Shade the words by the weights of the word that is looked at, in the chosen head. */
  mark() {
    const { app } = this;
    const head = app.matrices.chosen();
    const row = head && app.spot ? rowOf(head, app.spot) : null;
    const scale = new Scale(row ? Math.max(...row.values()) : 1, false, app.theme);
    this.buttons.forEach((line, number) =>
      line.forEach((element, i) => {
        const value = row?.get(`${number} ${i}`);
        element.style.background = value === undefined ? "" : scale.css(value);
        element.style.color = value === undefined ? "" : scale.inkOn(value);
        const at = (place) => same(place, [number, i]);
        element.classList.toggle("spot", at(app.spot));
        element.classList.toggle("hand", app.hand?.number === number && app.hand.word === i);
        element.classList.toggle("key", at(app.keyWord));
        const { stretch: chosen } = app;
        element.classList.toggle("chosen", chosen?.number === number && chosen.start <= i && i < chosen.end);
        element.setAttribute("aria-pressed", String(at(app.view.pinned)));
      }),
    );
  }
}

/** Where the trees come from: the data, a parser with its version, a chain of words, an edit. */
function sourcesOf({ boot, state }) {
  const kinds = { dependency: ["heads", "labels"], constituency: ["phrases"] };
  const said = new Map();
  state.sentences.forEach((sentence, number) => {
    for (const [kind, fields] of Object.entries(kinds)) {
      if (!sentence[fields[0]]) continue;
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

/** Weights from a word to the words, by sentence and place; over several rows the mean. */
function rowOf(head, [sentence, place]) {
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

// ------------------------------------------------------------------------------------------------- panels at the side

/** Answers of the models, with a tick at the values before the edit. */
class Answers {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "card answers", "aria-label": "prediction" });
  }

  draw() {
    const { app } = this;
    const item = app.boot.items[app.state.item];
    const expected = item && same(item.sentences, app.state.sentences) ? item.expected : null;
    const parts = (app.now ?? []).map(({ look }, i) => this.answer(look, app.earlier[i].look.answer));
    this.element.replaceChildren(
      make("h2", {}, "Prediction"),
      ...parts.flat(),
      ...(expected === null || expected === undefined
        ? []
        : [make("p", { class: "soft" }, "expected ", isolated(String(expected)))]),
      ...(app.isEdited ? [make("p", { class: "soft" }, "▏ before the edit")] : []),
    );
  }

  answer(look, before) {
    const { answer } = look;
    const name = this.app.now.length > 1 ? [make("h3", {}, isolated(look.model))] : [];
    if (!answer) return [...name, make("p", { class: "soft" }, `${look.model} predicts nothing; it has only weights.`)];
    const probabilities = Object.entries(answer.probabilities ?? {});
    if (answer.label === null) {
      const was =
        before && answerText(before) !== answerText(answer)
          ? make("span", { class: "soft" }, ` before ${answerText(before)}`)
          : null;
      name.push(make("p", { class: "score" }, isolated(answerText(answer)), was));
    } else probabilities.sort((one, other) => other[1] - one[1]); // whole-number scores stay in their order
    if (!probabilities.length) return name;
    const shown = probabilities.slice(0, 8);
    const rows = shown.map(([label, share]) =>
      this.row(label, share, before?.probabilities?.[label], label === answer.label),
    );
    const left = probabilities.length - shown.length;
    return [
      ...name,
      make("div", { class: "classes" }, rows.flat()),
      left ? make("p", { class: "soft" }, `and ${count(left, "class")}`.replace(/classs$/, "classes")) : null,
    ].filter(Boolean);
  }

  row(label, share, before, first) {
    const bar = make("span", { class: "bar-box", "aria-hidden": "true" }, make("i"));
    bar.firstChild.style.width = `${100 * share}%`;
    const changed = before !== undefined && Math.abs(share - before) >= 5e-4;
    if (this.app.isEdited && before !== undefined) {
      const tick = make("b");
      tick.style.insetInlineStart = `calc(${before} * (100% - 2px))`; // inside the box at 0 and at 1
      bar.append(tick);
    }
    return [
      make(first ? "strong" : "span", { class: "class" }, isolated(label)),
      bar,
      make("span", { class: "number" }, `${(100 * share).toFixed(1)}%`),
      make("span", { class: "number soft" }, changed ? difference(share - before, false) : ""),
    ];
  }
}

/** Heads by how far they moved. */
class Ranking {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "card", "aria-label": "heads that moved" });
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
            make("span", { class: "number" }, short(head.moved)),
          ],
          () => app.change({ head: head.key, path: null }),
          { class: "line-button" },
        ),
      );
    const more = heads.length > 8 ? [make("p", { class: "soft" }, `and ${count(heads.length - 8, "head")}`)] : [];
    this.element.replaceChildren(
      make("h2", { title: "½ Σ|Δ| of a row, as a mean over the rows" }, "Heads that moved"),
      ...(rows.length ? rows : [make("p", { class: "soft" }, "none")]),
      ...more,
    );
  }
}

/** Edits that change the answer: single moves and new roots. A long text has thousands, so they are tried in parts. */
class Flips {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "card", "aria-label": "edits that flip the prediction" });
    this.searches = new Map(); // by model: the search in progress
  }

  draw() {
    const { app } = this;
    const parts = app.state.models.flatMap((model) => this.of(model));
    this.element.hidden = !parts.length;
    const scored = app.now?.every(({ look }) => look.answer?.label === null);
    this.element.replaceChildren(
      make("h2", {}, scored ? "Edits that move the score most" : "Edits that flip the prediction"),
      ...parts,
    );
  }

  of(model) {
    const { app } = this;
    const name = app.state.models.length > 1 ? [make("h3", {}, isolated(model))] : [];
    const found = app.extra("flip", model);
    const reads = app.boot.models.find((one) => one.name === model)?.reads ?? [];
    if (!reads.includes("dependency") || (!found && !app.live)) return [];
    const goesOn = this.searches.get(model)?.sentences === app.state.sentences;
    const press = (label, act) => button(label, act, { "data-key": model });
    if (!found && !goesOn) return [...name, press("Find an edit that flips", () => this.search(model))];
    const { edits = [], found: all = 0, tried = 0, of = null } = found ?? {};
    const shown = edits.slice(0, 8).map((edit) => this.edit(edit));
    const notes = [];
    if (all > shown.length) notes.push(`and ${count(all - shown.length, "edit")}`);
    if (tried !== of) notes.push(of === null ? "Searching …" : `${tried} of ${count(of, "edit")} tried`);
    else if (!all) notes.push("No single edit of the tree changes the prediction.");
    if (shown.length) notes.push("head → dependent; then the new prediction");
    const lines = notes.map((note) => make("p", { class: "soft" }, note));
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
      for (let found = app.extra("flip", model); goesOn() && found?.tried !== (found?.of ?? null);) {
        const reply = await app.request("flip", { models: [model], sentences, from: found?.tried ?? 0 });
        if (this.searches.get(model) !== search) return; // stopped meanwhile, or started again
        found = this.joined(found, reply, model);
        app.extras.set(JSON.stringify(["flip", model, sentences]), found);
        if (goesOn()) app.keepingFocus(() => this.draw());
      }
    } catch (error) {
      app.say(error.message, true);
    }
    if (this.searches.get(model) === search) this.stop(model);
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
    const apply = () =>
      app.edit(sentence, (tree) => ({ ...tree, heads, labels: labels ?? tree.labels }), {
        said: `${what}.`,
        tree: "dependency",
      });
    return button([isolated(what), make("span", { class: "number" }, value)], apply, { class: "line-button" });
  }
}

// ---------------------------------------------------------------------------------------------------- attention heads

const MOST_HEADS = 24; // more are shown one module at a time
const MOST_NUMBERS = 40; // rows of a table
const LEAST_ROOM = 168; // pixels of a small matrix
const MOST_ROOM = 280;

/** Whether heads belong to several modules, one of which has several heads. */
function hasModules(heads) {
  const paths = new Set(heads.map((head) => head.path)).size;
  return paths > 1 && paths < heads.length;
}

/** The heads as matrices, the chosen one large with its words, a legend, and its numbers. */
class Matrices {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "heads", "aria-label": "attention heads" });
    this.large = make("div");
    this.frames = [];
  }

  get attention() {
    return this.app.heads.map((heads) => heads.filter((head) => head.kind === "attention"));
  }

  /** The heads that are shown, one list for each model. */
  get shown() {
    const { view } = this.app;
    return this.attention.map((heads) => {
      const paths = [...new Set(heads.map((head) => head.path))];
      const path = view.path ?? (heads.length > MOST_HEADS ? paths[0] : null);
      const kept = path && path !== "all" && paths.includes(path) ? heads.filter((head) => head.path === path) : heads;
      return view.sort === "moved" ? [...kept].sort((one, other) => other.moved - one.moved) : kept;
    });
  }

  /** The head that is shown large: the one that was pressed, or the one that moved most. */
  chosen() {
    const heads = this.shown.flat();
    const known = this.attention.flat().find((head) => head.key === this.app.view.head);
    return known ?? heads.reduce((best, head) => (!best || head.moved > best.moved ? head : best), null);
  }

  draw() {
    const { app } = this;
    this.frames = [];
    const chosen = this.chosen();
    this.element.hidden = this.large.hidden = !chosen;
    if (!chosen) return;
    const lists = this.shown;
    const change = app.view.mode === "change" && app.isEdited;
    const scale = new Scale(largest(lists.flat(), change), change, app.theme);
    const width = this.element.clientWidth || 600;
    const perRow = app.view.scale === "row";
    const options = { scale, change, perRow, theme: app.theme, sentences: app.state.sentences, chosen: chosen.key };
    this.element.replaceChildren(this.controls(), this.legend(scale, change), this.columns(lists, width, options));
    const large = this.enlarged(chosen, { ...options, room: clamp(width - 145, 120, 380) });
    this.large.replaceChildren(large, ...(app.view.numbers ? [this.numbers(chosen, change)] : []));
  }

  /** The heads of each model, two models side by side. */
  columns(lists, width, options) {
    const names = this.app.now.map(({ look }) => look.model);
    const share = width / lists.filter((heads) => heads.length).length;
    const columns = lists.map((heads, i) => {
      if (!heads.length) return make("p", { class: "soft" }, isolated(names[i]), " has no attention heads");
      const grid = this.grid(heads, share, options);
      return names.length > 1 ? make("div", {}, make("h3", {}, isolated(names[i])), grid) : grid;
    });
    return make("div", { class: share < width ? "pair" : "" }, columns);
  }

  grid(heads, width, options) {
    const line = perLine(heads.length, Math.floor(width / (LEAST_ROOM + 16)));
    const room = Math.min(width / line - 17, MOST_ROOM);
    const panels = heads.map((head) => this.panel(head, { ...options, room }));
    const box = make("div", { class: "grid" }, panels);
    box.style.maxWidth = `${line * (room + 17)}px`;
    return box;
  }

  controls() {
    const { app } = this;
    const { view } = app;
    const set = (key) => (value) => app.change({ [key]: value });
    const off = app.isEdited
      ? null
      : app.live
        ? "nothing has changed yet"
        : "a change needs an edit, and an edit needs the live explorer";
    const parts = [
      segmented(
        "Show",
        [
          ["weights", "Weights"],
          ["change", "Change", off],
        ],
        off ? "weights" : view.mode,
        set("mode"),
      ),
      segmented(
        "Sort",
        [
          ["layer", "layer"],
          ["moved", "moved", off],
        ],
        off ? "layer" : view.sort,
        set("sort"),
      ),
      segmented(
        "Scale",
        [
          ["shared", "shared"],
          ["row", "row"],
        ],
        view.scale,
        set("scale"),
      ),
    ];
    if (app.now.some(({ look }) => look.maps.some((map) => map.words)))
      parts.push(
        segmented(
          "By",
          [
            ["words", "word"],
            ["tokens", "token"],
          ],
          view.by,
          set("by"),
        ),
      );
    if (this.attention.some(hasModules)) parts.push(this.modules());
    parts.push(
      button("Numbers", () => app.change({ numbers: !view.numbers }), {
        "aria-pressed": String(view.numbers),
        class: "toggle",
      }),
    );
    return make("div", { class: "controls" }, parts);
  }

  /** The choice of the module whose heads are shown, if a model has several modules with several heads. */
  modules() {
    const { app } = this;
    const paths = [...new Set(this.attention.filter(hasModules).flatMap((heads) => heads.map((head) => head.path)))];
    const many = this.attention.some((heads) => heads.length > MOST_HEADS);
    const chosen = app.view.path ?? (many ? paths[0] : "all");
    const options = ["all", ...paths].map((path) => make("option", { value: path, selected: path === chosen }, path));
    const choose = (event) => app.change({ path: event.target.value, head: null });
    return make("label", {}, make("span", { class: "soft" }, "Module "), make("select", { onchange: choose }, options));
  }

  legend(scale, change) {
    const bar = make("span", { class: "ramp", role: "img", "aria-label": "colour scale" });
    const stops = Array.from({ length: 17 }, (_, i) =>
      scale.css(change ? ((i - 8) / 8) * scale.limit : (i / 16) * scale.limit),
    );
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const [low, high] = scaleEnds(scale, this.app.view.scale === "row");
    const attention = this.shown.flat();
    return make(
      "p",
      { class: "legend" },
      low,
      bar,
      high,
      attention.some((head) => head.allowed) && make("span", {}, make("i", { class: "swatch hatch" }), "not allowed"),
      attention.some((head) => syntacticCells(head, this.app.state.sentences).length) &&
        make("span", {}, make("i", { class: "swatch framed" }), "syntactic head"),
      make("span", { class: "soft" }, "each row: where one word looks"),
    );
  }

  panel(head, options) {
    const { app } = this;
    const canvas = make("canvas", {
      role: "img",
      "aria-label": `${head.title}: ${count(head.rows.length, "row")}, moved by ${short(head.moved)}`,
    });
    const cell = paintHead(canvas, head, options);
    const chosen = options.chosen === head.key;
    const hasMoved = head.moved > MOVED;
    const title = button(
      [isolated(head.title), hasMoved ? make("span", { class: "number" }, short(head.moved)) : ""],
      () => app.change({ head: head.key }),
      { class: "title", "aria-pressed": String(chosen), "data-key": head.key },
    );
    const echo = make("p", { class: "echo" });
    const box = this.framed(head, canvas, cell, echo, options.change);
    const figure = make(
      "figure",
      { class: `head${chosen ? " chosen" : ""}${hasMoved ? " moved" : ""}` },
      title,
      box,
      echo,
    );
    figure.style.width = `${Math.ceil(options.room) + 4}px`;
    return figure;
  }

  /** The canvas with a frame around the row that is looked at; it shows the value of the cell under the pointer. */
  framed(head, canvas, cell, echo, change) {
    const frame = make("div", { class: "frame", hidden: true });
    const box = make("div", { class: "matrix" }, canvas, frame);
    box.style.width = canvas.style.width;
    this.frames.push({ head, frame, cell });
    const at = (event) => {
      const { left, top } = canvas.getBoundingClientRect();
      const [column, row] = [Math.floor((event.clientX - left) / cell), Math.floor((event.clientY - top) / cell)];
      return row >= 0 && column >= 0 && row < head.rows.length && column < head.columns.length ? [row, column] : null;
    };
    canvas.addEventListener("pointermove", (event) => {
      const place = at(event);
      if (!place) return;
      const [row, column] = place;
      const [from, to] = [head.rows[row], head.columns[column]];
      echo.replaceChildren(...cellSaid(head, row, column, change));
      this.app.keyWord = to.word === null ? null : [to.sentence, to.word];
      this.app.hover = from.word === null ? null : [from.sentence, from.word];
      this.app.mark();
    });
    canvas.addEventListener("pointerleave", () => {
      echo.replaceChildren();
      this.app.keyWord = null;
      this.app.hover = null;
      this.app.mark();
    });
    canvas.addEventListener("click", () => this.app.change({ head: head.key }));
    return box;
  }

  /** The chosen head with its rows and columns named. */
  enlarged(head, options) {
    const canvas = make("canvas", { role: "img", "aria-label": `${head.title}, large` });
    const cell = paintHead(canvas, head, options);
    const echo = make("p", { class: "echo" });
    const named = cell >= 11;
    const names = (units, side) =>
      make(
        "div",
        { class: side, "aria-hidden": "true" },
        units.map((unit) => {
          const name = isolated(unit.text || "∅", { title: unit.text });
          name.classList.toggle("upright", UPRIGHT.test(unit.text));
          name.style[side === "row-names" ? "height" : "width"] = `${cell}px`;
          name.style.lineHeight = `${cell}px`;
          name.style.fontSize = `${Math.min(12, cell * 0.85)}px`;
          return name;
        }),
      );
    const box = this.framed(head, canvas, cell, echo, options.change);
    const body = make(
      "div",
      { class: "large" },
      make("span"),
      ...(named ? [names(head.columns, "column-names"), names(head.rows, "row-names")] : [make("span"), make("span")]),
      box,
    );
    const models = this.app.state.models.length > 1 ? `${head.model} · ` : "";
    return make(
      "figure",
      { class: "chosen-head" },
      make(
        "figcaption",
        {},
        make("strong", {}, isolated(`${models}${head.title}`)),
        named ? null : make("span", { class: "soft" }, " words on hover"),
      ),
      body,
      echo,
    );
  }

  numbers(head, change) {
    const rows =
      head.rows.length > MOST_NUMBERS
        ? head.rows
            .map((_, i) => i)
            .filter((i) => same([head.rows[i].sentence, head.rows[i].word], this.app.view.pinned))
        : head.rows.map((_, i) => i);
    if (!rows.length)
      return make(
        "p",
        { class: "soft" },
        `${head.rows.length} rows are too many for a table: pin a word to see its row.`,
      );
    const values = shownValues(head, change);
    const cellOf = (row, column) => {
      const place = row * head.columns.length + column;
      return make("td", { class: "number" }, head.allowed && !head.allowed[place] ? "–" : short(values[place]));
    };
    return make(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "numbers" },
      make(
        "table",
        {},
        make("caption", {}, isolated(head.title), change ? ": change since before" : ": weights", "; –: not allowed"),
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            make("td"),
            head.columns.map((unit) => make("th", { scope: "col" }, isolated(unit.text))),
          ),
        ),
        make(
          "tbody",
          {},
          rows.map((row) =>
            make(
              "tr",
              {},
              make("th", { scope: "row" }, isolated(head.rows[row].text)),
              head.columns.map((_, column) => cellOf(row, column)),
            ),
          ),
        ),
      ),
    );
  }

  /** Move the frames to the row that is looked at. */
  mark() {
    const { spot } = this.app;
    for (const { head, frame, cell } of this.frames) {
      const rows = spot
        ? head.rows
            .map((unit, i) => [unit, i])
            .filter(([unit]) => unit.sentence === spot[0] && unit.word === spot[1])
            .map(([, i]) => i)
        : [];
      frame.hidden = !rows.length;
      if (rows.length)
        Object.assign(frame.style, { top: `${rows[0] * cell}px`, height: `${(rows.at(-1) - rows[0] + 1) * cell}px` });
    }
  }
}

/** "behind → child: .132, before .120", or that it is not allowed. */
function cellSaid(head, row, column) {
  const place = row * head.columns.length + column;
  const forbidden = head.allowed && !head.allowed[place];
  const before =
    head.before && Math.abs(head.before[place] - head.values[place]) >= 5e-4
      ? `, before ${short(head.before[place])}`
      : "";
  return [
    isolated(head.rows[row].text),
    " → ",
    isolated(head.columns[column].text),
    `: ${forbidden ? "not allowed" : short(head.values[place]) + before}`,
  ];
}

// ------------------------------------------------------------------------------------------- gates, pooling, marginals

/** Gates and the weights of words in the sentence vector: a bar for each word. */
class Strips {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "strips", "aria-label": "gates and pooling" });
  }

  draw() {
    const heads = this.app.heads.flat().filter((head) => head.kind !== "attention");
    this.element.hidden = !heads.length;
    this.element.replaceChildren(
      ...["gate", "pooling"].flatMap((kind) => {
        const found = heads.filter((head) => head.kind === kind);
        const title = kind === "gate" ? "Gates" : "Weights of the words in the sentence vector";
        return found.length ? [make("h2", {}, title), ...found.map((head) => this.strip(head))] : [];
      }),
    );
  }

  strip(head) {
    const units = head.kind === "gate" ? head.rows : head.columns;
    const top = head.kind === "gate" ? 1 : Math.max(...head.values, ...(head.before ?? []), 1e-9);
    const bars = units.map((unit, i) => {
      const bar = make("i");
      bar.style.height = `${(30 * Math.max(head.values[i], 0)) / top}px`;
      const before = head.before && Math.abs(head.before[i] - head.values[i]) >= 5e-4;
      const tick = before ? make("b") : "";
      if (before) tick.style.bottom = `${(28 * head.before[i]) / top}px`; // of 30, as it is 2 high
      const said = `${short(head.values[i])}${before ? `, before ${short(head.before[i])}` : ""}`;
      return make(
        "span",
        { class: "unit", title: said, role: "listitem", "aria-label": `${unit.text} ${said}` },
        make("span", { class: "well" }, bar, tick),
        isolated(unit.text),
      );
    });
    const title = this.app.state.models.length > 1 ? `${head.model} · ${head.title}` : head.title;
    return make(
      "figure",
      {},
      make(
        "figcaption",
        {},
        isolated(title),
        make("span", { class: "soft" }, head.kind === "gate" ? " from 0 to 1" : ` full height ${short(top)}`),
      ),
      make("div", { class: "units", role: "list" }, bars),
    );
  }
}

/** Marginal probabilities of latent trees: arcs by probability, the best tree solid, the given tree below. */
class Latent {
  constructor(app) {
    this.app = app;
    this.element = make("section", { class: "latent", "aria-label": "latent trees" });
  }

  draw() {
    const { app } = this;
    const found = (app.now ?? []).filter(({ look }) => look.latent.some(Boolean));
    this.element.hidden = !found.length;
    if (this.element.contains(app.root.activeElement)) return this.redraw(found);
    const slider = make("input", {
      type: "range",
      min: 0.01,
      max: 0.99,
      step: 0.01,
      value: app.view.threshold,
      "aria-label": "least probability of an arc",
      oninput: (event) => ((app.view.threshold = Number(event.target.value)), this.redraw(found)),
    });
    this.output = make("output", { class: "number" });
    this.trees = make("div");
    this.element.replaceChildren(
      make("h2", {}, "Latent trees"),
      make("label", { class: "soft" }, "arcs of probability above ", slider, this.output),
      this.trees,
    );
    return this.redraw(found);
  }

  redraw(found) {
    this.output.textContent = short(this.app.view.threshold, 2);
    this.trees.replaceChildren(
      ...found.flatMap(({ look, sentences }) =>
        look.latent
          .map(
            (tree, number) =>
              tree &&
              make(
                "figure",
                {},
                found.length > 1 ? make("figcaption", {}, isolated(look.model)) : null,
                make(
                  "div",
                  { class: "scroll" },
                  latentPicture(tree, sentences[number], this.app.view.threshold, (role) => `var(--${role})`),
                ),
              ),
          )
          .filter(Boolean),
      ),
    );
  }
}

/** Arcs of a latent tree as data: all above the threshold, and the best tree whatever its probability. */
function latentArcs(tree, threshold) {
  const [, columns] = tree.shape.slice(-2);
  return tree.heads.flatMap((best, to) =>
    Array.from({ length: columns }, (_, head) => ({ head, p: tree.weights[to * columns + head] }))
      .filter(({ head, p }) => head === best || p > threshold)
      .map(({ head, p }) => ({ from: head ? head - 1 : null, to, p, best: head === best })),
  );
}

function latentPicture(tree, sentence, threshold, ink) {
  const { words } = sentence;
  const widths = words.map((text) => textWidth(text, WORD) * 1.02 + 14);
  const above = latentArcs(tree, threshold).map((arc) => ({
    ...arc,
    role: arc.best ? "accent" : "soft",
    width: arc.best ? 2 : 1.3,
    opacity: arc.best ? 0.4 + 0.6 * arc.p : Math.max(0.25, arc.p),
    label: arc.from === null ? "" : arc.best ? short(arc.p, 2) : "",
    dashed: !arc.best,
    said: `${arc.from === null ? "root" : words[arc.from]} → ${words[arc.to]}: ${short(arc.p)}`,
  }));
  const below = treeArcs(sentence, null).map((arc) => ({ ...arc, label: "" }));
  const { width, centres } = placeWords(widths, above, isRightToLeft(words));
  const [over, under] = [layArcs(above, centres, widths), layArcs(below, centres, widths, true)];
  const line = over.height + 26;
  const height = line + under.height + (below.length ? 8 : 0);
  const shift = (y, ...children) => drawn("g", { transform: `translate(0 ${y})` }, ...children);
  return drawn(
    "svg",
    {
      xmlns: SVG,
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `latent tree of ${words.join(" ")}`,
    },
    shift(over.height, drawArcs(over, ink)),
    words.map((text, i) =>
      drawn("text", { x: centres[i], y: line - 8, "text-anchor": "middle", "font-size": WORD, fill: ink("ink") }, text),
    ),
    shift(line, drawArcs(under, ink)),
  );
}

// -------------------------------------------------------------------------------------------------- share and export

/** The content of a state file: enough to see the same again with the same runs. */
function stateOf(app) {
  const { sentences, before, models } = app.state;
  const { mode, scale, pinned, head, sort, by, path, numbers, threshold } = app.view;
  const influence = [...app.wanted];
  const runs = Object.fromEntries(app.boot.models.map((model) => [model.name, model.sha256]));
  const view = { models, mode, scale, word: pinned, head, sort, by, path, numbers, threshold, influence };
  return { v: 1, sentences, before, view, runs };
}

/** Show a state that was saved; says what does not fit. */
async function openState(app, text) {
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
    mode: view.mode === "change" ? "change" : "weights",
    scale: view.scale === "row" ? "row" : "shared",
    sort: view.sort === "moved" ? "moved" : "layer",
    by: view.by === "tokens" ? "tokens" : "words",
    head: isText(view.head) ? view.head : null,
    path: isText(view.path) ? view.path : null,
    numbers: view.numbers === true,
    threshold: Number.isFinite(view.threshold) ? clamp(view.threshold, 0.01, 0.99) : app.view.threshold,
    pinned: state.sentences[place[0]]?.words[place[1]] === undefined ? null : place.slice(0, 2),
  });
  if (isListOf(view.influence, isText))
    app.wanted = new Set(view.influence.filter((what) => ["influence", "arcs"].includes(what)));
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
  const born = (sentences) => app.boot.items.some((item) => same(item.sentences, sentences));
  if (!app.live && !(born(state.sentences) && born(state.before))) {
    app.refuse("A state with other sentences or an edited tree");
    return app.status.textContent;
  }
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

function fromFragment(fragment) {
  const text = atob(fragment.replace(/-/g, "+").replace(/_/g, "/"));
  return new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
}

async function copyLink(app) {
  const { origin, pathname, href, protocol } = globalThis.location;
  const page = protocol.startsWith("http") ? origin + pathname : href.replace(/#.*$/, ""); // never with a token
  const link = `${page}#${toFragment(stateOf(app))}`;
  try {
    await navigator.clipboard.writeText(link);
    app.say("Link copied. The part after the # stays in the browser: it is never sent.");
  } catch {
    const field = make("input", { type: "text", readonly: true, value: link, "aria-label": "link to copy" });
    app.status.replaceChildren("Copy this link: ", field);
    field.select();
  }
}

/** Let the browser download a file. */
function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** What can be exported now: [its name in a request, its name in the menu, which heads]. */
function exportable(app) {
  const { sentences } = app.state;
  const heads = app.matrices.attention.flat();
  const chosen = app.matrices.chosen();
  const ofMoved = heads.filter((head) => head.moved > MOVED);
  const pictures = [
    ["tree", "Dependency tree", sentences.some((sentence) => sentence.heads)],
    ["heads", "Chosen head", heads.length > 1, chosen && [chosen]],
    ["heads", "Heads that moved", ofMoved.length && ofMoved.length < heads.length, ofMoved],
    ["heads", heads.length > 1 ? "All heads" : "Head", heads.length, heads],
    ["latent", "Latent trees", app.now?.some(({ look }) => look.latent.some(Boolean))],
    ["phrases", "Phrases", app.live && sentences.some((sentence) => sentence.phrases?.length)],
    ["pooling", "Pooling", app.live && app.heads.flat().some((head) => head.kind === "pooling")],
  ];
  return pictures.filter(([, , there]) => there);
}

/** A live explorer draws in Python, as `structattn plot --state` does; a frozen page draws itself. */
async function exportPicture(app, what, format, heads) {
  const types = { svg: "image/svg+xml", png: "image/png", pdf: "application/pdf" };
  try {
    if (app.live) {
      const { type, data } = await app.request("draw", { figure: { what, format, ...since(app, what, heads) } });
      save(
        `structattn-${what}.${format}`,
        type,
        Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)),
      );
    } else {
      const svg = pictureOf(app, what, heads);
      save(`structattn-${what}.${format}`, types[format], format === "svg" ? svg : await rasterised(svg));
    }
    app.say(`Saved structattn-${what}.${format}.`);
  } catch (error) {
    app.say(error.message, true);
  }
}

/** What a picture is compared with, as on the page: former arcs always, former weights where their change is shown. */
const since = (app, what, heads) => {
  const compared = app.isEdited && (what === "tree" || (what === "heads" && app.view.mode === "change"));
  const ofHeads = what === "heads" ? { scale: app.view.scale, heads: heads.map((head) => head.key) } : {};
  return { ...ofHeads, ...(compared ? { before: app.state.before } : {}) };
};

const onPaper = (role) => INKS.light[role];

/** What is shown, as one SVG document on light paper. */
function pictureOf(app, what, heads) {
  const parts = {
    tree: () => app.state.sentences.map((sentence, i) => treePicture(sentence, app.state.before[i])),
    heads: () => [headsPicture(app, heads)],
    latent: () =>
      app.now.flatMap(({ look, sentences }) =>
        look.latent.flatMap((tree, i) =>
          tree ? [latentPicture(tree, sentences[i], app.view.threshold, onPaper)] : [],
        ),
      ),
  }[what]();
  const margin = 16;
  let height = margin;
  const width = Math.max(...parts.map((part) => Number(part.getAttribute("width")))) + 2 * margin;
  for (const part of parts) {
    dress(part, { x: margin, y: height }, []);
    height += Number(part.getAttribute("height")) + margin;
  }
  const document = drawn(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT },
    drawn("rect", { width, height, fill: onPaper("paper") }),
    parts,
  );
  return new XMLSerializer().serializeToString(document);
}

function treePicture(sentence, before) {
  const widths = sentence.words.map((text) => textWidth(text, WORD) * 1.02 + 14);
  const arcs = treeArcs(sentence, before);
  const { width, centres } = placeWords(widths, arcs, isRightToLeft(sentence.words));
  const laid = layArcs(arcs, centres, widths);
  const height = laid.height + 26;
  return drawn(
    "svg",
    { width, height, viewBox: `0 ${-laid.height} ${width} ${height}` },
    drawArcs(laid, onPaper),
    sentence.words.map((text, i) =>
      drawn("text", { x: centres[i], y: 18, "text-anchor": "middle", "font-size": WORD, fill: onPaper("ink") }, text),
    ),
  );
}

/** Some heads side by side, each with its model, its words and its axes; below, what colours and marks mean. */
function headsPicture(app, heads) {
  const change = app.view.mode === "change" && app.isEdited;
  const scale = new Scale(largest(app.matrices.shown.flat(), change), change, "light");
  const perRow = app.view.scale === "row";
  const { sentences, models } = app.state;
  const longest = Math.max(...heads.map((head) => Math.max(head.rows.length, head.columns.length)));
  const cell = clamp(Math.floor(260 / longest), 2, 18);
  const names =
    cell < 8
      ? 0
      : 8 +
        Math.max(...heads.flatMap((head) => [...head.rows, ...head.columns].map((unit) => textWidth(unit.text, 10))));
  const titles = heads.map((head) => (models.length > 1 ? `${head.model}: ${head.title}` : head.title));
  const wide = Math.max(names + longest * cell, ...titles.map((title) => 1.15 * textWidth(title, 12))) + 22;
  const high = 22 + names + longest * cell + 22;
  const across = clamp(Math.floor(1000 / wide), 1, heads.length);
  const write = (content, attributes) =>
    drawn("text", { "font-size": 10, fill: onPaper("ink"), ...attributes }, content);
  const panels = heads.map((head, i) => {
    const left = (i % across) * wide;
    const top = Math.floor(i / across) * high;
    const column = (unit, j) =>
      write(unit.text, { transform: `translate(${names + (j + 0.75) * cell} ${18 + names})rotate(-90)` });
    const row = (unit, j) =>
      write(unit.text, { x: names - 4, y: 22 + names + (j + 0.75) * cell, "text-anchor": "end" });
    return drawn(
      "g",
      { transform: `translate(${left} ${top})` },
      write(titles[i], { y: 12, "font-size": 12, "font-weight": 700 }),
      names ? [head.columns.map(column), head.rows.map(row)] : [],
      drawn(
        "g",
        { transform: `translate(${names} ${22 + names})` },
        headCells(head, { scale, change, cell, perRow, sentences }),
      ),
    );
  });
  const hatched = heads.some((head) => head.allowed);
  const framed = heads.some((head) => syntacticCells(head, sentences).length);
  const keys = [
    [
      drawn("rect", { width: 11, height: 11, fill: "url(#forbidden)", stroke: onPaper("rule") }),
      "not allowed",
      hatched,
    ],
    [
      [drawn("rect", { width: 11, height: 11, fill: scale.hex(0.5 * scale.limit) }), outlined(0, 0, 11)],
      "syntactic head",
      framed,
    ],
    [
      [],
      change ? "change of the weight since the edit" : "weight; rows attend (query), columns are attended to (key)",
      true,
    ],
  ].filter(([, , isShown]) => isShown);
  const bottom = Math.ceil(heads.length / across) * high;
  let x = 230;
  const legend = keys.map(([sign, label], i) => {
    const place = [x, bottom];
    x += 34 + 1.1 * textWidth(label, 10);
    const indent = i < keys.length - 1 ? 16 : 0;
    return drawn("g", { transform: `translate(${place.join(" ")})` }, sign, write(label, { x: indent, y: 9 }));
  });
  const width = Math.max(across * wide, x);
  const height = bottom + 16;
  const lines = drawn("path", { d: "M0 5L5 0", stroke: onPaper("hatch") });
  const pattern = { id: "forbidden", width: 5, height: 5, patternUnits: "userSpaceOnUse" };
  return drawn(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}` },
    drawn("defs", {}, drawn("pattern", pattern, lines)),
    panels,
    drawn("g", { transform: `translate(0 ${bottom})` }, legendOf(scale, perRow)),
    legend,
  );
}

/** A colour bar with its ends. */
function legendOf(scale, perRow) {
  const value = (i) => (scale.diverging ? (i - 16) / 16 : i / 32) * scale.limit;
  const steps = Array.from({ length: 33 }, (_, i) =>
    drawn("rect", { class: "step", x: 40 + 4 * i, y: 0, width: 4.2, height: 10, fill: scale.hex(value(i)) }),
  );
  const text = (x, anchor, content) =>
    drawn("text", { x, y: 9, "font-size": 10, "text-anchor": anchor, fill: onPaper("ink") }, content);
  const [low, high] = scaleEnds(scale, perRow);
  return [text(34, "end", low), steps, text(178, "start", high)];
}

/** The labels at the ends of a colour bar. */
function scaleEnds(scale, perRow) {
  if (perRow) return [scale.diverging ? "−max" : "0", "row's max"];
  return [scale.diverging ? short(-scale.limit, 2) : "0", short(scale.limit, 2)];
}

/** Cells of a head; neighbours of the same colour are merged into one rectangle. */
function headCells(head, { scale, change, cell, perRow, sentences }) {
  const columns = head.columns.length;
  const values = shownValues(head, change);
  const limits = perRow ? rowLimits(values, columns) : null;
  const colour = (i) =>
    head.allowed && !head.allowed[i]
      ? "url(#forbidden)"
      : scale.hex(values[i], limits ? limits[Math.floor(i / columns)] || 1 : undefined);
  const cells = [];
  head.rows.forEach((_, row) => {
    for (let column = 0, from = 0; column < columns; column++) {
      const fill = colour(row * columns + from);
      if (column + 1 < columns && colour(row * columns + column + 1) === fill) continue;
      cells.push(
        drawn("rect", { x: from * cell, y: row * cell, width: (column + 1 - from) * cell, height: cell, fill }),
      );
      from = column + 1;
    }
  });
  return [
    ...cells,
    ...syntacticCells(head, sentences).map(([row, column]) => outlined(column * cell, row * cell, cell)),
  ];
}

/** The frame of a cell. */
function outlined(x, y, cell) {
  return outlineOf(cell).map(([stroke, width, inset]) => {
    const side = cell - 2 * inset;
    const place = { x: x + inset, y: y + inset, width: side, height: side };
    return drawn("rect", { ...place, fill: "none", stroke, "stroke-width": width });
  });
}

/** The SVG as PNG, twice as large. */
async function rasterised(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;base64,${btoa(Array.from(new TextEncoder().encode(svg), (byte) => String.fromCharCode(byte)).join(""))}`;
  await image.decode();
  const canvas = make("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

// -------------------------------------------------------------------------------------------------------------- style

const FONT =
  'ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, "Noto Sans", "Liberation Sans", "DejaVu Sans", sans-serif';

const inks = (theme) =>
  Object.entries(INKS[theme])
    .map(([role, colour]) => `--${role}:${colour};`)
    .join("");

const STYLE = `
:host{display:block}
.explorer{${inks("light")}color-scheme:light;color:var(--ink);background:var(--paper);font:14px/1.45 ${FONT};padding:12px 14px;
  border:1px solid var(--rule);border-radius:10px;container-type:inline-size}
.explorer[aria-busy] .status::after{content:" …"}
.answers,.heads,.chosen-head,.strips,.latent,aside .card{transition:opacity .1s}
.explorer[aria-busy] :is(.answers,.heads,.chosen-head,.strips,.latent,aside .card){opacity:.45}
.explorer[data-theme=dark]{${inks("dark")}color-scheme:dark}
*{box-sizing:border-box}
[hidden]{display:none!important}
h2{font-size:14px;margin:0 0 6px}
h3{font-size:13px;margin:8px 0 2px}
p{margin:4px 0}
figure{margin:0}
.soft{color:var(--soft)}
.number{white-space:nowrap;font-variant-numeric:tabular-nums;text-align:end}
button,select,input{font:inherit;color:inherit}
button,select,input[type=text]{background:var(--paper);border:1px solid var(--border);border-radius:6px;padding:3px 9px;min-height:28px}
button{cursor:pointer}
button:hover:not(:disabled){border-color:var(--accent)}
button:disabled{opacity:.5;cursor:default}
button.toggle[aria-pressed=true]{background:var(--chip);border-color:var(--accent);color:var(--ink);box-shadow:inset 0 -2px var(--accent)}
.segments button[aria-pressed=true]{background:var(--accent);border-color:var(--accent);color:var(--paper)}
:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
.bar{display:flex;flex-wrap:wrap;gap:6px 12px;align-items:center;padding-bottom:10px;border-bottom:1px solid var(--rule)}
.bar label,.models,.group,.segments,.controls{display:inline-flex;flex-wrap:wrap;gap:4px;align-items:center}
.item select{max-width:min(26ch,60vw)}
select{max-width:100%}
.texts{display:flex;flex:1 1 240px;gap:4px;flex-wrap:wrap}
.texts input{flex:1 1 160px;min-width:0}
.menu{position:relative}
.menu summary{cursor:pointer;list-style:none;padding:3px 6px;border-radius:6px}
.menu>div{position:absolute;inset-inline-end:0;z-index:5;display:grid;gap:4px;padding:8px;background:var(--paper);
  border:1px solid var(--rule);border-radius:8px;box-shadow:0 6px 20px #0003;min-width:max-content}
.columns{display:grid;grid-template-columns:minmax(0,1fr) 310px;gap:18px;margin-top:10px}
aside{display:flex;flex-direction:column;gap:12px;align-self:start;position:sticky;top:8px}
.card{border:1px solid var(--rule);border-radius:8px;padding:10px 12px;background:var(--paper)}
.scroll{overflow-x:auto;padding:2px 14px;
  mask-image:linear-gradient(to right,transparent,#000 14px,#000 calc(100% - 14px),transparent)}
.line{position:relative;margin:0 auto}
.arcs{display:block;overflow:visible;user-select:none;font-family:${FONT}}
.words{position:relative;height:34px;user-select:none}
.word{position:absolute;top:2px;height:30px;padding:0;font-size:15px;border-color:transparent;white-space:nowrap;touch-action:pan-x pan-y}
.word.unknown bdi{text-decoration:underline wavy var(--error) 1px;text-underline-offset:3px}
.word.spot{border-color:var(--ink)}
.word[aria-pressed=true]{border:2px solid var(--ink)}
.word.hand{border:2px solid var(--edit);font-weight:700}
.word.key{outline:2px dashed var(--accent)}
.word.chosen{border:2px dashed var(--accent)}
.bars{position:relative;height:40px;border-top:1px solid var(--rule)}
.bars i{position:absolute;border-radius:2px 2px 0 0;background:var(--raises)}
.bars i.bar-down{background:var(--lowers);border-radius:0 0 2px 2px}
.bars-note{font-size:12px;color:var(--soft);min-height:18px}
.brackets{position:relative;margin-top:6px}
.phrase{position:absolute;height:20px;min-height:20px;padding:0 2px;font-size:12px;line-height:16px;overflow:hidden;background:var(--chip);border-radius:5px}
.notes{display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin-bottom:6px}
.chip{background:var(--chip);border-radius:999px;padding:2px 10px;font-size:13px}
.doubtful{outline:1px dashed var(--error)}
.doubtful::before{content:"⚠ "}
.prompt{min-height:34px;display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin-top:4px}
.prompt form{display:flex;flex-wrap:wrap;gap:6px;align-items:center}
.status{min-height:22px;font-weight:700;overflow-wrap:anywhere}
.status.error{color:var(--error)}
.status.error::before{content:"⚠ "}
.classes{display:grid;grid-template-columns:fit-content(38%) minmax(32px,1fr) auto auto;gap:4px 8px;align-items:center}
.classes>*{overflow-wrap:anywhere}
.bar-box{position:relative;height:14px;background:var(--chip);border-radius:3px;forced-color-adjust:none}
.bar-box i{position:absolute;inset-block:0;inset-inline-start:0;background:var(--accent);border-radius:3px}
.bar-box b{position:absolute;inset-block:-3px;width:2px;background:var(--ink)}
.line-button{display:flex;width:100%;justify-content:space-between;gap:8px;border-color:transparent;text-align:start;overflow-wrap:anywhere}
.score{font-size:20px}
.heads{margin-top:8px}
.controls{display:flex;gap:6px 14px}
.controls label{min-width:0;max-width:100%}
.segments button{border-radius:0;margin-inline-start:-5px}
.segments button:first-of-type{border-radius:6px 0 0 6px;margin-inline-start:0}
.segments button:last-of-type{border-radius:0 6px 6px 0}
.legend{display:flex;flex-wrap:wrap;gap:4px 10px;align-items:center;font-size:13px}
.ramp{display:inline-block;width:120px;height:12px;border:1px solid var(--rule);forced-color-adjust:none}
.swatch{display:inline-block;width:13px;height:13px;margin-inline-end:4px;vertical-align:-2px;border:1px solid var(--rule)}
.hatch{background:repeating-linear-gradient(135deg,var(--hatch) 0 1px,transparent 1px 4px)}
.framed{border:1px solid #14171c;outline:1px solid #fff;outline-offset:-2px;background:#48a4ca}
.pair{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:14px}
.grid{display:flex;flex-wrap:wrap;gap:10px 12px;align-items:flex-end}
.head{max-width:100%}
.title{display:flex;width:100%;justify-content:space-between;gap:6px;border-color:transparent;padding:2px 2px;text-align:start;font-size:13px;overflow-wrap:anywhere}
.chosen .title{text-decoration:underline 2px var(--accent);text-underline-offset:3px}
.moved .title{font-weight:700}
.matrix{position:relative;line-height:0;max-width:100%}
.matrix canvas{forced-color-adjust:none;border-radius:2px;outline:1px solid var(--rule)}
.frame{position:absolute;inset-inline:-2px;border:2px solid var(--ink);pointer-events:none}
.echo{min-height:20px;font-size:12px;color:var(--soft);overflow-wrap:anywhere}
.chosen-head{margin-top:12px}
.large{display:inline-grid;grid-template-columns:auto auto;gap:3px;max-width:100%;overflow-x:auto;padding:0 3px 3px 0}
.column-names{display:flex;align-items:end}
.column-names bdi,.row-names bdi{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.column-names bdi{writing-mode:vertical-rl;transform:rotate(180deg);max-height:130px}
.column-names .upright{transform:none}
.row-names bdi{display:block;max-width:130px;text-align:end}
table{border-collapse:collapse;font-size:12px}
caption{text-align:start;color:var(--soft)}
th,td{padding:2px 6px;border-bottom:1px solid var(--rule);font-weight:400;text-align:start;white-space:nowrap}
td.number{text-align:end}
.strips{margin-top:14px}
.units{display:flex;flex-wrap:wrap;gap:6px 4px;margin:4px 0 10px}
.unit{display:inline-flex;flex-direction:column;align-items:center;font-size:12px;min-width:22px}
.well{position:relative;width:14px;height:30px;background:var(--chip);border-radius:2px;forced-color-adjust:none}
.well i{position:absolute;inset-inline:0;bottom:0;background:var(--accent);border-radius:2px}
.well b{position:absolute;inset-inline:-3px;height:2px;background:var(--ink)}
.latent svg{font-family:${FONT};display:block}
@container (max-width:760px){
  .columns{grid-template-columns:minmax(0,1fr)}
  aside{display:contents}
  .answers{position:sticky;top:0;z-index:4;order:-1}
  .answers h2{display:none}
}
@media (pointer:coarse){
  .words{height:48px}
  .word{height:44px;top:2px}
  button,select,input[type=text],.menu summary{min-height:44px}
  .phrase{min-height:20px}
}
@media (prefers-reduced-motion:no-preference){.bar-box i,.well i{transition:width .12s,height .12s}}
@media (forced-colors:active){
  .word.spot,.word[aria-pressed=true],.word.hand{border-color:Highlight}
  .bars i,.arcs path,.swatch{forced-color-adjust:none}
  .segments button[aria-pressed=true],button.toggle[aria-pressed=true]{forced-color-adjust:none;background:Highlight;color:HighlightText}
}
`;

// -------------------------------------------------------------------------------------------------------------- hosts

/**
 * Draw an explorer into an element.
 * @param {HTMLElement} element @param {object} boot @param {(request: object) => Promise<object>} ask
 * @returns {Explorer} its `stop()` removes its listeners from the document
 */
export function explore(element, boot, ask) {
  const explorer = new Explorer(element, boot, ask);
  element.explorer = explorer;
  const start = explorer.state.sentences.length ? explorer.show(explorer.state, { record: false }) : explorer.draw();
  if (boot.host !== "widget" && /^#(?!token=).{20}/.test(globalThis.location.hash))
    Promise.resolve(start).then(() => {
      try {
        return openState(explorer, fromFragment(globalThis.location.hash.slice(1)));
      } catch {
        return explorer.say("The part of this address after the # is not a state of the explorer.", true);
      }
    });
  return explorer;
}

/** A page that contains its replies has no server to ask. */
const frozen = () => Promise.reject(new Error("This page contains the replies for its own sentences only."));

const TOKEN = "structattn token";
const KEPT = "Your edits are kept: Share, Save state.";
const GONE = `The explorer was started anew, or ended: open the address that structattn explore prints. ${KEPT}`;

/** The token after the # of the printed address, which is removed from there; or the one that the browser keeps. */
function takeToken() {
  const given = /^#token=([^&]+)$/.exec(globalThis.location.hash);
  try {
    if (given) {
      globalThis.localStorage.setItem(TOKEN, given[1]);
      globalThis.history.replaceState(null, "", globalThis.location.pathname);
    }
    return globalThis.localStorage.getItem(TOKEN) ?? "";
  } catch {
    return given?.[1] ?? ""; // a browser that keeps nothing: the token stays in the address
  }
}

async function post(path, token, request) {
  const headers = { "Content-Type": "application/json", "X-Token": token };
  try {
    return await fetch(path, { method: "POST", headers, body: JSON.stringify(request) });
  } catch {
    throw new Error(`The explorer's server does not answer; is structattn explore still running? ${KEPT}`);
  }
}

/** Ask the server that sent the page. */
const server = (token) => async (request) => {
  const reply = await post("ask", token, request);
  if (reply.status === 403) return { error: { message: GONE } };
  return reply.ok ? reply.json() : { error: { message: (await reply.text()).trim() } };
};

/** The page of a server asks for its data; without the token it asks the person for that. */
async function startServed(element, token) {
  try {
    const reply = await post("boot", token, {});
    if (reply.ok) {
      const boot = await reply.json();
      document.title = boot.title;
      document.querySelector("h1")?.replaceChildren(isolated(boot.title));
      return explore(element, boot, server(token));
    }
    const field = make("input", { type: "password", "aria-label": "token", autocomplete: "off" });
    const open = (event) => {
      event.preventDefault();
      globalThis.location.hash = `token=${encodeURIComponent(field.value.trim())}`;
      globalThis.location.reload();
    };
    const said =
      "This page needs its token: open the address that structattn explore printed, or paste the token here.";
    return element.replaceChildren(
      make("form", { onsubmit: open }, make("p", {}, said), field, make("button", { type: "submit" }, "Open")),
    );
  } catch (error) {
    return element.replaceChildren(make("p", { role: "alert" }, error.message));
  }
}

/** Ask the kernel of a notebook; replies are matched to requests by number. */
function kernel(model) {
  const waiting = new Map();
  const receive = (reply) => {
    waiting.get(reply.id)?.(reply);
    waiting.delete(reply.id);
  };
  model.on("msg:custom", receive);
  const ask = (request) =>
    new Promise((resolve) => {
      waiting.set(request.id, resolve);
      model.send(request);
    });
  return { ask, stop: () => model.off("msg:custom", receive) };
}

/** For anywidget. */
function render({ model, el }) {
  const { ask, stop } = kernel(model);
  const element = make("div");
  el.append(element);
  const explorer = explore(element, model.get("boot"), ask);
  return () => {
    stop();
    explorer.stop();
  };
}

export default { render };

/** Start wherever the document contains the initial data of an explorer. */
for (const node of document.querySelectorAll('script[type="application/json"].structattn-explorer')) {
  if (node.dataset.started) continue;
  node.dataset.started = "true";
  const element = make("div");
  node.after(element);
  const boot = JSON.parse(node.textContent);
  if (boot.host !== "server") explore(element, boot, frozen);
  else if (boot.items) explore(element, boot, server(boot.token ?? takeToken()));
  else startServed(element, takeToken());
}
