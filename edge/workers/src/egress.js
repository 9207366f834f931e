// The outbound client, as edge/egress is natively: https only, no redirects, a time limit for the whole
// exchange, a limit for the response. This code checks the URL. Only the platform resolves names; it cannot
// reach private addresses, and has only its own certificate authorities.

import * as abi from "./abi.js";

const timeLimit = 10_000; // ms
const maxBody = 64 * 1024;
const methodMaxBody = 1024 * 1024; // a list of revoked documents

// The reasons of core/host. The platform does not report the reason of a failed connection, so errors of the
// name, the port or the certificate are network_error here.
const reason = {
  blocked: "destination_not_allowed", timeout: "timeout", cut: "incomplete_answer",
  network: "network_error", unavailable: "unavailable",
};

// egress returns the function that effects takes as fetch. It does not reject.
// loopback also allows loopback addresses, and plain http to them, for development.
// measure takes {method, event, reason, seconds} of each fetch of a verification method.
export function egress({ loopback = false, timeout: limit = timeLimit, measure = () => {} } = {}) {
  return async (body) => {
    const begin = Date.now();
    let req, header;
    const tell = (event, reason) => {
      if (req?.for) measure({ method: req.for, event, reason, seconds: (Date.now() - begin) / 1000 });
    };
    const failed = (why, text) => {
      tell("fetch_failed", why);
      return { status: abi.status.noResponse, body: abi.write(abi.fetchError, { reason: why, text }) };
    };
    try {
      req = abi.read(abi.fetch, body);
      header = new Headers(req.header);
    } catch {
      return failed(reason.network, "the request is malformed"); // the error might quote it
    }
    const off = offLimits(req.url, loopback);
    if (off) return failed(reason.blocked, `destination not allowed: ${off}`);
    if (!header.has("User-Agent")) header.set("User-Agent", "Verge");
    header.set("Accept-Encoding", "identity");
    const timeout = timeOf(req.timeout, limit);
    const signal = AbortSignal.timeout(timeout);
    let responded = false;
    try {
      const resp = await fetch(req.url, {
        method: req.method, headers: header, redirect: "manual", signal,
        body: req.method === "GET" || req.method === "HEAD" ? undefined : req.body,
      });
      responded = true;
      const reply = abi.write(abi.fetched, {
        status: resp.status, header: headersOf(resp),
        body: await read(resp.body, req.for ? methodMaxBody : maxBody, signal) });
      if (resp.status >= 500) tell("fetch_failed", reason.unavailable);
      else tell("fetched", "");
      return { status: abi.status.ok, body: reply };
    } catch (e) {
      // The platform has several messages for a timeout, so only the signal counts.
      if (signal.aborted) return failed(reason.timeout, `no whole response within ${timeout / 1000} s`);
      const text = withoutURL(String(e?.message), req.url); // the thrown value need not be an Error
      return failed(responded ? reason.cut : reason.network, text);
    }
  };
}

// timeOf returns the time limit of one fetch in ms. A request may have a shorter limit than
// the usual one, or 0.
function timeOf(asked, limit) {
  const ms = Number(asked) / 1e6;
  return ms > 0 ? Math.max(1, Math.min(Math.round(ms), limit)) : limit;
}

function headersOf(resp) {
  const header = {};
  for (const [name, value] of resp.headers) {
    const canonical = canonicalName(name);
    if (!(canonical in header)) header[canonical] = value;
  }
  return header;
}

// canonicalName writes a header's name as Go does. It remembers some names, because
// most requests have the same ones.
export function canonicalName(name) {
  let canonical = canonicalNames.get(name);
  if (canonical === undefined) {
    canonical = name.toLowerCase().replace(/(^|-)[a-z]/g, (c) => c.toUpperCase());
    if (canonicalNames.size < mostNames && name.length <= longestName) canonicalNames.set(name, canonical);
  }
  return canonical;
}

const canonicalNames = new Map();
const mostNames = 256, longestName = 64;

