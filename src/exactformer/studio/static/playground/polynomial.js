// The page of a polynomial: live reading, compiling, looking inside, moving x.

import { arcs } from "./arcs.js";
import { diagram } from "./diagram.js";
import { element, find, mathematics } from "./dom.js";
import { following, latest, offerLink, unhurried, wasTakenBack } from "./fetching.js";
import { atMost, minus, short } from "./format.js";
import { Heatmap } from "./heatmap.js";
import { allIsWell, complain, markStale, remedyOf } from "./notices.js";
import { partsOf, within } from "./parts.js";
import { frozen, keeping } from "./picture.js";
import { Player } from "./player.js";
import { Shape } from "./shape.js";
import { Sliders } from "./sliders.js";
import { State } from "./state.js";

const API = "/api/v1/playground/polynomial";
const LONGEST_FRACTION = 24;
const LONGEST_CAPTION = 240;
const LONG = 12; // terms of a polynomial that are shown unasked
const COMPILED = ["p", "radius", "construction", "directions", "dtype"];

const form = find("controls");
const state = new State(form, refresh);
const ask = { parse: latest(), compile: latest(), trace: latest() };
const shape = new Shape(find("surface"), state);
const sliders = new Sliders(find("sliders"), moved);
const player = new Player(find("player"), arrived);
let found = null;
let built = ""; // the question that found answers; the form may ask for something else by now
let at = null;
let told = []; // about the walk that is shown
let wasMoved = false;
let shown = new Map();

const query = (names) => new URLSearchParams(names.map((name) => [name, state.get(name)])).toString();

function say(message) {
  find("status").textContent = message;
}

// Reading, with every key

function showReading(said) {
  const input = form.elements.p;
  const caret = find("caret");
  const line = find("said");
  input.setAttribute("aria-invalid", String(!said.ok));
  caret.hidden = said.ok || !said.column;
  caret.textContent = said.column ? `${" ".repeat(said.column - 1)}^` : "";
  caret.scrollLeft = input.scrollLeft;
  line.replaceChildren(...(said.ok ? written(said) : refused(said)));
  if (!said.ok) markStale();
  return said.ok;
}

function written(said) {
  if (said.terms <= LONG) return [mathematics(said.latex)];
  return [
    element(
      "details",
      { class: "pg-details" },
      element("summary", {}, `${said.terms} terms of degree ${said.degree}: show`),
      mathematics(said.latex),
    ),
  ];
}

function refused(said) {
  const place = said.column ? ` (character ${said.column})` : "";
  return [element("span", { class: "field__error" }, said.problem + place), ...remedyOf(said)];
}

async function readText() {
  try {
    return showReading(await ask.parse(`${API}/parse?${query(["p"])}`));
  } catch (error) {
    if (!wasTakenBack(error)) complain(error);
    return false;
  }
}

const typed = unhurried(async () => {
  if (await readText()) compile(true);
}, 250);

// Compiling

