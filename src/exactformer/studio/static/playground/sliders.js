// A slider for every coordinate of x, with its number beside it.

import { element } from "./dom.js";
import { minus } from "./format.js";

const STEPS = 200;

export class Sliders {
  constructor(place, moved) {
    this.place = place;
    this.moved = moved;
    this.names = [];
  }

  show(names, reach, text) {
    const given = text ? text.split(",").map(Number) : [];
    const values = names.map((_, k) => (Number.isFinite(given[k]) ? given[k] : 0));
    if (String(names) === String(this.names) && reach === this.reach) {
      this.controls.forEach((control, k) => this.set(control, values[k]));
      return;
    }
    Object.assign(this, { names, reach });
    this.controls = names.map((name, k) => this.control(name, values[k]));
    this.place.replaceChildren(...this.controls.map((control) => control.place));
  }

  control(name, value) {
    const input = element("input", {
      type: "range",
      id: `x-${name}`,
      min: -this.reach,
      max: this.reach,
      step: this.reach / STEPS,
      oninput: () => this.changed(control),
    });
    const output = element("output", { class: "mono", for: `x-${name}` });
    const control = {
      input,
      output,
      place: element(
        "div",
        { class: "pg-slider" },
        element("label", { class: "mono", for: `x-${name}` }, name),
        input,
        output,
      ),
    };
    this.set(control, value);
    return control;
  }

  set(control, value) {
    control.value = value;
    control.input.value = value;
    control.output.textContent = minus(value);
  }

  changed(control) {
    // Short decimals: what is shown is what is sent.
    const digits = Math.max(0, 3 - Math.floor(Math.log10(this.reach)));
    this.set(control, Number(Number(control.input.value).toFixed(Math.min(12, digits))));
    this.moved(this.values());
  }

  values() {
    return this.controls.map((control) => control.value);
  }

  pullBack() {
    const size = Math.hypot(...this.values());
    const factor = size > this.reach ? (0.98 * this.reach) / size : 1;
    for (const control of this.controls)
      this.set(control, Number((factor * control.value).toPrecision(3)));
    this.moved(this.values());
  }
}
