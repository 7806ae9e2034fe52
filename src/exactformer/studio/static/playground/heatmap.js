// A matrix as a heat map: hover, arrow keys and zoom; the exact entry in words; the same as a
// table.
//
// Blue is negative, the page's colour zero, orange positive; the shade is the root of |entry| over
// the largest, so that small entries can still be seen.

import { colour, drawing, element, onSchemeChange } from "./dom.js";
import { counted, minus, plural, short } from "./format.js";
import { frozen, keeping, stacked } from "./picture.js";
import { VectorContext } from "./vector.js";

const LARGEST_CELL = 44;
const LABELLED = 11; // pixels of a cell from which on rows and columns have their names beside them
const WRITTEN = 30; // and from which on entries are written into their cells
const TABLE_LIMIT = 400;
const EDGE = 20; // pixels beside a map for the names and ends of its axes
const SHADES = 20; // of a scale, on either side of 0

const maps = new Set();
onSchemeChange(() =>
  maps.forEach((map) => (map.place.isConnected ? map.draw() : maps.delete(map))),
);

export class Heatmap {
  // options: title, note, rings (list of [row, column]), names and ruled (draw them), tall (pixels),
  // axes (names of rows and columns, and their ends), largest (of the scale), about (lines for a picture)
  constructor(panel, options = {}) {
    this.options = options;
    this.zoom = 1;
    this.cursor = null;
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.readout = element("p", { class: "pg-readout", "aria-live": "polite" });
    this.frame = element(
      "div",
      { class: "pg-frame", tabindex: "0", role: "group", onkeydown: (event) => this.key(event) },
      this.canvas,
    );
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.tip = element("div", { class: "pg-tip", "aria-hidden": "true", hidden: true });
    this.frame.addEventListener("blur", () => this.leave());
    this.tables = element(
      "details",
      { class: "pg-details", ontoggle: () => this.tabulate() },
      element("summary", {}, "As a table"),
    );
    this.scaled = element("div", { class: "pg-scale" });
    this.heading = element("span", { class: "pg-map__title" });
    this.about = element("span", { class: "muted small" });
    this.place = element(
      "figure",
      { class: "pg-map" },
      element("figcaption", {}, this.heading, " ", this.about),
      this.frame,
      this.scaled,
      element(
        "div",
        { class: "pg-map__foot" },
        this.readout,
        element(
          "div",
          { class: "pg-zoom" },
          element(
            "button",
            {
              type: "button",
              class: "pg-mini",
              "aria-label": "Smaller",
              onclick: () => this.scale(1 / 1.5),
            },
            "−",
          ),
          element(
            "button",
            {
              type: "button",
              class: "pg-mini",
              "aria-label": "Larger",
              onclick: () => this.scale(1.5),
            },
            "+",
          ),
          keeping(() => this.picture()),
        ),
      ),
      this.tables,
      this.tip,
    );
    maps.add(this);
    new ResizeObserver(() => this.resized()).observe(this.frame);
    this.show(panel, options);
  }

  show(panel, options = this.options) {
    this.options = options;
    this.panel = panel;
    this.rows = panel.rows.length;
    this.columns = panel.columns.length;
    this.entries = new Map(
      panel.entries.map((entry) => [entry[0] * this.columns + entry[1], entry]),
    );
    const values = panel.entries.map((entry) => entry[2]);
    this.largest =
      options.largest || values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
    this.scaled.replaceChildren(scale(this.largest, values));
    const [name, index] = (options.title ?? panel.title ?? "").split("_");
    this.heading.replaceChildren(name, index ? element("sub", {}, index) : "");
    const [n, m] = panel.shape;
    const blocks = panel.blocks ? `, drawn in ${panel.blocks[0]} × ${panel.blocks[1]} blocks` : "";
    this.about.textContent = options.note ?? `${counted(n)} × ${counted(m)}${blocks}`;
    this.frame.setAttribute(
      "aria-label",
      `${this.heading.textContent}, ${plural(n, "row")} and ${plural(m, "column")}; ` +
        "arrow keys go from entry to entry, plus and minus zoom",
    );
    if (this.cursor && (this.cursor[0] >= this.rows || this.cursor[1] >= this.columns))
      this.cursor = null;
    this.draw();
    this.say();
    if (this.tables.open) this.tabulate();
  }

