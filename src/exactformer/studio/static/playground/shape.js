// The shape of the model over one or two variables, on the slice through x; the same as a table.

import { element } from "./dom.js";
import { latest, wasTakenBack } from "./fetching.js";
import { atMost, counted, minus, short } from "./format.js";
import { frozen, keeping } from "./picture.js";
import { linePlot } from "./plot.js";
import { Surface } from "./surface.js";

const API = "/api/v1/playground/polynomial/surface";
const VIEWS = {
  model: "the transformer",
  target: "the polynomial",
  difference: "their difference",
};
const TABLE_STEPS = 8;

export class Shape {
  constructor(place, state) {
    Object.assign(this, { place, state, ask: latest(), surface: new Surface(), last: "" });
    this.bar = element("div", { class: "split" });
    this.drawn = element("div", {});
    this.words = element("p", { class: "muted small", "aria-live": "polite" });
    this.table = element(
      "details",
      { class: "pg-details", ontoggle: () => this.tabulate() },
      element("summary", {}, "As a table"),
    );
    const foot = element("div", { class: "pg-map__foot" }, this.words, keeping(() => this.picture()));
    place.append(this.bar, this.drawn, foot, this.table);
  }

  // built: the question that found answers; about: lines for a picture that is kept
  async show(found, built, at, about) {
    this.place.hidden = !found.variables.length;
    if (this.place.hidden) return;
    Object.assign(this, { found, built, at, about });
    const asked = new URLSearchParams(built);
    asked.set("axes", this.state.get("axes"));
    // With two variables or fewer the slice is all there is, wherever x lies.
    if (found.variables.length > 2) asked.set("x", this.state.get("x"));
    const known = String(asked);
    try {
      if (known !== this.last) this.data = await this.ask(`${API}?${asked}`);
      this.last = known;
    } catch (error) {
      if (!wasTakenBack(error)) this.words.textContent = error.message;
      return;
    }
    this.controls();
    this.draw();
  }

  controls() {
    const view = this.view();
    const buttons = Object.entries(VIEWS).map(([key, words]) =>
      element(
        "button",
        {
          type: "button",
          class: "button button--small",
          "aria-pressed": String(key === view),
          onclick: () => this.choose("show", key),
        },
        words,
      ),
    );
    this.bar.replaceChildren(
      element("div", { class: "cluster", role: "group", "aria-label": "What to draw" }, buttons),
      ...this.axes(),
    );
  }

  axes() {
    const names = this.found.variables;
    if (names.length < 3) return [];
    const present = this.data.axes;
    const pick = (which) =>
      element(
        "select",
        {
          class: "input pg-axis",
          "aria-label": which ? "Second variable" : "First variable",
          onchange: (event) => this.choose("axes", swapped(present, which, event.target.value)),
        },
        names.map((name) =>
          element("option", { value: name, selected: name === present[which] }, name),
        ),
      );
    return [
      element(
        "div",
        { class: "cluster" },
        element("span", { class: "muted small" }, "slice along"),
        pick(0),
        pick(1),
      ),
    ];
  }

  choose(name, value) {
    this.state.form.elements[name].value = value;
    this.state.keep(false);
    this.show(this.found, this.built, this.at, this.about);
  }

  view() {
    const view = this.state.get("show");
    return view in VIEWS ? view : "model";
  }

  draw() {
    const { data } = this;
    const view = this.view();
    const values = data[view];
    const value = {
      model: this.at?.output,
      target: this.at?.target,
      difference: this.at && this.at.output - this.at.target,
    }[view];
    const coordinate = (name) => this.at?.x[this.found.variables.indexOf(name)];
    if (data.axes.length === 1) {
      const points = data.line.map((u, k) => [u, values[k][0]]).filter(([, v]) => v !== null);
      const label = `${VIEWS[view]} over ${data.axes[0]}`;
      const mark = this.at ? [coordinate(data.axes[0]), value] : null;
      this.drawn.replaceChildren(
        linePlot([{ points }], {
          label,
          xName: data.axes[0],
          mark,
          bound: view === "difference" ? data.bound : 0,
          height: 300,
          width: Math.max(320, this.place.clientWidth - 48),
        }),
      );
    } else {
      if (!this.surface.place.isConnected) this.drawn.replaceChildren(this.surface.place);
      if (data.disk)
        this.surface.show({
          disk: data.disk,
          values: data.disk[view],
          reach: data.line.at(-1),
          names: data.axes,
          mark: this.at ? [...data.axes.map(coordinate), value] : null,
          label: VIEWS[view],
          bound: view === "difference" ? data.bound : 0,
        });
    }
    // What is drawn, in words that stay true of it while something else is being asked for.
    const title = `${VIEWS[view]} over ${data.axes.join(" and ")}`;
    this.said = { title, lines: [...this.about, this.away()] };
    this.words.textContent =
      this.away() +
      (data.axes.length > 1
        ? ` Values range from ${range(values)}; drag, or use arrow keys, to turn it.`
        : "");
    if (this.table.open) this.tabulate();
  }

  picture() {
    const line = this.drawn.querySelector("svg");
    return this.said && { ...(line ? frozen(line) : this.surface.vector()), ...this.said };
  }

  away() {
    const { points, largest_difference: most, bound } = this.data;
    const away = most
      ? `is within ${atMost(most, 2)} of the polynomial, evaluated exactly`
      : "equals the polynomial to the last digit";
    return `On ${counted(points)} points the transformer ${away}; certified is ${atMost(bound, 2)}.`;
  }

  tabulate() {
    this.table.querySelector(".table-frame")?.remove();
    if (!this.table.open || !this.data) return;
    const { line, axes } = this.data;
    const values = this.data[this.view()];
    const stride = (line.length - 1) / TABLE_STEPS;
    const picked = Array.from({ length: TABLE_STEPS + 1 }, (_, k) => Math.round(k * stride));
    const columns = axes.length > 1 ? picked : [0];
    const head = (text, scope) => element("th", { scope, class: "number" }, text);
    const cell = (value) =>
      element("td", { class: "number mono" }, value === null ? "–" : minus(short(value, 4)));
    this.table.append(
      element(
        "div",
        { class: "table-frame", tabindex: "0", role: "region", "aria-label": "Values" },
        element(
          "table",
          { class: "table pg-small-table" },
          element(
            "caption",
            { class: "small muted" },
            axes.length > 1
              ? `Rows ${axes[0]}, columns ${axes[1]}: ${VIEWS[this.view()]}`
              : VIEWS[this.view()],
          ),
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              head(axes.join(" \\ "), "col"),
              axes.length > 1
                ? columns.map((j) => head(minus(short(line[j])), "col"))
                : head("value", "col"),
            ),
          ),
          element(
            "tbody",
            {},
            picked.map((i) =>
              element(
                "tr",
                {},
                head(minus(short(line[i])), "row"),
                columns.map((j) => cell(values[i][j])),
              ),
            ),
          ),
        ),
      ),
    );
  }
}

function range(values) {
  const known = values.flat().filter((value) => value !== null);
  return `${short(Math.min(...known))} to ${short(Math.max(...known))}`;
}

function swapped(present, which, name) {
  const next = [...present];
  if (next[1 - which] === name) next[1 - which] = present[which];
  next[which] = name;
  return next.join(",");
}
