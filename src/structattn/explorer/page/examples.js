/** A table of the page's examples: what was expected, what the models answer, with search and order. */

import { button, fill, isolated, make, tag } from "./elements.js";
import { count, difference } from "./numbers.js";
import { answerText, labelsOf } from "./wording.js";

const wordsOf = ({ sentences }) => sentences.map(({ words }) => words.join(" ")).join(" / ");

export class Examples {
  constructor(app) {
    Object.assign(this, { app, query: "", order: null, isDown: false });
    this.element = make(tag("section", { class: "examples", "aria-label": "examples" }));
  }

  answerOf(item, model) {
    const looks = item.replies?.look?.looks ?? [];
    return item.answers?.[model] ?? looks.find((look) => look.model === model)?.answer ?? null;
  }

  /** What a model gives the expected answer, or else the first model's: a probability, or a score. */
  valueOf(answer, label) {
    if (!answer) return null;
    return answer.label === null ? answer.score : (answer.probabilities?.[label] ?? null);
  }

  get rows() {
    const { boot, state } = this.app;
    return boot.items.map((item, i) => {
      const answers = state.models.map((model) => this.answerOf(item, model));
      const label = String(item.expected ?? labelsOf(answers[0] ?? { label: "" })[0]);
      const values = answers.map((answer) => this.valueOf(answer, label));
      const [first, second] = values;
      const moved = values.length > 1 && first !== null && second !== null ? second - first : null;
      return { i, text: wordsOf(item), expected: item.expected, answers, values, moved };
    });
  }

  draw() {
    const { app } = this;
    this.element.hidden = app.boot.items.length < 2;
    if (this.element.hidden) return;
    const { models } = app.state;
    const rows = this.rows;
    const needle = this.query.trim().toLowerCase();
    const isFound = (row) =>
      [row.text, row.expected ?? "", ...row.answers.map((answer) => answer && answerText(answer, false))].some((part) =>
        String(part).toLowerCase().includes(needle),
      );
    const found = rows.filter(isFound);
    if (this.order) found.sort((one, other) => this.compare(one, other));
    const hasExpected = rows.some(({ expected }) => expected !== null && expected !== undefined);
    const columns = [
      ["sentence", (row) => row.text],
      ...(hasExpected ? [["expected", (row) => row.expected]] : []),
      ...models.flatMap((model, k) => [
        [model, (row) => row.answers[k] && answerText(row.answers[k], false)],
        [`value of ${model}`, (row) => row.values[k], hasExpected ? "expected has" : "probability"],
      ]),
      ...(models.length > 1 ? [["movement", (row) => row.moved]] : []),
    ];
    this.columns = columns;
    const search = tag("input", {
      type: "text",
      "aria-label": "search examples",
      placeholder: "search",
      "data-key": "search examples",
      value: this.query,
      oninput: (event) => {
        this.query = event.target.value;
        this.draw();
      },
    });
    const header = columns.map(([name, , shown]) => {
      const sorted = this.order === name ? (this.isDown ? "descending" : "ascending") : "none";
      const label = [isolated(shown ?? name), sorted === "none" ? "" : this.isDown ? " ↓" : " ↑"];
      const attributes = { class: "line-button", "data-key": `order ${name}`, "aria-label": `order by ${name}` };
      return tag(
        "th",
        { scope: "col", "aria-sort": sorted },
        button(label, () => this.sort(name), attributes),
      );
    });
    const body = found.map((row) => this.row(row, hasExpected));
    const size = found.length < rows.length ? `${found.length} of ${rows.length}` : count(rows.length, "example");
    const open = tag("summary", { "data-key": "examples" }, "All examples");
    const table = tag("table", {}, tag("thead", {}, tag("tr", {}, header)), tag("tbody", {}, body));
    const said = tag("span", { class: "soft", role: "status" }, size);
    const scroll = tag(
      "div",
      { class: "table", tabindex: "0", role: "region", "aria-label": "table of examples" },
      table,
    );
    fill(this.element, tag("details", { "data-key": "examples" }, open, tag("p", {}, search, " ", said), scroll));
  }

  sort(name) {
    if (this.order === name) this.isDown = !this.isDown;
    else Object.assign(this, { order: name, isDown: false });
    this.app.keepingFocus(() => this.draw());
  }

  /** The order of two rows by the chosen column; what is missing comes last. */
  compare(one, other) {
    const [, read] = this.columns?.find(([name]) => name === this.order) ?? [];
    if (!read) return one.i - other.i;
    const [a, b] = [read(one), read(other)];
    const isMissing = (value) => value === null || value === undefined;
    if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b) || one.i - other.i;
    const sign = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
    return (this.isDown ? -sign : sign) || one.i - other.i;
  }

  row({ i, text: words, expected, answers, values, moved }, hasExpected) {
    const { app } = this;
    const isShown = app.state.item === i;
    const choose = button(isolated(words), () => app.choose(i), {
      class: "line-button",
      "data-key": `example ${i}`,
      "aria-current": isShown ? "true" : null,
    });
    const isScore = answers.some((answer) => answer?.label === null);
    const value = (number) => (number === null ? "" : isScore ? number.toFixed(2) : `${(100 * number).toFixed(1)}%`);
    const cells = answers.flatMap((answer, k) => {
      const isWrong = answer && answer.label !== null && hasExpected && expected && answer.label !== String(expected);
      const said = answer ? `${isWrong ? "✗ " : ""}${answerText(answer, false)}` : "";
      return [tag("td", {}, isolated(said)), tag("td", { class: "number" }, value(values[k]))];
    });
    return tag(
      "tr",
      { "data-key": `row ${i}`, class: isShown ? "shown" : null },
      tag("th", { scope: "row" }, choose),
      hasExpected && tag("td", {}, isolated(String(expected ?? ""))),
      cells,
      answers.length > 1 && tag("td", { class: "number" }, moved === null ? "" : difference(moved, isScore)),
    );
  }
}
