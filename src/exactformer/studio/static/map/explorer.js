// What a reader does with the map: choose, expand, focus, filter, search. Every link
// of the list already says where it leads; following one fetches the new list and draws it.

import { ARROWS, Drawing } from "./drawing.js";
import { elements, entry } from "./reading.js";

const ZOOM = 1.3;

export async function open(map) {
  const find = (name) => map.querySelector(`[data-${name}]`);
  const [stage, canvas, view, chosen, status] = ["stage", "canvas", "view", "chosen", "status"].map(find);
  const embedded = !("explorer" in map.dataset);
  const ask = latest();
  let wanted = location.href; // what was asked for last, whether or not it is answered

  const { slice, narrow } = map.dataset;
  try {
    if (embedded) view.innerHTML = await ask(map.clientWidth < 560 ? narrow : slice);
  } catch (error) {
    find("waiting").textContent = error.message;
    return;
  }
  const { default: cytoscape } = await import(map.dataset.cytoscape);
  stage.hidden = false;
  const drawing = new Drawing(cytoscape, canvas, { embedded, onChoose: tell, onOpen: expand });
  if (embedded) find("waiting").hidden = true;
  else {
    tabs(map);
    filters(map, () => wanted, follow);
    searching(map);
    window.addEventListener("popstate", () => follow(location.href, false));
  }
  show();

  function show() {
    view.dispatchEvent(new CustomEvent("mathematics", { bubbles: true }));
    const summary = view.querySelector("[data-summary]");
    if (!summary) return;
    status?.replaceChildren(...summary.cloneNode(true).childNodes);
    drawing.show(elements(view));
    const kept = drawing.chosen && entry(view, drawing.chosen);
    drawing.choose((kept ?? view.querySelector("[data-centre]")).dataset.node);
  }

  async function follow(address, remember = true) {
    const url = new URL(address, location.href);
    const had = map.contains(document.activeElement) && !view.contains(document.activeElement);
    const inForm = document.activeElement?.closest("form");
    wanted = url.href;
    map.setAttribute("aria-busy", "true");
    try {
      view.innerHTML = await ask(`/map/slice${url.search}`);
    } catch (error) {
      if (wasTakenBack(error)) return;
      document.dispatchEvent(new CustomEvent("studio:toast", { detail: error.message }));
      wanted = location.href;
      map.removeAttribute("aria-busy");
      return;
    }
    map.removeAttribute("aria-busy");
    if (!embedded) {
      const { query } = view.querySelector("[data-query]").dataset;
      if (remember) history.pushState(null, "", `/map?${query}`);
      const name = view.querySelector("[data-centre] .map-entry__name").cloneNode(true);
      find("heading").replaceChildren("Around ", ...name.childNodes);
    }
    const centre = view.querySelector("[data-centre]")?.dataset.node;
    if (url.searchParams.get("expanded") === null) drawing.chosen = centre;
    show();
    if (had && !inForm) canvas.focus({ preventScroll: true });
  }

  function tell(id) {
    const said = entry(view, id);
    const copies = [".map-entry__head", ".map-entry__actions"]
      .map((part) => said.querySelector(part)?.cloneNode(true))
      .filter(Boolean);
    chosen.replaceChildren(...copies);
  }

  function act(id, action) {
    return entry(view, id)?.querySelector(`[data-act="${action}"]`);
  }

  function expand(id) {
    const link = act(id, "expand");
    if (link) follow(link.href);
  }

  map.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-go]");
    const elsewhere = event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0;
    if (!link || elsewhere || (embedded && link.dataset.act !== "expand")) return;
    event.preventDefault();
    follow(link.href);
  });

  map.addEventListener("click", (event) => {
    const button = event.target.closest("[data-zoom]");
    if (!button) return;
    if (button.dataset.zoom === "all") drawing.all();
    else drawing.zoom(button.dataset.zoom === "in" ? ZOOM : 1 / ZOOM);
  });

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (ARROWS.has(key)) drawing.go(key);
    else if (key === "Enter") expand(drawing.chosen);
    else if (key === "f") act(drawing.chosen, "focus")?.click();
    else if (key === "o") entry(view, drawing.chosen)?.querySelector(".map-entry__name").click();
    else if (key === "+" || key === "=") drawing.zoom(ZOOM);
    else if (key === "-") drawing.zoom(1 / ZOOM);
    else if (key === "0") drawing.all();
    else return;
    event.preventDefault();
  });
}

