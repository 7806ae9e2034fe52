// A picture to keep: what is on the screen, with a title and what is proven, as an SVG file or a PNG.

import { colour, drawing, element } from "./dom.js";

const PAD = 16;
const LEAST = 360; // pixels of width, so that words have room
const SHARPNESS = 2; // pixels of a PNG for one of the screen
const LARGEST = 8192; // pixels of a PNG's side
const STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linejoin",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
];
const ruler = document.createElement("canvas").getContext("2d");

// Buttons that keep a picture. source() gives drawn (an element of SVG), width, height, title, and lines
// of words for below, or nothing while there is no picture.
export function keeping(source) {
  const button = (kind, make) =>
    element(
      "button",
      {
        type: "button",
        class: "pg-mini pg-keep",
        onclick: () => keep(kind, make, source),
      },
      element("span", { class: "visually-hidden" }, "Save as "),
      kind.toUpperCase(),
    );
  return element("div", { class: "pg-zoom pg-keeping" }, button("svg", vector), button("png", pixels));
}

async function keep(kind, make, source) {
  const made = source();
  if (!made) return;
  try {
    const address = URL.createObjectURL(await make(composed(made)));
    element("a", { href: address, download: `${slug(made.title)}.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch {
    const detail = `This browser could not make the ${kind.toUpperCase()} file. Try the other kind.`;
    document.dispatchEvent(new CustomEvent("studio:toast", { detail }));
  }
}

const slug = (title) =>
  `exactformer-${title.replaceAll("ρ", "rho").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}`;

// An element of the page as it looks now, free of the page's styles.
export function frozen(svg) {
  const copy = svg.cloneNode(true);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const copies = [copy, ...copy.querySelectorAll("*")];
  [svg, ...svg.querySelectorAll("*")].forEach((part, k) => {
    const looks = getComputedStyle(part);
    for (const name of STYLES) copies[k].setAttribute(name, looks.getPropertyValue(name));
    if (part.style.transform) copies[k].setAttribute("transform", looks.transform);
    for (const name of ["class", "style", "role", "aria-label"]) copies[k].removeAttribute(name);
  });
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  return { drawn: copy, width, height };
}

// Two drawings, one below the other.
export function stacked(above, below) {
  const place = drawing("g", { transform: `translate(0 ${above.height + 8})` }, below.drawn);
  return {
    drawn: drawing("g", {}, above.drawn, place),
    width: Math.max(above.width, below.width),
    height: above.height + 8 + below.height,
  };
}

function composed({ drawn, width, height, title, lines }) {
  const wide = Math.max(width, LEAST);
  const family = colour("sans");
  const said = lines.flatMap((line) => wrapped(line, wide, `12px ${family}`));
  const words = (x, y, size, weight, fill, text) =>
    drawing(
      "text",
      { x, y, "font-family": family, "font-size": size, "font-weight": weight, fill: colour(fill) },
      text,
    );
  const [W, H] = [wide + 2 * PAD, height + 2 * PAD + 30 + 18 * said.length];
  return drawing(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width: W, height: H, viewBox: `0 0 ${W} ${H}` },
    drawing("title", {}, title),
    drawing("desc", {}, lines.join(" ")),
    drawing("rect", { width: W, height: H, fill: colour("surface-2") }),
    words(PAD, PAD + 14, 15, 600, "ink", title),
    drawing("g", { transform: `translate(${PAD + (wide - width) / 2} ${PAD + 26})` }, drawn),
    said.map((line, k) => words(PAD, PAD + height + 46 + 18 * k, 12, 400, "ink-2", line)),
  );
}

// A line broken into several that fit; words that are wider than all of it are cut.
function wrapped(line, width, font) {
  ruler.font = font;
  const made = [];
  let rest = line;
  while (rest) {
    let size = rest.length;
    while (size > 1 && ruler.measureText(rest.slice(0, size)).width > width) size--;
    const gap = size < rest.length ? rest.lastIndexOf(" ", size) : -1;
    made.push(rest.slice(0, gap > 0 ? gap : size));
    rest = rest.slice(gap > 0 ? gap + 1 : size);
  }
  return made;
}

const serialised = (svg) => new XMLSerializer().serializeToString(svg);

const vector = async (svg) => new Blob([serialised(svg)], { type: "image/svg+xml" });

async function pixels(svg) {
  const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
  const scale = Math.min(SHARPNESS, LARGEST / Math.max(width, height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(serialised(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(scale * width);
  canvas.height = Math.round(scale * height);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("the picture is too large");
  return blob;
}
