// Wallets of @credo-ts/openid4vc: each issues itself a document, opens a link, and sends its response. In: a list of
// link, docType (for an SD-JWT: its vct), namespace, claims or sdJWTClaims, chain (of the issuer: only its own
// certificate, hex), issuerKey and deviceKey (JWK), signed and validUntil (RFC 3339), now (seconds; the first
// one is used), and verifier, the certificate in hex of a service that the wallet knows. Out: a list of error, if the
// wallet does not accept the request, or else status and body of the service's response, clientId and responseMode of
// the request, and signed, if it is signed.
import { DateOnly, Kms, MdocRecord, SdJwtVcRecord, X509Certificate } from "@credo-ts/core";
import { text } from "node:stream/consumers";
import { openAgent } from "./credo-agent.mjs";

const all = JSON.parse(await text(process.stdin));
// The service has its own clock, which applies to certificates and key bindings.
const now = all[0].now * 1000;
globalThis.Date = new Proxy(Date, {
  construct: (made, args) => new made(...(args.length === 0 ? [now] : args)),
  get: (made, name) => (name === "now" ? () => now : Reflect.get(made, name)),
});
const certificate = (hex) => X509Certificate.fromRawCertificate(new Uint8Array(Buffer.from(hex, "hex")));

const storeMdoc = async (agent, given, issuerCertificate, holderKey) => {
  const claims = Object.entries(given.claims).map(([name, value]) =>
    name === "birth_date" ? [name, new DateOnly(value)] : [name, value],
  );
  const validFrom = new Date(given.signed);
  const mdoc = await agent.mdoc.sign({
    docType: given.docType,
    namespaces: { [given.namespace]: Object.fromEntries(claims) },
    validityInfo: { signed: validFrom, validFrom, validUntil: new Date(given.validUntil) },
    holderKey,
    issuerCertificate,
  });
  mdoc.deviceKeyId = holderKey.keyId;
  await agent.mdoc.store({ record: MdocRecord.fromMdoc(mdoc) });
};

const storeSDJWT = async (agent, given, issuerCertificate, holderKey) => {
  const made = await agent.sdJwtVc.sign({
    payload: { vct: given.docType, exp: Date.parse(given.validUntil) / 1000, ...given.sdJWTClaims },
    disclosureFrame: { _sd: Object.keys(given.sdJWTClaims) },
    issuer: { method: "x5c", x5c: [issuerCertificate] },
    holder: { method: "jwk", jwk: holderKey },
  });
  await agent.sdJwtVc.store({ record: SdJwtVcRecord.fromSdJwtVc({ ...made, kmsKeyId: holderKey.keyId }) });
};

const answer = async (given) => {
  const agent = await openAgent({ issuer: given.issuerKey, device: given.deviceKey });
  const issuerCertificate = certificate(given.chain[0]);
  issuerCertificate.keyId = "issuer";
  const { d, ...deviceKey } = given.deviceKey;
  const holderKey = Kms.PublicJwk.fromUnknown({ ...deviceKey, kid: "device" });
  await (given.sdJWTClaims ? storeSDJWT : storeMdoc)(agent, given, issuerCertificate, holderKey);

  const wallet = agent.openid4vc.holder;
  const trustedCertificates = given.verifier ? [certificate(given.verifier).toString("base64")] : [];
  let resolved;
  try {
    resolved = await wallet.resolveOpenId4VpAuthorizationRequest(given.link, { trustedCertificates });
  } catch (error) {
    return { error: String(error) };
  }
  const request = resolved.authorizationRequestPayload;
  const credentials = wallet.selectCredentialsForDcqlRequest(resolved.dcql.queryResult);
  const { serverResponse } = await wallet.acceptOpenId4VpAuthorizationRequest({
    authorizationRequestPayload: request,
    dcql: { credentials },
  });
  return {
    status: serverResponse.status,
    body: JSON.stringify(serverResponse.body),
    clientId: request.client_id,
    responseMode: request.response_mode,
    signed: resolved.signedAuthorizationRequest !== undefined,
  };
};

const answers = [];
for (const given of all) answers.push(await answer(given));
process.stdout.write(JSON.stringify(answers));
