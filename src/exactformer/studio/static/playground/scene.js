// Four panels, left to right as in the proof; each comes to life when the journey reaches it. A
// token keeps its colour throughout, and moves by a transition of the page's styles, which a
// reader may have switched off.

import { drawing, element } from "./dom.js";
import { counted, minus, plural, short } from "./format.js";
import { frozen, keeping } from "./picture.js";

const W = 300;
const H = 300;
const AREA = { left: 46, right: 14, top: 16, bottom: 36 };
const ORDER = ["input", "quantise", "codes", "keys", "values"];

export class Scene {
  constructor(place) {
    this.place = place;
  }

  // about: lines for pictures that are kept
  show(found, way, about) {
    Object.assign(this, { found, way });
    const panel = (number, title, note) => panelOf(number, title, note, about);
    this.panels = {
      quantise: panel("1", "Quantise", "cells and their numbers"),
      codes: panel("2", "Contextual mapping", "codes, layer by layer"),
      keys: panel(
        "3",
        "Keys",
        `${counted(found.keys.count)}, in ${plural(found.keys.contexts, "context")}`,
      ),
      values: panel("4", "Values", "dots: transformer, rings: map"),
    };
    this.drawCells();
    this.drawCodes();
    this.drawKeys();
    this.drawValues();
    this.place.replaceChildren(...Object.values(this.panels).map((p) => p.place));
  }

  go(station) {
    const reached = ORDER.indexOf(station.stage);
    const state = (name) => (ORDER.indexOf(name) <= Math.max(reached, 1) ? "reached" : "ahead");
    for (const [name, { place }] of Object.entries(this.panels)) {
      place.dataset.state = state(name);
      place.dataset.present = String(
        name === station.stage || (name === "quantise" && station.stage === "input"),
      );
    }
    this.place.dataset.stage = station.stage;
    for (const { dot, from, to, box, label } of this.cells) {
      const isIn = reached >= 1;
      move(dot, isIn && to ? to : from);
      box?.classList.toggle("pg-shown", isIn);
      label.classList.toggle("pg-shown", isIn);
    }
    const last =
      station.stage === "codes" ? station.station : reached > 2 ? this.way.codes.length - 1 : 0;
    this.reveal(last);
    this.panels.keys.svg.classList.toggle("pg-lit", reached >= 3);
    for (const { dot, from, to } of this.values) move(dot, reached >= 4 ? to : from);
  }

  drawCells() {
    const { svg } = this.panels.quantise;
    const { way, found } = this;
    const N = found.request.cells;
    const isPlane = way.input[0].length > 1;
    const n = way.input.length;
    const all = way.input.flat();
    const [low, high] = [Math.min(0, ...all), Math.max(1, ...all)];
    const Y = scale(low, high, H - AREA.bottom, AREA.top);
    const X = isPlane
      ? scale(low, high, AREA.left, W - AREA.right)
      : scale(0.5, n + 0.5, AREA.left, W - AREA.right);
    for (let k = 0; k <= N && N <= 32; k++) {
      svg.append(rule(AREA.left, W - AREA.right, Y(k / N), Y(k / N)));
      if (isPlane) svg.append(rule(X(k / N), X(k / N), Y(0), Y(1)));
    }
    axis(svg, Y, [0, 1], isPlane ? "coordinate 2" : "coordinate");
    if (isPlane) words(svg, (AREA.left + W - AREA.right) / 2, H - 10, "coordinate 1", "middle");
    else way.input.forEach((_, k) => words(svg, X(k + 1), H - 10, String(k + 1), "middle"));
    const boxes = drawing("g");
    svg.append(boxes);
    this.cells = way.input.map((x, k) => {
      const from = isPlane ? [X(x[0]), Y(x[1])] : [X(k + 1), Y(x[0])];
      const corner = way.cells[k].map((c) => c / N);
      const to = way.inside[k]
        ? isPlane
          ? [X(corner[0]), Y(corner[1])]
          : [X(k + 1), Y(corner[0])]
        : null;
      let box = null;
      if (way.inside[k]) {
        const side = Math.abs(Y(1 / N) - Y(0));
        const wide = isPlane ? Math.abs(X(1 / N) - X(0)) : 0.7 * (X(2) - X(1));
        box = drawing("rect", {
          class: `pg-cell pg-fill--${k % 5}`,
          x: isPlane ? to[0] : to[0] - wide / 2,
          y: to[1] - side,
          width: wide,
          height: side,
        });
        boxes.append(box);
      }
      const dot = token(k, from);
      const label = words(
        svg,
        (to ?? from)[0] + 9,
        (to ?? from)[1] - 6,
        way.inside[k] ? String(way.ids[k]) : "outside",
        "start",
        `pg-number pg-text--${k % 5}`,
      );
      svg.append(dot);
      return { dot, from, to, box, label };
    });
  }

