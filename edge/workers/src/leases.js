// The leases of cells in one isolate (see counters.js). With them, it handles most requests without a call to
// an object. It also rejects requests that an object would reject.
//
// Spend keeps the promise of kv.Meter in this way: a request takes its cells from the leases, one of each
// counter, and uses them when it has all. If one is rejected, the others are returned to their leases. So
// within an isolate, a request counts everywhere or nowhere. In the fleet, a returned cell counts only if its
// isolate does not report within the second that a lease lasts.
//
// A request asks in its own context and does not wait for another request's question,
// because the platform ends the work of a request when its client disconnects.

import * as abi from "./abi.js";
import { life } from "./counters.js";

const microsecond = 1000n;
const exact = 2 ** 53; // below it, a number has the exact microsecond
const checkedEach = 8; // the number of counters that are checked for each new one
const tries = 4; // the maximum number of questions of one request about one counter

export class Leases {
  #counters = new Map(); // by partition and name
  #holder = "";

  // ask sends a question to the counter's object. It takes the partition and the question, and resolves to
  // the result of Counters.lease, or rejects. most is the maximum number of counters in memory.
  constructor(ask, { most = 4096, holder = "" } = {}) {
    this.ask = ask;
    this.most = most;
    this.#holder = holder;
  }

  // effect carries out the effect spend. It returns the reply itself, and not a
  // promise, if no object has to be asked.
  effect(body) {
    try {
      const { partition, now, charges } = abi.read(abi.spend, body);
      const tats = this.spend(partition, now, charges);
      return tats instanceof Promise ? tats.then(replied, failed) : replied(tats);
    } catch (e) {
      return failed(e);
    }
  }

  // spend implements Spend of kv.Meter. time is in BigInt nanoseconds. It counts
  // in whole microseconds: it rounds costs up and bursts down. It returns the
  // counters, or a promise of them.
  spend(partition, time, charges) {
    const now = within(time / microsecond);
    const all = charges.map(({ name, cost, burst }) => {
      return {
        cost: within((cost + microsecond - 1n) / microsecond), burst: within(burst / microsecond),
        counter: this.#counter(partition, name, now),
      };
    });
    if (all.some(({ counter, cost, burst }) => counter.rejects(now, cost, burst))) return standing(all, now);
    for (const charge of all) charge.lease = charge.counter.take(now, charge.cost);
    return all.every(({ lease }) => lease !== null) ? used(all, now) : this.#complete(partition, all, now);
  }

  // complete requests the missing cells, one at a time. If the first is rejected, it does not request the
  // second.
  async #complete(partition, all, now) {
    for (const charge of all) {
      if (charge.lease !== null) continue;
      try {
        await this.#ask(partition, charge, now);
      } catch (e) {
        returnCells(all);
        throw e;
      }
      if (charge.lease === null) {
        returnCells(all);
        return standing(all, now);
      }
    }
    return used(all, now);
  }

  // ask gets a lease for a charge and takes one of its cells, unless the limit is
  // reached.
  async #ask(partition, charge, now) {
    const { counter, cost, burst } = charge;
    for (let left = tries; left > 0; left--) {
      const question = counter.question(now, cost, burst);
      this.#holder ||= crypto.randomUUID();
      charge.response = await this.ask(partition, { holder: this.#holder, ...question });
      counter.learn(charge.response, question);
      charge.lease = counter.take(now, cost);
      // The missing cell may be in another lease of this isolate, whose response is still pending.
      if (charge.lease !== null || charge.response.own < cost) return;
    }
  }

  #counter(partition, name, now) {
    const key = `${partition}/${name}`;
    let counter = this.#counters.get(key);
    if (counter === undefined) {
      this.#makeRoom(now);
      counter = new Counter(name, now);
      this.#counters.set(key, counter);
    }
    return counter;
  }

  // makeRoom works like the method of Counters. For a dropped counter, the object is asked again. A dropped
  // lease counts as used.
  #makeRoom(now) {
    const seen = [];
    for (const entry of this.#counters) {
      if (seen.length === checkedEach) break;
      seen.push(entry);
    }
    for (const [key, counter] of seen) {
      this.#counters.delete(key);
      if (counter.tat > now || counter.asked + life > now) this.#counters.set(key, counter);
    }
    if (this.#counters.size >= this.most) this.#counters.delete(seen[0][0]);
  }
}

// Counter is an isolate's copy of a counter.
class Counter {
  tat = 0; // the counter, as known here
  asked = 0; // the time of the last question to its object
  #least = 0; // the lower bound of the counter, from its object's last response
  #version = -1; // the latest version from its object; -1 for none
  #shared = false; // whether others use it and may have charged it since
  #leases = [];
  #wish = 0; // the number of cells to wish for in addition to one
  #wishing = 0; // until that time, another request with a wish may be active

