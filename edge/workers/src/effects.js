// Carries out the requests of the guest: effects of the store in the Durable Objects,
// charges of counters by leases, fetches by egress.js, signatures and decryption by
// signing.js, and verification by verifying.js.

import * as abi from "./abi.js";
import { verify } from "./verifying.js";

// effects returns the function that Engine.run takes. object returns the object that carries out
// the effects of a partition. spend carries out a spend, fetch a fetch, and sign a
// signature or a decryption; none of them rejects.
export function effects(object, spend, fetch, sign) {
  return ({ kind, body }) => {
    if (kind === abi.kind.spend) return spend(body);
    if (kind === abi.kind.fetch) return fetch(body);
    if (kind === abi.kind.sign || kind === abi.kind.decrypt) return sign(kind, body);
    if (kind === abi.kind.verify) return verify(body);
    if (kind > abi.kind.verify) {
      return { status: abi.status.unavailable, body: abi.bytesOf("the host has no such effect") };
    }
    return stored(object, kind, body);
  };
}

async function stored(object, kind, body) {
  try {
    return await object(abi.partitionOf(kind, body)).effect(kind, body);
  } catch (e) {
    // It is unknown whether a commit without a reply has happened.
    const mayHaveHappened = kind === abi.kind.commit && !(e instanceof abi.Malformed);
    const status = mayHaveHappened ? abi.status.unknown : abi.status.unavailable;
    return { status, body: abi.bytesOf(`durable object: ${e?.message}`) };
  }
}

// objects returns the argument object of effects: the partitions of a namespace, whose
// names begin with prefix. Each effect has its own stub, because a stub that has
// thrown may be broken.
export const objects = (namespace, prefix = "") => {
  const id = identified(namespace);
  return (partition) => ({
    effect(kind, body) {
      const name = prefix + partition;
      return namespace.get(id(name)).effect(name, kind, body);
    },
  });
};

// identified returns a function from names to the ids of a namespace's objects. It
// remembers some ids, because each is a hash of the name.
export function identified(namespace) {
  const ids = new Map();
  return (name) => {
    let id = ids.get(name);
    if (id === undefined) {
      if (ids.size === mostIDs) ids.clear();
      ids.set(name, id = namespace.idFromName(name));
    }
    return id;
  };
}

const mostIDs = 1024;