// read returns at most max bytes of a stream. It reads and drops at most rest bytes more before it cancels
// the stream, because a client that is still writing would not read the response.
export async function read(stream, max, signal, rest = 0) {
  if (!stream) return abi.empty;
  const reader = stream.getReader();
  const parts = [];
  let n = 0;
  const aborted = signal && new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  aborted?.catch(() => {});
  for (let over = 0; n < max || over < rest;) {
    const { done, value } = await (aborted ? Promise.race([reader.read(), aborted]) : reader.read());
    if (done) break;
    parts.push(value.subarray(0, max - n));
    n += parts.at(-1).length;
    over += value.length - parts.at(-1).length;
  }
  reader.cancel().catch(() => {});
  const all = new Uint8Array(n);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

// withoutURL removes the URL from an error, because a receiver's secret may be in it.
const withoutURL = (text, url) => text.replaceAll(url, "…");

// offLimits returns the error of a destination, or "".
export function offLimits(raw, loopback) {
  let url;
  try {
    url = new URL(raw);
  } catch {
    return "the URL is malformed";
  }
  if (url.protocol !== "https:" && !(loopback && url.protocol === "http:")) return "the URL is not https";
  if (url.username || url.password) return "the URL carries a user";
  const host = url.hostname.toLowerCase().replace(/\.+$/, "");
  if (host === "") return "the URL has no host";
  if (isLoopback(host)) return loopback ? "" : "the address is not public";
  if (url.protocol === "http:") return "plain http goes to loopback addresses only";
  const bare = !host.includes(".") && !host.startsWith("[");
  if (bare || /\.(internal|local|home\.arpa)$/.test(host)) return "the name is not public";
  const address = parseAddress(host.replace(/^\[|\]$/g, ""));
  return address && !isPublic(address) ? "the address is not public" : "";
}

// isLoopback reports whether the host of a URL is this machine.
export const isLoopback = (host) => /^(.+\.)?localhost$|^127\.\d+\.\d+\.\d+$|^\[::1\]$/.test(host);

// parseAddress returns the 4 or 16 bytes of an IP address, 4 for an IPv4 address in
// IPv6, and null for text that is no address.
export function parseAddress(s) {
  const isByte = (part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256;
  const four = (t) => {
    const parts = t.split(".");
    return parts.length === 4 && parts.every(isByte) ? parts.map(Number) : null;
  };
  if (!s.includes(":")) {
    const v4 = four(s);
    return v4 && Uint8Array.from(v4);
  }
  const halves = s.split("::");
  if (halves.length > 2) return null;
  const groups = halves.map((half) => (half === "" ? [] : half.split(":")));
  const out = groups.map((group, h) => {
    const bytes = [];
    for (const [i, g] of group.entries()) {
      const v4 = g.includes(".") && h === groups.length - 1 && i === group.length - 1 ? four(g) : null;
      if (v4) bytes.push(...v4);
      else if (/^[0-9a-f]{1,4}$/i.test(g)) bytes.push(parseInt(g, 16) >> 8, parseInt(g, 16) & 255);
      else return null;
    }
    return bytes;
  });
  if (out.includes(null)) return null;
  const missing = 16 - out.reduce((n, half) => n + half.length, 0);
  if (halves.length === 2 ? missing < 2 : missing !== 0) return null;
  const zeros = Array(missing).fill(0); // of "::"
  const all = Uint8Array.from(halves.length === 2 ? [...out[0], ...zeros, ...out[1]] : out[0]);
  const mapped = all.slice(0, 10).every((b) => b === 0) && all[10] === 255 && all[11] === 255;
  return mapped ? all.slice(12) : all;
}

// Prefixes that the registries reserve for special purposes. They are not public.
const special = [
  "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
  "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3", "168.63.129.16/32",
  "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
].map((s) => {
  const [address, bits] = s.split("/");
  return { address: parseAddress(address), bits: Number(bits) };
});

function isPublic(address) {
  if (address.length === 16 && address[0] >> 5 !== 1) return false; // IPv6 addresses in use begin with 001
  return !special.some((p) => p.address.length === address.length && within(address, p));
}

// within reports whether an address is in a prefix.
export function within(address, { address: prefix, bits }) {
  for (let i = 0; i < bits; i++) {
    const mask = 128 >> (i & 7);
    if ((address[i >> 3] & mask) !== (prefix[i >> 3] & mask)) return false;
  }
  return true;
}
