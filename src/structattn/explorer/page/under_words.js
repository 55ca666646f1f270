/** What stands under the words: bars of influence, and phrases as brackets. */

import { LEAST_REACH, phraseLevels } from "./arcs.js";
import { button, isolated, tag } from "./elements.js";
import { readers } from "./hand.js";
import { difference, same, short } from "./numbers.js";
import { stretch } from "./trees.js";

/** Bars of one unit have one scale, so that those of words, arcs, sentences and models can be compared. */
function reachOf(app, kinds) {
  const values = kinds.flatMap((what) =>
    app.state.models.flatMap((model) => app.extras.get(what, model)?.values.flat() ?? []),
  );
  return Math.max(LEAST_REACH, ...values.map((value) => Math.abs(value ?? 0)));
}

function whyNone(app, what, model) {
  const { reads = [] } = app.boot.models.find(({ name }) => name === model) ?? {};
  const lacks = what === "arcs" && !reads.includes("dependency") ? "reads no dependency tree" : "predicts no label";
  if (what === "gradient") return " reads no vectors of words, or predicts no label, so it has no gradient × input.";
  return ` ${lacks}, so it has no influence of ${what === "arcs" ? "arcs" : "words"}.`;
}

/** Bars of influence beside the words: for each model and kind a row, where there is one, and what is said of it. */
export function influenceBars(app, line) {
  const rows = [];
  const { number, centres, extents, isUpright } = line;
  const wanted = (kinds) => kinds.filter((what) => app.extras.wanted.has(what));
  const reaches = { gradient: reachOf(app, wanted(["gradient"])) };
  reaches.influence = reaches.arcs = reachOf(app, wanted(["influence", "arcs"]));
  for (const [what, title] of [
    ["influence", "influence of each word on the prediction"],
    ["gradient", "gradient × input of each word"],
    ["arcs", "influence of each arc, under its dependent, on the prediction"],
  ])
    for (const model of app.state.models) {
      const found = app.extras.wanted.has(what) ? app.extras.get(what, model) : null;
      const values = found?.values[number];
      if (found && !values && app.live)
        rows.push({ note: tag("p", { class: "soft" }, isolated(model), whyNone(app, what, model)) });
      if (!values) continue;
      const isScore = app.now?.find(({ look }) => look.model === model)?.look.answer?.label === null;
      const reach = reaches[what];
      const inPoints = !isScore && what !== "gradient";
      const said = (value) => `${difference(value, !inPoints)}${!isScore && !inPoints ? " in log-odds" : ""}`;
      const bars = values.map((value, i) => {
        const size = (18 * Math.abs(value ?? 0)) / reach;
        const isDown = (value ?? 0) < 0;
        return tag("i", {
          class: isDown ? "bar-down" : "bar-up",
          title: value === null ? "not defined" : said(value),
          style: line.at(centres[i], Math.min(extents[i], 18), isDown !== isUpright ? 20 : 20 - size, size),
        });
      });
      const largest = values.reduce((a, b) => (Math.abs(b ?? 0) > Math.abs(a ?? 0) ? b : a), 0);
      const end = inPoints ? `${short(100 * reach, 1)} points` : short(reach, 2);
      const note = `${title}${app.state.models.length > 1 ? ` of ${model}` : ""}: largest ${said(largest)}, full height ${end}`;
      rows.push({
        row: tag("div", { class: "bars", role: "img", "aria-label": note }, bars),
        note: tag("div", { class: "bars-note" }, tag("span", {}, note)),
      });
    }
  return rows;
}

/** What each model would answer at each word for what is in hand: a row of numbers for each, empty without a hand. */
export function outcomeRows(app, { centres, isUpright }) {
  const cells = readers(app).map((model) => [model, []]);
  const rows = cells.map(([model, row]) => {
    const place = (along, i) =>
      tag("span", { style: { [isUpright ? "top" : "left"]: `${along}px` }, ref: (cell) => (row[i] = cell) });
    return tag("div", { class: "outcomes", "aria-hidden": "true", "data-model": model }, centres.map(place));
  });
  const mark = (hand) => {
    for (const [model, row] of cells)
      row.forEach((cell, i) => {
        const outcome = hand && hand.moves[i] && hand.outcome(model, i);
        const text = outcome ? outcome.value : "";
        if (cell.textContent !== text) cell.textContent = text;
        cell.classList.toggle("flips", Boolean(outcome?.flips));
        cell.classList.toggle("spot", Boolean(outcome) && same(app.hover, [hand.number, i]));
      });
  };
  return { rows, mark };
}

/** Phrases as brackets beside their words; pressing one calls `press`. */
export function brackets(sentence, line, press) {
  if (!sentence.phrases?.length) return null;
  const { centres, extents, isUpright } = line;
  const depths = phraseLevels(sentence.phrases);
  const bracket = (phrase, i) => {
    const [label, start, end] = phrase;
    const ends = [start, end - 1].flatMap((place) =>
      [-1, 1].map((side) => centres[place] + side * (extents[place] / 2 - 2)),
    );
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    return button(isolated(label), () => press(phrase), {
      class: "phrase",
      "aria-label": `phrase ${label}: ${stretch(sentence, phrase)}`,
      style: line.at((low + high) / 2, high - low, depths[i] * 22, 20),
    });
  };
  const size = `${(Math.max(...depths) + 1) * 22}px`;
  const style = isUpright ? { width: size, height: "auto" } : { width: "auto", height: size };
  const attributes = { class: "brackets", role: "group", "aria-label": "phrases", style };
  return tag("div", attributes, sentence.phrases.map(bracket));
}
