// The page of a coupling: kernel, singular values, and what a head of m dimensions loses.

import { element, find, mathematics } from "./dom.js";
import { following, latest, offerLink, unhurried } from "./fetching.js";
import { atMost, minus, plural, short } from "./format.js";
import { Heatmap, panelOf } from "./heatmap.js";
import { allIsWell, complain } from "./notices.js";
import { Pad } from "./pad.js";
import { frozen, keeping } from "./picture.js";
import { barPlot, linePlot } from "./plot.js";
import { State } from "./state.js";

const API = "/api/v1/playground/couplings";
const form = find("controls");
const state = new State(form, () => {
  arrange(false);
  pad.read(state.get("drawing"));
  isNewEntry = false;
  decompose(false);
});
const ask = latest();
const pad = new Pad(find("pad-place"), (text) => {
  form.elements.drawing.value = text;
  redrawn();
});
const maps = {};
let isNewEntry = false; // of the history, for what is asked for and not answered yet

function family() {
  const option = form.elements.kernel.selectedOptions[0];
  return { name: option.value, ...option.dataset };
}

// Show the controls that belong to the kernel; a family chosen anew begins with its usual parameter.
function arrange(isNew) {
  const { name, parameter, least, most, usual, formula } = family();
  const wanted = {
    parameter: Boolean(parameter),
    formula: name === "formula",
    drawn: name === "drawn",
  };
  for (const [key, isWanted] of Object.entries(wanted))
    document.querySelector(`[data-for="${key}"]`).toggleAttribute("data-plain", !isWanted);
  const input = form.elements.parameter;
  input.disabled = !parameter;
  if (parameter) {
    find("parameter-label").textContent = `${parameter}, from ${Number(least)} to ${Number(most)}`;
    Object.assign(input, { min: least, max: most });
    if (isNew || input.value === "") input.value = Number(usual);
  }
  form.elements.formula.disabled = name !== "formula";
  form.elements.drawing.disabled = name !== "drawn";
  find("kernel-formula").replaceChildren(
    ...(formula ? [mathematics(`\\rho(u, v) = ${formula}`)] : []),
  );
}

async function decompose(asNewEntry) {
  isNewEntry ||= asNewEntry;
  const asked = state.query();
  try {
    const found = await ask(`${API}?${asked}`);
    allIsWell();
    find("result").hidden = false;
    if (asked === state.query()) {
      state.keep(isNewEntry); // and what was changed meanwhile in its turn
      isNewEntry = false;
    }
    show(found);
  } catch (error) {
    complain(error);
  }
}

let last = null;
addEventListener(
  "resize",
  unhurried(() => last && show(last), 150),
);

// Lines for pictures that are kept: the kernel, the head size, and the bound.
function about({ request, head_dim, energy, tail, bound }) {
  const option = [...form.elements.kernel.options].find((each) => each.value === request.kernel);
  const { parameter, usual } = option.dataset;
  const kernel =
    request.kernel === "formula"
      ? `ρ(u, v) = ${request.formula}`
      : `Kernel: ${option.textContent}${parameter ? `, ${parameter} = ${request.parameter ?? Number(usual)}` : ""}`;
  return [
    `${kernel}. Head size m = ${head_dim}.`,
    `Lost of ∫∫ρ²: ${short(100 * energy)} %. Tail T = ${short(tail, 4)}. ` +
      `Contribution to the bound, per token of ${bound.tau}: ${atMost(bound.term, 4)}.`,
  ];
}

