// The research map: every [data-map] of a page is drawn, those marked data-lazy when they come into
// view. What is drawn is read off the list that the server sends; the two cannot disagree.

import { open } from "./map/explorer.js";

const waiting = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) {
        waiting.unobserve(target);
        open(target);
      }
    }
  },
  { rootMargin: "200px" },
);

for (const map of document.querySelectorAll("[data-map]")) {
  if ("lazy" in map.dataset) waiting.observe(map);
  else open(map);
}
