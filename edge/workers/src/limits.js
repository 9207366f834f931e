// The objects that keep rate counters, so that they share the work. The name of a counter selects the object.
// They keep counters in memory only (contract 30).

import { DurableObject } from "cloudflare:workers";
import { Counters } from "./counters.js";
import { identified } from "./effects.js";

const objects = 64; // for each partition of counters

// Limits is one of these objects.
export class Limits extends DurableObject {
  #counters = new Counters();
  #until = 0; // the time at which all counters are full, by the platform's clock
  #timer = false;

  lease(question) {
    const response = this.#counters.lease(question);
    const owes = response.tat + response.held + response.own + (response.lease?.time ?? 0) - question.now;
    this.#stay(Date.now() + Math.ceil(owes / 1000));
    return response;
  }

  // stay keeps the object in memory until a time. The platform discards an object that is not called for some
  // seconds, unless it has set a timer.
  #stay(until) {
    this.#until = Math.max(this.#until, until);
    if (this.#timer) return;
    this.#timer = true;
    setTimeout(() => {
      this.#timer = false;
      if (Date.now() < this.#until) this.#stay(this.#until);
    }, Math.min(this.#until - Date.now(), longest));
  }
}

const longest = 60_000; // ms of one timer

// asking returns the function with which Leases calls the objects of a namespace. Their
// names begin with prefix. Each question has its own stub, because a stub that has
// thrown may be broken.
export const asking = (namespace, prefix = "") => {
  const id = identified(namespace);
  return async (partition, question) => {
    return namespace.get(id(`${prefix}${partition}/${placeOf(question.name)}`)).lease(question);
  };
};

// placeOf spreads names evenly over the objects. It is FNV-1a.
function placeOf(name) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % objects;
}
