/** Numbers and counts as texts; small helpers of arrays. */

export const MOST_WORDS = 256;
export const MOST_INFLUENCE = 60; // leave-one-out runs the model once per word
export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
export const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
export const sum = (values) => values.reduce((total, value) => total + value, 0);

/** A number with a real minus sign: "0.079", "−0.9", "1.4". */
export function short(value, digits = 3) {
  const text = Math.abs(value).toFixed(digits);
  return (value < 0 && Number(text) !== 0 ? "−" : "") + text;
}
const signed = (value, digits) => (value > 0 ? "+" : "") + short(value, digits);

/** A difference of two answers: in points of a probability, or of a score. */
export const difference = (value, isScore) => (isScore ? signed(value, 2) : `${signed(100 * value, 1)} points`);