async function compile(asNewEntry) {
  document.body.setAttribute("aria-busy", "true");
  try {
    const asked = query(COMPILED);
    const answer = await ask.compile(`${API}?${asked}`);
    if (asked !== query(COMPILED)) return; // what is typed meanwhile is read and asked for in its turn
    allIsWell();
    if (found && String(found.variables) !== String(answer.variables)) form.elements.axes.value = "";
    [found, built] = [answer, asked];
    at = null;
    if (!fits(state.get("x"))) form.elements.x.value = "";
    if (!state.get("x")) form.elements.x.value = found.start;
    showModel();
    state.keep(asNewEntry);
    await trace();
    say(`Built. ${find("facts").innerText.replaceAll("\n", ", ")}.`);
  } catch (error) {
    complain(error);
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

const fits = (x) => x !== "" && x.split(",").length === found.variables.length;

function showModel() {
  find("result").hidden = false;
  const [tokens, width, , , , total] = found.counts;
  const proof = found.certificate.zero_error
    ? element("span", { class: "badge badge--good" }, "error zero, proven")
    : element(
        "span",
        { class: "badge badge--accent" },
        `error ≤ ${atMost(found.certificate.bound, 2)}, proven`,
      );
  const fact = (value, words) =>
    element("li", {}, element("strong", {}, String(value)), ` ${words}`);
  find("facts").replaceChildren(
    fact(tokens.model, tokens.model === "1" ? "token" : "tokens"),
    fact(width.model, "dimensions"),
    fact(found.blocks.length, found.blocks.length === 1 ? "block" : "blocks"),
    fact(total.model, total.model === "1" ? "non-zero weight" : "non-zero weights"),
    element("li", {}, proof),
  );
  showCounts();
  showCertificate();
  find("script").textContent = found.script;
  find("download-model").href = `${API}/model.safetensors?${built}`;
  find("download-script").href = `${API}/script.py?${built}`;
  find("download-law").href = `${API}/law.v?${built}`;
  find("download-law").hidden = found.request.construction === "softmax";
  sliders.show(found.variables, Number(reach()), state.get("x"));
  const asked = state.get("x");
  wasMoved = String(asked.split(",").map(Number)) !== String(sliders.values());
  if (wasMoved) form.elements.x.value = sliders.values().join(",");
  find("cost-note").textContent = found.cost_note;
  shown = new Map();
  find("panels").replaceChildren();
}

function reach() {
  const [numerator, denominator = "1"] = found.radius.split("/");
  return Number(numerator) / Number(denominator);
}

function showCounts() {
  const cell = (value) => element("td", { class: "number" }, value ?? "–");
  find("counts").tBodies[0].replaceChildren(
    ...found.counts.map((row) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, row.name),
        cell(row.model),
        cell(row.formula),
        cell(row.bound),
      ),
    ),
  );
}

function showCertificate() {
  const item = (name, words) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, words));
  const { proofs, formats } = found.certificate;
  find("certificate").replaceChildren(
    element("p", {}, `On ${found.domain}, proven from the weights alone:`),
    element(
      "dl",
      { class: "pg-proofs" },
      proofs.map((proof) => item(proof.name, proof.claim)),
      formats.map((format) => item(format.name, format.guarantee)),
    ),
    element("p", { class: "small muted pg-digest" }, `Blueprint ${found.digest}`),
  );
}

// Looking inside

function parts() {
  return partsOf(found, at, state.get("head"));
}

