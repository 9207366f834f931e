// The functions that @owf/mdoc requires from its users: hashes, signatures of COSE, and X.509. It also has the
// functions that every script needs.
import { CoseKey } from "@owf/mdoc";
import { createHash, createPrivateKey, createPublicKey, randomBytes } from "node:crypto";
import { sign, verify, X509Certificate } from "node:crypto";
import { text } from "node:stream/consumers";

export const input = async () => JSON.parse(await text(process.stdin));
export const output = (value) => process.stdout.write(JSON.stringify(value));
export const bytes = (hex) => new Uint8Array(Buffer.from(hex, "hex"));
export const hex = (b) => Buffer.from(b).toString("hex");

const digests = { "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512" };
const digestOf = { "P-256": "sha256", "P-384": "sha384", "P-521": "sha512" };
const dsaEncoding = "ieee-p1363";
// For curves other than P-256, @owf/mdoc knows only names in lower case.
export const coseKey = (Key, jwk, alg) =>
  Key.fromJwk({ ...jwk, crv: jwk.crv === "P-256" ? jwk.crv : jwk.crv.toLowerCase(), ...(alg && { alg }) });
const jwkOf = ({ jwk }) => ({ ...jwk, crv: jwk.crv.toUpperCase() });
const publicKey = (key) => {
  const { d, ...jwk } = jwkOf(key);
  return createPublicKey({ key: jwk, format: "jwk" });
};

export const context = {
  crypto: {
    random: (n) => new Uint8Array(randomBytes(n)),
    digest: ({ digestAlgorithm, bytes }) =>
      new Uint8Array(createHash(digests[digestAlgorithm]).update(bytes).digest()),
    calculateEphemeralMacKey: () => {
      throw new Error("a MAC is not expected");
    },
  },
  cose: {
    sign1: {
      sign: ({ toBeSigned, key }) => {
        const jwk = jwkOf(key);
        const made = createPrivateKey({ key: jwk, format: "jwk" });
        return new Uint8Array(sign(digestOf[jwk.crv], toBeSigned, { key: made, dsaEncoding }));
      },
      verify: ({ key, sign1 }) => {
        const by = { key: publicKey(key), dsaEncoding };
        return verify(digestOf[jwkOf(key).crv], sign1.toBeSigned, by, sign1.signature);
      },
    },
    mac0: {
      sign: () => {
        throw new Error("a MAC is not expected");
      },
      verify: () => false,
    },
  },
  x509: {
    getIssuerNameField: ({ certificate, field }) => {
      const lines = new X509Certificate(certificate).issuer.split("\n");
      return lines.filter((l) => l.startsWith(`${field}=`)).map((l) => l.slice(field.length + 1));
    },
    getPublicKey: ({ certificate }) =>
      coseKey(CoseKey, new X509Certificate(certificate).publicKey.export({ format: "jwk" })),
    verifyCertificateChain: ({ trustedCertificates, x5chain }) => {
      const signer = new X509Certificate(x5chain[0]);
      if (!trustedCertificates.some((c) => signer.verify(new X509Certificate(c).publicKey))) {
        throw new Error("no trusted certificate has issued the signer's");
      }
    },
    getCertificateData: ({ certificate }) => {
      const c = new X509Certificate(certificate);
      return {
        issuerName: c.issuer,
        subjectName: c.subject,
        serialNumber: c.serialNumber,
        thumbprint: c.fingerprint256,
        notBefore: new Date(c.validFrom),
        notAfter: new Date(c.validTo),
        pem: c.toString(),
      };
    },
  },
};
