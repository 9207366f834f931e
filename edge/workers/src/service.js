// Reads an operator's configuration, and creates one engine and one set of leases for
// each isolate, which requests and alarms share.

import module from "./verge.wasm";
import { egress, offLimits } from "./egress.js";
import { Engine } from "./guest.js";
import { Leases } from "./leases.js";
import { asking } from "./limits.js";
import { clientIn, lineOf } from "./lines.js";
import { namespaceIn } from "./namespaces.js";
import { howTo, publicOf, signer } from "./signing.js";
import { UsageCounter } from "./usagecounter.js";

export const handleTime = 15_000; // ms for a public request
export const adminTime = 75_000; // ms for an operator's request: a webhook test sends five requests
export const jobTime = 20_000; // ms for a webhook attempt and its record, or a timer

const millisecond = 1_000_000n;

let engine = null;
let leases = null;
let config = null;
let base = null;
let fetcher = null;
let signing = null;
let counter = null;
let shown = null; // the form of client addresses in the log

export function engineOf(env) {
  return (engine ??= new Engine({
    module, config: guestConfig(env), now: () => BigInt(Date.now()) * millisecond, log,
    count: (event) => env.METRICS?.writeDataPoint({ indexes: [event], doubles: [1] }),
    measure: measureOf(env), countUsage: (t) => usage().note(t),
  }));
}

// usage has the counts of this isolate that are not stored yet.
const usage = () => (counter ??= new UsageCounter({ now: () => BigInt(Date.now()) * millisecond, log }));

// settle records the isolate's usage in time. carryOut carries out the effects of the
// request that waits for it.
export const settle = (env, carryOut) => {
  return usage().settle((entry, message, timeout) => engineOf(env).run(entry, message, carryOut, timeout));
};

// measureOf returns the function for events of verification methods. Their data points have
// the index "method". Only a configured method is named there.
const measureOf = (env) => ({ method, event, reason, seconds = 0 }) => {
  const known = configOf(env).methods?.some(({ name }) => name === method);
  env.METRICS?.writeDataPoint({
    indexes: ["method"], blobs: [known ? method : "other", event, reason], doubles: [1, seconds],
  });
};

// spendOf returns the function for the effect spend. Without the objects of the counters,
// requests cannot be counted, so they are rejected.
export function spendOf(env) {
  leases ??= new Leases(asking(namespaceOf(env, "LIMITS")));
  return (body) => leases.effect(body);
}

// namespaceOf returns a namespace of Durable Objects by the name of its binding, in the configured jurisdiction.
// New objects are created in the configured region. A wrong setting throws, because objects in another place would
// be others, and empty.
export function namespaceOf(env, binding) {
  const kept = namespaces.get(binding);
  if (kept) return kept;
  const of = namespaceIn(env[binding], binding, env);
  namespaces.set(binding, of);
  return of;
}

const namespaces = new Map();

export const egressOf = (env) => {
  return (fetcher ??= egress({ loopback: configOf(env).dev === true, measure: measureOf(env) }));
};

// signerOf returns the function for the effects sign and decrypt.
export const signerOf = (env) => (signing ??= signer(keysOf(env)));

// baseOf returns the URL of the public API and pages. It is null if the configuration lacks it, and then no
// requests are served.
export function baseOf(env) {
  try {
    return (base ??= new URL(configOf(env).base_url));
  } catch {
    return null;
  }
}

// configOf returns the variable VERGE_CONFIG. A new value starts a new isolate.
export const configOf = (env) => (config ??= readConfig(env));

// readConfig reads that variable. wrangler passes it as an object, other tools as text.
function readConfig(env) {
  const config = parsed(env.VERGE_CONFIG, "VERGE_CONFIG") ?? {};
  if (typeof config !== "object" || Array.isArray(config)) throw new Error("VERGE_CONFIG is not a JSON object");
  if (config.base_url && !URL.canParse(config.base_url)) throw new Error("VERGE_CONFIG: base_url is no URL");
  return config;
}

function parsed(value, name) {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value.trim()); // a file may begin with a byte order mark
  } catch {
    throw new Error(`${name} is not JSON`); // the value may be a secret, so the error does not quote it
  }
}

// textOf returns a secret of the Worker that the configuration names, unchanged.
function textOf(env, name, whose) {
  if (!env[name]) throw new Error(`${whose}: there is no secret ${name}; wrangler secret put ${name}`);
  return env[name];
}

// secretOf returns that secret in the form that a method or a webhook uses: one line of printable ASCII (core/secret).
const secretOf = (env, name, whose) => secretIn(textOf(env, name, whose), `${whose}: ${name}`);

// secretIn returns the secret in a text. what is its name for the error, which never quotes the text.
function secretIn(text, what) {
  const value = text.trim(); // white space and a byte order mark
  if (value === "") throw new Error(`${what}: it is empty`);
  if (/[\r\n]/.test(value)) {
    throw new Error(`${what}: it has more than one line; a secret is one line of printable ASCII`);
  }
  if (!/^[ -~]*$/.test(value)) {
    throw new Error(`${what}: it has other characters than printable ASCII; a secret is one line of that`);
  }
  return value;
}

