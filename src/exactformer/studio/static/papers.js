// A paper's page: figures open in place, commands are copied by a button. Without this file figures
// are links and commands can be selected.

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
