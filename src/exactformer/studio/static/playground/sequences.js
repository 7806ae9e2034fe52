// The page of a sequence map: its model, and the journey of one input, step by step.

import { element, find } from "./dom.js";
import { following, latest, offerLink, unhurried } from "./fetching.js";
import { counted, minus, short } from "./format.js";
import { allIsWell, complain } from "./notices.js";
import { Player } from "./player.js";
import { Scene } from "./scene.js";
import { State } from "./state.js";
import { stationsOf } from "./stations.js";

const API = "/api/v1/playground/sequences";
const STAGES = {
  quantise: "quantise",
  "contextual mapping": "tell contexts apart",
  reject: "reject",
  values: "look up values",
};

const form = find("controls");
const state = new State(form, () => compile(false));
const ask = { compile: latest(), follow: latest() };
const scene = new Scene(find("scene"));
const player = new Player(find("player"), (step) => {
  form.elements.step.value = step;
  state.keep(false);
  scene.go(player.stations[step], step);
});
const COMPILED = ["map", "tokens", "dim", "cells", "form", "positional"];
let found = null;
let built = ""; // the question that found answers; the form may ask for something else by now

const query = (names) => new URLSearchParams(names.map((name) => [name, state.get(name)])).toString();

async function compile(asNewEntry) {
  document.body.setAttribute("aria-busy", "true");
  try {
    const asked = query(COMPILED);
    const answer = await ask.compile(`${API}?${asked}`);
    if (asked !== query(COMPILED)) return; // what was changed meanwhile is asked for in its turn
    [found, built] = [answer, asked];
    showModel();
    await follow();
    state.keep(asNewEntry);
  } catch (error) {
    complain(error);
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

async function follow() {
  const asked = `${built}&${query(["input"])}`;
  const way = await ask.follow(`${API}/journey?${asked}`);
  allIsWell();
  find("result").hidden = false;
  showNumbers(way);
  showSliders(way);
  find("script").textContent = way.script;
  find("download-script").href = `${API}/script.py?${asked}`;
  scene.show(found, way, about(way));
  player.show(stationsOf(found, way), Number(state.get("step")) || 0);
}

// Lines for pictures that are kept: the map, the input, and what is proven.
function about({ input, request }) {
  const { map, cells, form } = request;
  const tokens = input.map((token) => token.map((v) => minus(v)).join(", ")).join("; ");
  const certified = found.certificate.split("\n").filter((line) => /^ *(table|distance) /.test(line));
  return [
    `Map ${map}, ${cells} cells per side, form ${form}; input ${tokens}.`,
    ...certified.map((line) => line.trim().replace(/ +/, ", ").replaceAll("d_2", "d₂")),
  ];
}

// A certificate's lines, each a name and what holds, as the page for polynomials sets them.
function proof(certificate) {
  const lines = certificate.split("\n").slice(1).filter((line) => line.trim());
  return element(
    "dl",
    { class: "pg-proofs" },
    lines.map((line) => {
      const [, name, words] = line.trim().match(/^(\S+)\s+(.*)$/);
      return element("div", {}, element("dt", {}, name), element("dd", {}, words.replace("d_2", "d₂")));
    }),
  );
}

function showModel() {
  find("summary").textContent = found.summary;
  find("certificate").replaceChildren(proof(found.certificate));
  find("measured").textContent =
    `Measured on ${counted(found.measured.samples ?? 2000)} random inputs: ${found.measured.text.replace("d_2", "d₂")}`;
  const fact = (value, words) =>
    element("li", {}, element("strong", {}, counted(value)), ` ${words}`);
  find("facts").replaceChildren(
    ...Object.entries(found.layers).map(([name, count]) =>
      fact(count, `${count === 1 ? "layer" : "layers"} to ${STAGES[name]}`),
    ),
    fact(found.keys.count, `keys of ${found.key_bits} bits`),
    fact(found.weights, "weights"),
  );
}

function showNumbers(way) {
  const cell = (text) => element("td", { class: "number" }, text);
  const list = (values, digits) =>
    values.map((v) => minus(digits ? short(v, digits) : v)).join(", ");
  find("table").tBodies[0].replaceChildren(
    ...way.input.map((token, k) =>
      element(
        "tr",
        {},
        element(
          "th",
          { scope: "row" },
          element("span", { class: `pg-token pg-token--${k % 5}` }),
          ` ${k + 1}`,
        ),
        cell(list(token)),
        cell(way.inside[k] ? list(way.cells[k]) : "outside"),
        cell(way.inside[k] ? String(way.ids[k]) : "–"),
        cell(counted(way.keys[k].key)),
        cell(list(way.output[k], 6)),
        cell(list(way.map[k], 6)),
        cell(list(way.difference[k], 3)),
      ),
    ),
  );
}

// A slider for every number of the input; they reach a little outside, where everything goes to 0.
function showSliders(way) {
  const place = find("sliders");
  const flat = way.input.flat();
  const names = way.input.flatMap((token, k) =>
    token.map((_, r) => `token ${k + 1}${token.length > 1 ? `, ${r + 1}` : ""}`),
  );
  if (place.childElementCount === names.length && place.dataset.names === names.join()) {
    [...place.querySelectorAll("input")].forEach((input, k) => {
      if (input !== document.activeElement) input.value = flat[k];
    });
  } else {
    place.dataset.names = names.join();
    place.replaceChildren(
      ...names.map((name, k) =>
        element(
          "div",
          { class: "pg-slider" },
          element(
            "label",
            { for: `value-${k}` },
            element("span", {
              class: `pg-token pg-token--${Math.floor(k / way.input[0].length) % 5}`,
            }),
            ` ${name}`,
          ),
          element("input", {
            id: `value-${k}`,
            type: "range",
            min: -0.1,
            max: 1.1,
            step: 0.005,
            value: flat[k],
            oninput: slid,
          }),
          element("output", { class: "mono", for: `value-${k}` }),
        ),
      ),
    );
  }
  [...place.querySelectorAll("output")].forEach(
    (output, k) => (output.textContent = minus(flat[k])),
  );
}

function slid() {
  if (built !== query(COMPILED)) return; // sliders of a model that another is about to replace
  const values = [...find("sliders").querySelectorAll("input")].map((input) => Number(input.value));
  form.elements.input.value = values.join(",");
  state.keep(false);
  moved();
}

const moved = following(() => follow().catch(complain));

function reshaped() {
  form.elements.input.value = "";
  form.elements.step.value = "";
  compile(true);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  compile(true);
});
for (const name of ["tokens", "dim"])
  form.elements[name].addEventListener("input", unhurried(reshaped, 300));
form.elements.cells.addEventListener(
  "input",
  unhurried(() => compile(true), 300),
);
for (const name of ["map", "form", "positional"])
  form.elements[name].addEventListener("change", () => compile(true));
form.elements.input.addEventListener(
  "input",
  unhurried(() => compile(false), 300),
);
offerLink(find("copy-link"));
compile(false);
