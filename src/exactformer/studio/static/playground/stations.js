// The stations of a journey, each with its words.

import { counted, minus, short } from "./format.js";

export function stationsOf(found, way) {
  const n = way.input.length;
  const tokens = (list) =>
    list.length === 1 ? `token ${list[0] + 1}` : `tokens ${list.map((k) => k + 1).join(", ")}`;
  const cells = way.cells.map((cell, k) =>
    way.inside[k] ? (cell.length > 1 ? `(${cell.join(", ")})` : cell[0]) : "outside",
  );
  const count = found.layers["contextual mapping"];
  const isFour = found.request.form === "four-layer";
  const stations = [
    {
      stage: "input",
      title: "Input",
      words: `${n} tokens come in: ${way.input.map((t) => t.map(minus).join(", ")).join("; ")}.`,
    },
    {
      stage: "quantise",
      title: "Quantise",
      words: `Every token falls into a cell: ${cells.join("; ")}.${found.positional ? ` Positions add ${found.strides.join(", ")} to the cells' numbers.` : ""}`,
    },
  ];
  way.codes.slice(1).forEach((station, k) => {
    const codes = station.codes.map((c) => counted(c)).join(", ");
    const isLast = station.layer === count;
    const what = !station.moved.length
      ? "moves nothing"
      : isFour
        ? station.layer === 1
          ? "gives every cell its number"
          : "adds the sum over all tokens, which tells the context"
        : isLast
          ? "shifts all tokens by a multiple of the largest code, which tells the context"
          : `moves ${tokens(station.moved)}, by a multiple of how far apart the codes are`;
    stations.push({
      stage: "codes",
      station: k + 1,
      title: `Layer ${station.layer} of ${count}`,
      words: `Layer ${station.layer} of the contextual mapping ${what}. Codes: ${codes}.`,
    });
  });
  const isKnown = way.keys.every((key) => key.context !== null);
  stations.push({
    stage: "keys",
    title: "Keys",
    words: isKnown
      ? `In context ${way.keys[0].context} of ${counted(found.keys.contexts)}, every token has a key of its own: ${way.keys.map((k) => counted(k.key)).join(", ")}.`
      : "Two tokens share a cell, or one lies outside: there is no key for this, and the output is 0.",
  });
  const away = Math.max(...way.difference.flat());
  stations.push({
    stage: "values",
    title: "Values",
    words: `Looked up: ${way.output.map((t) => t.map((v) => minus(short(v, 4))).join(", ")).join("; ")}. The map itself: ${way.map.map((t) => t.map((v) => minus(short(v, 4))).join(", ")).join("; ")}. Largest difference ${short(away, 3)}.`,
  });
  return stations;
}
