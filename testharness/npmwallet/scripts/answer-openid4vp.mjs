// A wallet of @openid4vc/openid4vp and @owf/mdoc: it opens a link, issues itself a document that has what is
// asked for, and sends its answer. In: link, claims (by the names of elements; birth_date is a date), chain (of
// the issuer, hex each), issuerKey and deviceKey (JWK), signed and validUntil (RFC 3339). Out: status and body of
// what the service answers, clientId and responseMode of the request, and algorithms, those that it announces.
import { Openid4vpClient } from "@openid4vc/openid4vp";
import { setGlobalConfig } from "@openid4vc/utils";
import {
  base64url,
  CoseKey,
  DateOnly,
  DeviceKey,
  DeviceRequest,
  DeviceResponse,
  DocRequest,
  Issuer,
  ItemsRequest,
  SessionTranscript,
  SignatureAlgorithm,
} from "@owf/mdoc";
import * as jose from "jose";
import { createHash, createPublicKey, X509Certificate } from "node:crypto";
import { bytes, context, coseKey, input, output } from "./context.mjs";

setGlobalConfig({ allowInsecureUrls: true }); // the service is on this machine
const given = await input();

const certificate = (text) => new X509Certificate(Buffer.from(text, "base64"));
const notNeeded = () => {
  throw new Error("a wallet that answers in this way does not need it");
};
const client = new Openid4vpClient({
  callbacks: {
    fetch: globalThis.fetch,
    hash: (data, name) => new Uint8Array(createHash(name.replace("-", "")).update(data).digest()),
    verifyJwt: async (signer, { compact }) => {
      const key = signer.method === "x5c" ? certificate(signer.x5c[0]).publicKey : createPublicKey(signer.publicJwk);
      try {
        await jose.compactVerify(compact, key);
        return { verified: true, signerJwk: key.export({ format: "jwk" }) };
      } catch {
        return { verified: false };
      }
    },
    encryptJwe: async ({ alg, enc, apu, apv, publicJwk }, payload) => {
      const header = { alg, enc, kid: publicJwk.kid, ...(apu && { apu }), ...(apv && { apv }) };
      const jwe = await new jose.CompactEncrypt(new TextEncoder().encode(payload))
        .setProtectedHeader(header)
        .encrypt(await jose.importJWK(publicJwk, alg));
      return { encryptionJwk: publicJwk, jwe };
    },
    getX509CertificateMetadata: (text) => ({
      sanDnsNames: (certificate(text).subjectAltName ?? "")
        .split(", ")
        .filter((name) => name.startsWith("DNS:"))
        .map((name) => name.slice(4)),
      sanUriNames: [],
    }),
    decryptJwe: notNeeded,
    signJwt: notNeeded,
  },
});

const parsed = client.parseOpenid4vpAuthorizationRequest({ authorizationRequest: given.link });
const resolved = await client.resolveOpenId4vpAuthorizationRequest({ authorizationRequestPayload: parsed.params });
const request = resolved.authorizationRequestPayload;
const asked = resolved.dcql.query.credentials[0];
const docType = asked.meta.doctype_value;
const first = asked.claims[0].path;

const { d, ...device } = given.deviceKey;
const algorithmOf = (jwk) => ({ "P-256": "ES256", "P-384": "ES384", "P-521": "ES512" })[jwk.crv];
const claims = Object.fromEntries(
  Object.entries(given.claims).map(([name, value]) => [name, name === "birth_date" ? new DateOnly(value) : value]),
);
const validFrom = new Date(given.signed);
const document = await new Issuer(docType, context).addIssuerNamespace(first[0], claims).sign({
  signingKey: coseKey(CoseKey, given.issuerKey, algorithmOf(given.issuerKey)),
  algorithm: SignatureAlgorithm[algorithmOf(given.issuerKey)],
  digestAlgorithm: "SHA-256",
  validityInfo: { signed: validFrom, validFrom, validUntil: new Date(given.validUntil) },
  deviceKeyInfo: { deviceKey: coseKey(DeviceKey, device) },
  certificates: given.chain.map(bytes),
});

const encrypted = request.response_mode === "direct_post.jwt";
const encryptionKey = encrypted && request.client_metadata.jwks.keys[0];
const sessionTranscript = await SessionTranscript.forOid4Vp(
  {
    clientId: request.client_id,
    nonce: request.nonce,
    responseUri: request.response_uri,
    jwkThumbprint: encrypted
      ? new Uint8Array(Buffer.from(await jose.calculateJwkThumbprint(encryptionKey, "sha256"), "base64url"))
      : undefined,
  },
  context,
);
const itemsRequest = ItemsRequest.create({
  docType,
  namespaces: new Map([[first[0], new Map([[first[1], false]])]]),
});
const response = await DeviceResponse.createWithDeviceRequest(
  {
    deviceRequest: DeviceRequest.create({ docRequests: [DocRequest.create({ itemsRequest })] }),
    sessionTranscript,
    issuerSigned: [document],
    signature: { signingKey: coseKey(CoseKey, given.deviceKey, algorithmOf(given.deviceKey)) },
  },
  context,
);

const made = await client.createOpenid4vpAuthorizationResponse({
  authorizationRequestPayload: request,
  authorizationResponsePayload: { vp_token: { [asked.id]: [base64url.encode(response.encode())] } },
  ...(encrypted && {
    jarm: {
      encryption: { nonce: "the-wallets-own", jwk: encryptionKey },
      serverMetadata: {
        authorization_signing_alg_values_supported: [],
        authorization_encryption_alg_values_supported: ["ECDH-ES"],
        authorization_encryption_enc_values_supported: ["A128GCM", "A256GCM"],
      },
    },
  }),
});
const sent = await client.submitOpenid4vpAuthorizationResponse({
  authorizationRequestPayload: request,
  authorizationResponsePayload: made.authorizationResponsePayload,
  jarm: made.jarm,
});
output({
  status: sent.response.status,
  body: await sent.response.text(),
  clientId: request.client_id,
  responseMode: request.response_mode,
  algorithms: request.client_metadata.vp_formats_supported.mso_mdoc.issuerauth_alg_values,
});
