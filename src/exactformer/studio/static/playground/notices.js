// What stands against a request, above the result, with a button that applies the remedy. What the
// server has put there stays until something new is asked for. A result that belongs to an earlier
// request is greyed, and says so.

import { element } from "./dom.js";
import { Refused, wasTakenBack } from "./fetching.js";

const place = document.getElementById("problem");
const result = document.getElementById("result");
let isFromServer = !place.hidden;

export function complain(error) {
  if (wasTakenBack(error)) return;
  const words = error instanceof Refused ? error.message : "The studio does not answer.";
  place.replaceChildren(element("span", {}, words), ...remedyOf(error));
  place.hidden = false;
  markStale();
}

export function allIsWell() {
  if (!isFromServer) place.hidden = true;
  isFromServer = false;
  result.classList.remove("pg-stale");
  result.querySelector(".pg-stale-note")?.remove();
}

// Say that what stands below was not asked for now.
export function markStale(words = "Still showing the last result.") {
  if (result.hidden || result.classList.contains("pg-stale")) return;
  result.classList.add("pg-stale");
  result.prepend(element("p", { class: "notice notice--warn pg-stale-note", role: "status" }, words));
}

export function remedyOf({ remedy }) {
  if (!remedy) return [];
  const apply = () => {
    const form = document.getElementById("controls");
    for (const [name, value] of Object.entries(remedy.set)) form.elements[name].value = value;
    form.requestSubmit();
  };
  return [
    " ",
    element("button", { type: "button", class: "button button--small", onclick: apply }, remedy.label),
  ];
}
