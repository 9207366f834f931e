// The deployed code of Verge as a Cloudflare Worker. README.md explains the deployment.

import * as abi from "./abi.js";
import { errorResponse, readyWord, serve } from "./handler.js";
import { effects, objects } from "./effects.js";
import { isLoopback, parseAddress } from "./egress.js";
import { adminRoot } from "./routes.js";
import {
  adminTime, baseOf, clientOf, configOf, egressOf, engineOf, handleTime, log, namespaceOf, operatorTokenOf, settle,
  signerOf, siteOf, spendOf,
} from "./service.js";
import { WaitLimiter } from "./longpoll.js";
import { storeAdmin } from "./storeadmin.js";

export { Limits } from "./limits.js";
export { Partition } from "./partition.js";

const readyTime = 2_000;
const readyLife = 1_000;

let applied = false; // whether this isolate has applied the configured site
let unapplied = ""; // the last logged reason why it has not
let readiness = { at: 0, status: abi.status.failed };
const waits = new WaitLimiter();

export default {
  async fetch(request, env, ctx) {
    const url = new URL(request.url);
    if (isPlain(url, env)) {
      const response = errorResponse(request, 403, "FORBIDDEN", "Use https.", {}, !isAdmin(url, env));
      const id = response.headers.get("X-Request-Id");
      log({ level: 4, message: "plain http request rejected", request_id: id });
      return response;
    }
    // If the configuration is wrong, this throws, and the handler returns 503.
    const run = (entry, message, timeout, about) => {
      const carryOut = effects(objects(namespaceOf(env, "PARTITION")), spendOf(env), egressOf(env), signerOf(env));
      const result = engineOf(env).run(entry, message, carryOut, timeout, about);
      // A request is finished even if its client disconnects.
      ctx.waitUntil(result.catch(() => {}).then(() => settle(env, carryOut)));
      return result;
    };
    const serving = async (entry, message, timeout, about) => {
      try {
        await applySite(env, run);
      } catch (e) {
        // The guest responds with a store that rejects every effect: no request
        // succeeds, and a browser receives a page.
        if (e.message !== unapplied) {
          log({ level: 8, message: "configured site not stored", error: e.message });
        }
        unapplied = e.message;
        if (entry === abi.entry.ready && !e.storeAway) throw e; // otherwise the store would count as the cause
        return engineOf(env).run(entry, message, nothing, timeout, about);
      }
      return run(entry, message, timeout, about);
    };
    return serve(request, url, {
      run: (entry, message, about) => {
        return serving(entry, message, entry === abi.entry.admin ? adminTime : handleTime, about);
      },
      client: (request) => parseAddress(request.headers.get("CF-Connecting-IP") ?? "") ?? abi.empty,
      isAdmin: (url) => isAdmin(url, env),
      ready: (alone) => ready(serving, alone),
      store: (call, ask) => storeAdmin(call, {
        ask, log, token: operatorTokenOf(env), partitions: configOf(env).partitions ?? 1,
        object: (partition) => namespaceOf(env, "PARTITION").getByName(partition),
      }),
      log, shown: (client) => clientOf(env)(client), waits,
    });
  },
};

// nothing rejects every effect.
const nothing = () => {
  return { status: abi.status.unavailable, body: abi.bytesOf("configured site not stored") };
};

// isAdmin reports whether a request is for the operators' API. This API has a separate host, and is not
// served without it. If the configuration has the same host for both, for tests on one machine, it is
// under /admin/ there.
function isAdmin(url, env) {
  const base = baseOf(env);
  if (base === null || !env.ADMIN_HOST || url.hostname !== env.ADMIN_HOST) return false;
  return base.hostname !== env.ADMIN_HOST || url.pathname.startsWith(adminRoot);
}

// isPlain reports whether a request came by plain http if only https is served. A custom domain forwards
// both. The request is not redirected, because the client would then continue to send its key unencrypted.
function isPlain(url, env) {
  if (url.protocol !== "http:" || isLoopback(url.hostname)) return false;
  return baseOf(env)?.protocol === "https:";
}

// applySite puts the configured publishers and integrations into the store. Each
// isolate asks the guest to do so once, and the guest does it once for each site and
// key ring. A request does not wait for another's attempt, but makes its own.
async function applySite(env, run) {
  if (applied) return;
  const site = siteOf(env);
  if (site !== null) {
    const { status, text } = abi.read(abi.outcome, await run(abi.entry.apply, abi.bytesOf(site), handleTime));
    if (status !== abi.status.ok) {
      const storeAway = status !== abi.status.failed;
      throw Object.assign(new Error(`VERGE_SITE was not applied: ${text}`), { storeAway });
    }
  }
  applied = true;
}

// ready checks the KV at most once a second, because anyone may call it. With alone, only a wrong configuration and
// a missing key make it unavailable.
async function ready(run, alone) {
  if (Date.now() - readiness.at >= readyLife) {
    let status = abi.status.failed, text;
    try {
      ({ status, text } = abi.read(abi.outcome, await run(abi.entry.ready, abi.empty, readyTime)));
    } catch (e) {
      text = e.message;
    }
    if (status !== abi.status.ok) log({ level: 4, message: "not ready", error: text });
    readiness = { at: Date.now(), status };
  }
  return readyWord(readiness.status, alone);
}
