/** What stands below the trees: which structures the models read, where the trees come from, switches for what is below. */

import { button, isolated, tag } from "./elements.js";
import { MOST_INFLUENCE } from "./numbers.js";
import { weightSwitch } from "./weight_arcs.js";
import { readsText, sourcesOf } from "./wording.js";

export function treeNotes(app) {
  const models = app.state.models.map((name) => app.boot.models.find((model) => model.name === name)).filter(Boolean);
  const chips = models.map((model) =>
    tag("span", { class: "chip" }, isolated(model.name), ` reads ${readsText(model.reads ?? [])}`),
  );
  const { sentences } = app.state;
  const unread = [
    ["dependency", "tree", sentences.some(({ heads }) => heads)],
    ["constituency", "phrases", sentences.some(({ phrases }) => phrases?.length)],
  ].flatMap(([structure, name, isThere]) => (isThere && !app.isRead(structure) ? [name] : []));
  const fold = () => app.change({ unread: !app.view.unread });
  const switches = { "aria-pressed": String(Boolean(app.view.unread)), class: "toggle", "data-key": "unread" };
  return [
    ...chips,
    ...sourcesOf(app).map(({ text, doubtful }) => tag("span", { class: doubtful ? "chip doubtful" : "chip" }, text)),
    unread.length > 0 && button(`${unread.join(" and ")}, not read`, fold, switches),
    weightSwitch(app),
    ...["influence", "gradient", "arcs"].map((what) => influenceSwitch(app, what)),
    app.canEdit("dependency") && button("Compare from here", () => app.compareFromHere(), { disabled: !app.isEdited }),
  ].filter(Boolean);
}

/** The switch for the bars under the words. */
function influenceSwitch(app, what) {
  const names = { influence: "influence of words", gradient: "gradient × input", arcs: "influence of arcs" };
  if (!app.live && !app.state.models.some((model) => app.extras.get(what, model)?.values.some(Boolean))) return null;
  const on = app.extras.wanted.has(what);
  const toggle = () => {
    if (on) app.extras.wanted.delete(what);
    else app.extras.wanted.add(what);
    app.draw();
    app.extras.follow();
  };
  const off = app.live && app.extras.isLong && what !== "gradient";
  const title = off ? `for texts of at most ${MOST_INFLUENCE} words: it takes a run of the model per word` : null;
  return button(names[what], toggle, { "aria-pressed": String(on), class: "toggle", disabled: off, title });
}
