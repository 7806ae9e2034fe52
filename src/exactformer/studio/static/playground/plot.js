// Lines and bars as SVG, coloured by the page's styles.

import { drawing } from "./dom.js";
import { minus, short } from "./format.js";

const WIDTH = 640;
const MARGIN = { left: 64, right: 16, top: 14, bottom: 34 };

// curves: [{points: [[x, y], …], class}], mark: [x, y], ends: of the axis, bound: of all |y|, if proven
export function linePlot(curves, options) {
  const { label, xName, height = 260, width = WIDTH, mark = null, ends = null, bound = 0 } = options;
  const all = curves.flatMap((curve) => curve.points);
  const [x0, x1] = span(ends ?? all.map((p) => p[0]));
  const [y0, y1] = bound ? [-bound, bound] : span([...all.map((p) => p[1]), 0]);
  const room = { w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
  const X = (x) => MARGIN.left + ((x - x0) / (x1 - x0)) * room.w;
  const Y = (y) => MARGIN.top + (1 - (y - y0) / (y1 - y0)) * room.h;
  const svg = frame(width, height, label);
  for (const y of [y0, 0, y1].filter((y, k, list) => list.indexOf(y) === k)) {
    svg.append(
      drawing("line", {
        class: "pg-rule",
        x1: MARGIN.left,
        x2: width - MARGIN.right,
        y1: Y(y),
        y2: Y(y),
      }),
      text(MARGIN.left - 8, Y(y) + 4, minus(short(y)), "end"),
    );
  }
  svg.append(
    text(X(x0), height - 12, minus(short(x0)), "middle"),
    text(X(x1), height - 12, minus(short(x1)), "middle"),
  );
  svg.append(text((X(x0) + X(x1)) / 2, height - 12, xName, "middle"));
  for (const curve of curves) {
    const path = curve.points
      .map(([x, y], k) => `${k ? "L" : "M"}${X(x).toFixed(2)} ${Y(y).toFixed(2)}`)
      .join("");
    svg.append(drawing("path", { class: `pg-curve ${curve.class ?? ""}`, d: path }));
  }
  if (bound) {
    for (const y of [Y(y0), Y(y1)])
      svg.append(
        drawing("line", { class: "pg-bound", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }),
      );
    svg.append(text(MARGIN.left + 6, Y(y1) + 14, "certified", "start"));
  }
  if (mark)
    svg.append(drawing("circle", { class: "pg-dot", cx: X(mark[0]), cy: Y(mark[1]), r: 5 }));
  return svg;
}

// values: positive numbers on a logarithmic scale; the first `kept` of them are drawn strong
export function barPlot(values, kept, { label, height = 280, width = 720 }) {
  const svg = frame(width, height, label);
  if (!values.length) return svg;
  const top = Math.ceil(Math.log10(values[0]) + 1e-9);
  const bottom = Math.max(top - 16, Math.floor(Math.log10(Math.max(values.at(-1), 1e-300))));
  const room = { w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
  const Y = (v) => MARGIN.top + ((top - Math.log10(v)) / (top - bottom || 1)) * room.h;
  const step = Math.max(1, Math.ceil((top - bottom) / 6));
  for (let power = top; power >= bottom; power -= step) {
    const y = Y(10 ** power);
    svg.append(
      drawing("line", {
        class: "pg-rule",
        x1: MARGIN.left,
        x2: width - MARGIN.right,
        y1: y,
        y2: y,
      }),
      text(
        MARGIN.left - 8,
        y + 4,
        power >= -2 && power <= 3
          ? String(Number((10 ** power).toPrecision(1)))
          : short(10 ** power, 1).replace("1·", ""),
        "end",
      ),
    );
  }
  const pitch = room.w / Math.max(values.length, 8);
  values.forEach((value, k) => {
    const y = Math.min(Y(value), height - MARGIN.bottom - 1);
    const bar = drawing("rect", {
      class: k < kept ? "pg-bar pg-bar--kept" : "pg-bar",
      x: MARGIN.left + (k + 0.15) * pitch,
      width: 0.7 * pitch,
      y,
      height: height - MARGIN.bottom - y,
      rx: Math.min(3, pitch / 5),
    });
    bar.append(drawing("title", {}, `σ${k + 1} = ${value}`));
    svg.append(bar);
    if (pitch > 16 || k % 4 === 0)
      svg.append(text(MARGIN.left + (k + 0.5) * pitch, height - 14, String(k + 1), "middle"));
  });
  if (kept > 0 && kept < values.length) {
    const x = MARGIN.left + kept * pitch;
    svg.append(
      drawing("line", {
        class: "pg-cut",
        x1: x,
        x2: x,
        y1: MARGIN.top,
        y2: height - MARGIN.bottom,
      }),
      text(x + 6, MARGIN.top + 12, `m = ${kept}`, "start"),
    );
  }
  return svg;
}

function frame(width, height, label) {
  return drawing("svg", {
    class: "pg-plot",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
  });
}

function text(x, y, words, anchor) {
  return drawing("text", { class: "pg-tick", x, y, "text-anchor": anchor }, words);
}

function span(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low === high ? [low - 1, high + 1] : [low, high];
}
