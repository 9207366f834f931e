// The steps of a wallet of @openid4vc/openid4vp and @owf/mdoc for each request, by any transport.
import { Openid4vpClient } from "@openid4vc/openid4vp";
import { setGlobalConfig } from "@openid4vc/utils";
import {
  CoseKey,
  DateOnly,
  DeviceKey,
  DeviceRequest,
  DeviceResponse,
  DocRequest,
  Issuer,
  ItemsRequest,
  SignatureAlgorithm,
} from "@owf/mdoc";
import * as jose from "jose";
import { createHash, createPublicKey, X509Certificate } from "node:crypto";
import { bytes, context, coseKey } from "./context.mjs";

setGlobalConfig({ allowInsecureUrls: true }); // the service is on this machine

const certificate = (text) => new X509Certificate(Buffer.from(text, "base64"));
const notNeeded = () => {
  throw new Error("a wallet that answers in this way does not need it");
};
export const client = new Openid4vpClient({
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

const algorithmOf = (jwk) => ({ "P-256": "ES256", "P-384": "ES384", "P-521": "ES512" })[jwk.crv];

// documentOf issues the document of a person. given has claims (by the names of elements; birth_date is a date),
// chain (of the issuer, hex each), issuerKey and deviceKey (JWK), signed and validUntil (RFC 3339).
const documentOf = (given, docType, namespace) => {
  const { d, ...device } = given.deviceKey;
  const claims = Object.fromEntries(
    Object.entries(given.claims).map(([name, value]) => [name, name === "birth_date" ? new DateOnly(value) : value]),
  );
  const validFrom = new Date(given.signed);
  return new Issuer(docType, context).addIssuerNamespace(namespace, claims).sign({
    signingKey: coseKey(CoseKey, given.issuerKey, algorithmOf(given.issuerKey)),
    algorithm: SignatureAlgorithm[algorithmOf(given.issuerKey)],
    digestAlgorithm: "SHA-256",
    validityInfo: { signed: validFrom, validFrom, validUntil: new Date(given.validUntil) },
    deviceKeyInfo: { deviceKey: coseKey(DeviceKey, device) },
    certificates: given.chain.map(bytes),
  });
};

// keyOf returns the key that encrypts the response to a request, and its thumbprint. Both are undefined for an
// unencrypted response.
export const keyOf = async (request) => {
  if (!request.response_mode.endsWith(".jwt")) return {};
  const key = request.client_metadata.jwks.keys[0];
  const thumbprint = await jose.calculateJwkThumbprint(key, "sha256");
  return { key, jwkThumbprint: new Uint8Array(Buffer.from(thumbprint, "base64url")) };
};

// respond returns the DeviceResponse to a credential of a DCQL query.
export const respond = async (given, asked, sessionTranscript) => {
  const docType = asked.meta.doctype_value;
  const [namespace, element] = asked.claims[0].path;
  const itemsRequest = ItemsRequest.create({ docType, namespaces: new Map([[namespace, new Map([[element, false]])]]) });
  const response = await DeviceResponse.createWithDeviceRequest(
    {
      deviceRequest: DeviceRequest.create({ docRequests: [DocRequest.create({ itemsRequest })] }),
      sessionTranscript,
      issuerSigned: [await documentOf(given, docType, namespace)],
      signature: { signingKey: coseKey(CoseKey, given.deviceKey, algorithmOf(given.deviceKey)) },
    },
    context,
  );
  return response.encode();
};

// askedOf returns the credential that the wallet presents. If it has claims of an SD-JWT, that is the one in this
// format.
export const askedOf = (given, query) => {
  const format = given.sdJWTClaims ? "dc+sd-jwt" : "mso_mdoc";
  const asked = query.credentials.find((c) => c.format === format);
  const options = query.credential_sets?.map((set) => set.options) ?? [[[query.credentials[0].id]]];
  if (options.length !== 1 || !options[0].some((ids) => ids.length === 1 && ids[0] === asked.id)) {
    throw new Error("the request asks for more than one credential");
  }
  return asked;
};

// answerTo returns the parameters of a response with a DeviceResponse, or with an SD-JWT, which is a text. key is the
// result of keyOf, and origin the origin of the page, if a browser sent the request.
export const answerTo = (request, asked, response, key, origin) =>
  client.createOpenid4vpAuthorizationResponse({
    authorizationRequestPayload: request,
    origin,
    authorizationResponsePayload: {
      vp_token: { [asked.id]: [typeof response === "string" ? response : Buffer.from(response).toString("base64url")] },
    },
    ...(key && {
      jarm: {
        encryption: { nonce: "the-wallets-own", jwk: key },
        serverMetadata: {
          authorization_signing_alg_values_supported: [],
          authorization_encryption_alg_values_supported: ["ECDH-ES"],
          authorization_encryption_enc_values_supported: ["A128GCM", "A256GCM"],
        },
      },
    }),
  });
