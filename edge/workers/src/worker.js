// Verge as a Cloudflare Worker: what is deployed. README.md says how.

import * as abi from "./abi.js";
import { refuse, serve } from "./door.js";
import { effects, objects } from "./effects.js";
import { isLoopback, parseAddress } from "./egress.js";
import { adminRoot } from "./routes.js";
import { adminTime, configOf, egressOf, engineOf, handleTime, log, siteOf, spendOf } from "./service.js";

export { Limits } from "./limits.js";
export { Partition } from "./partition.js";

const readyTime = 2_000;
const readyKept = 1_000;

let applied = false; // the configured site, by this isolate
let unapplied = ""; // why not, as the log says it
let readiness = { at: 0, ok: false };

export default {
  async fetch(request, env, ctx) {
    const url = new URL(request.url);
    if (isPlain(url, env)) {
      const answer = refuse(request, 403, "FORBIDDEN", "Use https.");
      log({ level: 4, message: "refused what came by plain http", request_id: answer.headers.get("X-Request-Id") });
      return answer;
    }
    // What is wrong with the configuration is thrown in here, and answered for.
    const run = (entry, message, timeout) => {
      const result = engineOf(env).run(entry, message, effects(objects(env.PARTITION), spendOf(env), egressOf(env)), timeout);
      // A client that goes away must not take its request with it half done.
      ctx.waitUntil(result.catch(() => {}));
      return result;
    };
    const serving = async (entry, message, timeout) => {
      try {
        await applySite(env, run);
      } catch (e) {
        // The guest answers for it on a store that refuses everything: nothing
        // is granted, and a person gets a page.
        if (e.message !== unapplied) log({ level: 8, message: "the configured site is not in the store", error: e.message });
        unapplied = e.message;
        return engineOf(env).run(entry, message, nothing, timeout);
      }
      return run(entry, message, timeout);
    };
    return serve(request, url, {
      run: (entry, message) => serving(entry, message, entry === abi.entry.admin ? adminTime : handleTime),
      client: (request) => parseAddress(request.headers.get("CF-Connecting-IP") ?? "") ?? abi.empty,
      isAdmin: (url) => isAdmin(url, env),
      ready: () => ready(serving),
      log,
    });
  },
};

// nothing carries out no effect.
const nothing = () => ({ status: abi.status.unavailable, body: abi.bytesOf("the configured site is not in the store") });

// isAdmin says that a request is the operators'. They have a host of their own:
// without one they are not served at all. Whoever names the public host as
// theirs, as for a try on one machine, has them under /admin/ there.
function isAdmin(url, env) {
  const base = baseOf(env);
  if (base === null || !env.ADMIN_HOST || url.hostname !== env.ADMIN_HOST) return false;
  return base.hostname !== env.ADMIN_HOST || url.pathname.startsWith(adminRoot);
}

// isPlain says that a request came in the clear, which a custom domain answers,
// too. It is not redirected: a client that is would go on sending its key so.
function isPlain(url, env) {
  if (url.protocol !== "http:" || isLoopback(url.hostname)) return false;
  return baseOf(env)?.protocol === "https:";
}

// baseOf is where the public side is; null where that cannot be told: then
// nobody is served.
function baseOf(env) {
  try {
    return new URL(configOf(env).base_url);
  } catch {
    return null;
  }
}

// applySite puts the configured publishers and integrations into the store.
// The guest does it once for each site and key ring; each isolate asks once.
// Requests do not wait for each other's, and do it twice rather.
async function applySite(env, run) {
  if (applied) return;
  const site = siteOf(env);
  if (site !== null) {
    const { status, text } = abi.read(abi.outcome, await run(abi.entry.apply, abi.bytesOf(site), handleTime));
    if (status !== abi.status.ok) throw new Error(`VERGE_SITE was not applied: ${text}`);
  }
  applied = true;
}

// ready asks at most once a second: anyone may, and the answer costs the KV.
async function ready(run) {
  if (Date.now() - readiness.at >= readyKept) {
    let ok = false;
    try {
      const { status, text } = abi.read(abi.outcome, await run(abi.entry.ready, abi.empty, readyTime));
      ok = status === abi.status.ok;
      if (!ok) log({ level: 4, message: "not ready", error: text });
    } catch (e) {
      log({ level: 4, message: "not ready", error: e.message });
    }
    readiness = { at: Date.now(), ok };
  }
  return readiness.ok;
}