  constructor(name, now) {
    this.name = name;
    this.asked = now;
  }

  // rejects reports whether its object would certainly reject.
  rejects(now, cost, burst) {
    return this.#least + cost > now + burst && !this.#leases.some((lease) => has(lease, now, cost));
  }

  // take takes a cell out of a lease and returns the lease, null if there is no cell.
  take(now, cost) {
    for (const lease of this.#leases) {
      if (!has(lease, now, cost)) continue;
      lease.left -= cost;
      return lease;
    }
    return null;
  }

  // use counts a cell that was taken. It returns the counter before the charge, or a
  // later time, so that core/ratelimit never reports more requests than remain.
  use(now, { cost, burst, lease, response }) {
    let before = this.tat;
    if (!lease.reported) { // otherwise it has been charged already
      lease.used += cost;
      lease.last = Math.max(lease.last, now);
      this.tat = Math.max(this.tat, now) + cost;
    }
    if (response?.held > 0) before = Math.max(before, Math.max(response.tat, now) + response.held);
    else if (!response && this.#shared) before = Math.max(before, now + burst - cost - this.#atHand(now));
    return Math.min(before, now + burst - cost); // the request is allowed in any case
  }

  // standing returns the counter for a request that it or another counter rejects. Unknown cells count as
  // used.
  standing(now, { cost, burst, response, lease }) {
    if (response && lease === null) {
      return Math.max(this.tat, Math.max(response.tat, now) + response.held + response.own);
    }
    if (this.#version < 0) return now + burst - cost + 1;
    return this.#shared ? Math.max(this.tat, now + burst - this.#atHand(now)) : this.tat;
  }

  #atHand(now) {
    return this.#leases.reduce((sum, lease) => sum + (has(lease, now, 0) ? lease.left : 0), 0);
  }

  // question reports the leases, which are used up or over. It wishes for as many
  // cells as were used in the time of a lease, and for more if these were too few.
  // An isolate that asks rarely leases only the cell that it needs.
  question(now, cost, burst) {
    let given = 0, spent = 0;
    const reports = this.#leases.map((lease) => {
      lease.reported = true;
      const { id, time, left, used, last } = lease;
      given += time;
      spent += time - left;
      if (left + used === time) return { id, spent: used, last };
      // Cells that are taken and not used yet count as used now.
      this.tat = Math.max(this.tat, now) + time - left - used;
      return { id, spent: time - left, last: Math.max(last, now) };
    });
    this.#leases = [];
    let wish = 0;
    if (this.#wishing <= now) {
      const more = given > 0 && spent === given && now - this.asked <= life;
      wish = this.#wish = more ? 2 * this.#wish + 1 : Math.max(0, Math.round(spent / cost) - 1);
      if (wish > 0) this.#wishing = now + life;
    }
    this.asked = now;
    return { name: this.name, now, cost, burst, wish, reports, tat: this.tat, version: this.#version };
  }

  learn({ tat, version, shared, lease }, { wish }) {
    if (wish > 0) this.#wishing = 0;
    this.#version = Math.max(this.#version, version);
    this.#shared = shared;
    this.#least = Math.max(this.#least, tat);
    const withOwn = this.#leases.reduce((sum, lease) => sum + lease.used, tat);
    if (tat > 0) this.tat = Math.max(this.tat, withOwn);
    if (lease) this.#leases.push({ ...lease, left: lease.time, used: 0, last: 0, reported: false });
  }
}

const has = (lease, now, cost) => lease.left >= cost && lease.from <= now && now <= lease.until;

// returnCells returns unused cells to their leases.
function returnCells(all) {
  for (const { cost, lease } of all) if (lease !== null) lease.left += cost;
}

const used = (all, now) => all.map((charge) => time(charge.counter.use(now, charge)));
const standing = (all, now) => all.map((charge) => time(charge.counter.standing(now, charge)));
const replied = (tats) => ({ status: abi.status.ok, body: abi.write(abi.times, tats) });
const failed = (e) => ({ status: abi.status.unavailable, body: abi.bytesOf(`counters: ${e?.message}`) });

// within returns a time or a duration in microseconds as a number.
function within(microseconds) {
  if (microseconds < 0n || microseconds > BigInt(exact / 4)) {
    throw new Error("a time or a charge outside the exact range of a counter");
  }
  return Number(microseconds);
}

const time = (microseconds) => (microseconds === 0 ? null : BigInt(microseconds) * microsecond);
