// A paper's page: claims open when they are linked to, tabs follow the reader, figures open in place,
// commands are copied by a button. Without this file claims open by hand, figures are links and
// commands can be selected.

// A link to a claim opens its card, and so does printing to all of them.
const folds = [...document.querySelectorAll(".fold")];

const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target?.querySelector(":scope > .fold");
  if (!fold || fold.open) return;
  fold.open = true;
  target.scrollIntoView();
};
window.addEventListener("hashchange", unfold);
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href*='#']");
  if (link && link.href === location.href) unfold();
});
window.addEventListener("beforeprint", () => folds.forEach((fold) => (fold.open = true)));
unfold();

for (const button of document.querySelectorAll("[data-unfold]")) {
  const own = () => document.querySelectorAll(`${button.dataset.unfold} .fold`);
  button.addEventListener("click", () => {
    const isOpen = button.getAttribute("aria-pressed") === "true";
    for (const fold of own()) fold.open = !isOpen;
    button.setAttribute("aria-pressed", String(!isOpen));
  });
}

for (const button of document.querySelectorAll("[data-unclamp]")) {
  const text = document.getElementById(button.getAttribute("aria-controls"));
  const isWhole = () => text.scrollHeight <= text.clientHeight + 1;
  if (isWhole()) text.parentElement.classList.add("is-whole");
  button.addEventListener("click", () => text.parentElement.classList.add("is-whole"));
}

// The tab of what is being read.
const tabs = document.querySelector(".paper__tabs");
if (tabs) {
  const links = new Map([...tabs.children].map((link) => [link.hash.slice(1), link]));
  const parts = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
  const mark = () => {
    const line = tabs.getBoundingClientRect().bottom + 80;
    const read = parts.filter((part) => part.getBoundingClientRect().top < line).at(-1);
    for (const [id, link] of links) {
      if (id !== read?.id) link.removeAttribute("aria-current");
      else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "true");
        tabs.scrollTo({ left: link.offsetLeft - tabs.offsetLeft - tabs.clientWidth / 3 });
      }
    }
  };
  let waiting = 0;
  document.addEventListener("scroll", () => (waiting ||= requestAnimationFrame(() => { waiting = 0; mark(); })), { passive: true });
  mark();
}

const viewer = document.getElementById("viewer");
const picture = document.getElementById("viewer-image");
const file = document.getElementById("viewer-link");

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-figure]");
  if (!link || !viewer || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  picture.src = link.href;
  picture.alt = link.querySelector("img").alt;
  file.href = link.href;
  viewer.showModal();
});

viewer?.addEventListener("click", (event) => {
  if (event.target === viewer) viewer.close();
});

for (const button of document.querySelectorAll("[data-command]")) {
  button.hidden = false;
  const label = button.firstChild;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.command);
      label.textContent = "Copied";
    } catch {
      label.textContent = "Select and copy";
    }
    setTimeout(() => (label.textContent = "Copy"), 1500);
  });
}
