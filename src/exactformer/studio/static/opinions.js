// Writing and ordering, made pleasant: previews, drafts that survive, dragging. Every page works
// without this file, too.

const STORE = "exactformer-draft:";
const PAUSE = 350;
const ROOM = matchMedia("(min-width: 62rem)"); // for a preview beside the text

// Drafts: what is typed into a form with data-draft is kept in this browser until it is sent.

const fieldsOf = (form) =>
  [...form.elements].filter((field) => field.name && field.name !== "csrf_token" && field.type !== "submit");

const valuesOf = (form) => {
  const values = {};
  for (const field of fieldsOf(form)) {
    if (field.type !== "radio" || field.checked) values[field.name] = field.value;
  }
  return values;
};

const textsOf = (form) => fieldsOf(form).filter((field) => field.tagName === "TEXTAREA");

const fill = (form, values) => {
  for (const field of fieldsOf(form)) {
    if (!(field.name in values)) continue;
    if (field.type === "radio") field.checked = field.value === values[field.name];
    else field.value = values[field.name];
  }
};

const keep = (form) => {
  const key = STORE + form.dataset.draft;
  const changed = textsOf(form).some((field) => field.value !== field.defaultValue);
  try {
    if (changed) localStorage.setItem(key, JSON.stringify(valuesOf(form)));
    else localStorage.removeItem(key);
  } catch {
    // A browser that stores nothing still sends forms.
  }
};

const forget = (form) => {
  try {
    localStorage.removeItem(STORE + form.dataset.draft);
  } catch {
    // Nothing was stored.
  }
};

const restore = (form) => {
  let kept = null;
  try {
    kept = JSON.parse(localStorage.getItem(STORE + form.dataset.draft));
  } catch {
    return;
  }
  const differs = kept && textsOf(form).some((field) => kept[field.name] && kept[field.name] !== field.value);
  if (!differs) return;
  const original = valuesOf(form);
  fill(form, kept);
  const note = form.querySelector(".draft-note");
  const text = document.createElement("span");
  text.textContent = "What you had not sent yet is back.";
  text.className = "muted small";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button button--small";
  button.textContent = "Discard the draft";
  button.addEventListener("click", () => {
    fill(form, original);
    forget(form);
    note.hidden = true;
    textsOf(form)[0].focus();
  });
  note.replaceChildren(text, button);
  note.hidden = false;
};

const say = (form, message) => {
  const notice = document.createElement("p");
  notice.className = "notice notice--bad";
  notice.textContent = message;
  form.querySelector(".form-problem")?.replaceChildren(notice);
};

// Previews: the server renders with the same rules as the page. The latest text counts.

const previews = new WeakMap();

const show = async (editor) => {
  previews.get(editor)?.abort();
  const mine = new AbortController();
  previews.set(editor, mine);
  const text = editor.querySelector("textarea").value;
  const target = editor.querySelector(".editor__preview");
  const body = new URLSearchParams({
    text,
    paper: editor.dataset.paper,
    csrf_token: editor.closest("form").elements.csrf_token.value,
  });
  try {
    const { signal } = mine;
    const answer = await fetch("/preview", { method: "POST", body, signal, headers: { "HX-Request": "true" } });
    if (answer.redirected || answer.status === 401) throw new Error("the session is over");
    target.innerHTML = await answer.text();
    target.dispatchEvent(new CustomEvent("mathematics", { bubbles: true }));
  } catch {
    if (mine.signal.aborted) return;
    target.textContent = "The preview cannot be reached now; your text is kept in this browser.";
  }
};

const prepareEditor = (editor) => {
  const button = editor.querySelector("[data-preview]");
  const target = editor.querySelector(".editor__preview");
  let waiting = 0;
  let isAsked = false; // who has pressed the button decides; else it opens where there is room
  const turn = (isOpen) => {
    target.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) show(editor);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    isAsked = true;
    turn(target.hidden);
  });
  editor.querySelector("textarea").addEventListener("input", () => {
    clearTimeout(waiting);
    if (!isAsked && target.hidden && ROOM.matches) turn(true);
    else if (!target.hidden) waiting = setTimeout(() => show(editor), PAUSE);
  });
};

// Order: the list of a collection can be dragged; buttons do the same for the keyboard.

const prepareOrder = (list) => {
  let held = null;
  list.dataset.draggable = "";
  const items = [...list.children];
  const clear = () => items.forEach((item) => item.classList.remove("item--over", "item--held"));
  for (const item of items) {
    const grip = item.querySelector(".grip");
    grip.addEventListener("pointerdown", () => (item.draggable = true));
    item.addEventListener("dragstart", (event) => {
      held = item;
      event.dataTransfer.effectAllowed = "move";
      item.classList.add("item--held");
    });
    item.addEventListener("dragover", (event) => {
      if (!held) return;
      event.preventDefault();
      items.forEach((other) => other.classList.toggle("item--over", other === item && item !== held));
    });
    item.addEventListener("dragend", () => {
      item.draggable = false;
      held = null;
      clear();
    });
    item.addEventListener("drop", (event) => {
      event.preventDefault();
      if (!held || held === item) return;
      const form = held.querySelector(".item__order");
      const button = document.createElement("button");
      Object.assign(button, { name: "position", value: items.indexOf(item), hidden: true });
      form.append(button);
      button.click();
    });
  }
};

// Putting it together, for the page and for what htmx brings later.

const once = (root, selector, prepare) => {
  const found = [...root.querySelectorAll(selector)];
  if (root.matches?.(selector)) found.push(root);
  for (const element of found) {
    if ("prepared" in element.dataset) continue;
    element.dataset.prepared = "";
    prepare(element);
  }
};

const prepare = (root) => {
  once(root, "form[data-draft]", (form) => {
    restore(form);
    form.addEventListener("input", () => keep(form));
    // Before the answer is shown: what it brings may be the same form, which looks for its draft. What
    // was written after sending is not sent, and stays.
    form.addEventListener("htmx:beforeOnLoad", ({ detail: { xhr, requestConfig } }) => {
      const isAllSent = textsOf(form).every(({ name, value }) => value === requestConfig.parameters[name]);
      if (xhr.status < 300 && isAllSent) forget(form);
    });
    const problem = form.querySelector(".form-problem .notice");
    if (problem) {
      problem.tabIndex = -1;
      problem.focus();
    }
  });
  once(root, "[data-editor]", prepareEditor);
  once(root, "[data-sortable]", prepareOrder);
  once(root, "[data-copy]", (button) => {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value);
      button.textContent = "Copied";
    });
  });
};

document.addEventListener("htmx:sendError", (event) => {
  const form = event.detail.requestConfig.elt;
  if (form.matches?.("form[data-draft]")) {
    say(form, "The connection was lost. Your text is kept in this browser: send it again later.");
  }
});
document.addEventListener("htmx:load", (event) => prepare(event.detail.elt));
prepare(document.body);
