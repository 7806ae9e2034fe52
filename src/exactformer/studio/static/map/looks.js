// Colours, shapes and sizes of the drawing; colours are the page's own, in whichever scheme it has.

const SHAPES = {
  paper: "round-rectangle",
  person: "ellipse",
  institution: "diamond",
  topic: "hexagon",
  claim: "triangle",
};

// Claims are coloured by what came of them, as their badges are.
const TONES = { good: "good", accent: "accent", warn: "warn", bad: "bad", plain: "ink-3" };

function size(node) {
  const grown = 13 + 4.5 * Math.log2(1 + node.data("degree"));
  return Math.min(node.hasClass("centre") ? 52 : 40, Math.max(16, grown));
}

export function looks(element) {
  const read = getComputedStyle(element);
  const colour = (name) => read.getPropertyValue(`--${name}`).trim();
  const kinds = Object.entries(SHAPES).map(([kind, shape]) => ({
    selector: `node[kind = "${kind}"]`,
    style: { shape, "background-color": colour(`map-${kind}`) },
  }));
  const verdicts = Object.entries(TONES).map(([tone, name]) => ({
    selector: `node[tone = "${tone}"]`,
    style: { "background-color": colour(name) },
  }));
  return [
    {
      selector: "node",
      style: {
        width: size,
        height: size,
        label: "data(short)",
        color: colour("ink"),
        "font-family": read.fontFamily,
        "font-size": "data(font)",
        "text-valign": "bottom",
        "text-margin-y": 4,
        "text-wrap": "wrap",
        "text-max-width": (node) => 8.7 * (node.data("font") ?? 12),
        "text-outline-color": colour("map-ground"),
        "text-outline-width": 2.5,
        "border-width": 0,
        "overlay-opacity": 0,
      },
    },
    ...kinds,
    ...verdicts,
    { selector: 'node[kind = "paper"]', style: { width: (node) => 1.35 * size(node) } },
    {
      selector: "node.centre",
      style: {
        "font-weight": 700,
        "outline-color": colour("accent"),
        "outline-width": 2,
        "outline-offset": 4,
      },
    },
    {
      selector: "edge",
      style: {
        width: 1.3,
        "line-color": colour("map-edge"),
        "curve-style": "straight",
        "target-arrow-color": colour("map-edge"),
        "target-arrow-shape": "triangle",
        "arrow-scale": 0.75,
        "overlay-opacity": 0,
      },
    },
    { selector: "node.unnamed", style: { label: "" } },
    { selector: "node.pointed", style: { label: "data(short)", "z-index": 10 } },
    { selector: ".faded", style: { opacity: 0.28 } },
    {
      selector: "edge.near",
      style: {
        width: 2.2,
        "line-color": colour("accent"),
        "target-arrow-color": colour("accent"),
        "z-index": 5,
        label: "data(relation)",
        color: colour("ink-2"),
        "font-family": read.fontFamily,
        "font-size": 9,
        "min-zoomed-font-size": 7,
        "text-rotation": "autorotate",
        "text-outline-color": colour("map-ground"),
        "text-outline-width": 2.5,
      },
    },
    {
      selector: "node.chosen",
      style: {
        "outline-color": colour("ink"),
        "outline-width": 3,
        "outline-offset": 3,
        "font-weight": 700,
        "z-index": 10,
      },
    },
  ];
}

export function onSchemeChange(act) {
  const scheme = { attributes: true, attributeFilter: ["data-scheme"] };
  new MutationObserver(act).observe(document.documentElement, scheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", act);
}
