/** Elements of the page; text from outside enters through `textContent` and attributes only. */

import { FONT } from "./style.js";

export const SVG = "http://www.w3.org/2000/svg";

/** An element; `on…` are listeners, the rest attributes; children are elements or texts. */
export function make(name, attributes = {}, ...children) {
  return dress(document.createElement(name), attributes, children);
}
export function drawn(name, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, name), attributes, children);
}
export function dress(element, attributes, children) {
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

export const button = (label, onclick, attributes = {}) =>
  make("button", { type: "button", onclick, ...attributes }, label);

/** Text of either direction within other text. */
export const isolated = (text, attributes = {}) => make("bdi", attributes, text);

/** A row of buttons, one of which is pressed. */
export function segmented(name, options, chosen, choose) {
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
export function textWidth(text, size) {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = `${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/u;
const LETTER = /\p{L}/u;
export const UPRIGHT = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}]/u; // in columns

/** Whether most letters are of a right-to-left script. */
export function isRightToLeft(words) {
  const letters = [...words.join("")].filter((letter) => LETTER.test(letter));
  return letters.filter((letter) => RIGHT_TO_LEFT.test(letter)).length * 2 > letters.length;
}

export const isField = (event) => ["INPUT", "TEXTAREA", "SELECT"].includes(event.composedPath()[0].tagName);

/** What identifies a control when it is drawn anew. */
export function keyOf(control) {
  const { key, word } = control.dataset;
  const name = key ?? word ?? control.getAttribute("aria-label") ?? control.textContent;
  return [
    control.closest("[aria-label]:not(button,input,select)")?.getAttribute("aria-label"),
    control.tagName,
    name,
  ].join();
}