  drawCodes() {
    const { svg } = this.panels.codes;
    const { codes } = this.way;
    const most = Math.max(1, ...codes.flatMap((c) => c.codes.map(Math.abs)));
    const log = (v) => Math.sign(v) * Math.log10(1 + Math.abs(v));
    const low = Math.min(0, ...codes.flatMap((c) => c.codes));
    const Y = scale(log(low), log(most), H - AREA.bottom, AREA.top);
    const X = scale(0, Math.max(1, codes.length - 1), AREA.left, W - AREA.right - 6);
    const powers = Math.max(1, Math.ceil(Math.log10(most) / 4));
    for (let p = 0; 10 ** p <= most * 1.01; p += powers) {
      svg.append(rule(AREA.left, W - AREA.right, Y(log(10 ** p)), Y(log(10 ** p))));
      words(
        svg,
        AREA.left - 6,
        Y(log(10 ** p)) + 4,
        p < 4 ? String(10 ** p) : short(10 ** p, 1).replace("1·", ""),
        "end",
      );
    }
    const stride = Math.ceil(codes.length / 8);
    codes.forEach((station, k) => {
      if (k % stride === 0 || k === codes.length - 1)
        words(svg, X(k), H - 18, String(station.layer), "middle");
    });
    words(svg, (AREA.left + W) / 2, H - 4, "layer", "middle");
    const n = this.way.input.length;
    this.paths = Array.from({ length: n }, (_, j) => {
      const path = drawing("path", { class: `pg-path pg-stroke--${j % 5}` });
      svg.append(path);
      return path;
    });
    this.heads = Array.from({ length: n }, (_, j) => {
      const dot = token(j, [X(0), Y(log(codes[0].codes[j]))]);
      svg.append(dot);
      return dot;
    });
    this.codeAt = (k, j) => [X(k), Y(log(codes[k].codes[j]))];
  }

  reveal(last) {
    this.paths.forEach((path, j) => {
      const points = Array.from({ length: last + 1 }, (_, k) => this.codeAt(k, j));
      path.setAttribute("d", points.map(([x, y], k) => (k ? `H${x}V${y}` : `M${x} ${y}`)).join(""));
      move(this.heads[j], points.at(-1));
    });
  }

  drawKeys() {
    const { svg } = this.panels.keys;
    const { shown, contexts } = this.found.keys;
    const own = shown.map((key) => key[1]);
    const log = (v) => Math.log10(1 + Math.max(0, v));
    const isWide = Math.max(...own, 1) > 100;
    const level = isWide ? log : (v) => v;
    const Y = scale(
      level(Math.min(...own)),
      level(Math.max(...own, 1)),
      H - AREA.bottom,
      AREA.top + 4,
    );
    const X = scale(1, Math.max(2, contexts), AREA.left, W - AREA.right - 4);
    const [least, most] = [
      Math.min(...shown.map((k) => k[2])),
      Math.max(...shown.map((k) => k[2])),
    ];
    const radius = Math.max(1.2, Math.min(4, 60 / Math.sqrt(shown.length)));
    for (const [context, part, value] of shown) {
      const share = most > least ? (value - least) / (most - least) : 0.5;
      svg.append(
        drawing("circle", {
          class: "pg-key",
          cx: X(context),
          cy: Y(level(part)),
          r: radius,
          "fill-opacity": (0.15 + 0.75 * share).toFixed(2),
        }),
      );
    }
    for (const end of [Math.max(...own), Math.min(...own)])
      words(svg, AREA.left - 6, Y(level(end)) + 4, brief(end), "end");
    words(svg, (AREA.left + W) / 2, H - 10, `context, 1 to ${counted(contexts)}`, "middle");
    this.way.keys.forEach((key, j) => {
      if (key.context === null) return;
      svg.append(
        drawing("circle", {
          class: `pg-found pg-stroke--${j % 5}`,
          cx: X(key.context),
          cy: Y(level(key.own)),
          r: 8,
        }),
      );
    });
    if (this.way.keys.some((key) => key.context === null))
      words(svg, (AREA.left + W) / 2, H / 2, "no key: the output is 0", "middle", "pg-none");
  }

