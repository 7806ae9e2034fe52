// A kernel to draw: a grid of buttons. Press and drag to paint; with the keyboard go by arrow
// keys, change the value by plus and minus. Between the values the kernel is straight.

import { colour, element, onSchemeChange } from "./dom.js";
import { minus } from "./format.js";

const LARGEST = 3;

export class Pad {
  constructor(place, changed) {
    this.changed = changed;
    this.values = [];
    this.brush = 1;
    this.grid = element("div", {
      class: "pg-pad__grid",
      role: "group",
      "aria-label": "Values of ρ: rows u, columns v",
    });
    this.grid.addEventListener("pointerdown", (event) => this.begin(event));
    this.grid.addEventListener("pointermove", (event) => this.drag(event));
    addEventListener("pointerup", () => (this.isDown = false));
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.shown = element("output", { class: "mono", for: "brush" }, "1");
    const slider = element("input", {
      id: "brush",
      type: "range",
      min: -LARGEST,
      max: LARGEST,
      step: 0.25,
      value: 1,
      oninput: (event) => this.dip(Number(event.target.value)),
    });
    const button = (words, make) =>
      element(
        "button",
        { type: "button", class: "button button--small", onclick: () => this.fill(make) },
        words,
      );
    place.append(
      element(
        "div",
        { class: "pg-pad" },
        this.grid,
        element(
          "div",
          { class: "stack" },
          element(
            "div",
            { class: "field" },
            element("label", { for: "brush" }, "Value to paint with: ", this.shown),
            slider,
          ),
          element(
            "div",
            { class: "cluster" },
            button("Clear", () => 0),
            button("Identity", (i, j) => (i === j ? 1 : 0)),
            button("Bands", (i, j, n) =>
              Number(Math.max(0, 1 - (2 * Math.abs(i - j)) / n).toFixed(2)),
            ),
            button("Chequered", (i, j) => ((i + j) % 2 ? -1 : 1)),
          ),
          element(
            "div",
            { class: "cluster", role: "group", "aria-label": "Size of the grid" },
            [4, 6, 8, 12].map((n) =>
              element(
                "button",
                { type: "button", class: "button button--small", onclick: () => this.resize(n) },
                `${n} × ${n}`,
              ),
            ),
          ),
          element(
            "p",
            { class: "muted small" },
            "Press and drag to paint. Cells are the values of ρ at evenly spaced points, and in between it is " +
              "interpolated. With the keyboard: arrow keys go from value to value, plus and minus change it, " +
              "space paints.",
          ),
        ),
      ),
    );
    onSchemeChange(() => this.paint());
  }

  read(text) {
    if (text === this.text()) return;
    this.values = text.split(";").map((row) => row.split(",").map(Number));
    this.build();
  }

  text() {
    return this.values.map((row) => row.join(",")).join(";");
  }

  build() {
    this.grid.style.gridTemplateColumns = `repeat(${this.values[0].length}, 1fr)`;
    this.cells = this.values.map((row, i) =>
      row.map((_, j) =>
        element("button", {
          type: "button",
          class: "pg-pad__cell",
          "data-place": `${i},${j}`,
          tabindex: i + j ? "-1" : "0",
        }),
      ),
    );
    this.grid.replaceChildren(...this.cells.flat());
    this.paint();
  }

  paint() {
    const most = Math.max(1, ...this.values.flat().map(Math.abs));
    this.values.forEach((row, i) => row.forEach((value, j) => this.tint(i, j, value, most)));
  }

  tint(i, j, value, most) {
    const share = Math.round(100 * Math.sqrt(Math.abs(value) / most));
    const hue = colour(value > 0 ? "pg-positive" : "pg-negative");
    const cell = this.cells[i][j];
    cell.style.backgroundColor = `color-mix(in srgb, ${hue} ${share}%, ${colour("surface")})`;
    cell.setAttribute("aria-label", `row ${i + 1}, column ${j + 1}: ${minus(value)}`);
  }

  set(i, j, value) {
    const bounded = Math.max(-LARGEST, Math.min(LARGEST, value));
    if (this.values[i][j] === bounded) return;
    this.values[i][j] = bounded;
    this.paint();
    this.changed(this.text());
  }

  dip(value) {
    this.brush = value;
    this.shown.textContent = minus(value);
  }

  fill(make) {
    const n = this.values.length;
    this.values = this.values.map((row, i) => row.map((_, j) => make(i, j, n)));
    this.paint();
    this.changed(this.text());
  }

  resize(n) {
    const old = this.values;
    const nearest = (k) => Math.min(old.length - 1, Math.floor((k * old.length) / n));
    this.values = Array.from({ length: n }, (_, i) =>
      Array.from({ length: n }, (_, j) => old[nearest(i)][nearest(j)]),
    );
    this.build();
    this.changed(this.text());
  }

  placeOf(target) {
    return target?.dataset?.place?.split(",").map(Number);
  }

  begin(event) {
    const place = this.placeOf(event.target);
    if (!place) return;
    this.isDown = true;
    event.target.releasePointerCapture?.(event.pointerId);
    this.set(...place, this.brush);
  }

  drag(event) {
    const place =
      this.isDown && this.placeOf(document.elementFromPoint(event.clientX, event.clientY));
    if (place) this.set(...place, this.brush);
  }

  key(event) {
    const place = this.placeOf(event.target);
    if (!place) return;
    const [i, j] = place;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key in steps) {
      const next = this.cells[i + steps[event.key][0]]?.[j + steps[event.key][1]];
      if (next) {
        event.target.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      }
    } else if (event.key === "+" || event.key === "=") this.set(i, j, this.values[i][j] + 0.25);
    else if (event.key === "-") this.set(i, j, this.values[i][j] - 0.25);
    else if (event.key === " " || event.key === "Enter") this.set(i, j, this.brush);
    else return;
    event.preventDefault();
  }
}
