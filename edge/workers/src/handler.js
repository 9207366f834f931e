// The tasks of edge/internal/server: limits, client addresses, health, the access log, and responses if the core gives
// none. Requests and responses are read as a whole.

import * as abi from "./abi.js";
import { canonicalName, read } from "./egress.js";
import { errorPage } from "./errorpage.js";
import { Busy } from "./guest.js";
import { adminRoutes, alivePath, publicRoutes, readyPath, storePath } from "./routes.js";
import { Table, logPath, operatorsPath, uuid } from "./table.js";
import { longPoll, preferredWait } from "./longpoll.js";

const publicTable = new Table(publicRoutes), adminTable = new Table(adminRoutes);
const operatorsWords = adminTable.words().add(storePath.split("/").at(-1));

const maxRest = 1024 * 1024; // bytes of a body that is too large, which are read and dropped
const maxHeader = 48 * 1024;
const maxStoreBody = 1024 * 1024;

const hopByHop = new Set([
  "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
  "Content-Length",
]);

// serve handles one request. url is the request's URL. on has
//   run(entry, message, about) → the result of the guest, in time; if it throws, the
  //                         response is 503. about takes the request info of the guest
//   client(request)     → the bytes of the client's address, none if it is not known
//   isAdmin(url)        → whether the request is for the operators' API
//   ready(alone)        → "ok", "degraded" or "unavailable". alone ignores a KV that does not respond
//   log(line)
//   shown(client)       → the client's address in the log, "" for none
//   waits               a WaitLimiter for long polls
//   store(request, ask) → the result of storeAdmin; optional
export async function serve(request, url, on) {
  const begin = Date.now();
  const admin = on.isAdmin(url);
  if (!admin) {
    if (url.pathname === alivePath) return health(request, async () => "ok");
    if (url.pathname === readyPath) {
      return health(request, () => on.ready(url.searchParams.get("store") === "ignore"));
    }
  }
  const path = decoded(url.pathname), text = textOf(path ?? url.pathname);
  const route = (admin ? adminTable : publicTable).at(request.method, text);
  const known = {}; // the known fields of the request
  let response, client = abi.empty;
  try {
    client = on.client(request);
    response = await respond(request, url, { admin, path, route, known, begin }, client, on);
  } catch (e) {
    on.log({ level: 8, message: "request failed", error: e.message });
    known.code = "INTERNAL";
    response = errorResponse(request, 500, known.code, "Something went wrong on our side.", {}, !admin);
  }
  const shown = admin ? operatorsPath(operatorsWords, text) : logPath(route, text);
  const correlation = correlationID(request);
  const from = shownClient(on, client);
  on.log({
    level: 0, message: "request", listener: admin ? "admin" : "public", method: logMethod(request.method),
    route: route.label, ...(shown && { path: shown }),
    status: response.status, took_ms: Date.now() - begin, request_id: response.headers.get("X-Request-Id"),
    ...(from && { client: from }), ...known,
    ...(correlation && { correlation_id: await logCorrelation(correlation) }),
  });
  return response;
}

// shownClient returns the client's address in the log, or none if the setting is invalid.
function shownClient(on, client) {
  try {
    return on.shown(client);
  } catch (e) {
    on.log({ level: 8, message: "client address not logged", error: e.message });
    return "";
  }
}

const textOf = (path) => (typeof path === "string" ? path : abi.textOf(path));