const wasTakenBack = (error) => error.name === "AbortError";

// Asking for a part of the page: the latest question counts, an earlier one is taken back. Without an
// address nothing is asked for any more.
function latest() {
  let under_way = null;
  return async (address) => {
    under_way?.abort();
    const { signal } = (under_way = new AbortController());
    if (!address) return "";
    const answer = await fetch(address, { signal }).catch((error) => {
      throw wasTakenBack(error) ? error : new Error("The studio does not answer.");
    });
    const text = await answer.text();
    if (answer.ok) return text;
    const said = new DOMParser().parseFromString(text, "text/html").querySelector("main p");
    throw new Error(said?.textContent ?? `The map could not be read (${answer.status}).`);
  };
}

function tabs(map) {
  const bar = map.querySelector("[data-switch]");
  const buttons = [...bar.querySelectorAll("[data-show]")];
  bar.hidden = false;
  const panel = (button) => map.querySelector(`[data-panel="${button.dataset.show}"]`);
  const show = (chosen) => {
    for (const button of buttons) {
      button.setAttribute("aria-selected", String(button === chosen));
      button.tabIndex = button === chosen ? 0 : -1;
      panel(button).hidden = button !== chosen;
    }
  };
  for (const button of buttons) {
    panel(button).setAttribute("role", "tabpanel");
    panel(button).setAttribute("aria-labelledby", button.id);
    button.addEventListener("click", () => show(button));
    button.addEventListener("keydown", ({ key }) => {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return;
      const other = buttons[1 - buttons.indexOf(button)];
      show(other);
      other.focus();
    });
  }
  show(buttons[0]);
}

function filters(map, wanted, follow) {
  const form = map.querySelector("[data-filter]");
  if (!form) return;
  const boxes = [...form.querySelectorAll('[name="kinds"]')];
  const apply = () => {
    const url = new URL(wanted());
    const kinds = boxes.filter((box) => box.checked).map((box) => box.value);
    if (!kinds.length) return;
    set(url, "kinds", kinds.length < boxes.length ? kinds.join(",") : "");
    for (const name of ["depth", "limit"]) set(url, name, form.elements[name].value);
    follow(url);
  };
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
  window.addEventListener("popstate", () => {
    const asked = new URL(location.href).searchParams;
    const kinds = asked.getAll("kinds").join(",");
    for (const box of boxes) box.checked = !kinds || kinds.split(",").includes(box.value);
    form.elements.depth.value = asked.get("depth") ?? "1";
    form.elements.limit.value = asked.get("limit") ?? "40";
  });
}

function set(url, name, value) {
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
}

function searching(map) {
  const form = map.querySelector("[data-search]");
  const [box, list] = [form.elements.q, form.querySelector("[data-found-list]")];
  const question = latest();
  let timer;
  const ask = async () => {
    clearTimeout(timer);
    const asked = new URL(location.href).searchParams;
    asked.set("q", box.value);
    try {
      list.innerHTML = await question(box.value.trim() && `/map/found?${asked}`);
    } catch (error) {
      if (!wasTakenBack(error)) list.textContent = error.message;
      return;
    }
    list.dispatchEvent(new CustomEvent("mathematics", { bubbles: true }));
  };
  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 180);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  list.addEventListener("click", (event) => {
    if (!event.target.closest("[data-go]")) return;
    box.value = "";
    ask(); // for nothing: what was typed is no longer looked for
    map.querySelector("[data-canvas]").focus({ preventScroll: true });
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const stops = [box, ...list.querySelectorAll("[data-found]")];
    const place = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    stops[place]?.focus();
    event.preventDefault();
  });
}
