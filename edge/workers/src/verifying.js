// Verifies signatures, as signing.Verify (edge/signing) does natively.

import * as abi from "./abi.js";

const ecdsa = (hash, ...curves) => ({
  verify: { name: "ECDSA", hash },
  key: (curve) => (curves.includes(curve) ? { name: "ECDSA", namedCurve: curve } : null),
});
const rsa = (name, hash, saltLength) => ({ verify: { name, saltLength }, key: () => ({ name, hash }) });
const pkcs1 = (hash) => rsa("RSASSA-PKCS1-v1_5", hash);
const pss = (hash, saltLength) => rsa("RSA-PSS", hash, saltLength);

// The parameters of WebCrypto for each algorithm. key takes the curve of an elliptic key. length is the
// length of a signature, if the platform throws for any other.
const algorithms = {
  ES256: ecdsa("SHA-256", "P-256"), ES384: ecdsa("SHA-384", "P-384"), ES512: ecdsa("SHA-512", "P-521"),
  RS256: pkcs1("SHA-256"), RS384: pkcs1("SHA-384"), RS512: pkcs1("SHA-512"),
  PS256: pss("SHA-256", 32), PS384: pss("SHA-384", 48), PS512: pss("SHA-512", 64),
  EdDSA: {
    verify: { name: "Ed25519" }, key: (curve) => (curve === "Ed25519" ? { name: curve } : null), length: 64,
  },
  "ecdsa-with-SHA256": ecdsa("SHA-256", "P-256", "P-384", "P-521"),
  "ecdsa-with-SHA384": ecdsa("SHA-384", "P-256", "P-384", "P-521"),
  "ecdsa-with-SHA512": ecdsa("SHA-512", "P-256", "P-384", "P-521"),
};

// curveOf returns the curve of an elliptic key, by the length of its DER. The platform imports only such keys
// for ECDSA, but it imports any key for Ed25519. So the last byte of the curve's name is compared.
const curveOf = (der) => (der.length === 44 && der[8] !== 0x70 ? undefined : curves[der.length]);
const curves = { 44: "Ed25519", 91: "P-256", 120: "P-384", 158: "P-521" };

// Bits of RSA keys. Signatures by a shorter key can be forged. Longer keys only cost time.
const minRSA = 2048, maxRSA = 8192;

const verified = (valid) => ({ status: abi.status.ok, body: abi.write(abi.verified, valid) });

// verify verifies the signature of an effect. It does not reject. A verification that
// the platform cannot do is "unavailable", and never a wrong signature.
export async function verify(body) {
  const failed = (text) => ({ status: abi.status.unavailable, body: abi.bytesOf(`verifying: ${text}`) });
  try {
    const { algorithm, publicKey, message, signature } = abi.read(abi.verify, body);
    if (!Object.hasOwn(algorithms, algorithm)) return failed("no signature is verified by this algorithm");
    const by = algorithms[algorithm];
    const how = by.key(curveOf(publicKey));
    if (how === null) return failed("the public key does not fit the algorithm");
    const key = await crypto.subtle.importKey("spki", publicKey, how, false, ["verify"]);
    const bits = key.algorithm.modulusLength ?? minRSA;
    if (bits < minRSA || bits > maxRSA) return failed(`an RSA key has ${minRSA} to ${maxRSA} bits`);
    if (signature.length !== (by.length ?? signature.length)) return verified(false);
    return verified(await crypto.subtle.verify(by.verify, key, signature, message));
  } catch (e) {
    return failed(e?.message);
  }
}