async function respond(request, url, { admin, path, route, known, begin }, client, on) {
  const reject = (status, code, text, more) => {
    known.code = code;
    return errorResponse(request, status, code, text, more, !admin);
  };
  const target = request.url.slice(request.url.indexOf("/", request.url.indexOf("//") + 2));
  if (target.length > route.maxURL) {
    return reject(414, "URI_TOO_LONG", `The URL is longer than ${route.maxURL} bytes.`);
  }
  const header = {};
  let size = 0;
  for (const [name, value] of request.headers) {
    size += name.length + value.length + 4;
    // The platform joins the values of a duplicate header. For this header, a duplicate is an error
    // (contract 11), so a comma and a space in it count as two values.
    const values = name === "idempotency-key" ? value.split(", ") : [value];
    if (name !== "host") header[canonicalName(name)] = values;
  }
  if (size > maxHeader) {
    return reject(431, "INVALID_REQUEST", `The header is longer than ${maxHeader} bytes.`);
  }
  if (!path) return reject(400, "INVALID_REQUEST", "The URL is malformed.");
  const store = admin && path === storePath && on.store;
  let body;
  try {
    body = await bodyOf(request, store ? maxStoreBody : route.maxBody);
  } catch {
    return reject(400, "INVALID_REQUEST", "The request body could not be read.");
  }

  const call = { method: request.method, path, query: url.search.slice(1), header, body, client };
  // ask returns the guest's response. It throws Invalid if the response is invalid.
  const ask = async (entry, message) => {
    const result = await on.run(entry, message, (about) => {
      for (const [name, value] of Object.entries(about)) if (/^[A-Za-z0-9_.-]{1,200}$/.test(value)) known[name] = value;
    });
    try {
      const response = abi.read(abi.response, result);
      if (response.status >= 200 && response.status <= 599) return response;
    } catch (e) {
      if (!(e instanceof abi.Malformed)) throw e;
    }
    throw new Invalid();
  };
  if (store) {
    if (body.length > maxStoreBody) {
      return reject(413, "PAYLOAD_TOO_LARGE", `The request body is longer than ${maxStoreBody} bytes.`);
    }
    const { value, error, response } = await store(call, (message) => ask(abi.entry.admin, message));
    if (error) return reject(...error);
    if (value) return jsonResponse(request, value);
    if (response.body.length > 0) return responseOf(request, response);
    const text = "The token cannot be checked at the moment; no changes were made. Try again.";
    return reject(503, "UNAVAILABLE", text, { "Retry-After": "1" });
  }
  const message = abi.write(abi.request, call);
  // again repeats ask, and returns null if the service is full.
  const again = () => ask(abi.entry.handleAgain, message).catch((e) => {
    if (e instanceof Busy) return null;
    throw e;
  });
  try {
    const response = await ask(admin ? abi.entry.admin : abi.entry.handle, message);
    const seconds = route.waits ? preferredWait(header["Prefer"] ?? []) : 0;
    return responseOf(request, await longPoll(response, {
      seconds, begin, client, signal: request.signal, ask: again, limiter: on.waits,
    }));
  } catch (e) {
    if (e instanceof Invalid) {
      on.log({ level: 8, message: "invalid response from the guest" });
      return reject(500, "INTERNAL", "Something went wrong on our side.");
    }
    const busy = e instanceof Busy;
    if (!busy) on.log({ level: 8, message: "no response from the guest", error: e.message });
    const text = `The service ${busy ? "is busy" : "is temporarily unavailable"}; try again shortly.`;
    return reject(503, "UNAVAILABLE", text, { "Retry-After": "1" });
  }
}

// Invalid is thrown for an invalid response.
class Invalid extends Error {}

// bodyOf reads the body: in one step if its length is known and within the limit. Otherwise it reads at most
// one byte more than the route accepts, so that the core can detect a body that is too large.
async function bodyOf(request, maxBody) {
  const length = request.headers.get("Content-Length");
  const fits = length !== null && /^\d{1,9}$/.test(length) && Number(length) <= maxBody;
  if (fits) return new Uint8Array(await request.arrayBuffer());
  return request.body === null ? abi.empty : read(request.body, maxBody + 1, null, maxRest);
}

function jsonResponse(request, value) {
  const correlation = correlationID(request);
  return new Response(request.method === "HEAD" ? null : JSON.stringify(value), { headers: {
    "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store",
    "X-Request-Id": requestID(), ...(correlation && { "X-Correlation-Id": correlation }),
  } });
}

function responseOf(request, { status, header, body }) {
  const bodyless = status === 204 || status === 304;
  return new Response(bodyless || request.method === "HEAD" ? null : body, { status, headers: sent(header) });
}

