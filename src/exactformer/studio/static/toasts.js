// What concerns every page: numbers that stand in several places, a word when nothing is answered, and
// one question at a time about a part.
(() => {
  const SECONDS = 8;

  const toast = (message) => {
    const place = document.getElementById("toasts");
    const note = document.createElement("p");
    note.className = "notice notice--bad toast";
    note.textContent = message;
    place.replaceChildren(note);
    setTimeout(() => note.remove(), 1000 * SECONDS);
  };

  document.addEventListener("studio:counts", (event) => {
    for (const [name, number] of Object.entries(event.detail)) {
      if (typeof number !== "number") continue;
      for (const place of document.querySelectorAll(`[data-count="${CSS.escape(name)}"]`)) {
        place.textContent = number.toLocaleString("en-GB");
        if (number) place.closest("[hidden]")?.removeAttribute("hidden");
      }
      for (const place of document.querySelectorAll(`[data-word="${CSS.escape(name)}"]`))
        place.textContent = number === 1 ? place.dataset.one : place.dataset.many;
    }
  });

  document.addEventListener("htmx:sendError", (event) => {
    if (event.detail.requestConfig.elt.matches?.("form[data-draft]")) return; // says so itself
    toast("The studio does not answer. Nothing was changed: try again in a moment.");
  });
  document.addEventListener("studio:toast", (event) => toast(event.detail));
  document.addEventListener("htmx:timeout", () => toast("The studio took too long to answer."));

  // A form that is on its way is not sent again; htmx sees to its own.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if ("sent" in form.dataset) event.preventDefault();
    form.dataset.sent = "";
    setTimeout(() => delete form.dataset.sent, 1000 * SECONDS);
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  });

  // An answer replaces the part that it was asked from. What is pressed there meanwhile waits, and is
  // then pressed in the new part; a switch that already stands as wanted is left alone.
  const awaited = new Map(); // by the id of a part: what was pressed in it meanwhile

  const isSame = (button, other) =>
    [button.name, button.id].join() === [other.name, other.id].join() &&
    (!other.hasAttribute("aria-pressed") || button.value === other.value);

  const press = ({ elt, submitter }) => {
    const kind = elt.hasAttribute("hx-post") ? "hx-post" : "hx-get";
    const found = [...document.querySelectorAll(`[${kind}="${CSS.escape(elt.getAttribute(kind))}"]`)];
    if (!submitter) return found[0]?.click();
    const buttons = found.flatMap((form) => [...form.querySelectorAll("button")]);
    const button = buttons.find((each) => isSame(each, submitter));
    if (!button) return;
    for (const { name, value } of elt.querySelectorAll("textarea, input:not([type=hidden])"))
      button.form.elements[name].value = value;
    button.click();
  };

  const proceed = (part) => {
    const pressed = awaited.get(part.id) ?? [];
    awaited.delete(part.id);
    pressed.forEach(press); // the first goes, the others wait again
  };

  document.addEventListener("htmx:confirm", (event) => {
    const { elt, target, triggeringEvent } = event.detail;
    if (!target.id || target === elt || !target.contains(elt)) return;
    const pressed = awaited.get(target.id);
    if (!pressed) return awaited.set(target.id, []);
    event.preventDefault();
    pressed.push({ elt, submitter: triggeringEvent.submitter });
  });
  document.addEventListener("htmx:load", (event) => proceed(event.detail.elt));
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.target.isConnected) proceed(event.detail.target); // nothing was replaced
  });

  // A form that was opened in place is closed in place.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-close]");
    const slot = link?.closest(".slot");
    if (!slot) return;
    event.preventDefault();
    slot.replaceChildren();
  });

  // "/" goes to the search field, as on many sites.
  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("[type=search]");
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || !search) return;
    event.preventDefault();
    search.focus();
  });
})();
