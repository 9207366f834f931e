// Signs and decrypts for verification methods, as edge/signing does natively. The keys
// are secrets of the Worker, and the guest never has them.

import * as abi from "./abi.js";

const signing = (key, how) => {
  return { key, usage: "sign", use: (k, message) => crypto.subtle.sign(how, k, message) };
};
const curve = { name: "ECDH", namedCurve: "P-256" };

// Each algorithm has the parameters of the key in WebCrypto and the use of the key. Signatures of WebCrypto
// have the form of JWS.
const algorithms = {
  [abi.kind.sign]: {
    ES256: signing({ name: "ECDSA", namedCurve: "P-256" }, { name: "ECDSA", hash: "SHA-256" }),
    RS256: signing({ name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, { name: "RSASSA-PKCS1-v1_5" }),
    PS256: signing({ name: "RSA-PSS", hash: "SHA-256" }, { name: "RSA-PSS", saltLength: 32 }),
    EdDSA: signing({ name: "Ed25519" }, { name: "Ed25519" }),
  },
  [abi.kind.decrypt]: {
    "ECDH-ES": { key: curve, usage: "deriveBits", use: async (k, message) => {
      const peer = await crypto.subtle.importKey("raw", message, curve, false, []);
      return crypto.subtle.deriveBits({ name: "ECDH", public: peer }, k, 256);
    } },
    "RSA-OAEP-256": { key: { name: "RSA-OAEP", hash: "SHA-256" }, usage: "decrypt",
      use: (k, message) => crypto.subtle.decrypt({ name: "RSA-OAEP" }, k, message) },
  },
};

// foreign are the names of the errors for a message that was not encrypted for the key. Every other error is a
// fault of the platform or of the configuration.
const foreign = ["DataError", "OperationError"];

const minRSA = 2048; // bits; signatures by a shorter key can be forged

// signer returns the function that effects takes as sign. It does not reject. keys has
// the private keys by name, each as PEM. A message that was not encrypted for the key has
// an empty reply.
export function signer(keys) {
  const imported = new Map(); // by name and algorithm
  return async (kind, body) => {
    const rejection = (text) => ({ status: abi.status.unavailable, body: abi.bytesOf(`signing: ${text}`) });
    let asked;
    try {
      asked = abi.read(abi.sign, body);
    } catch {
      return rejection("the request is malformed");
    }
    const { key: name, algorithm, message } = asked;
    if (name === testKey || !Object.hasOwn(keys, name)) {
      return { status: abi.status.notFound, body: abi.empty };
    }
    const failed = (why) => rejection(`the private key ${JSON.stringify(name)} ${why}`);
    // Some keys of another type fail at the import, and others only when they sign. The text of the error is
    // not shown, because it might quote the key. Its name is one of the platform's.
    const verb = kind === abi.kind.sign ? "sign" : "decrypt";
    const unfit = (e) => failed(`does not ${verb} with ${algorithm}, or is damaged (${e?.name})`);
    if (!Object.hasOwn(algorithms[kind], algorithm)) return failed(`${verb}s by no such algorithm`);
    const how = algorithms[kind][algorithm], at = `${algorithm} ${name}`;
    let key = imported.get(at);
    if (key === undefined) {
      const der = derOf(keys[name]);
      if (der === null) return failed(`is no PKCS#8 in PEM; \`${howTo}\` writes that`);
      try {
        key = await crypto.subtle.importKey("pkcs8", der, how.key, false, [how.usage]);
      } catch (e) {
        return unfit(e);
      }
      if (key.algorithm.modulusLength < minRSA) return failed(`has fewer than ${minRSA} bits`);
      imported.set(at, key); // not the promise, which would belong to this request
    }
    try {
      return { status: abi.status.ok, body: new Uint8Array(await how.use(key, message)) };
    } catch (e) {
      if (kind === abi.kind.decrypt && foreign.includes(e?.name)) return { status: abi.status.ok, body: abi.empty };
      return unfit(e);
    }
  };
}

// testKey is the name of the key in a guest's self-test. No key may have it.
const testKey = "self-test";

export const howTo = "openssl pkcs8 -topk8 -nocrypt -in FILE";

// publicOf returns the public key of a P-256 key in PEM, as SubjectPublicKeyInfo, or null. It is in the file:
// PKCS#8 by OpenSSL and Go has both keys at fixed offsets. To derive it, WebCrypto would need a request.
export function publicOf(pem) {
  const der = derOf(pem);
  if (der?.length !== 138) return null;
  const hex = Array.from(der, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const m = /^308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420.{64}a144034200(04.{128})$/
    .exec(hex);
  if (m === null) return null;
  const spki = "3059301306072a8648ce3d020106082a8648ce3d030107034200" + m[1];
  return Uint8Array.from(spki.match(/../g), (byte) => parseInt(byte, 16));
}

// derOf returns the content of a PEM file with one private key in PKCS#8, null if it is
// something else.
export function derOf(pem) {
  const m = /^-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END PRIVATE KEY-----$/.exec(pem.trim());
  if (m === null) return null;
  try {
    return Uint8Array.from(atob(m[1].replace(/\s/g, "")), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}
