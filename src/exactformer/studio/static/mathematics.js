// Mathematics: elements of class "math" hold LaTeX, and KaTeX draws them in place. Without scripts
// the LaTeX itself stays readable.
(() => {
  const PATIENCE = 3000; // milliseconds for fonts, as long as browsers leave their text out

  const draw = (root) => {
    const found = [...root.querySelectorAll(".math:not([data-drawn])")];
    if (root.matches?.(".math:not([data-drawn])")) found.push(root);
    for (const element of found) {
      const source = element.textContent;
      element.dataset.drawn = "";
      try {
        katex.render(source, element, {
          displayMode: (element.dataset.display ?? "false") !== "false",
          throwOnError: true,
          strict: false,
          trust: false,
          maxSize: 20,
          maxExpand: 200,
        });
      } catch {
        // Not TeX, or nested too deeply to be read; the other formulas are drawn.
        element.textContent = source;
        element.classList.add("math--wrong");
        element.title = "This formula cannot be read";
      }
    }
    const wide = found.filter((element) => element.offsetWidth > roomOf(element));
    for (const element of wide) element.classList.add("math--wide"); // a fraction does not break
  };

  const roomOf = (element) => {
    const block = element.parentElement;
    return getComputedStyle(block).display === "inline" ? roomOf(block) : block.clientWidth;
  };

  draw(document.body); // this script holds the first picture of the page back, so that nothing moves
  // In other fonts formulas have other widths, and lines break elsewhere.
  if (document.fonts.status === "loading") {
    const { classList } = document.documentElement;
    classList.add("awaits-fonts");
    const late = new Promise((done) => setTimeout(done, PATIENCE));
    Promise.race([document.fonts.ready, late]).then(() => classList.remove("awaits-fonts"));
  }
  document.addEventListener("htmx:load", (event) => draw(event.detail.elt));
  document.addEventListener("mathematics", (event) => draw(event.target));
})();
