// Long polling, as in edge/internal/server/longpoll.go: a request on a waiting route may have "Prefer: wait=N" (RFC
// 7240). While its response is 304, the request is repeated.

export const maxWait = 20; // seconds

// pollInterval is the time between two polls in milliseconds. It is longer than natively, because each
// poll sends some requests to Durable Objects, which are billed and limited for each request.
const pollInterval = 2_000;

// The maximum number of waiting requests in an isolate.
const maxWaiting = 256, maxWaitingPerClient = 16;

// WaitLimiter counts the long polls. With the flag enable_request_signal the platform reports a disconnected
// client, but not always: workerd reports a reset connection, but not a connection that the client has only
// closed. So a request that is past its time is removed.
export class WaitLimiter {
  #until = new Map(); // by request, {client, until}

  // acquire lets a request wait, or returns null. until is in milliseconds, as now is.
  acquire(client, now, until) {
    let same = 0;
    for (const [id, other] of this.#until) {
      if (other.until + late < now) this.#until.delete(id);
      else if (other.client === client) same++;
    }
    if (this.#until.size >= maxWaiting || client !== "" && same >= maxWaitingPerClient) return null;
    const id = {};
    this.#until.set(id, { client, until });
    return id;
  }

  release(id) {
    this.#until.delete(id);
  }
}

const late = 15_000; // ms that the last poll may take

// networkOf returns the network whose requests share a limit: the address, or its /64. "" means no address.
const networkOf = (address) => address.slice(0, 8).join(".");

// longPoll returns the response to a request; response is the first one.
//   seconds   the wait that the request prefers
//   begin     the time of the request
//   client    the bytes of the client's address
//   signal    aborts when the client has disconnected, if the platform reports it
//   ask()     → another response, or null if the service is full
//   limiter   a WaitLimiter
export async function longPoll(response, { seconds, begin, client, signal, ask, limiter }) {
  const until = begin + seconds * 1000;
  if (seconds === 0 || response.status !== 304 || Date.now() >= until) return response;
  const id = limiter.acquire(networkOf(client), Date.now(), until);
  if (id === null) return response;
  signal.addEventListener("abort", () => limiter.release(id)); // the code below may not be reached
  const rates = response.header;
  try {
    for (;;) {
      const left = until - Date.now();
      if (left <= 0) break;
      await new Promise((done) => setTimeout(done, Math.min(pollInterval, left)));
      if (Date.now() >= until || signal.aborted) break;
      response = (await ask()) ?? response;
      if (response.status !== 304) break;
    }
  } finally {
    limiter.release(id);
  }
  const header = { ...response.header, "Preference-Applied": [`wait=${seconds}`] };
  for (const name of ["Ratelimit", "Ratelimit-Policy"]) { // it was counted on arrival
    if (rates[name] && !header[name]) header[name] = rates[name];
  }
  return { ...response, header };
}

// preferredWait returns the number of seconds that a request prefers to wait: the value of the first "wait"
// in its Prefer, at most maxWait. It returns 0 if there is no such value or if it is not a whole number.
export function preferredWait(lines) {
  for (const line of lines) {
    for (const preference of splitOutsideQuotes(line, ",")) {
      const [, name, value] = /^[ \t]*([^=]*?)[ \t]*(?:=[ \t]*(.*?)[ \t]*)?$/s.exec(
        splitOutsideQuotes(preference, ";")[0]);
      if (name.toLowerCase() !== "wait") continue;
      const digits = (value ?? "").replace(/^"(.*)"$/s, "$1");
      return /^\d+$/.test(digits) ? Math.min(Number(digits), maxWait) : 0;
    }
  }
  return 0;
}

// splitOutsideQuotes splits at a character outside quoted strings.
function splitOutsideQuotes(text, at) {
  const parts = [];
  let begin = 0, quoted = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '"') quoted = !quoted;
    else if (text[i] === "\\" && quoted) i++;
    else if (text[i] === at && !quoted) {
      parts.push(text.slice(begin, i));
      begin = i + 1;
    }
  }
  return [...parts, text.slice(begin)];
}
