// The transformer as a row of boxes on its residual stream; a box is a button that opens its part.

import { element } from "./dom.js";
import { plural } from "./format.js";

const between = (names) => (names.length > 2 ? `${names[0]} … ${names.at(-1)}` : names.join(", "));

export function diagram(found, selected, open) {
  const box = (key, title, lines) =>
    element(
      "button",
      {
        type: "button",
        class: "pg-box",
        "aria-pressed": String(key === selected),
        onclick: () => open(key),
      },
      element("span", { class: "pg-box__title" }, title),
      lines.map((line) => element("span", { class: "pg-box__line" }, line)),
    );
  const tokens = found.matrices.find((m) => m.path === "embedding.features")?.shape[0] ?? 1;
  const boxes = [
    element(
      "span",
      { class: "pg-end mono" },
      found.variables.length > 3
        ? `${found.variables[0]}, …, ${found.variables.at(-1)}`
        : found.variables.join(", ") || "·",
    ),
    box("embedding", "Embedding", [
      plural(tokens, "token"),
      plural(found.dimensions.length, "dimension"),
    ]),
    ...found.blocks.map((block, b) =>
      box(`block-${b + 1}`, `Block ${b + 1}`, [
        `${plural(block.heads, "head")}`,
        block.rule,
        ...(block.units ? [plural(block.units, "unit")] : []),
        `writes ${between(block.writes) || "nothing"}`,
      ]),
    ),
    box("readout", "Readout", ["⟨β, Z⟩ + b"]),
    element("span", { class: "pg-end mono" }, "Q(x)"),
  ];
  return element(
    "div",
    { class: "pg-flow", role: "group", "aria-label": "Parts of the transformer, in order" },
    boxes,
  );
}
