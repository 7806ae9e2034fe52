// The token that changes must carry, for scripts on pages that visitors read without a session.

let asked = null;

/** Return the token of this browser's session; a visitor gets a session the first time. */
export function token() {
  asked ??= fetch("/api/v1/session", { headers: { Accept: "application/json" } })
    .then((answer) => answer.json())
    .then((session) => session.csrf_token);
  return asked;
}

/** Send JSON and return what comes back; refusals are thrown with the studio's own words. */
export async function send(method, address, body, signal) {
  const answer = await fetch(address, {
    method,
    signal,
    headers: { "Content-Type": "application/json", "X-CSRF-Token": await token() },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const content = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) {
    if (answer.status === 403) asked = null; // a new session may have begun in another tab
    throw Object.assign(new Error(content?.error?.message ?? answer.statusText), {
      status: answer.status,
    });
  }
  return content;
}
