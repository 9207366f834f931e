// The objects that keep rate counters. A counter lies in one of them, chosen by
// its name, so that they share the work; what they keep is in memory alone
// (contract 30).

import { DurableObject } from "cloudflare:workers";
import { Counters } from "./counters.js";
import { identified } from "./effects.js";

const objects = 64; // for each partition of counters

// Limits is such an object.
export class Limits extends DurableObject {
  #counters = new Counters();
  #until = 0; // a counter that owes something is needed until then, by the platform's clock
  #timer = false;

  lease(question) {
    const answer = this.#counters.lease(question);
    const owes = answer.tat + answer.held + answer.own + (answer.lease?.time ?? 0) - question.now;
    this.#stay(Date.now() + Math.ceil(owes / 1000));
    return answer;
  }

  // stay keeps the object in memory until then: the platform discards one that
  // nobody asks for some seconds, and not while a timer of it is set.
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

// asking is Leases' way to the objects of a namespace, whose names it begins
// with prefix. A stub that has thrown may be broken, so each question has its own.
export const asking = (namespace, prefix = "") => {
  const id = identified(namespace);
  return async (partition, question) => {
    return namespace.get(id(`${prefix}${partition}/${placeOf(question.name)}`)).lease(question);
  };
};

// placeOf spreads names evenly: FNV-1a.
function placeOf(name) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % objects;
}
