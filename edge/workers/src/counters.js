// The rate counters of one object, in its memory. A counter is what core/kv
// calls one: the time (TAT) at which it is full again.
//
// An isolate does not charge a counter. It takes a lease: cells of the counter,
// each worth one request, that it may use for a second and nobody else can. With
// its next question it reports what it has used.
//
// Why no limit is ever exceeded: a counter's debt here is never less than the
// true one. The cells of an open lease are owed, and this debt does not shrink
// with time, since nobody knows yet when they are used. A report says how many
// were used and when the last of them was. A lease without a report counts as
// used in full at the last moment that it allowed. A new cell is granted only
// if it fits beside all of that.
//
// Times and durations are numbers, in microseconds. A time is the one that the
// request has which asks.

export const life = 1_000_000; // how long a lease may be used
const share = 8; // a lease sets aside at most this part of what is left, so that others find the rest
const lookedAt = 8; // counters looked at for each new one

export class Counters {
  #counters = new Map(); // by name
  #lease = 0; // the latest; a time, so that no object after this one has the same

  // most is how many counters are kept. When more come, one that owes little
  // is forgotten before one that owes much, so that whoever is at the limit
  // stays there.
  constructor(most = 4096) {
    this.most = most;
  }

  get size() { return this.#counters.size; }

  // lease takes a holder's reports about a counter, {id, spent, last}, and grants
  // a lease of one cell, and of as many more as are wished for and can be spared.
  // tat is where the counter stands by all that the holder knows, version the
  // latest that it was told. It returns
  //   tat     the counter without what open leases hold, 0 if it was never used
  //   version of what the holder does not know by itself
  //   held    what others' open leases hold
  //   own     what the holder's other open leases hold
  //   shared  whether others have used the counter lately
  //   lease   {id, time, from, until}; null: the limit is reached
  lease({ holder, name, now, cost, burst, wish, reports, tat, version }) {
    const counter = this.#counter(name, now);
    if (counter.version === version && (counter.by === holder || counter.by === "")) {
      // Nobody else has charged it since, so the holder knows exactly.
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
    const said = { tat: counter.tat, version: counter.version, held, own, shared: counter.shared > now, lease: null };
    const room = now + burst - Math.max(counter.tat, now) - held - own;
    if (room < cost) return said;
    const lease = {
      id: this.#lease = Math.max(this.#lease + 1, now), from: now, until: now + life,
      time: cost * (1 + Math.min(wish, Math.floor(room / share / cost))),
    };
    counter.leases.set(lease.id, { ...lease, holder });
    return { ...said, lease };
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

  // makeRoom looks at the counters that nobody has looked at for the longest
  // time. That is enough: more are looked at than are added.
  #makeRoom(now) {
    let least = null;
    const seen = [];
    for (const [name, counter] of this.#counters) {
      if (seen.length === lookedAt) break;
      seen.push([name, counter]);
      if (least === null || owed(counter) < owed(least[1])) least = [name, counter];
    }
    for (const [name, counter] of seen) {
      this.#counters.delete(name);
      if (owed(counter) > now) this.#counters.set(name, counter); // behind the others
    }
    if (this.#counters.size >= this.most) this.#counters.delete(least[0]);
  }
}

// owed is the time at which a counter is full again, whatever its leases come to.
function owed(counter) {
  let at = counter.tat;
  for (const lease of counter.leases.values()) at = Math.max(at, lease.until) + lease.time;
  return at;
}

// settle ends a lease, of which spent was used, the last of it at last. All of
// it counts as used then: later than it was is never too little.
function settle(counter, { id, spent, last }, by) {
  if (!counter.leases.delete(id) || spent === 0) return; // it has counted, or is of an object before this one
  counter.tat = Math.max(counter.tat, last) + spent;
  counter.by = by;
  counter.version++;
}
