// The tests' entry: many services, called sites, in one workerd, each with its own
// guest, clock and Durable Objects. It is not deployed. It uses the code that
// is.
//
// A request is for the site that X-Verge-Site names, or else the first label of its
// host: h12.localhost, and admin-h12.localhost for the operators' side. Requests to the
// control host change sites.

import * as abi from "../src/abi.js";
import { Counters } from "../src/counters.js";
import { readyWord, serve } from "../src/handler.js";
import { effects, objects } from "../src/effects.js";
import { egress, offLimits, parseAddress, within } from "../src/egress.js";
import { Engine } from "../src/guest.js";
import { Leases } from "../src/leases.js";
import { asking } from "../src/limits.js";
import { namespaceIn } from "../src/namespaces.js";
import { Partition as Production } from "../src/partition.js";
import { signer } from "../src/signing.js";
import { storeAdmin } from "../src/storeadmin.js";
import { adminRoutes, publicRoutes } from "../src/routes.js";
import { clientIn, lineOf } from "../src/lines.js";
import { UsageCounter } from "../src/usagecounter.js";
import { Table, logPath, operatorsPath } from "../src/table.js";
import { WaitLimiter, maxWait, preferredWait } from "../src/longpoll.js";
import verge from "../src/verge.wasm";
import other from "./other.wasm";

export { Limits } from "../src/limits.js";

const controlHost = "control.localhost";
const millisecond = 1_000_000n;
const modules = { verge, other };

const sites = new Map();

class Site {
  constructor(id, { store, guest, module, clock, handle_ms, fetch_ms, places, memory, keys, usage_ms }) {
    this.id = id;
    this.token = guest?.operator_token ?? "";
    this.waits = new WaitLimiter();
    this.store = store || null;
    this.logs = [];
    this.counts = {};
    this.measured = [];
    this.mostJobs = 0; // of one alarm
    this.broken = false; // the next alarm cannot tell when the next is due
    this.setClock(clock ?? {});
    this.timeout = handle_ms || 15_000;
    const measure = (m) => this.measured.push(m);
    this.egress = egress({ loopback: true, timeout: fetch_ms || 10_000, measure });
    this.signer = signer(keys ?? {});
    this.settles = Boolean(usage_ms); // automatically
    this.usage = new UsageCounter({ now: () => this.now(), log: (line) => this.log(line), each: usage_ms || 0 });
    this.engine = new Engine({
      module: modules[module || "verge"], config: JSON.stringify(guest),
      now: () => this.now(), log: (line) => this.log(line),
      count: (event) => { this.counts[event] = (this.counts[event] ?? 0) + 1; },
      measure, countUsage: (t) => this.usage.note(t),
      places: places || undefined, memory: memory || undefined,
    });
  }

  // A clock is stopped at a time, or has an offset from the real one.
  setClock({ at, offset }) {
    this.at = at === undefined ? null : BigInt(at);
    this.offset = BigInt(offset ?? 0);
  }
  now() { return this.at ?? BigInt(Date.now()) * millisecond + this.offset; }
  alarmAt(due) {
    return this.at !== null ? null : Number((due - this.offset + millisecond - 1n) / millisecond);
  }

  log(line) { this.logs.push(lineOf(line)); }
  effects(env) {
    if (this.store) {
      const object = elsewhere(this.store);
      return effects(object, (body) => object().effect(abi.kind.spend, body), this.egress, this.signer);
    }
    return effects(objects(env.PARTITION, this.id + "/"), this.spender(env), this.egress, this.signer);
  }
  recorder(env) {
    return (entry, message, timeout) => this.engine.run(entry, message, this.effects(env), timeout);
  }
  async settle(env) {
    if (this.settles) await this.usage.settle(this.recorder(env));
  }
  spender(env) {
    this.leases ??= new Leases(asking(env.LIMITS, this.id + "/"));
    return (body) => this.leases.effect(body);
  }
}

