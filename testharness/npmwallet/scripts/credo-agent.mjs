// An agent of @credo-ts/core for one response. Its keys and records are in memory, so that it needs no native
// library.
import { Agent, InjectionSymbols, Kms, RecordNotFoundError } from "@credo-ts/core";
import { OpenId4VcModule } from "@credo-ts/openid4vc";
import { createCipheriv, createHash, createPrivateKey, createPublicKey, diffieHellman } from "node:crypto";
import { generateKeyPairSync, randomBytes, sign, verify } from "node:crypto";
import { EventEmitter } from "node:events";

const digestOf = { ES256: "sha256", ES384: "sha384", ES512: "sha512" };
const keySizeOf = { A128GCM: 16, A256GCM: 32 };
const dsaEncoding = "ieee-p1363";
const publicOf = ({ d, ...jwk }) => jwk;
const privateKey = (key) => createPrivateKey({ key, format: "jwk" });
const publicKey = (key) => createPublicKey({ key, format: "jwk" });

const uint32 = (n) => Buffer.from([n >>> 24, n >>> 16, n >>> 8, n]);
const sized = (b = "") => Buffer.concat([uint32(Buffer.from(b).length), Buffer.from(b)]);
// contentKey derives the key of a JWE by ECDH-ES, as in RFC 7518, section 4.6.2. One round of SHA-256 is enough.
const contentKey = (secret, algorithm, { apu, apv }) => {
  const size = keySizeOf[algorithm];
  const info = [sized(algorithm), sized(apu), sized(apv), uint32(size * 8)];
  return createHash("sha256").update(Buffer.concat([uint32(1), secret, ...info])).digest().subarray(0, size);
};

class Keys {
  backend = "memory";
  #keys = new Map();

  isOperationSupported(_, { operation, algorithm, encryption, keyAgreement }) {
    if (operation === "sign" || operation === "verify") return algorithm in digestOf;
    if (operation === "encrypt") return encryption.algorithm in keySizeOf && keyAgreement?.algorithm === "ECDH-ES";
    return operation !== "decrypt";
  }
  randomBytes(_, { length }) {
    return new Uint8Array(randomBytes(length));
  }
  async getPublicKey(_, id) {
    return this.#keys.has(id) ? publicOf(this.#keys.get(id)) : null;
  }
  async importKey(_, { privateJwk }) {
    this.#keys.set(privateJwk.kid, privateJwk);
    return { keyId: privateJwk.kid, publicJwk: publicOf(privateJwk) };
  }
  async createKey(_, { keyId = randomBytes(8).toString("hex"), type }) {
    const made = generateKeyPairSync("ec", { namedCurve: type.crv }).privateKey.export({ format: "jwk" });
    return this.importKey(_, { privateJwk: { ...made, kid: keyId } });
  }
  async deleteKey(_, { keyId }) {
    return this.#keys.delete(keyId);
  }
  async sign(_, { keyId, algorithm, data }) {
    const key = privateKey(this.#keys.get(keyId));
    return { signature: new Uint8Array(sign(digestOf[algorithm], data, { key, dsaEncoding })) };
  }
  async verify(_, { key, algorithm, data, signature }) {
    const publicJwk = publicOf(key.publicJwk ?? this.#keys.get(key.keyId));
    const by = { key: publicKey(publicJwk), dsaEncoding };
    return verify(digestOf[algorithm], data, by, signature) ? { verified: true, publicJwk } : { verified: false };
  }
  async encrypt(_, { key: { keyAgreement }, encryption: { algorithm, aad }, data }) {
    const pair = {
      privateKey: privateKey(this.#keys.get(keyAgreement.keyId)),
      publicKey: publicKey(keyAgreement.externalPublicJwk),
    };
    const iv = randomBytes(12);
    const key = contentKey(diffieHellman(pair), algorithm, keyAgreement);
    const cipher = createCipheriv(`aes-${key.length * 8}-gcm`, key, iv).setAAD(aad);
    const encrypted = Buffer.concat([cipher.update(data), cipher.final()]);
    return { encrypted, iv, tag: cipher.getAuthTag() };
  }
}

// Records contains the records of an agent. A query has tags, or a list of queries of which one must match.
class Records {
  supportsCursorPagination = false;
  #records = new Map();

  async save(_, record) {
    this.#records.set(record.id, record.clone());
  }
  async update(_, record) {
    this.#records.set(record.id, record.clone());
  }
  async delete(_, { id }) {
    this.#records.delete(id);
  }
  async deleteById(_, __, id) {
    this.#records.delete(id);
  }
  async getById(_, { type }, id) {
    const record = this.#records.get(id);
    if (record?.type !== type) throw new RecordNotFoundError("no such record", { recordType: type });
    return record.clone();
  }
  async getAll(_, { type }) {
    return [...this.#records.values()].filter((r) => r.type === type).map((r) => r.clone());
  }
  async findByQuery(_, of, { $or, ...tags }) {
    const fits = (all, wanted) =>
      Object.entries(wanted).every(([name, value]) =>
        Array.isArray(value) ? value.every((v) => all[name]?.includes(v)) : all[name] === value,
      );
    return (await this.getAll(_, of)).filter((record) => {
      const all = record.getTags();
      return fits(all, tags) && (!$or || $or.some((query) => fits(all, query)));
    });
  }
}

// openAgent returns an agent with keys: JWKs by their ids.
export const openAgent = async (keys) => {
  const records = {
    register: (manager) => manager.registerInstance(InjectionSymbols.StorageService, new Records()),
  };
  const agent = new Agent({
    config: { allowInsecureHttpUrls: true, autoUpdateStorageOnStartup: true }, // the service is on this machine
    dependencies: { FileSystem: class {}, EventEmitterClass: EventEmitter, fetch, WebSocketClass: class {} },
    modules: {
      records,
      kms: new Kms.KeyManagementModule({ backends: [new Keys()] }),
      openid4vc: new OpenId4VcModule(),
    },
  });
  await agent.initialize();
  for (const [kid, jwk] of Object.entries(keys)) await agent.kms.importKey({ privateJwk: { ...jwk, kid } });
  return agent;
};
