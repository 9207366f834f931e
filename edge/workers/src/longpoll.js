// Long polling, as in edge/internal/server/longpoll.go: a request on a waiting route may have "Prefer: wait=N" (RFC
// 7240). While its response is 304, the guest is asked again.

export const maxWait = 20; // seconds

// pollInterval is how long a request waits before it asks again, in milliseconds. It is longer
// than natively, because each asking is some requests to Durable Objects, which are paid
// for and limited for each request.
const pollInterval = 2_000;

// The maximum number of waiting requests in an isolate.
const maxWaiting = 256, maxWaitingPerClient = 16;

// WaitLimiter counts the requests that wait. With the flag enable_request_signal the platform
// tells that a client has gone, but not always: workerd does if the connection was reset,
// and not if the client has only closed it. So a request that is past its time is forgotten.
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

const late = 15_000; // ms that the last asking may take

// networkOf returns the network that a client is counted under: its address, or its /64. "" is no address.
const networkOf = (address) => address.slice(0, 8).join(".");

// longPoll returns the response to a request; response is the first one.
//   seconds   the wait that the request prefers
//   begin     when the request came
//   client    the bytes of the client's address
//   signal    aborts when the client has gone, if the platform reports it
//   ask()     → another response, or null if there is no place
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
  for (const name of ["Ratelimit", "Ratelimit-Policy"]) { // it was counted when it came
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
