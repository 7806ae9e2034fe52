// Small tools for making elements. Text is always set as text, never as markup.

// Exponents have the sign of minus: lines break after a hyphen.
const whole = (child) =>
  typeof child === "string" ? child.replace(/(?<=\de)-(?=\d)/g, "\u2212") : child;

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined).map(whole));
  return made;
}

export function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.flat());
  return made;
}

export function mathematics(latex, display = false) {
  const span = element(display ? "div" : "span", {
    class: "math",
    "data-display": display ? "" : null,
  });
  span.textContent = latex;
  // Drawn once it is in the page, by mathematics.js, which listens for this event.
  queueMicrotask(() => span.dispatchEvent(new CustomEvent("mathematics", { bubbles: true })));
  return span;
}

export const find = (id) => document.getElementById(id);

// The colours of the page, as canvases need them; they change with the scheme.
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function onSchemeChange(redraw) {
  new MutationObserver(redraw).observe(document.documentElement, {
    attributeFilter: ["data-scheme"],
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}