  resized() {
    if (this.frame.clientWidth !== this.width) this.draw();
  }

  draw() {
    this.width = this.frame.clientWidth;
    if (!this.width || !this.rows || !this.columns) return;
    const context = this.canvas.getContext("2d");
    const font = `11px ${colour("mono") || "monospace"}`;
    context.font = font;
    const names = this.options.names !== false;
    const room = (list) => Math.max(0, ...list.map((name) => context.measureText(name).width));
    const fit = (left) => (this.width - left - 2) / this.columns;
    const tall = (this.options.tall ?? 420) / this.rows;
    const { axes } = this.options;
    let left = names && this.rows > 1 ? Math.min(room(this.panel.rows) + 8, 0.4 * this.width) : 0;
    let cell = Math.max(3, Math.min(LARGEST_CELL, fit(left), tall)) * this.zoom;
    const isLabelled = names && cell >= LABELLED;
    if (!isLabelled) {
      left = axes ? EDGE : 0;
      cell = Math.max(2, Math.min(LARGEST_CELL, fit(left), tall)) * this.zoom;
    }
    const shownColumns = isLabelled && this.panel.columns.some((name) => name);
    const top = shownColumns ? Math.min(room(this.panel.columns) + 8, 110) : 1;
    const width = left + this.columns * cell + 2;
    const height = top + this.rows * cell + (axes ? EDGE : 2);
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.frame.scrollTop = Math.min(this.frame.scrollTop, height);
    this.geometry = { left, top, cell, width, height, font, isLabelled, shownColumns };
    context.scale(ratio, ratio);
    this.paint(context);
    this.ring(context);
  }

  // The same as on the screen with the scale below it, in lines and words.
  picture() {
    if (!this.geometry) return null;
    const context = new VectorContext();
    this.paint(context);
    const { width, height } = this.geometry;
    const below = frozen(this.scaled.firstElementChild);
    const title = `${this.heading.textContent}, ${this.about.textContent}`;
    const map = { drawn: context.drawn, width, height };
    return { ...stacked(map, below), title, lines: this.options.about ?? [] };
  }

