// Rules for the modules of the explorer's page, of which each must import what it uses though all are joined.
const browser =
  "Blob CSSStyleSheet DecompressionStream Event Image MutationObserver Node ResizeObserver Response TextDecoder TextEncoder " +
  "URL XMLSerializer atob btoa clearTimeout console document fetch getSelection globalThis navigator setTimeout";
const globals = Object.fromEntries(browser.split(" ").map((name) => [name, "readonly"]));
const rules = { eqeqeq: "error", "no-undef": "error", "no-unused-vars": "error", "prefer-const": "error" };
export default [{ files: ["src/structattn/explorer/page/*.js"], languageOptions: { globals }, rules }];
