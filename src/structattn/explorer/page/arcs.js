/** Arcs over a line of words: where words stand, how high each arc reaches, where its ends meet the words. */

import { drawn, textWidth } from "./elements.js";
import { clamp, same } from "./numbers.js";

export const LEAST_REACH = 0.05; // influence below five points has no full bar
export const WORD = 15;
const LABEL = 11;

/** Centres of words in a line that leaves every arc room for its label, and the width of the line. */
export function placeWords(widths, arcs, rightToLeft) {
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
export function layArcs(arcs, centres, widths, { below = false, room = 300 } = {}) {
  const level = arcLevels(arcs);
  const highest = Math.max(0, ...level.values());
  const step = stepOf(highest, room);
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
  return { height: heightOf(highest, room), paths };
}

const stepOf = (highest, room) => clamp(room / Math.max(highest, 1), 5, 21);
const heightOf = (highest, room) => (highest ? highest * stepOf(highest, room) + 20 : 4);

/** The height that the highest of several trees needs. */
export function tallestOf(trees, room) {
  return heightOf(Math.max(...trees.map((arcs) => Math.max(0, ...arcLevels(arcs).values()))), room);
}

/** The elements of arcs; `ink` turns a role into a colour. */
export function drawArcs({ paths }, ink) {
  const lines = paths.map(({ arc, d, tip }) => {
    const colour = ink(arc.role ?? "soft");
    const line = drawn("path", {
      d,
      fill: "none",
      stroke: colour,
      "stroke-width": arc.width ?? 1.3,
      "stroke-dasharray": arc.dashed ? "4 3" : null,
    });
    const end = drawn("path", { d: tip, fill: colour });
    const title = arc.said && drawn("title", {}, arc.said);
    return drawn("g", { class: "arc", opacity: arc.opacity ?? null }, line, end, title);
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
export function treeArcs(sentence, before) {
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
export function phraseLevels(phrases) {
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
