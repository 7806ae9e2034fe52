// Attention as arcs between tokens: where one token looks, wider for a larger score, and what it selects.

import { drawing } from "./dom.js";
import { short } from "./format.js";

const STEP = 64;
const SIDE = 44;
const BASE = 150;
const MOST = 16;

// features: a number for every token; scores and selection: a row of attention, or null
export function arcs({ token, features, scores, selection }) {
  const shown = chosen(features.length, token);
  const at = (k) => SIDE + STEP * shown.indexOf(k);
  const width = 2 * SIDE + STEP * (shown.length - 1);
  const parts = [];
  if (scores) {
    const known = shown.map((k) => scores[k]);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    for (const k of shown) {
      const share = high > low ? (scores[k] - low) / (high - low) : 1;
      const isSelected = selection[k] > 0.5;
      parts.push(
        drawing("path", {
          class: isSelected ? "pg-look pg-look--on" : "pg-look",
          d: k === token ? loop(at(k)) : bow(at(token), at(k)),
          "stroke-width": 1 + 3 * share,
        }),
        drawing(
          "text",
          { class: "pg-look__score", x: at(k), y: 20, "text-anchor": "middle" },
          short(scores[k]),
        ),
      );
    }
  }
  for (const k of shown)
    parts.push(
      drawing("rect", {
        class: k === token ? "pg-look__token pg-look__token--on" : "pg-look__token",
        x: at(k) - 24,
        y: BASE,
        width: 48,
        height: 42,
        rx: 8,
      }),
      drawing("text", { class: "pg-look__name", x: at(k), y: BASE + 18, "text-anchor": "middle" }, `${k + 1}`),
      drawing(
        "text",
        { class: "pg-look__value", x: at(k), y: BASE + 34, "text-anchor": "middle" },
        short(features[k]),
      ),
    );
  const label = scores
    ? `Scores of token ${token + 1}: ` +
      shown.map((k) => `${short(scores[k])} with token ${k + 1}`).join(", ")
    : `${features.length} tokens: ${shown.map((k) => short(features[k])).join(", ")}`;
  return drawing(
    "svg",
    {
      class: "pg-looks",
      viewBox: `0 0 ${width} ${BASE + 50}`,
      width,
      height: BASE + 50,
      role: "img",
      "aria-label": label,
    },
    parts,
  );
}

// The first tokens, and the one that looks.
function chosen(count, token) {
  const all = Array.from({ length: Math.min(count, MOST) }, (_, k) => k);
  if (token >= MOST) all[MOST - 1] = token;
  return all;
}

const loop = (x) => `M${x - 8} ${BASE}C${x - 34} ${BASE - 96} ${x + 34} ${BASE - 96} ${x + 8} ${BASE}`;

const bow = (from, to) => {
  const top = BASE - 30 - Math.min(90, 0.32 * Math.abs(to - from));
  return `M${from} ${BASE}C${from} ${top} ${to} ${top} ${to} ${BASE}`;
};
