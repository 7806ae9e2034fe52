// Asking the server: the latest question counts, earlier ones are taken back.

const PACE = 40; // milliseconds between questions while something moves

export class Refused extends Error {
  constructor(status, { message = "no answer", remedy = null } = {}) {
    super(message);
    Object.assign(this, { status, remedy });
  }
}

export function latest() {
  let under_way = null;
  return async (address) => {
    under_way?.abort();
    const mine = (under_way = new AbortController());
    const response = await fetch(address, {
      signal: mine.signal,
      headers: { Accept: "application/json" },
    });
    const body = await response.json();
    if (!response.ok) throw new Refused(response.status, body.error);
    return body;
  };
}

export const wasTakenBack = (error) => error.name === "AbortError";

export function unhurried(action, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}

// Follow something that moves: one question at a time, and after each the latest one.
export function following(action) {
  let isBusy = false;
  let isWanted = false;
  return async () => {
    isWanted = true;
    if (isBusy) return;
    isBusy = true;
    try {
      while (isWanted) {
        isWanted = false;
        await action();
        await new Promise((done) => setTimeout(done, PACE));
      }
    } finally {
      isBusy = false;
    }
  };
}

export function offerLink(button) {
  button.hidden = false;
  const words = button.textContent;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Copied";
    } catch {
      button.textContent = "The address bar has it";
    }
    setTimeout(() => (button.textContent = words), 2000);
  });
}