// elsewhere is a store behind a URL, which carries out the effects of all
// partitions.
const elsewhere = (url) => () => ({
  async effect(kind, body) {
    const message = new Uint8Array(1 + body.length);
    message[0] = kind;
    message.set(body, 1);
    const reply = new Uint8Array(await (await fetch(url, { method: "POST", body: message })).arrayBuffer());
    return { status: reply[0], body: reply.slice(1) };
  },
});

// Partition is a site's: the name of its object is the site's, a slash and the
// partition.
export class Partition extends Production {
  site() {
    const site = sites.get(this.name.slice(0, this.name.indexOf("/")));
    if (!site) throw new Error("the site was removed");
    return site;
  }
  partition() { return this.name.slice(this.name.indexOf("/") + 1); }
  now() { return this.site().now(); }

  // The engine, with the number of jobs that one alarm runs.
  engine() {
    const site = this.site();
    const run = (entry, ...rest) => {
      if (entry === abi.entry.run) site.mostJobs = Math.max(site.mostJobs, ++this.jobs);
      return site.engine.run(entry, ...rest);
    };
    return { run };
  }
  async alarm(info) {
    this.jobs = 0;
    this.inAlarm = true;
    try {
      await super.alarm(info);
    } catch (e) {
      this.log({ level: 8, message: "an alarm has thrown", error: e.message });
      throw e;
    } finally {
      this.inAlarm = false;
    }
  }

  settle() { return this.site().settle(this.env); }
  spender() { return this.site().spender(this.env); }
  fetcher() { return this.site().egress; }
  signer() { return this.site().signer; }
  object() { return objects(this.env.PARTITION, this.site().id + "/"); }
  log(line) { sites.get(this.name.slice(0, this.name.indexOf("/")))?.log(line); }

  // After a restart the site is unknown until the test sets it again.
  alarmAt(due) {
    const site = sites.get(this.name.slice(0, this.name.indexOf("/")));
    if (this.inAlarm && site?.broken) {
      site.broken = false;
      throw new Error("broken");
    }
    return site ? site.alarmAt(due) : Date.now() + 200;
  }

  async forget() {
    await this.ctx.storage.deleteAlarm();
    await this.ctx.storage.deleteAll();
    this.ctx.abort("dropped");
  }
}

export default {
  async fetch(request, env, ctx) {
    const url = new URL(request.url), { hostname } = url;
    if (hostname === controlHost) {
      try {
        return await control(request, env, ctx);
      } catch (e) {
        return new Response(e.stack, { status: 500 });
      }
    }
    const first = hostname.split(".")[0];
    const admin = first.startsWith("admin-");
    const site = sites.get(request.headers.get("X-Verge-Site") ?? (admin ? first.slice(6) : first));
    if (!site) return new Response("no such site", { status: 421 });
    request = new Request(request, { signal: request.signal });
    request.headers.delete("X-Verge-Site");
    const carryOut = site.effects(env);
    const run = (entry, message, timeout, about) => {
      const result = site.engine.run(entry, message, carryOut, timeout, about);
      ctx.waitUntil(result.catch(() => {}).then(() => site.settle(env)));
      return result;
    };
    return serve(request, url, {
      run: (entry, message, about) => {
        return run(entry, message, entry === abi.entry.admin ? 75_000 : site.timeout, about);
      },
      client: clientOf,
      isAdmin: () => admin,
      ready: async (alone) => {
        const { status } = abi.read(abi.outcome, await run(abi.entry.ready, abi.empty, 2_000));
        return readyWord(status, alone);
      },
      store: (call, ask) => storeAdmin(call, {
        ask, log: (line) => site.log(line), token: site.token, partitions: 1,
        object: (partition) => env.PARTITION.getByName(`${site.id}/${partition}`),
      }),
      log: (line) => site.log(line), shown: clientIn("whole"), waits: site.waits,
    });
  },
};

// routed returns the handler's data about a request.
function routed({ listener, method, path }) {
  const table = new Table(listener === "admin" ? adminRoutes : publicRoutes);
  const route = table.at(method, path);
  const shown = listener === "admin" ? operatorsPath(table.words(), path) : logPath(route, path);
  return { label: route.label, limit: route.maxBody, url: route.maxURL, waits: route.waits === true, shown };
}

