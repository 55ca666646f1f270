/** Elements of the page are described, and `fill` changes those that are there: what stays the same is not drawn anew.
 * Text from outside enters through text nodes and attributes only. */

import { FONT } from "./style.js";

export const SVG = "http://www.w3.org/2000/svg";

/** The description of an element: `on…` are listeners, `style` an object of properties, `ref` is given the element, the
 * rest are attributes; children are descriptions, elements or texts. Among siblings `data-key` tells equals apart. */
export const tag = (name, attributes = {}, ...children) => ({ name, attributes, children });
export const drawn = (name, attributes = {}, ...children) => ({ name, attributes, children, isDrawn: true });

/** The element that is described. */
export function make(description) {
  const { name, isDrawn } = description;
  return update(isDrawn ? document.createElementNS(SVG, name) : document.createElement(name), description);
}

/** Make the content of an element what is described; elements of the same name and key stay, and change. */
export function fill(parent, ...children) {
  const wanted = collect(children, []);
  let node = parent.firstChild;
  let first = 0;
  for (; node && first < wanted.length && isOf(node, wanted[first]); first++, node = node.nextSibling)
    apply(node, wanted[first]);
  if (node || first < wanted.length) rearrange(parent, node, wanted.slice(first));
}

function collect(children, list) {
  for (const child of children) {
    if (Array.isArray(child)) collect(child, list);
    else if (child !== null && child !== undefined && child !== false && child !== "") list.push(child);
  }
  return list;
}

/** Fill the content from a node on, where it is not the same as before. */
function rearrange(parent, start, wanted) {
  const last = start ? start.previousSibling : parent.lastChild;
  const spare = [];
  for (let node = start; node; node = node.nextSibling) spare.push(node);
  const nodes = wanted.map((child) => {
    const place = spare.findIndex((node) => isOf(node, child));
    if (place >= 0) return apply(spare.splice(place, 1)[0], child);
    if (child instanceof Node) return child;
    return child.name ? make(child) : document.createTextNode(child);
  });
  for (const node of spare) node.remove();
  let next = last ? last.nextSibling : parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = node.nextSibling;
    else parent.insertBefore(node, next);
  }
}

const kinds = new WeakMap(); // of elements that were described; others are never changed into something else
const lastAttributes = new WeakMap();
const kindOf = ({ name, attributes }) => `${name} ${attributes["data-key"] ?? ""}`;

/** Whether a node can become what is wanted. */
function isOf(node, wanted) {
  if (wanted instanceof Node) return node === wanted;
  return wanted.name ? kinds.get(node) === kindOf(wanted) : node.nodeType === Node.TEXT_NODE;
}

function apply(node, wanted) {
  if (wanted.name && !(wanted instanceof Node)) return update(node, wanted);
  if (!(wanted instanceof Node) && node.nodeValue !== String(wanted)) node.nodeValue = wanted;
  return node;
}

function update(element, description) {
  const { attributes, children } = description;
  const last = lastAttributes.get(element) ?? {};
  for (const key of Object.keys(last)) if (!(key in attributes)) set(element, key, null, last[key]);
  for (const [key, value] of Object.entries(attributes))
    if (value !== last[key] || key === "selected") set(element, key, value, last[key]);
  lastAttributes.set(element, attributes);
  kinds.set(element, kindOf(description));
  fill(element, ...children);
  attributes.ref?.(element);
  return element;
}

function set(element, key, value, last) {
  if (key === "ref") return;
  if (key === "style") {
    for (const name of Object.keys(last ?? {})) if (!(name in (value ?? {}))) element.style[name] = "";
    for (const [name, content] of Object.entries(value ?? {}))
      if (content !== last?.[name]) element.style[name] = content;
  } else if (key.startsWith("on")) {
    element[key] = value && ((event) => void value(event)); // a listener that returned false would cancel the event
  } else if (key === "value" || key === "selected") {
    if (element[key] !== value) element[key] = value; // the property: the attribute counts only until a person acts
  } else if (value === null || value === undefined || value === false) element.removeAttribute(key);
  else element.setAttribute(key, value === true ? "" : value);
}

export const button = (label, onclick, attributes = {}) =>
  tag("button", { type: "button", onclick, ...attributes }, label);

/** Text of either direction within other text. */
export const isolated = (text, attributes = {}) => tag("bdi", attributes, text);

/** A row of buttons, one of which is pressed. */
export function segmented(name, options, chosen, choose) {
  const buttons = options.map(([value, label, off]) =>
    button(label, () => choose(value), {
      "aria-pressed": String(value === chosen),
      disabled: Boolean(off),
      title: off,
    }),
  );
  return tag(
    "span",
    { class: "segments", role: "group", "aria-label": name },
    tag("span", { class: "soft" }, name),
    buttons,
  );
}

let measuring = null;
const measured = new Map();
const MOST_MEASURED = 5000;

/** Width of a text in the font of the page. */
export function textWidth(text, size) {
  const key = `${size} ${text}`;
  if (!measured.has(key)) {
    measuring ??= document.createElement("canvas").getContext("2d");
    measuring.font = `${size}px ${FONT}`;
    if (measured.size > MOST_MEASURED) measured.clear();
    measured.set(key, measuring.measureText(text).width);
  }
  return measured.get(key);
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
