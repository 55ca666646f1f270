/** The question that the models are asked, and what they answer. */

import { fill, isolated, make, tag } from "./elements.js";
import { same } from "./numbers.js";
import { answerText } from "./wording.js";

export class Title {
  constructor(app) {
    this.app = app;
    const level = app.boot.level ?? 3; // 1 on a page of its own
    this.question = make(tag("div", { class: "question", role: "heading", "aria-level": level }));
    this.verdict = make(tag("div", { class: "verdict" }));
    const parts = [this.question, this.verdict];
    this.element = make(tag("section", { class: "title-card", "aria-label": "question and answer" }, parts));
  }

  draw() {
    const { app } = this;
    fill(this.question, isolated(questionOf(app.boot)));
    fill(
      this.verdict,
      app.now?.map(({ look }, i) => this.line(look, app.earlier[i].look.answer)),
    );
    this.verdict.hidden = !this.verdict.childElementCount;
  }

  line({ model, answer }, before) {
    const text = this.app.boot.models.length > 1 || answer ? `${model}: ` : "";
    const [said, rest] = answer ? [answerText(answer), this.judgement(answer, before)] : ["no prediction", ""];
    return tag(
      "p",
      { class: rest.startsWith("flip") ? "flipped" : "" },
      isolated(text),
      tag("strong", {}, isolated(said)),
      rest && tag("span", { class: "soft" }, ` · ${rest}`),
    );
  }

  /** Right or wrong before an edit; after it, whether the answer holds. */
  judgement(answer, before) {
    const { app } = this;
    const item = app.boot.items[app.state.item];
    if (app.isEdited && before) {
      if (answer.label === null || answer.text)
        return answerText(before) === answerText(answer) ? "as before" : `before ${answerText(before)}`;
      return answer.label === before.label ? "unchanged" : "flipped";
    }
    if (!item?.expected || answer.label === null || !same(item.sentences, app.state.sentences)) return "";
    return answer.label === item.expected ? "right" : "wrong";
  }
}

const MOST_NAMED = 4;

/** The question of a page; by default the labels to choose from. */
function questionOf({ question, title, models }) {
  const { labels } = models[0];
  if (question) return question;
  if (!labels || labels.length > MOST_NAMED) return title;
  const text = labels.join(", ").replace(/, ([^,]*)$/, " or $1");
  return `${text[0].toUpperCase()}${text.slice(1)}?`;
}