// waitsOf begins and ends waits of clients, and returns for each begin whether it was allowed.
function waitsOf(steps) {
  const limiter = new WaitLimiter(), ids = [];
  let may = "";
  for (const { client, now, leave } of steps) {
    if (leave) {
      limiter.release(ids[leave - 1]);
      continue;
    }
    ids.push(limiter.acquire(client ?? "", now, now + maxWait * 1000));
    may += ids.at(-1) === null ? "n" : "y";
  }
  return may;
}

// breakCrypto makes the next call of that function of WebCrypto fail, as if the platform did not have the algorithm.
function breakCrypto(name) {
  const value = async () => {
    delete crypto.subtle[name];
    throw new DOMException("no such algorithm", "NotSupportedError");
  };
  Object.defineProperty(crypto.subtle, name, { configurable: true, value });
}

// placed returns the calls of the platform that get an object with these variables, or the error. workerd
// implements no jurisdictions.
function placed(variables) {
  const calls = [];
  const namespace = (of) => ({
    jurisdiction: (name) => namespace(name),
    idFromName: (name) => `${of}/${name}`,
    get: (id, options) => { calls.push([id, options?.locationHint ?? ""]); },
  });
  try {
    const all = namespaceIn(namespace("anywhere"), "PARTITION", variables);
    all.get(all.idFromName("p0"));
    all.getByName("c");
  } catch (e) {
    return [[e.message]];
  }
  return calls;
}

async function control(request, env, ctx) {
  const [, id, what] = new URL(request.url).pathname.split("/");
  const body = new Uint8Array(await request.arrayBuffer());
  if (id === "codec") {
    const names = {
      list: "listing", fetch_error: "fetchError", claim_jobs: "claimJobs", job: "jobUntil",
      method_fetch: "fetch", method_event: "methodEvent", usage_event: "usageEvent",
      key_usage_event: "usageEvent",
    };
    const type = names[what] ?? what;
    try {
      return new Response(abi.write(abi[type], abi.read(abi[type], body)));
    } catch (e) {
      return new Response(e.message, { status: e instanceof abi.Malformed ? 400 : 500 });
    }
  }
  if (id === "prefer") {
    const seconds = JSON.parse(abi.textOf(body)).map((prefer) => preferredWait(prefer));
    return Response.json(seconds);
  }
  if (id === "waits") return Response.json(waitsOf(JSON.parse(abi.textOf(body))));
  if (id === "routes") return Response.json(JSON.parse(abi.textOf(body)).map(routed));
  if (id === "namespace") return Response.json(placed(JSON.parse(abi.textOf(body))));
  if (id === "fleet") return Response.json(await fleet(JSON.parse(abi.textOf(body))));
  if (what === undefined && request.method === "PUT") {
    sites.set(id, new Site(id, JSON.parse(abi.textOf(body))));
    return new Response();
  }
  if (id === "off-limits") return new Response(offLimits(abi.textOf(body), what === "loopback"));
  const site = sites.get(id);
  if (!site) return new Response("no such site", { status: 404 });
  // The test's own limit ends an entry. A busy machine takes minutes to deliver thousands of events.
  const entry = (code, message = abi.empty, timeout = 3_600_000) => {
    return site.engine.run(code, message, site.effects(env), timeout);
  };
  switch (what ?? request.method) {
    case "DELETE":
      sites.delete(id);
      for (const partition of JSON.parse(abi.textOf(body))) {
        const object = env.PARTITION.get(env.PARTITION.idFromName(`${id}/${partition}`));
        await object.forget().catch(() => {}); // it aborts itself
      }
      return new Response();
    case "clock": {
      const clock = JSON.parse(abi.textOf(body));
      site.setClock(clock);
      // Alarms were set by the old clock. A claim of 0 tasks sets them again.
      for (const partition of site.store ? [] : clock.partitions ?? []) {
        const body = abi.write(abi.claim, { partition, now: 0n, lease: 0n, n: 0 });
        await site.effects(env)({ kind: abi.kind.claim, body });
      }
      return new Response();
    }
    case "forget": site.engine.forget(); return new Response();
    case "entry": return new Response(await entry(body[0], body.slice(1)));
    case "abandon": // a request whose context ends before it does
      entry(body[0], body.slice(1), 1_000).catch(() => {});
      return new Response();
    case "effect": {
      const reply = await site.effects(env)({ kind: body[0], body: body.slice(1) });
      const out = new Uint8Array(1 + reply.body.length);
      out[0] = reply.status;
      out.set(reply.body, 1);
      return new Response(out);
    }
    case "logs": return new Response(site.logs.map((line) => line + "\n").join(""));
    case "record-usage": await site.usage.record(site.recorder(env)); return new Response();
    case "measured": return Response.json(site.measured);
    case "counts": return Response.json(site.counts);
    case "break-alarm": site.broken = true; return new Response();
    case "break-crypto": breakCrypto(abi.textOf(body)); return new Response();
    case "most-jobs": return Response.json(site.mostJobs);
    case "guest": return Response.json(site.engine.state());
  }
  return new Response("no such control", { status: 404 });
}