  drawValues() {
    const { svg } = this.panels.values;
    const { output, map } = this.way;
    const isPlane = output[0].length > 1;
    const all = [...output.flat(), ...map.flat(), 0];
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const room = 0.08 * (high - low || 1);
    const Y = scale(low - room, high + room, H - AREA.bottom, AREA.top);
    const X = isPlane
      ? scale(low - room, high + room, AREA.left, W - AREA.right)
      : scale(0.5, output.length + 0.5, AREA.left, W - AREA.right);
    axis(
      svg,
      Y,
      [low, high].filter((v, k, list) => list.indexOf(v) === k),
      "value",
    );
    svg.append(rule(AREA.left, W - AREA.right, Y(0), Y(0)));
    if (isPlane) words(svg, (AREA.left + W) / 2, H - 10, "value, coordinate 1", "middle");
    else output.forEach((_, k) => words(svg, X(k + 1), H - 10, String(k + 1), "middle"));
    const at = (y, k) => (isPlane ? [X(y[0]), Y(y[1])] : [X(k + 1), Y(y[0])]);
    this.values = output.map((y, k) => {
      const goal = at(map[k], k);
      svg.append(
        drawing("circle", { class: `pg-goal pg-stroke--${k % 5}`, cx: goal[0], cy: goal[1], r: 9 }),
      );
      const from = isPlane ? [X(0), Y(0)] : [X(k + 1), Y(0)];
      const dot = token(k, from);
      svg.append(dot);
      return { dot, from, to: at(y, k) };
    });
  }
}

// 430,000 as 430k: there is little room beside an axis.
const brief = (v) =>
  v < 10_000
    ? String(v)
    : v < 1e6
      ? `${Math.round(v / 1000)}k`
      : v < 1e9
        ? `${Math.round(v / 1e6)}M`
        : short(v, 1);

function panelOf(number, title, note, lines) {
  const svg = drawing("svg", {
    viewBox: `0 0 ${W} ${H}`,
    role: "img",
    "aria-label": `${title}: ${note}; the table below says the same`,
  });
  const place = element(
    "figure",
    { class: "pg-panel" },
    element(
      "figcaption",
      {},
      element("span", { class: "pg-step" }, number),
      element("strong", {}, ` ${title} `),
      element("span", { class: "muted small" }, note),
    ),
    svg,
    keeping(() => ({ ...frozen(svg), title: `${title}: ${note}`, lines })),
  );
  return { place, svg };
}

function token(k, place) {
  const dot = drawing("circle", { class: `pg-moving pg-fill--${k % 5}`, r: 6 });
  move(dot, place);
  return dot;
}

function move(dot, [x, y]) {
  dot.style.transform = `translate(${x}px, ${y}px)`;
}

const scale = (a, b, from, to) => (v) => from + ((v - a) / (b - a || 1)) * (to - from);

const rule = (x1, x2, y1, y2) => drawing("line", { class: "pg-rule", x1, x2, y1, y2 });

function words(svg, x, y, text, anchor, extra = "") {
  const made = drawing("text", { class: `pg-tick ${extra}`, x, y, "text-anchor": anchor }, text);
  svg.append(made);
  return made;
}

function axis(svg, Y, ticks, name) {
  for (const tick of ticks) words(svg, AREA.left - 6, Y(tick) + 4, minus(short(tick, 3)), "end");
  svg.append(
    drawing(
      "text",
      {
        class: "pg-tick",
        transform: `translate(12 ${H / 2}) rotate(-90)`,
        "text-anchor": "middle",
      },
      name,
    ),
  );
}
