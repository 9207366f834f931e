// The issuer, the wallet and the verifier of documents in the format dc+sd-jwt, by @sd-jwt/sd-jwt-vc.
import { SDJwtVcInstance } from "@sd-jwt/sd-jwt-vc";
import * as jose from "jose";
import { createHash, createPublicKey, randomBytes, X509Certificate } from "node:crypto";

const algorithmOf = (jwk) => ({ "P-256": "ES256", "P-384": "ES384", "P-521": "ES512" })[jwk.crv];
const hash = {
  hasher: (data, name) => new Uint8Array(createHash(name.replace("-", "")).update(data).digest()),
  hashAlg: "sha-256",
  saltGenerator: (length) => randomBytes(length).toString("base64url"),
};
const signerOf = (jwk) => async (data) => {
  const [header, payload] = data.split(".");
  const key = await jose.importJWK(jwk, algorithmOf(jwk));
  const signed = await new jose.CompactSign(Buffer.from(payload, "base64url"))
    .setProtectedHeader(JSON.parse(Buffer.from(header, "base64url")))
    .sign(key);
  if (!signed.startsWith(`${data}.`)) throw new Error("the library writes another token");
  return signed.split(".")[2];
};
const verifierOf = (key) => async (data, signature) => {
  try {
    await jose.compactVerify(`${data}.${signature}`, key);
    return true;
  } catch {
    return false;
  }
};

// everything returns the frame that hides each claim, and each field of an object.
const everything = (claims) => {
  const frame = { _sd: Object.keys(claims), _sd_decoy: 2 };
  for (const [name, value] of Object.entries(claims)) {
    if (typeof value === "object" && !Array.isArray(value)) frame[name] = everything(value);
  }
  return frame;
};

// presented returns the frame that discloses one path.
const presented = ([name, ...rest]) => ({ [name]: rest.length === 0 ? true : presented(rest) });

// issue returns a document. given has sdJWTClaims, chain (hex each), issuerKey and deviceKey (JWK), signed and
// validUntil (RFC 3339).
const issue = (given, vct) => {
  const { d, ...jwk } = given.deviceKey;
  const seconds = (date) => Math.floor(new Date(date).getTime() / 1000);
  const issuer = new SDJwtVcInstance({
    ...hash,
    signer: signerOf(given.issuerKey),
    signAlg: algorithmOf(given.issuerKey),
  });
  return issuer.issue(
    {
      vct,
      iss: "https://issuer.example",
      iat: seconds(given.signed),
      exp: seconds(given.validUntil),
      cnf: { jwk },
      ...given.sdJWTClaims,
    },
    everything(given.sdJWTClaims),
    { header: { x5c: given.chain.map((hex) => Buffer.from(hex, "hex").toString("base64")) } },
  );
};

// presentSDJWT issues a document and presents the first set of claims of a DCQL query that it has.
export const presentSDJWT = async (given, asked, { aud, nonce, iat }) => {
  const has = (path) => path.reduce((o, name) => o?.[name], given.sdJWTClaims) !== undefined;
  const chosen = asked.claims.find(({ path }) => has(path));
  const wallet = new SDJwtVcInstance({
    ...hash,
    kbSigner: signerOf(given.deviceKey),
    kbSignAlg: algorithmOf(given.deviceKey),
  });
  return wallet.present(await issue(given, asked.meta.vct_values[0]), presented(chosen.path), {
    kb: { payload: { iat, aud, nonce } },
  });
};

// verifySDJWT returns the claims of a presentation, or the reason why it is not accepted.
export const verifySDJWT = async (presentation, { nonce, now }) => {
  const header = JSON.parse(Buffer.from(presentation.split(".")[0], "base64url"));
  const verifier = new SDJwtVcInstance({
    ...hash,
    verifier: verifierOf(new X509Certificate(Buffer.from(header.x5c[0], "base64")).publicKey),
    kbVerifier: (data, signature, { cnf }) =>
      verifierOf(createPublicKey({ key: cnf.jwk, format: "jwk" }))(data, signature),
  });
  try {
    const { payload, kb } = await verifier.verify(presentation, { keyBindingNonce: nonce, currentDate: now });
    return { claims: payload, audience: kb.payload.aud };
  } catch (error) {
    return { error: String(error) };
  }
};
