/** Palettes, inks and scales; the palettes are those of `pictures/colours.py`, as even steps, and a test compares them. */

import { clamp } from "./numbers.js";

const PALETTES = {
  sequential: {
    light:
      "f6fbfd dcf2f7 c1e9ef a5e0e7 8ad0de 71c1d7 5ab2d0 48a4ca 3e96c4 3788bd 347bb7 326db0 3260a7 305098 2d4088 2a3078 262067",
    dark: "1b1e24 20293b 273253 2f3b6a 344d84 32649d 2a79b1 218bba 1c9cc1 21adc6 31bfca 4ccbc6 6cd6bf 8de0ba aee9b7 d0f1b8 f1fac0",
  },
  diverging: {
    light:
      "1e3f7f 2c599a 3b75b6 4f90cf 6ea8db 8fc1e9 b2d9f5 d4e7f6 f6f6f6 f5e1d0 f3ceac ecb689 e49c68 dd824a ca6632 a84822 852a12",
    dark: "97ddf9 72c0e9 54a5db 3b8ccd 3973ad 395d87 344863 2c3442 232323 45312a 663e2e 864a31 a75631 c56533 d7884d e7aa6d f7cc91",
  },
};

// Orange is what raises or supports, blue what lowers or opposes, as at the ends of the diverging palette.
export const INKS = {
  light: {
    paper: "#ffffff",
    ground: "#f4f6f8",
    ink: "#1b1f24",
    soft: "#5b6470",
    rule: "#d5dae0",
    hatch: "#b4bbc4",
    chip: "#f1f4f7",
    border: "#848d99",
    raises: "#b8520f",
    lowers: "#2b5fa8",
    edit: "#8a3a8f",
    accent: "#12766a",
    error: "#a1283f",
  },
  dark: {
    paper: "#14171c",
    ground: "#0d0f12",
    ink: "#e8eaed",
    soft: "#a3abb6",
    rule: "#39404a",
    hatch: "#4a525d",
    chip: "#21262d",
    border: "#6f7883",
    raises: "#f0a15c",
    lowers: "#6fb1f0",
    edit: "#d79be0",
    accent: "#4cc9b0",
    error: "#f08a9b",
  },
};

/** "dark" or "light": that of the notebook if there is one, else of the system. */
export function themeOf({ dataset, classList }) {
  if (dataset.jpThemeLight) return dataset.jpThemeLight === "false" ? "dark" : "light";
  if (classList.contains("vscode-dark")) return "dark";
  return globalThis.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

const LEVELS = 256;
const tables = new Map();

/** Red, green and blue of every level of a palette. */
function levels(palette, theme) {
  const key = `${palette} ${theme}`;
  if (!tables.has(key)) {
    const stops = PALETTES[palette][theme]
      .split(" ")
      .map((stop) => [0, 2, 4].map((i) => parseInt(stop.slice(i, i + 2), 16)));
    const table = Array.from({ length: LEVELS + 1 }, (_, level) => {
      const place = (level / LEVELS) * (stops.length - 1);
      const step = Math.min(Math.floor(place), stops.length - 2);
      return stops[step].map((from, i) => Math.round(from + (stops[step + 1][i] - from) * (place - step)));
    });
    tables.set(key, table);
  }
  return tables.get(key);
}

/** How a number becomes a colour: from 0 to `limit`, or from −`limit` to `limit` for changes. */
export class Scale {
  constructor(limit, diverging, theme) {
    Object.assign(this, { limit: limit || 1, diverging });
    this.table = levels(diverging ? "diverging" : "sequential", theme);
  }

  rgb(value, limit = this.limit) {
    const share = this.diverging ? (value / limit + 1) / 2 : value / limit;
    return this.table[Math.round(LEVELS * clamp(share, 0, 1))];
  }

  css(value, limit) {
    return `rgb(${this.rgb(value, limit).join(" ")})`;
  }

  hex(value, limit) {
    return (
      "#" +
      this.rgb(value, limit)
        .map((part) => part.toString(16).padStart(2, "0"))
        .join("")
    );
  }

  /** Ink that can be read on the colour of a value. */
  inkOn(value, limit) {
    const [red, green, blue] = this.rgb(value, limit).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.205 ? "#14171c" : "#ffffff";
  }
}
