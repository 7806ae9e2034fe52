// What stands against a request, above the result. What the server has put there stays until
// something new is asked for.

import { Refused, wasTakenBack } from "./fetching.js";

const place = document.getElementById("problem");
let isFromServer = !place.hidden;

export function complain(error) {
  if (wasTakenBack(error)) return;
  place.textContent = error instanceof Refused ? error.message : "The studio does not answer.";
  place.hidden = false;
}

export function allIsWell() {
  if (!isFromServer) place.hidden = true;
  isFromServer = false;
}
