// The rate counters of one object, in its memory. A counter is a time, as in core/kv:
// the time (TAT) at which it is full again.
//
// An isolate does not charge a counter directly. It takes a lease: cells of the
// counter, each worth one request, which it alone may use, and only for a second.
// With its next request it reports the used cells.
//
// No limit is ever exceeded, because a counter's debt here is never less than the true one. The cells of an
// open lease count as debt. This debt does not shrink with time, because the time of use is not known yet. A
// report has the number of used cells, and the time of the last use. A lease without a report counts as used in
// full, at the last moment at which it could be. A new cell is granted only if it fits in addition to all of
// these.
//
// Times and durations are numbers, in microseconds. A time is the time of the request.

export const life = 1_000_000; // how long a lease may be used
const share = 8; // a lease takes at most an eighth of the remaining cells, so that others get the rest
const checkedEach = 8; // the number of counters that are checked for each new one

export class Counters {
  #counters = new Map(); // by name
  #lease = 0; // the id of the latest lease; it is a time, so that no later object uses it again

  // most is the maximum number of counters. Beyond it, a counter with little debt is deleted before
  // a counter with much debt, so that a client at its limit stays there.
  constructor(most = 4096) {
    this.most = most;
  }

  get size() { return this.#counters.size; }

  // lease takes a holder's reports about a counter, {id, spent, last}. It grants a lease of one cell, and of
  // more cells if the holder wishes and they are available. tat is the holder's copy of the counter, and
  // version the latest version that the holder received. It returns
  //   tat     the counter without the cells of open leases, 0 if it was never used
  //   version increases with every change by others
  //   held    the cells of others' open leases
  //   own     the cells of the holder's other open leases
  //   shared  whether others have used the counter recently
  //   lease   {id, time, from, until}, null if the limit is reached
  lease({ holder, name, now, cost, burst, wish, reports, tat, version }) {
    const counter = this.#counter(name, now);
    if (counter.version === version && (counter.by === holder || counter.by === "")) {
      // No one else has charged it since, so the holder's value is exact.
      counter.by = holder;
      for (const { id } of reports) counter.leases.delete(id);
      counter.tat = Math.max(counter.tat, tat);
    }
    for (const report of reports) settle(counter, report, holder);
    for (const [id, lease] of counter.leases) {
      if (lease.until < now) settle(counter, { id, spent: lease.time, last: lease.until }, holder);
    }
    let held = 0, own = 0;
    for (const lease of counter.leases.values()) {
      if (lease.holder === holder) own += lease.time;
      else held += lease.time;
    }
    if (counter.holder !== holder) {
      if (counter.tat > now || held > 0) counter.shared = now + burst;
      counter.holder = holder;
    }
    const shared = counter.shared > now;
    const result = { tat: counter.tat, version: counter.version, held, own, shared, lease: null };
    const room = now + burst - Math.max(counter.tat, now) - held - own;
    if (room < cost) return result;
    const lease = {
      id: this.#lease = Math.max(this.#lease + 1, now), from: now, until: now + life,
      time: cost * (1 + Math.min(wish, Math.floor(room / share / cost))),
    };
    counter.leases.set(lease.id, { ...lease, holder });
    return { ...result, lease };
  }

  #counter(name, now) {
    let counter = this.#counters.get(name);
    if (counter === undefined) {
      this.#makeRoom(now);
      counter = { tat: 0, version: now, by: "", leases: new Map(), holder: "", shared: 0 };
      this.#counters.set(name, counter);
    }
    return counter;
  }

  // makeRoom checks the counters with the oldest check. This is enough, because it checks more counters than
  // are added.
  #makeRoom(now) {
    let least = null;
    const seen = [];
    for (const [name, counter] of this.#counters) {
      if (seen.length === checkedEach) break;
      seen.push([name, counter]);
      if (least === null || owed(counter) < owed(least[1])) least = [name, counter];
    }
    for (const [name, counter] of seen) {
      this.#counters.delete(name);
      if (owed(counter) > now) this.#counters.set(name, counter); // after the others
    }
    if (this.#counters.size >= this.most) this.#counters.delete(least[0]);
  }
}

// owed is the latest time at which a counter can be full again.
function owed(counter) {
  let at = counter.tat;
  for (const lease of counter.leases.values()) at = Math.max(at, lease.until) + lease.time;
  return at;
}

// settle ends a lease. spent of it was used, the last cell at last. All of it counts
// as used at that time, which is never too little.
function settle(counter, { id, spent, last }, by) {
  if (!counter.leases.delete(id) || spent === 0) return; // it has been charged already, or belongs to an earlier object
  counter.tat = Math.max(counter.tat, last) + spent;
  counter.by = by;
  counter.version++;
}
