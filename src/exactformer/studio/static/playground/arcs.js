// Attention as arcs between tokens: where one token looks, wider for a larger score, and what it selects.

import { drawing } from "./dom.js";
import { plural, short } from "./format.js";

const STEP = 64;
const SIDE = 44;
const BASE = 150;
const MOST = 16;

// features: a number for every token; scores and selection: a row of attention, or null; hub: what the
// tokens come from, or lead to, where there is no attention
export function arcs({ token, features, scores, selection, hub }) {
  const shown = chosen(features.length, token);
  const at = (k) => edge + STEP * shown.indexOf(k);
  const width = Math.max(260, 2 * SIDE + STEP * (shown.length - 1));
  const edge = (width - STEP * (shown.length - 1)) / 2;
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
  const middle = width / 2;
  if (hub) {
    const half = Math.min(middle - 2, 14 + 4 * hub.length);
    for (const k of shown)
      parts.push(
        drawing("path", { class: "pg-look", d: `M${middle} 52C${middle} 100 ${at(k)} 100 ${at(k)} ${BASE}` }),
      );
    parts.push(
      drawing("rect", {
        class: "pg-look__token pg-look__token--on",
        x: middle - half,
        y: 16,
        width: 2 * half,
        height: 36,
        rx: 18,
      }),
      drawing("text", { class: "pg-look__value", x: middle, y: 39, "text-anchor": "middle" }, hub),
    );
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
    : `${plural(features.length, "token")}: ${shown.map((k) => short(features[k])).join(", ")}`;
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
