// A slider for every coordinate of x, with its number beside it. x stays in the ball: a coordinate goes
// as far as the others leave room.

import { element } from "./dom.js";
import { minus } from "./format.js";

const STEPS = 200;
const INSIDE = 0.999; // formats with few digits round outwards, too

export class Sliders {
  constructor(place, moved) {
    this.place = place;
    this.moved = moved;
    this.names = [];
  }

  show(names, reach, text) {
    const given = text ? text.split(",").map(Number) : [];
    const values = within(
      names.map((_, k) => (Number.isFinite(given[k]) ? given[k] : 0)),
      reach,
    );
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
    const others = this.controls.filter((other) => other !== control).map((other) => other.value);
    const room = Math.sqrt(Math.max(0, this.reach ** 2 - Math.hypot(...others) ** 2));
    const wanted = Number(control.input.value);
    const most = Math.abs(wanted) > room ? Math.sign(wanted) * room * INSIDE : wanted;
    this.set(control, rounded(most, this.reach));
    this.moved(this.values());
  }

  values() {
    return this.controls.map((control) => control.value);
  }

}

// Pull a point into the ball, along its own direction.
function within(values, reach) {
  const size = Math.hypot(...values);
  if (size <= reach) return values;
  return values.map((value) => rounded((INSIDE * reach * value) / size, reach));
}

// Decimals that say as much as a slider can, cut towards 0, so that a point in the ball stays there.
function rounded(value, reach) {
  const digits = Math.min(12, Math.max(0, 3 - Math.floor(Math.log10(reach))));
  return Number((Math.trunc(value * 10 ** digits) / 10 ** digits).toFixed(digits));
}
