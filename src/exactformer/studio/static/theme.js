// The colour scheme: the system's, unless the reader chose one. Loaded in the head, before anything
// is drawn, so that no page flashes in the wrong one; for the same reason it marks that scripts run.
(() => {
  const KEY = "exactformer-scheme";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const current = () => root.dataset.scheme ?? (dark.matches ? "dark" : "light");

  const apply = (scheme) => {
    if (scheme === "dark" || scheme === "light") root.dataset.scheme = scheme;
    else delete root.dataset.scheme;
  };

  const describe = () => {
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      button.setAttribute("aria-label", `Use the ${current() === "dark" ? "light" : "dark"} colour scheme`);
    }
    document.dispatchEvent(new CustomEvent("schemechange", { detail: current() }));
  };

  root.dataset.scripts = "";
  if (new URLSearchParams(location.search).get("embed") === "1") {
    root.dataset.embed = ""; // in a frame of another site: the content alone, links in a window
    addEventListener("click", (event) => {
      const link = event.target.closest?.("a[href]");
      if (link) link.target = "_blank";
    }, true);
  }
  apply(chosen());
  dark.addEventListener("change", describe);
  addEventListener("storage", (event) => {
    if (event.key === KEY) {
      apply(event.newValue);
      describe();
    }
  });
  addEventListener("DOMContentLoaded", () => {
    describe();
    document.addEventListener("click", (event) => {
      if (!event.target.closest("[data-theme-toggle]")) {
        // An open menu closes when something else is clicked.
        for (const menu of document.querySelectorAll("details.menu[open]")) {
          if (!menu.contains(event.target)) menu.open = false;
        }
        return;
      }
      const scheme = current() === "dark" ? "light" : "dark";
      apply(scheme);
      try {
        localStorage.setItem(KEY, scheme);
      } catch {
        // Without storage the choice lasts as long as the page.
      }
      describe();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      for (const menu of document.querySelectorAll("details.menu[open]")) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
    });
  });
})();
