// Serves /admin/v1/store, the export and import of the store (transfer.js), for operators. It is the
// counterpart of edge.AdminEndpoint for a host without native code.

import * as abi from "./abi.js";
import { selfPath } from "./routes.js";

const operation = "backup.make";
const maxPartition = 64;

// The actions of an import, and the log messages of some.
const actions = { lock: "partition locked", clear: "partition cleared", load: "", count: "",
  unlock: "partition unlocked", finish: "partition imported" };

// storeAdmin handles a request, and returns {response} of the guest, {error: [status, code, text, header]} or {value}.
//   ask(message)          → the guest's response to a request of the operators' API, or throws
//   token                 the operator token of the configuration, "" for none
//   object(partition)     → the Durable Object
//   partitions            the number of partitions of sessions
//   log(line)
export async function storeAdmin({ method, query, header, body, client }, on) {
  const { response, operator } = await authorize(header, client, on);
  if (response) return { response };
  if ((header["Content-Encoding"] ?? []).some((coding) => coding.trim().toLowerCase() !== "identity")) {
    const text = "Send the body without Content-Encoding. Compressed bodies are not accepted.";
    return { error: [415, "UNSUPPORTED_MEDIA_TYPE", text, { "Accept-Encoding": "identity" }] };
  }
  // During an import the guest has no store, so only the configured token works.
  const params = new URLSearchParams(query);
  if (method === "GET" || method === "HEAD") {
    const partition = params.get("partition");
    if (partition === null) return { value: { partitions: on.partitions } };
    const after = params.get("after") ?? "";
    if (after === "") on.log({ level: 0, message: "partition export started", partition, operator });
    return carryOut(on, partition, "page", { after });
  }
  if (method !== "POST") {
    const text = "This path does not support this method.";
    return { error: [405, "METHOD_NOT_ALLOWED", text, { "Allow": "GET, HEAD, POST" }] };
  }
  if (operator !== configured) {
    return { error: [403, "FORBIDDEN", "An import needs the operator token of the secret VERGE_OPERATOR_TOKEN."] };
  }
  if (!(header["Content-Type"] ?? []).every((type) => jsonType.test(type))) {
    return { error: [415, "UNSUPPORTED_MEDIA_TYPE", "Send the body as application/json."] };
  }
  let input;
  try {
    input = parsed(body);
  } catch {
    return { error: [400, "INVALID_REQUEST", "The request body is not JSON, or has a member twice."] };
  }
  const { action, partition } = input ?? {};
  if (!Object.hasOwn(actions, action)) {
    return { error: [400, "INVALID_REQUEST", `action is none of ${Object.keys(actions).join(", ")}.`] };
  }
  const result = await carryOut(on, partition, action, input);
  if (result.value && actions[action] !== "") {
    on.log({ level: 4, message: actions[action], partition, operator });
  }
  return result;
}

const jsonType = /^\s*application\/([^;]+\+)?json\s*(;|$)/i;

// parsed reads a body as contract 3 demands. It throws for invalid UTF-8, a byte order mark and repeated members.
export function parsed(body) {
  const json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body), value = JSON.parse(json);
  const open = []; // the names of the members of each open object, and null for each open list
  for (const [token] of json.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(?:\s*:)?|[{}[\]]/g)) {
    if (token === "{" || token === "[") open.push(token === "{" ? new Set() : null);
    else if (token === "}" || token === "]") open.pop();
    else if (token.endsWith(":")) {
      const names = open.at(-1), name = JSON.parse(token.slice(0, token.lastIndexOf('"') + 1));
      if (names.has(name)) throw new Error("repeated member");
      names.add(name);
    }
  }
  return value;
}

async function carryOut(on, partition, what, input) {
  if (typeof partition !== "string" || partition.length > maxPartition || !/^[a-z][a-z0-9]*$/.test(partition)) {
    return { error: [400, "INVALID_REQUEST", "partition is not the name of a partition."] };
  }
  try {
    const { value, rejected } = await on.object(partition).transfer(partition, what, input);
    return rejected === undefined ? { value } : { error: [409, "BACKUP_REFUSED", rejected] };
  } catch (e) {
    on.log({ level: 8, message: "partition not transferred", partition, error: e.message });
    const text = "The partition cannot be reached right now; try again shortly.";
    return { error: [503, "UNAVAILABLE", text, { "Retry-After": "1" }] };
  }
}

const configured = "configuration"; // its name in the audit

// authorize returns the id of the token that may create a backup, or the guest's response. The guest checks
// every token, because it counts the wrong ones. The configured token is accepted even if the guest fails,
// unless too many wrong tokens came from the address (contract 42).
async function authorize(header, client, { ask, token }) {
  const given = Object.fromEntries(["Authorization", "X-Correlation-Id"].filter((name) => name in header)
    .map((name) => [name, header[name]]));
  let response = null;
  try {
    response = await ask(abi.write(abi.request, {
      method: "GET", path: selfPath, query: `may=${operation}`, header: given, body: abi.empty, client,
    }));
  } catch { // the guest has logged it
  }
  if (response?.status !== 429 && await hasToken(given, token)) return { operator: configured };
  if (response === null) response = { status: 503, header: {}, body: abi.empty };
  if (response.status !== 200) return { response };
  return { operator: JSON.parse(abi.textOf(response.body)).id };
}

// hasToken compares hashes, as the core does with the same token. The case of the scheme does not matter (RFC 9110,
// 11.1).
async function hasToken(header, token) {
  const value = header.Authorization?.length === 1 ? header.Authorization[0] : "";
  const given = /^bearer +(.*)$/i.exec(value)?.[1];
  if (token === "" || given === undefined) return false;
  const hash = (s) => crypto.subtle.digest("SHA-256", abi.bytesOf(s));
  return crypto.subtle.timingSafeEqual(await hash(given), await hash(token));
}
