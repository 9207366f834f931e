// Carries out what the guest asks for: the store's effects on the Durable
// Objects, charges of counters by leases, fetches by the guarded way out.

import * as abi from "./abi.js";

// effects returns what Engine.run takes. object gives what carries out the
// effects of a partition; spend carries out a spend and fetch a fetch, and
// neither rejects.
export function effects(object, spend, fetch) {
  return ({ kind, body }) => {
    if (kind === abi.kind.spend) return spend(body);
    if (kind === abi.kind.fetch) return fetch(body);
    if (kind > abi.kind.fetch) return { status: abi.status.unavailable, body: abi.bytesOf("the host knows no such effect") };
    return stored(object, kind, body);
  };
}

async function stored(object, kind, body) {
  try {
    return await object(abi.partitionOf(kind, body)).effect(kind, body);
  } catch (e) {
    // Of a commit without a reply nobody can say whether it happened.
    const status = kind === abi.kind.commit && !(e instanceof abi.Malformed) ? abi.status.unknown : abi.status.unavailable;
    return { status, body: abi.bytesOf(`durable object: ${e?.message}`) };
  }
}

// objects is for effects: the partitions of a namespace, whose names it begins
// with prefix. Stubs are fresh for each effect: one that has thrown may be
// broken.
export const objects = (namespace, prefix = "") => {
  const id = identified(namespace);
  return (partition) => ({
    effect(kind, body) {
      const name = prefix + partition;
      return namespace.get(id(name)).effect(name, kind, body);
    },
  });
};

// identified gives the ids of a namespace's objects and remembers some: it is a
// hash that makes one of a name.
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