// sent returns the header of a response in the form for Response. A plain object is the fastest. It has one
// value of each name, which is enough for nearly every response.
function sent(header) {
  const names = Object.keys(header).filter((name) => !hopByHop.has(name));
  if (names.every((name) => header[name].length === 1)) {
    const one = {};
    for (const name of names) one[name] = header[name][0];
    return one;
  }
  return names.flatMap((name) => header[name].map((value) => [name, value]));
}

// errorResponse returns a response without the core, in the format of contract 5. With pages, a person receives a page.
export function errorResponse(request, status, code, text, more = {}, pages = false) {
  const id = requestID(), correlation = correlationID(request);
  const body = {
    code, error_code: code, error: text, message: text, request_id: id,
    ...(correlation && { correlation_id: correlation }),
  };
  // These characters are escaped as Go does it, because JSON may end up in a page.
  const escaped = (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
  const json = JSON.stringify(body).replace(/[<>&\u2028\u2029]/g, escaped);
  const { header, body: shown } = (pages && errorPage(request, status)) || {
    header: { "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store" }, body: json,
  };
  return new Response(request.method === "HEAD" ? null : shown, { status, headers: {
    ...header, "X-Request-Id": id, ...(correlation && { "X-Correlation-Id": correlation }), ...more,
  } });
}

// readyWord returns the word for the guest's status of readiness. "failed" is an error of this deployment. Every other
// error is the KV's, so alone ignores it.
export function readyWord(status, alone) {
  if (status === abi.status.ok) return "ok";
  return alone && status !== abi.status.failed ? "degraded" : "unavailable";
}

// health responds with the word of a health check.
async function health(request, check) {
  if (request.method !== "GET" && request.method !== "HEAD") {
    return errorResponse(request, 405, "METHOD_NOT_ALLOWED", "Use GET or HEAD.", { "Allow": "GET, HEAD" });
  }
  const status = await check(), correlation = correlationID(request);
  const json = JSON.stringify({ status }) + "\n", code = status === "unavailable" ? 503 : 200;
  return new Response(request.method === "HEAD" ? null : json, { status: code, headers: {
    "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store",
    "X-Request-Id": requestID(), ...(correlation && { "X-Correlation-Id": correlation }),
  } });
}

// requestID returns the id for a response that the core has not made (contract 4).
function requestID() {
  const random = crypto.getRandomValues(new Uint8Array(26));
  return "req_" + Array.from(random, (b) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[b & 31]).join("");
}

// correlationID returns the caller's id, "" if it is missing or invalid (contract 4).
function correlationID(request) {
  const id = request.headers.get("X-Correlation-Id") ?? "";
  return /^[ -~]{1,128}$/.test(id) ? id : "";
}

// decoded returns a path without escapes, as bytes if it had any, because these need not be UTF-8. It returns
// null if an escape is invalid. An escaped slash does not separate segments: a path with an escaped slash is
// returned unchanged.
function decoded(path) {
  if (!path.includes("%") || /%2f/i.test(path)) return path;
  const raw = abi.bytesOf(path), out = [];
  for (let i = 0; i < raw.length; i++) {
    if (raw[i] !== 0x25) {
      out.push(raw[i]);
      continue;
    }
    const hex = String.fromCharCode(raw[i + 1], raw[i + 2]);
    if (!/^[0-9A-Fa-f]{2}$/.test(hex)) return null;
    out.push(parseInt(hex, 16));
    i += 2;
  }
  return Uint8Array.from(out);
}

// logCorrelation returns a correlation id for the log: unchanged if it has the form of a UUID or of a W3C
// trace id, and otherwise a part of its SHA-256 (see edge/internal/server).
async function logCorrelation(id) {
  if (uuid.test(id) || /^[0-9a-fA-F]{32}$/.test(id)) return id;
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(id)));
  return "sha256:" + Array.from(sum.subarray(0, 8), (b) => b.toString(16).padStart(2, "0")).join("");
}

const knownMethods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];
const logMethod = (m) => (knownMethods.includes(m) ? m : "…");