function showParts() {
  const all = parts();
  const wanted = state.get("part");
  const present = all.find((part) => part.key === wanted) ?? all[Math.min(1, all.length - 1)];
  find("diagram").replaceChildren(diagram(found, present.key, open));
  const tabs = find("parts");
  tabs.hidden = false;
  tabs.replaceChildren(
    ...all.map((part) =>
      element(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${part.key}`,
          "aria-selected": String(part.key === present.key),
          "aria-controls": "panels",
          tabindex: part.key === present.key ? "0" : "-1",
          onclick: () => open(part.key),
          onkeydown: (event) => step(event, all, part.key),
        },
        part.name,
      ),
    ),
  );
  showHeads(present);
  showPanels(present);
}

function showHeads(part) {
  const place = find("heads");
  place.hidden = !(part.heads > 1);
  if (place.hidden) return;
  const select = place.querySelector("select");
  if (select.options.length !== part.heads) {
    select.replaceChildren(
      ...Array.from({ length: part.heads }, (_, k) =>
        element("option", { value: k + 1 }, `${k + 1} of ${part.heads}`),
      ),
    );
  }
  select.value = within(state.get("head"), part);
}

function step(event, all, key) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  const next = all[(all.findIndex((part) => part.key === key) + by + all.length) % all.length];
  event.preventDefault();
  open(next.key);
  find(`tab-${next.key}`).focus();
}

function open(key) {
  form.elements.part.value = key;
  state.keep(false);
  const focused = document.activeElement?.classList.contains("pg-box");
  shown = new Map();
  find("panels").replaceChildren();
  showParts();
  if (focused) find("diagram").querySelector('[aria-pressed="true"]')?.focus();
}

// Heat maps stay where they are while x moves; only what they show changes.
function showPanels(part) {
  const panels = find("panels");
  panels.setAttribute("role", "tabpanel");
  panels.setAttribute("aria-labelledby", `tab-${part.key}`);
  for (const group of part.groups) {
    let place = shown.get(group.title);
    if (!place) {
      const body = element("div", { class: "pg-maps" });
      panels.append(
        element(
          "div",
          { class: "stack stack--tight" },
          element("h3", {}, group.title),
          group.note ? element("p", { class: "muted small" }, group.note) : null,
          body,
        ),
      );
      place = { body, maps: new Map() };
      shown.set(group.title, place);
    }
    for (const { id, panel, options: own } of group.panels) {
      const options = { ...own, about: about() };
      const map = place.maps.get(id);
      if (map) map.show(panel, options);
      else {
        const made = new Heatmap(panel, options);
        place.maps.set(id, made);
        place.body.append(made.place);
        made.draw();
      }
    }
  }
}

// Moving x

function moved(values) {
  wasMoved = false;
  form.elements.x.value = values.join(",");
  state.keep(false);
  follow();
}

const follow = following(trace);

async function trace() {
  const output = find("output");
  try {
    at = await ask.trace(`${API}/trace?${built}&${query(["x"])}`);
    showOutput(output);
  } catch (error) {
    if (wasTakenBack(error)) return;
    at = null;
    output.replaceChildren(
      element("p", { class: "notice notice--warn" }, error.message, ...remedyOf(error)),
    );
  }
  told = about();
  find("walk").hidden = !at;
  if (at) player.show(at.walk, Number(state.get("step")) || 0);
  showParts();
  shape.show(found, built, at, told);
}

// The walk: what every part does with this x, in words, and where a token looks.

function arrived(step, isMove) {
  const station = player.stations[step];
  form.elements.step.value = step;
  if (isMove && station.part !== form.elements.part.value) open(station.part);
  else state.keep(false);
  const [drawn, lines] = [arcs(station), [station.words, ...told]];
  find("arcs").replaceChildren(
    drawn,
    keeping(() => ({ ...frozen(drawn), title: `Where token ${station.token + 1} looks: ${station.title}`, lines })),
  );
}

// Lines for pictures that are kept: the polynomial, the point, and what is proven.
function about() {
  const { text } = found.target;
  const { construction, dtype } = found.request;
  const { zero_error: isExact, bound } = found.certificate;
  const shown = text.length > LONGEST_CAPTION ? `${text.slice(0, LONGEST_CAPTION)}…` : text;
  const place = at ? `, x = (${at.x.map((c) => minus(short(c, 6))).join(", ")})` : "";
  return [
    `${shown} on ${found.domain}${place}. Construction ${construction}, ${dtype}.`,
    `Certified: ${isExact ? "error zero in exact arithmetic, " : "error "}at most ${atMost(bound, 2)} in ${dtype}.`,
  ];
}

function showOutput(output) {
  const note = wasMoved ? "x lay outside of the ball, where nothing is proven. It was moved inside." : "";
  const item = (name, ...words) =>
    element("div", {}, element("dt", {}, name), element("dd", { class: "mono" }, ...words));
  output.replaceChildren(
    note ? element("p", { class: "small", role: "status" }, note) : "",
    element(
      "dl",
      { class: "pg-values" },
      item("the transformer", minus(at.output)),
      at.target_exact.length > LONGEST_FRACTION || at.target_exact.includes("/")
        ? item("the polynomial, rounded once", decimal(at))
        : item("the polynomial, exactly", minus(at.target_exact)),
      item("difference", at.difference === 0 ? "0" : short(at.difference)),
      item("certified bound", atMost(at.bound)),
    ),
  );
}

// A line about what was chosen.
function explain(name) {
  find(`${name}-hint`).textContent = form.elements[name].selectedOptions[0].dataset.hint;
}

// A decimal; the fraction that it stands for comes up on hovering.
function decimal({ target, target_exact }) {
  return element("span", { title: `exactly ${minus(target_exact)}` }, minus(target));
}

// The page and its address

async function refresh() {
  ["construction", "directions", "dtype"].forEach(explain);
  if (await readText()) await compile(false);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await readText()) compile(true);
});
form.elements.p.addEventListener("input", typed);
form.elements.p.addEventListener(
  "scroll",
  () => (find("caret").scrollLeft = form.elements.p.scrollLeft),
);
form.elements.radius.addEventListener(
  "input",
  unhurried(() => compile(true), 400),
);
for (const name of ["construction", "directions", "dtype"])
  form.elements[name].addEventListener("change", () => {
    explain(name);
    compile(true);
  });
find("head-choice").addEventListener("change", (event) => {
  form.elements.head.value = event.target.value;
  state.keep(false);
  showParts();
});
offerLink(find("copy-link"));
if (form.elements.p.getAttribute("aria-invalid") !== "true") compile(false);
