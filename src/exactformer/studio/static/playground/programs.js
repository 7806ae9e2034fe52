// The page of a program: the server has drawn every step; here they are shown one at a time.

import { find } from "./dom.js";
import { offerLink } from "./fetching.js";
import { frozen, keeping } from "./picture.js";
import { Player } from "./player.js";
import { State } from "./state.js";

const form = find("controls");
const steps = [...document.querySelectorAll(".pg-step-card")];
// What a page showed before is another page; steps only change the present address.
const state = new State(form, () => location.reload());

if (steps.length) {
  const player = new Player(find("player"), (step) => {
    steps.forEach((card, k) => (card.hidden = k !== step));
    form.elements.step.value = step || "";
    state.keep(false);
  });
  const stations = steps.map((card) => ({
    title: card.querySelector("h3").textContent,
    words: card.querySelector(".pg-step-card__words").textContent,
  }));
  for (const card of steps) {
    card.querySelector(".pg-step-card__words").hidden = true;
    const drawn = card.querySelector(".pg-attention");
    if (drawn) card.querySelector("figure").append(keeping(() => picture(card, drawn)));
  }
  player.show(stations, Number(form.elements.step.value) || 0);
  offerLink(find("copy-link"));
}

function picture(card, drawn) {
  const words = (selector, place = document) => place.querySelector(selector).textContent.trim();
  return {
    ...frozen(drawn),
    title: words("h3", card),
    lines: [
      words(".pg-step-card__words", card),
      words("figcaption", card),
      `Program: ${find("program").defaultValue.trim().replace(/\s*\n\s*/g, "; ")}`,
      `Error ${words("#facts .badge")}.`,
    ],
  };
}

// Another program or input begins at its first step.
form.addEventListener("submit", () => (form.elements.step.value = ""));
