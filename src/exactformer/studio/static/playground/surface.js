// A surface over two variables, drawn on a canvas by a small projection of its own: drag or arrow
// keys turn it, plus and minus zoom. Faces lie between circles, so that the rim of the ball is smooth,
// and are painted from the back. An axis says how high things are; a bound is drawn as two planes.

import { colour, element, onSchemeChange } from "./dom.js";
import { atMost, minus, short } from "./format.js";
import { VectorContext } from "./vector.js";

const HEIGHT = 0.62; // of the plane's half side
const CORNERS = 1.52; // so far from the middle are the numbers at its corners
const MARGIN = 12;
const surfaces = new Set();
onSchemeChange(() =>
  surfaces.forEach((s) => (s.place.isConnected ? s.draw() : surfaces.delete(s))),
);

export class Surface {
  constructor() {
    this.turn = -0.65;
    this.tilt = 0.55;
    this.zoom = 1;
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.place = element(
      "div",
      {
        class: "pg-surface",
        tabindex: "0",
        role: "group",
        onkeydown: (event) => this.key(event),
      },
      this.canvas,
    );
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
    this.canvas.addEventListener("pointermove", (event) => this.drag(event));
    for (const name of ["pointerup", "pointercancel"])
      this.canvas.addEventListener(name, () => (this.held = null));
    new ResizeObserver(() => this.draw()).observe(this.place);
    surfaces.add(this);
  }

  // disk: places [u, v] and values on circles, the middle first; reach: of the plane; mark: [u, v,
  // value] of the present point; bound: two planes between which all values lie, or nothing
  show({ disk, values, reach, names, mark, label, bound }) {
    Object.assign(this, { disk, values, reach, names, mark, bound });
    const [low, high] = [Math.min(...values), Math.max(...values)];
    this.low = bound ? -bound : Math.min(low, 0);
    this.high = bound ? bound : Math.max(high, 0);
    if (this.high === this.low) this.high = this.low + 1;
    this.place.setAttribute(
      "aria-label",
      `${label} over ${names.join(" and ")}, from ${short(low)} to ${short(high)}` +
        (bound ? `, certified within ${atMost(bound)}` : "") +
        "; arrow keys turn it, plus and minus zoom",
    );
    this.draw();
  }

  grab(event) {
    this.held = [event.clientX, event.clientY];
    this.canvas.setPointerCapture(event.pointerId);
  }

  drag(event) {
    if (!this.held) return;
    this.turn += 0.008 * (event.clientX - this.held[0]);
    this.lean(0.006 * (event.clientY - this.held[1]));
    this.held = [event.clientX, event.clientY];
    this.draw();
  }

  lean(by) {
    this.tilt = Math.max(0.05, Math.min(1.5, this.tilt + by));
  }

  key(event) {
    const moves = {
      ArrowLeft: () => (this.turn -= 0.12),
      ArrowRight: () => (this.turn += 0.12),
      ArrowUp: () => this.lean(-0.08),
      ArrowDown: () => this.lean(0.08),
      "+": () => (this.zoom = Math.min(3, this.zoom * 1.2)),
      "=": () => (this.zoom = Math.min(3, this.zoom * 1.2)),
      "-": () => (this.zoom = Math.max(0.5, this.zoom / 1.2)),
    };
    if (!(event.key in moves)) return;
    moves[event.key]();
    event.preventDefault();
    this.draw();
  }

  // Where a place of the turned plane is seen from the middle: to the right, up, and how deep.
  seen(right, back, z) {
    const [c, s] = [Math.cos(this.tilt), Math.sin(this.tilt)];
    const depth = back * c - z * s;
    const scale = 1 / (1 + 0.12 * depth);
    return [scale * right, scale * (z * c + back * s), depth];
  }

  project(x, y, z) {
    const [c, s] = [Math.cos(this.turn), Math.sin(this.turn)];
    const [right, up, depth] = this.seen(c * x - s * y, s * x + c * y, z);
    const size = this.size * this.zoom;
    return [this.middle[0] + size * right, this.middle[1] - size * up, depth];
  }

  // How far up and down the picture reaches from the middle, however it is turned.
  span() {
    const circles = [
      [CORNERS, this.level(0)],
      [1, HEIGHT],
      [1, -HEIGHT],
    ];
    const ends = circles.flatMap(([r, z]) => [this.seen(0, r, z)[1], this.seen(0, -r, z)[1]]);
    return [Math.max(...ends), -Math.min(...ends)];
  }

  level(value) {
    return HEIGHT * ((2 * (value - this.low)) / (this.high - this.low) - 1);
  }

  draw() {
    const width = this.place.clientWidth;
    if (!width || !this.values) return;
    const height = Math.min(420, Math.max(260, 0.72 * width));
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const [up, down] = this.span();
    this.height = height;
    this.size = Math.min(0.27 * width, 0.4 * height, (height - 2 * MARGIN) / (up + down));
    const spare = height - (up + down) * this.size;
    this.middle = [width / 2 + 20, spare / 2 + up * this.size]; // room for the numbers on the left
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    this.paint(context);
  }

  // The same as on the screen, in lines and faces.
  vector() {
    const context = new VectorContext();
    this.paint(context);
    return { drawn: context.drawn, width: this.place.clientWidth, height: this.height };
  }

