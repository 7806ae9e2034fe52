// What is asked for stands in the address: the form and the query string say the same, both ways.

export class State {
  constructor(form, changed) {
    this.form = form;
    this.changed = changed;
    this.now = this.query();
    history.replaceState(null, "", `?${this.now}`); // from the beginning, defaults included
    addEventListener("popstate", () => {
      this.set(new URLSearchParams(location.search));
      this.now = this.query();
      changed("all");
    });
  }

  query() {
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(this.form)) if (value !== "") query.set(name, value);
    return query.toString();
  }

  get(name) {
    return this.form.elements[name].value;
  }

  // Put values into the form; names that are not given go back to what the page began with.
  set(values) {
    for (const control of this.form.elements) {
      if (!control.name) continue;
      const value =
        values.get(control.name) ?? (control.type === "hidden" ? "" : beginning(control));
      control.value = value;
    }
  }

  // Write the form into the address: a new entry of the history, or the present one changed.
  keep(asNewEntry) {
    const query = this.query();
    if (query === this.now) return;
    this.now = query;
    history[asNewEntry ? "pushState" : "replaceState"](null, "", `?${query}`);
  }
}

function beginning(control) {
  if (control.tagName !== "SELECT") return control.defaultValue;
  return ([...control.options].find((option) => option.defaultSelected) ?? control.options[0])
    .value;
}
