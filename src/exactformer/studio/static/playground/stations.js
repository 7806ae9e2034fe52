// The stations of a journey, each with its words.

import { counted, minus, short } from "./format.js";

const listed = (tokens, digits) =>
  tokens
    .map((token) => token.map((v) => minus(digits ? short(v, digits) : v)).join(", "))
    .join("; ");

export function stationsOf(found, way) {
  return [
    {
      stage: "input",
      title: "Input",
      words: `${way.input.length === 1 ? "1 token comes" : `${way.input.length} tokens come`} in: ${listed(way.input)}.`,
    },
    { stage: "quantise", title: "Quantise", words: quantising(found, way) },
    ...way.codes.slice(1).map((station, k) => coding(found, station, k + 1)),
    { stage: "keys", title: "Keys", words: keying(found, way) },
    { stage: "values", title: "Values", words: valuing(way) },
  ];
}

function quantising(found, way) {
  const cells = way.cells.map((cell, k) => {
    if (!way.inside[k]) return "outside";
    return cell.length > 1 ? `(${cell.join(", ")})` : cell[0];
  });
  const strides = found.strides.join(", ");
  const positions = found.positional ? ` Positions add ${strides} to the cells' numbers.` : "";
  return `Every token falls into a cell: ${cells.join("; ")}.${positions}`;
}

function coding(found, station, number) {
  const count = found.layers["contextual mapping"];
  const codes = station.codes.map(counted).join(", ");
  return {
    stage: "codes",
    station: number,
    title: `Layer ${station.layer} of ${count}`,
    words:
      `Layer ${station.layer} of the contextual mapping ${whatALayerDoes(found, station, count)}. ` +
      `Codes: ${codes}.`,
  };
}

function whatALayerDoes(found, { layer, moved }, count) {
  if (!moved.length) return "moves nothing";
  if (found.request.form === "four-layer") {
    return layer === 1
      ? "gives every cell its number"
      : "adds the sum over all tokens, which tells the context";
  }
  if (layer === count) {
    return "shifts all tokens by a multiple of the largest code, which tells the context";
  }
  const names = moved.map((k) => k + 1).join(", ");
  return `moves token${moved.length > 1 ? "s" : ""} ${names}, by a multiple of how far apart the codes are`;
}

function keying(found, way) {
  if (way.keys.some((key) => key.context === null)) {
    return "Two tokens share a cell, or one lies outside: there is no key for this, and the output is 0.";
  }
  const place = `${counted(way.keys[0].context)} of ${counted(found.keys.contexts)}`;
  const keys = way.keys.map((key) => counted(key.key)).join(", ");
  return `In context ${place}, every token has a key of its own: ${keys}.`;
}

function valuing(way) {
  const away = short(Math.max(...way.difference.flat()), 3);
  return (
    `Looked up: ${listed(way.output, 4)}. The map itself: ${listed(way.map, 4)}. ` +
    `Largest difference ${away}.`
  );
}