// keysOf returns the private keys of all methods and of the OpenID provider, each as PEM, by their names in the
// core: the method's name, _ and the key's name. keys_env of a method names the secret with a key.
export function keysOf(env) {
  const keys = {};
  for (const { name, keys_env = {} } of configOf(env).methods ?? []) {
    for (const [key, secret] of Object.entries(keys_env)) {
      keys[`${name}_${key}`] = textOf(env, secret, `method ${name}`); // PEM has several lines
    }
  }
  providerSecrets(env).forEach((secret, n) => {
    keys[`oidc-provider_${n + 1}`] = textOf(env, secret, "oidc_provider");
  });
  const report = configOf(env).report?.key_env;
  if (report) keys.report = textOf(env, report, "report");
  return keys;
}

// providerSecrets returns the names of the secrets with the keys of the OpenID provider. The first one signs.
function providerSecrets(env) {
  const names = configOf(env).oidc_provider?.keys_env ?? [];
  if (!Array.isArray(names)) throw new Error("VERGE_CONFIG: oidc_provider.keys_env is no list");
  return names;
}

// providerKeysOf returns the public keys of the OpenID provider in the form of the guest.
const providerKeysOf = (env) => providerSecrets(env).map((secret) => publicKeyOf(env, secret, "oidc_provider"));

// publicKeyOf returns the public key of a secret that signs by ES256, in the form of the guest.
const publicKeyOf = (env, secret, of) => {
  const spki = publicOf(textOf(env, secret, of));
  if (spki === null) throw new Error(`${of}: ${secret} is no P-256 key in PKCS#8 with its public key; ${howTo}`);
  return btoa(String.fromCharCode(...spki));
};

// methodsOf returns the methods in the form of the guest. secrets_env of a method names the
// Worker's secrets with its own secrets.
const methodsOf = (env, methods) => methods.map(({ secrets_env = {}, keys_env, ...method }) => {
  const secrets = { ...method.secrets };
  for (const [name, secret] of Object.entries(secrets_env)) {
    secrets[name] = secretOf(env, secret, `method ${method.name}`);
  }
  if (Object.keys(secrets).length > 0) method.secrets = secrets;
  if (keys_env) method.keys = Object.keys(keys_env);
  return method;
});

// guestConfig returns the guest's configuration: the variable, with the secrets added.
export function guestConfig(env) {
  const config = { ...configOf(env) };
  if (config.methods) {
    keysOf(env); // so that a missing key is reported before the first user needs it
    config.methods = methodsOf(env, config.methods);
  }
  delete config.oidc_provider;
  const provider = providerKeysOf(env);
  if (provider.length > 0) config.oidc_provider_keys = provider;
  if (config.report) config.report_key = publicKeyOf(env, config.report.key_env, "report");
  delete config.report;
  config.keyring = parsed(env.VERGE_KEYRING, "VERGE_KEYRING");
  const token = operatorTokenOf(env);
  if (token !== "") config.operator_token = token;
  if (config.keyring) config.key_set ??= true; // isolates of two versions may have different rings
  if (config.keyring && config.base_url) config.host ??= new URL(config.base_url).hostname;
  return JSON.stringify(config);
}

// operatorTokenOf returns the configured operator token, or "".
export function operatorTokenOf(env) {
  const { operator_token: given } = configOf(env);
  if (given) return given;
  return env.VERGE_OPERATOR_TOKEN ? secretIn(env.VERGE_OPERATOR_TOKEN, "VERGE_OPERATOR_TOKEN") : "";
}

// siteOf returns the site that entry 9 applies, as JSON, or null if there is no site. It is in VERGE_SITE,
// VERGE_SITE_2 and so on, because a variable is limited to 5 KB. Names of webhook secrets are replaced by the
// secrets.
export function siteOf(env) {
  const names = Object.keys(env).filter((name) => /^VERGE_SITE(_\d+)?$/.test(name));
  if (names.length === 0) return null;
  const parts = names.sort().map((name) => parsed(env[name], name));
  const loopback = configOf(env).dev === true;
  const integrations = parts.flatMap((part) => part.integrations ?? []).map(({ secret_env: name, ...i }) => {
    for (const setting of ["webhook_url", "alert_url"]) {
      const off = i[setting] && offLimits(i[setting], loopback);
      if (off) throw new Error(`integration ${i.id}: events cannot reach its ${setting}: ${off}`);
    }
    if (name === undefined) return i;
    return { ...i, secret: secretOf(env, name, `integration ${i.id}`) };
  });
  const publishers = parts.flatMap((part) => part.publishers ?? []);
  return JSON.stringify({ ...Object.assign({}, ...parts), publishers, integrations });
}

// log writes a line to the console, where the platform collects lines.
export function log(line) {
  const at = { 8: "error", 4: "warn", 0: "log" }[line.level] ?? "debug";
  console[at](lineOf(line));
}

// clientOf returns a client's address in the form of the log. LOG_CLIENT is whole, cut or
// off (the default).
export const clientOf = (env) => (shown ??= clientIn(env.LOG_CLIENT || "off"));
