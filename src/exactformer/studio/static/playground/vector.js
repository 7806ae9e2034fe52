// A drawing context that writes SVG: what the pictures here use of a canvas's own, so that one painter
// serves the screen and a file.

import { drawing } from "./dom.js";

const ruler = document.createElement("canvas").getContext("2d");
const near = (number) => Number(number.toFixed(2));

export class VectorContext {
  constructor() {
    this.drawn = drawing("g");
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1 });
    Object.assign(this, { font: "12px sans-serif", textAlign: "left", textBaseline: "alphabetic" });
    Object.assign(this, { path: "", dashes: [], moves: "", kept: [] });
  }

  add(tag, attributes, ...children) {
    const opacity = this.globalAlpha < 1 ? Number(this.globalAlpha.toFixed(3)) : null;
    const transform = this.moves || null;
    this.drawn.append(drawing(tag, { ...attributes, opacity, transform }, ...children));
  }

  outline() {
    const dashes = this.dashes.length ? this.dashes.join(" ") : null;
    const [stroke, width] = [this.strokeStyle, this.lineWidth];
    return { fill: "none", stroke, "stroke-width": width, "stroke-dasharray": dashes };
  }

  setLineDash(dashes) {
    this.dashes = dashes;
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${near(x)} ${near(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${near(x)} ${near(y)}`;
  }

  closePath() {
    this.path += "Z";
  }

  // Whole circles only.
  arc(x, y, radius) {
    const [r, across] = [near(radius), near(2 * radius)];
    this.path += `M${near(x - radius)} ${near(y)}a${r} ${r} 0 1 0 ${across} 0a${r} ${r} 0 1 0 ${-across} 0Z`;
  }

  fill() {
    this.add("path", { d: this.path, fill: this.fillStyle });
  }

  stroke() {
    this.add("path", { d: this.path, ...this.outline() });
  }

  rectangle(x, y, width, height) {
    return { x: near(x), y: near(y), width: near(width), height: near(height) };
  }

  fillRect(...box) {
    this.add("rect", { ...this.rectangle(...box), fill: this.fillStyle });
  }

  strokeRect(...box) {
    this.add("rect", { ...this.rectangle(...box), ...this.outline() });
  }

  measureText(text) {
    ruler.font = this.font;
    return ruler.measureText(text);
  }

  fillText(text, x, y, most = Infinity) {
    const [, size, family] = this.font.match(/^([\d.]+)px (.*)$/);
    const isWide = this.measureText(text).width > most;
    this.add(
      "text",
      {
        x: near(x),
        y: near(y),
        dy: this.textBaseline === "middle" ? "0.35em" : null,
        "text-anchor": { center: "middle", right: "end" }[this.textAlign] ?? "start",
        "font-size": size,
        "font-family": family,
        fill: this.fillStyle,
        textLength: isWide ? near(most) : null,
        lengthAdjust: isWide ? "spacingAndGlyphs" : null,
      },
      text,
    );
  }

  save() {
    this.kept.push(this.moves);
  }

  restore() {
    this.moves = this.kept.pop();
  }

  translate(x, y) {
    this.moves += `translate(${near(x)} ${near(y)})`;
  }

  rotate(angle) {
    this.moves += `rotate(${near((180 / Math.PI) * angle)})`;
  }
}
