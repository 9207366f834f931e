// An OpenID provider for tests, based on the npm package oidc-provider. It reads its configuration from standard
// input as JSON, listens on a free port of the given address, and prints its issuer.
//
//   package    the address of the package's main module
//   host       the address to listen on
//   cert, key  its certificate and key, PEM
//   client     the client's public key, PEM: it authenticates by private_key_jwt, ES256
//   returns    the client's return addresses
//   scopes     the claims of each scope
//
// A POST to /control sets the result of the next logins: {claims, acr, error}, or {rotate: true} for a new key.
import { createPublicKey, generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:https";
import { text } from "node:stream/consumers";

const given = JSON.parse(await text(process.stdin));
const { Provider } = await import(given.package);

let login = {};
let respond; // the request listener of the provider with the present key
let provider;

const key = () => ({
  ...generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
  alg: "ES256",
  use: "sig",
  kid: randomUUID(),
});

// stored keeps all records until the process ends, so that a new provider has the records of the previous one.
const stored = new Map();
class Stored {
  constructor(kind) {
    this.kind = kind;
  }
  async upsert(id, payload) {
    stored.set(this.kind + id, payload);
  }
  async find(id) {
    return stored.get(this.kind + id);
  }
  async findByUid(uid) {
    return [...stored].find(([name, { uid: of }]) => name.startsWith(this.kind) && of === uid)?.[1];
  }
  async consume(id) {
    stored.get(this.kind + id).consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    stored.delete(this.kind + id);
  }
  async revokeByGrantId(grant) {
    for (const [name, { grantId }] of stored) if (grantId === grant) stored.delete(name);
  }
}

// renew creates a provider with one new key.
function renew(issuer) {
  provider = new Provider(issuer, {
    adapter: Stored,
    jwks: { keys: [key()] },
    clients: [{
      client_id: "verge",
      redirect_uris: given.returns,
      response_types: ["code"],
      grant_types: ["authorization_code"],
      token_endpoint_auth_method: "private_key_jwt",
      token_endpoint_auth_signing_alg: "ES256",
      jwks: { keys: [{ ...createPublicKey(given.client).export({ format: "jwk" }), alg: "ES256", use: "sig" }] },
      id_token_signed_response_alg: "ES256",
      require_pushed_authorization_requests: true,
    }],
    scopes: ["openid", ...Object.keys(given.scopes)],
    claims: { openid: ["sub"], acr: null, verified_claims: null, ...given.scopes },
    acrValues: ["urn:age-verification", "urn:test:high", "urn:test:low"],
    conformIdTokenClaims: false, // the ID token contains the claims of scopes
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      pushedAuthorizationRequests: { enabled: true },
      claimsParameter: { enabled: true },
      userinfo: { enabled: true },
    },
    enabledJWA: { idTokenSigningAlgValues: ["ES256"], clientAuthSigningAlgValues: ["ES256"] },
    cookies: { keys: ["only for tests"] },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...login.claims }) }),
    // Users are not asked for consent.
    async loadExistingGrant(ctx) {
      const grant = new provider.Grant({
        clientId: ctx.oidc.client.clientId,
        accountId: ctx.oidc.session.accountId,
      });
      grant.addOIDCScope(["openid", ...Object.keys(given.scopes)].join(" "));
      grant.addOIDCClaims(["acr", "verified_claims", ...Object.values(given.scopes).flat()]);
      await grant.save();
      return grant;
    },
  });
  respond = provider.callback();
}

async function interact(req, res) {
  const { params } = await provider.interactionDetails(req, res);
  const result = login.error
    ? { error: login.error, error_description: "The test requires it." }
    : { login: { accountId: "person-canary", acr: login.acr || params.acr_values?.split(" ")[0] } };
  await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
}

async function control(req, res, issuer) {
  const next = JSON.parse(await text(req));
  if (next.rotate) renew(issuer);
  else login = next;
  res.end();
}

const server = createServer({ cert: given.cert, key: given.key });
server.listen(0, given.host, () => {
  const { address, port } = server.address();
  const issuer = `https://${address.includes(":") ? `[${address}]` : address}:${port}`;
  renew(issuer);
  server.on("request", async (req, res) => {
    try {
      if (req.url === "/control") await control(req, res, issuer);
      else if (req.url.startsWith("/interaction/")) await interact(req, res);
      else await respond(req, res);
    } catch (err) {
      console.error(err);
      res.statusCode = 500;
      res.end();
    }
  });
  console.log(issuer);
});