  paint(context) {
    const { left, top, cell, font, isLabelled, shownColumns } = this.geometry;
    const positive = colour("pg-positive");
    const negative = colour("pg-negative");
    const [ink, faint, line] = [colour("ink"), colour("ink-3"), colour("line")];
    context.fillStyle = colour("surface");
    context.fillRect(left, top, this.columns * cell, this.rows * cell);
    for (const [i, j, value] of this.entries.values()) {
      context.globalAlpha = Math.sqrt(Math.abs(value) / this.largest) || 0;
      context.fillStyle = value > 0 ? positive : negative;
      context.fillRect(left + j * cell, top + i * cell, cell, cell);
    }
    context.globalAlpha = 1;
    if (cell >= 6 && this.options.ruled !== false) this.rule(context, line);
    context.strokeStyle = faint;
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, top + 0.5, this.columns * cell - 1, this.rows * cell - 1);
    if (cell >= WRITTEN) this.write(context, ink);
    if (isLabelled) this.label(context, font, faint, shownColumns);
    if (this.options.axes) this.axes(context, font, faint);
    for (const [i, j] of this.options.rings ?? []) {
      context.strokeStyle = ink;
      context.lineWidth = 1.6;
      context.beginPath();
      context.arc(left + (j + 0.5) * cell, top + (i + 0.5) * cell, Math.max(2, 0.42 * cell), 0, 7);
      context.stroke();
    }
  }

  // Round the entry that is pointed at.
  ring(context) {
    if (!this.cursor) return;
    const { left, top, cell } = this.geometry;
    const [i, j] = this.cursor;
    context.strokeStyle = colour("accent");
    context.lineWidth = 2.5;
    context.strokeRect(left + j * cell, top + i * cell, cell, cell);
  }

  // Names and ends of what rows and columns stand for, rows to the left and columns below.
  axes(context, font, faint) {
    const { left, top, cell } = this.geometry;
    const { row, column, ends } = this.options.axes;
    const [bottom, right] = [top + this.rows * cell, left + this.columns * cell];
    context.font = font;
    context.fillStyle = faint;
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillText(ends[0], left - 5, top + 7);
    context.fillText(row, left - 5, (top + bottom) / 2);
    context.fillText(ends[1], left - 5, bottom - 7);
    context.textAlign = "left";
    context.fillText(ends[0], left, bottom + 10);
    context.textAlign = "center";
    context.fillText(column, (left + right) / 2, bottom + 10);
    context.textAlign = "right";
    context.fillText(ends[1], right, bottom + 10);
  }

  rule(context, line) {
    const { left, top, cell } = this.geometry;
    context.strokeStyle = line;
    context.lineWidth = 0.5;
    context.beginPath();
    for (let i = 1; i < this.rows; i++) {
      context.moveTo(left, top + i * cell);
      context.lineTo(left + this.columns * cell, top + i * cell);
    }
    for (let j = 1; j < this.columns; j++) {
      context.moveTo(left + j * cell, top);
      context.lineTo(left + j * cell, top + this.rows * cell);
    }
    context.stroke();
  }

  write(context, ink) {
    const { left, top, cell } = this.geometry;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const [i, j, value, exact] of this.entries.values()) {
      const text = exact && exact.length <= 5 ? exact.replace("-", "−") : short(value, 2);
      const size = Math.min(13, (1.5 * cell) / text.length);
      if (size < 7) continue;
      context.font = `${size}px ${colour("mono")}`;
      const shade = Math.sqrt(Math.abs(value) / this.largest);
      context.fillStyle = shade > 0.78 ? colour("pg-on-strong") : ink;
      context.fillText(text, left + (j + 0.5) * cell, top + (i + 0.5) * cell);
    }
  }

  label(context, font, faint, shownColumns) {
    const { left, top, cell } = this.geometry;
    context.font = font;
    context.fillStyle = faint;
    context.textBaseline = "middle";
    context.textAlign = "right";
    this.panel.rows.forEach((name, i) =>
      context.fillText(name, left - 6, top + (i + 0.5) * cell, left - 8),
    );
    if (!shownColumns) return;
    context.textAlign = "left";
    this.panel.columns.forEach((name, j) => {
      context.save();
      context.translate(left + (j + 0.5) * cell, top - 6);
      context.rotate(-Math.PI / 2);
      context.fillText(name, 0, 0, top - 8);
      context.restore();
    });
  }

  at(event) {
    const { left, top, cell } = this.geometry;
    const box = this.canvas.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - left) / cell);
    const i = Math.floor((event.clientY - box.top - top) / cell);
    return i >= 0 && j >= 0 && i < this.rows && j < this.columns ? [i, j] : null;
  }

  point(event) {
    const place = this.at(event);
    this.move(place, true);
    this.tip.hidden = !place;
    if (!place) return;
    this.tip.textContent = this.words(place);
    const box = this.place.getBoundingClientRect();
    const x = Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth - 4);
    this.tip.style.transform = `translate(${Math.max(4, x)}px, ${event.clientY - box.top + 18}px)`;
  }

  leave() {
    this.tip.hidden = true;
    this.move(null);
  }

  // As everywhere: the wheel scrolls, with the control key it zooms.
  wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.scale(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }

  // What a pointer finds, the tip says; what keys find, the line below does. Never both: the line
  // would wrap and move the page under the pointer.
  move(place, isPointed = false) {
    if (String(place) === String(this.cursor)) return;
    this.cursor = place;
    this.draw();
    if (!isPointed) this.say();
  }

  key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key in steps) {
      const [i, j] = this.cursor ?? [0, 0];
      const [down, right] = this.cursor ? steps[event.key] : [0, 0];
      const clamp = (value, most) => Math.max(0, Math.min(most - 1, value));
      this.move([clamp(i + down, this.rows), clamp(j + right, this.columns)]);
    } else if (event.key === "+" || event.key === "=") this.scale(1.5);
    else if (event.key === "-") this.scale(1 / 1.5);
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  scale(factor) {
    this.zoom = Math.max(1, Math.min(8, this.zoom * factor));
    if (this.zoom < 1.01) this.zoom = 1;
    this.draw();
  }

  words([i, j]) {
    const entry = this.entries.get(i * this.columns + j);
    const [row, column] = [this.panel.rows[i], this.panel.columns[j]];
    const place = row && column ? `${row} ← ${column}` : row || column || "value";
    const value = entry ? (entry[3] ?? String(entry[2])) : "0";
    return `${place} = ${value.replace("-", "−")}`;
  }

  say() {
    this.readout.textContent = this.cursor
      ? this.words(this.cursor)
      : (this.options.summary ?? " ");
  }

  tabulate() {
    this.tables.querySelector("table, p")?.remove();
    if (!this.tables.open) return;
    const entries = [...this.entries.values()].slice(0, TABLE_LIMIT);
    const rows = entries.map(([i, j, value, exact]) =>
      element(
        "tr",
        {},
        element("td", {}, this.panel.rows[i] || "–"),
        element("td", {}, this.panel.columns[j] || "–"),
        element("td", { class: "number mono" }, (exact ?? String(value)).replace("-", "−")),
      ),
    );
    const left = this.entries.size - entries.length;
    const rest = left > 0 ? `; the first ${TABLE_LIMIT} of ${this.entries.size}` : "";
    const caption = `Entries that are not zero${rest}`;
    const heads = ["Row", "Column", "Entry"].map((name) => element("th", { scope: "col" }, name));
    this.tables.append(
      rows.length
        ? element(
            "table",
            { class: "table pg-small-table" },
            element("caption", { class: "small muted" }, caption),
            element("thead", {}, element("tr", {}, heads)),
            element("tbody", {}, rows),
          )
        : element("p", { class: "muted small" }, "All entries are zero."),
    );
  }
}

