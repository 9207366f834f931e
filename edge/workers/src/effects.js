// Carries out what the guest asks for: the store's effects on the Durable
// Objects, fetches by the guarded way out.

import * as abi from "./abi.js";

// effects returns what Engine.run takes. object gives what carries out the
// effects of a partition; fetch carries out a fetch, and does not reject.
export function effects(object, fetch) {
  return async ({ kind, body }) => {
    if (kind === abi.kind.fetch) return fetch(body);
    if (kind > abi.kind.fetch) return { status: abi.status.unavailable, body: abi.bytesOf("the host knows no such effect") };
    try {
      return await object(abi.partitionOf(kind, body)).effect(kind, body);
    } catch (e) {
      // Of a commit without a reply nobody can say whether it happened.
      const status = kind === abi.kind.commit && !(e instanceof abi.Malformed) ? abi.status.unknown : abi.status.unavailable;
      return { status, body: abi.bytesOf(`durable object: ${e?.message}`) };
    }
  };
}

// objects is for effects: the partitions of a namespace, whose names it begins
// with prefix. Stubs are fresh for each effect: one that has thrown may be
// broken.
export const objects = (namespace, prefix = "") => (partition) => ({
  effect(kind, body) {
    const name = prefix + partition;
    return namespace.get(namespace.idFromName(name)).effect(name, kind, body);
  },
});