  paint(context) {
    this.frame(context);
    if (this.bound) this.plane(context, -this.bound);
    this.faces(context);
    if (this.bound) this.plane(context, this.bound);
    this.axis(context);
    this.point(context);
  }

  // A plane at a height, as the rim of the ball.
  plane(context, value) {
    const rim = this.disk.places.slice(-this.disk.spokes);
    context.beginPath();
    rim.forEach(([u, v], k) => {
      const [a, b] = this.project(u / this.reach, v / this.reach, this.level(value));
      context[k ? "lineTo" : "moveTo"](a, b);
    });
    context.closePath();
    context.strokeStyle = colour("good");
    context.setLineDash([5, 4]);
    context.stroke();
    context.setLineDash([]);
  }

  // Heights, at the corner that lies farthest to the left.
  axis(context) {
    const corners = [
      [-1, -1],
      [1, -1],
      [1, 1],
      [-1, 1],
    ];
    const left = corners.reduce((best, corner) =>
      this.project(...corner, 0)[0] < this.project(...best, 0)[0] ? corner : best,
    );
    const at = (value) => this.project(...left, this.level(value));
    const [bottom, top] = [at(this.low), at(this.high)];
    context.strokeStyle = colour("line-strong");
    context.fillStyle = colour("ink-2");
    context.textAlign = "right";
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(bottom[0], bottom[1]);
    context.lineTo(top[0], top[1]);
    context.stroke();
    for (const value of [this.low, this.high]) {
      const [a, b] = at(value);
      const size = this.bound ? atMost(this.bound, 2) : short(Math.abs(value), 2);
      const words = value < 0 ? `−${size}` : size;
      context.fillText(words, Math.max(a - 6, context.measureText(words).width + 2), b + 4);
    }
    if (this.bound) {
      context.textAlign = "left";
      context.fillStyle = colour("good");
      context.fillText("certified", top[0] + 6, top[1] - 6);
    }
  }

  frame(context) {
    const ground = this.level(0);
    const corners = [
      [-1, -1],
      [1, -1],
      [1, 1],
      [-1, 1],
    ].map(([x, y]) => this.project(x, y, ground));
    context.strokeStyle = colour("line-strong");
    context.lineWidth = 1;
    context.beginPath();
    corners.forEach(([a, b], k) => context[k ? "lineTo" : "moveTo"](a, b));
    context.closePath();
    context.stroke();
    context.fillStyle = colour("ink-3");
    context.font = `12px ${colour("sans")}`;
    context.textAlign = "center";
    const ends = [minus(short(-this.reach)), minus(short(this.reach))];
    const note = (text, x, y) => {
      const [a, b] = this.project(x, y, ground);
      context.fillText(text, a, b + 4);
    };
    note(this.names[0], 0, -1.22);
    note(ends[0], -1, -1.14);
    note(ends[1], 1, -1.14);
    note(this.names[1], 1.22, 0);
    note(ends[0], 1.14, -1);
    note(ends[1], 1.14, 1);
  }

  faces(context) {
    const { places, spokes } = this.disk;
    const at = (k) =>
      this.project(places[k][0] / this.reach, places[k][1] / this.reach, this.level(this.values[k]));
    const rings = (places.length - 1) / spokes;
    const found = [];
    for (let ring = 0; ring < rings; ring++) {
      for (let spoke = 0; spoke < spokes; spoke++) {
        const next = (spoke + 1) % spokes;
        const outer = [1 + ring * spokes + spoke, 1 + ring * spokes + next];
        const inner = ring ? [outer[1] - spokes, outer[0] - spokes] : [0];
        const own = [...outer, ...inner];
        const corners = own.map(at);
        found.push({
          corners,
          value: own.reduce((sum, k) => sum + this.values[k], 0) / own.length,
          depth: corners.reduce((sum, c) => sum + c[2], 0) / corners.length,
        });
      }
    }
    found.sort((a, b) => b.depth - a.depth);
    const colours = [colour("pg-low"), colour("pg-middle"), colour("pg-high")].map(channels);
    context.lineWidth = 0.6;
    for (const { corners, value } of found) {
      const share = (value - this.low) / (this.high - this.low);
      context.fillStyle = blend(colours, share, 1);
      context.strokeStyle = blend(colours, share, 0.82);
      context.beginPath();
      corners.forEach(([a, b], k) => context[k ? "lineTo" : "moveTo"](a, b));
      context.closePath();
      context.fill();
      context.stroke();
    }
  }

  point(context) {
    if (!this.mark) return;
    const [u, v] = [this.mark[0] / this.reach, this.mark[1] / this.reach];
    const value = this.level(this.mark[2]);
    const [a, b] = this.project(u, v, value);
    const [c, d] = this.project(u, v, this.level(0));
    context.strokeStyle = context.fillStyle = colour("ink");
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(c, d);
    context.lineTo(a, b);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.arc(a, b, 5, 0, 7);
    context.fill();
    context.strokeStyle = colour("surface-2");
    context.lineWidth = 1.5;
    context.stroke();
  }
}

function channels(hex) {
  return [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
}

function blend([low, middle, high], share, shade) {
  const [from, to, t] = share < 0.5 ? [low, middle, 2 * share] : [middle, high, 2 * share - 1];
  return `rgb(${from.map((c, k) => Math.round(shade * (c + t * (to[k] - c)))).join(" ")})`;
}
