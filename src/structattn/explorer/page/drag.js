/** Dragging: an arc by either of its ends, or a new one from a word; a line follows the pointer. */

import { drawn, make } from "./elements.js";
import { Hand } from "./hand.js";
import { clamp } from "./numbers.js";

const STILL = 4; // pixels that a press may move and still be one
const NEAR = 24; // pixels above or below a line of words that still belong to it

/** The end of an arc that is nearer to the pointer: that one moves. */
export function gripped(app, number, { from, to }, along, centres) {
  if (from === null) return new Hand(app, number, "root", null);
  return Math.abs(along - centres[from]) < Math.abs(along - centres[to])
    ? new Hand(app, number, "head", to)
    : new Hand(app, number, "dependent", from);
}

/**
 * Follow the pointer until it is let go.
 * @param {TreeLine} line the line of words
 * @param {() => Hand} grip makes what is in hand. @param {(place: number) => void} drop @param {() => void} press
 */
export function follow(app, start, line, { grip, drop, press }) {
  const { number, centres, inner } = line;
  const stroke = { fill: "none", stroke: "var(--edit)", "stroke-width": 2, "pointer-events": "none" };
  const path = make(drawn("path", stroke));
  const box = inner.getBoundingClientRect();
  let hand = null;
  const placeOf = (event) => {
    const { along, beside } = line.pointer(event, box);
    if (beside > NEAR) return null;
    const gaps = centres.map((centre) => Math.abs(along - centre));
    return gaps.indexOf(Math.min(...gaps));
  };
  const move = (event) => {
    if (!hand && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < STILL) return;
    if (!hand) {
      hand = grip();
      line.drawing.append(path);
    }
    const { along } = line.pointer(event, box);
    const fixed = hand.word === null ? along : centres[hand.word];
    const height = clamp(Math.abs(along - fixed) / 2, 8, line.height - 4);
    path.setAttribute("d", `M${fixed} 0C${fixed} ${-height} ${along} ${-height} ${along} -4`);
    const place = placeOf(event);
    app.point(place === null ? null : [number, place]);
  };
  const end = (event) => {
    for (const [name, listen] of listeners) globalThis.removeEventListener(name, listen, true);
    path.remove();
    if (!hand) return event.type === "pointerup" && press?.();
    const place = event.type === "pointerup" ? placeOf(event) : null;
    app.point(null);
    return drop(place === null || place === hand.word ? null : place);
  };
  const escape = (event) => event.key === "Escape" && end(event);
  const listeners = [
    ["pointermove", move],
    ["pointerup", end],
    ["pointercancel", end],
    ["keydown", escape],
  ];
  for (const [name, listen] of listeners) globalThis.addEventListener(name, listen, true); // before the box keeps keys to itself
}