// Which colour stands for which entry: from 0, or from the negative of the largest, to the largest.
function scale(largest, values) {
  const isBelow = values.some((v) => v < 0);
  const isAbove = !isBelow || values.some((v) => v > 0);
  const [low, high] = [isBelow ? -largest : 0, isAbove ? largest : 0];
  const [width, side, steps] = [220, 28, isBelow && isAbove ? 2 * SHADES : SHADES];
  const step = (width - 2 * side) / steps;
  const svg = drawing("svg", {
    class: "pg-scale__bar",
    viewBox: `0 0 ${width} 26`,
    role: "img",
    "aria-label": `Colours from ${short(low)} to ${short(high)}`,
  });
  for (let k = 0; k < steps; k++) {
    const value = low + ((k + 0.5) / steps) * (high - low);
    svg.append(
      drawing("rect", {
        class: value > 0 ? "pg-shade--positive" : "pg-shade--negative",
        x: (side + k * step).toFixed(2),
        y: 1,
        width: step.toFixed(2),
        height: 9,
        "fill-opacity": Math.sqrt(Math.abs(value) / largest).toFixed(3),
      }),
    );
  }
  svg.append(
    drawing("rect", { class: "pg-scale__rim", x: side, y: 1, width: width - 2 * side, height: 9 }),
  );
  for (const value of new Set([low, 0, high])) {
    const x = side + ((value - low) / (high - low)) * (width - 2 * side);
    const words = minus(short(value, 2));
    svg.append(drawing("text", { class: "pg-tick", x, y: 24, "text-anchor": "middle" }, words));
  }
  return svg;
}

// A panel from rows of numbers, e.g. a kernel on a grid.
export function panelOf(values, rows, columns) {
  const entries = [];
  values.forEach((row, i) => row.forEach((value, j) => value && entries.push([i, j, value])));
  return { rows, columns, shape: [rows.length, columns.length], blocks: null, entries };
}
