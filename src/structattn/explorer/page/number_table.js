/** The numbers of a head. */

import { shownValues } from "./cells.js";
import { isolated, tag } from "./elements.js";
import { same, short } from "./numbers.js";

const MOST_NUMBERS = 40; // rows of a table

/** The weights of a head, or of the row of the pinned word where there are many. */
export function numberTable(app, head, change) {
  const rows =
    head.rows.length > MOST_NUMBERS
      ? head.rows.map((_, i) => i).filter((i) => same([head.rows[i].sentence, head.rows[i].word], app.view.pinned))
      : head.rows.map((_, i) => i);
  if (!rows.length)
    return tag("p", { class: "soft" }, `${head.rows.length} rows are too many for a table: pin a word to see its row.`);
  const values = shownValues(head, change);
  const cellOf = (row, column) => {
    const place = row * head.columns.length + column;
    return tag("td", { class: "number" }, head.allowed && !head.allowed[place] ? "–" : short(values[place]));
  };
  const said = head.against ? `: weight in ${head.model}` : change ? ": change since before" : ": weights";
  return tag(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "numbers", style: { width: "0", minWidth: "100%" } },
    tag(
      "table",
      {},
      tag("caption", {}, isolated(head.title), said, "; –: not allowed"),
      tag(
        "thead",
        {},
        tag(
          "tr",
          {},
          tag("td"),
          head.columns.map((unit) => tag("th", { scope: "col" }, isolated(unit.text))),
        ),
      ),
      tag(
        "tbody",
        {},
        rows.map((row) =>
          tag(
            "tr",
            {},
            tag("th", { scope: "row" }, isolated(head.rows[row].text)),
            head.columns.map((_, column) => cellOf(row, column)),
          ),
        ),
      ),
    ),
  );
}