function show(found) {
  last = found;
  find("m-value").textContent = state.get("m");
  showKernels(found);
  showNumbers(found);
  const count = plural(found.singular_values.length, "singular value");
  const label = `${count}, the first ${found.head_dim} kept`;
  find("chart").replaceChildren(
    barPlot(found.singular_values, found.head_dim, { label, width: find("chart").clientWidth }),
    keeping(() => ({
      ...frozen(find("chart").querySelector("svg")),
      title: `Singular values, the first ${found.head_dim} kept`,
      lines: about(found),
    })),
  );
  find("decay").textContent = `Decay: ${found.decay.split("\n")[0].replace("-", "−")}.`;
  find("trust").textContent = `σ is accurate to ${plural(found.digits, "digit")}.`;
  const cell = (value) => element("td", { class: "number" }, short(value, 6));
  find("table").tBodies[0].replaceChildren(
    ...found.singular_values.map((value, k) =>
      element(
        "tr",
        {},
        element("th", { scope: "row", class: "number" }, String(k + 1)),
        cell(value),
        cell(found.tails[k + 1]),
      ),
    ),
  );
  showModes(found);
}

function showKernels(found) {
  const rows = found.points.map((u) => `u = ${u.toFixed(3)}`);
  const columns = found.points.map((v) => `v = ${v.toFixed(3)}`);
  const titles = {
    kernel: "ρ",
    truncated: `its first ${plural(found.head_dim, "term")}`,
    difference: "what is lost",
  };
  const most = (key) => Math.max(...found[key].flat().map(Math.abs));
  // One scale for all three: what is lost looks as small as it is.
  const largest = Math.max(most("kernel"), most("truncated"));
  for (const [key, title] of Object.entries(titles)) {
    const panel = panelOf(found[key], rows, columns);
    const options = {
      title,
      note: `up to ${atMost(most(key))}`,
      names: false,
      ruled: false,
      tall: 340,
      axes: { row: "u", column: "v", ends: ["0", "1"] },
      largest,
      about: about(found),
      summary: "rows u, columns v",
    };
    if (maps[key]) maps[key].show(panel, options);
    else {
      maps[key] = new Heatmap(panel, options);
      find("kernels").append(maps[key].place);
      maps[key].draw();
    }
  }
}

function showNumbers(found) {
  const item = (name, value) =>
    element("div", {}, element("dt", {}, name), element("dd", { class: "mono" }, value));
  find("numbers").replaceChildren(
    item("lost of ∫∫ρ²", `${short(100 * found.energy)} %`),
    item(`tail T beyond ${found.head_dim}`, short(found.tail, 4)),
    item("diagonal D", short(found.bound.diagonal, 4)),
    item("largest difference seen", short(found.largest_difference, 4)),
    item("contribution to the bound, per token", atMost(found.bound.term, 4)),
  );
}

function showModes(found) {
  const figure = (k) => {
    const curve = (values, extra) => ({
      points: found.points.map((p, i) => [p, values[i]]),
      class: extra,
    });
    const plot = linePlot(
      [curve(found.modes.left[k]), curve(found.modes.right[k], "pg-curve--right")],
      {
        label: `Singular functions ${k + 1}`,
        xName: "u, v",
        ends: [0, 1],
        height: 180,
        width: 320,
      },
    );
    const state = `σ = ${minus(short(found.singular_values[k], 4))}${k < found.head_dim ? "" : ", lost"}`;
    const title = `Singular functions ${k + 1}, ${state}`;
    const lines = ["φ(u) solid, ψ(v) dashed.", ...about(found)];
    return element(
      "figure",
      { class: "pg-mode", "data-kept": String(k < found.head_dim) },
      element(
        "figcaption",
        {},
        element("strong", {}, `k = ${k + 1} `),
        element("span", { class: "muted small" }, state),
      ),
      plot,
      keeping(() => ({ ...frozen(plot), title, lines })),
    );
  };
  find("modes").replaceChildren(...found.modes.left.map((_, k) => figure(k)));
}

const redrawn = following(() => decompose(false));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  decompose(true);
});
form.elements.kernel.addEventListener("change", () => {
  arrange(true);
  decompose(true);
});
form.elements.m.addEventListener("input", () => {
  find("m-value").textContent = state.get("m");
  redrawn();
});
for (const name of ["parameter", "formula"])
  form.elements[name].addEventListener(
    "input",
    unhurried(() => decompose(false), 300),
  );
offerLink(find("copy-link"));
arrange(false);
pad.read(state.get("drawing"));
decompose(false);