// fleet runs isolates that share counters, and returns the response to each request. Only fleet moves the
// clock, so that runs are reproducible.
//   isolates  how many
//   requests  [{at, isolate, charges: [{name, cost, burst}]}], in microseconds
//   evict     [{at, isolate}]: the isolate loses its memory; -1 means the object
//   delays    of questions and responses, in order
//   lost      the numbers of questions and responses that never arrive
async function fleet({ isolates, requests, evict, delays, lost }) {
  const events = []; // {at, run}, in order
  let clock = 0, ways = 0, holders = 0;
  const plan = (at, run) => {
    let i = events.length;
    while (i > 0 && events[i - 1].at > at) i--;
    events.splice(i, 0, { at, run });
  };
  const way = (run) => new Promise((done, fail) => {
    const n = ways++;
    plan(clock + delays[n % delays.length], () => (lost.includes(n) ? fail(new Error("lost")) : done(run())));
  });
  let object = new Counters();
  const ask = async (_, question) => {
    const answer = await way(() => object.lease(structuredClone(question)));
    return way(() => structuredClone(answer));
  };
  const make = () => new Leases(ask, { holder: String(holders++) });
  const all = Array.from({ length: isolates }, make);
  for (const { at, isolate } of evict) {
    plan(at, () => {
      if (isolate < 0) object = new Counters();
      else all[isolate] = make();
    });
  }
  const answers = requests.map(({ at, isolate, charges }) => new Promise((done) => plan(at, async () => {
    const exact = charges.map(({ name, cost, burst }) => {
      return { name, cost: BigInt(cost) * 1000n, burst: BigInt(burst) * 1000n };
    });
    try {
      const tats = await all[isolate].spend("limits", BigInt(at) * 1000n, exact);
      done({ tats: tats.map((tat) => (tat === null ? 0 : Number(tat / 1000n))) });
    } catch (e) {
      done({ error: e.message });
    }
  })));
  while (events.length > 0) {
    const { at, run } = events.shift();
    clock = at;
    run();
    for (let i = 0; i < 50; i++) await null; // every event that follows without a question or a response
  }
  return { answers: await Promise.all(answers), ways };
}

// clientOf returns the client's address by contract 30, with the loopback trusted, as in the
// harness's native server: the right-most entry of X-Forwarded-For that is not a
// trusted proxy.
const loopback = { address: Uint8Array.of(127, 0, 0, 0), bits: 8 };

function clientOf(request) {
  let at = Uint8Array.of(127, 0, 0, 1);
  for (const entry of (request.headers.get("X-Forwarded-For") ?? "").split(",").reverse()) {
    const text = entry.trim();
    if (text === "") continue;
    const bare = text.replace(/:\d{1,5}$/, "").replace(/^\[(.*)\]$/, "$1");
    const address = parseAddress(text) ?? parseAddress(bare);
    if (!address) return at;
    at = address;
    if (address.length !== 4 || !within(address, loopback)) return at;
  }
  return at;
}
