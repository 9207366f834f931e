// Adds up the usage that the core reports, and has the core record the sums. It is the
// counterpart of edge/internal/usagecounter for a host that sleeps between requests.
//
// The sums are in this isolate's memory. They are recorded soon after the first report
// and then at most every 20 s. Unrecorded sums are lost when the platform ends the
// isolate.

import * as abi from "./abi.js";

const most = 4096; // the maximum number of counted integrations, and of keys
const batch = 256; // sums in one entry
const recordTime = 8_000; // ms for one entry
const day = 86_400_000_000_000n; // ns

const outcomes = new Set([
  "started", "completed", "failed_provider_rejected", "failed_max_attempts", "failed_unknown",
  "cancelled", "expired", "untimed", "untimed_ended",
]);
const integration = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const key = /^key_[0-9a-f]{16}$/;

export class UsageCounter {
  #days = new Map(); // by integration and day
  #keys = new Map(); // the day of the last use, and the recorded day
  #name = newName();
  #rejected = 0;
  #recorded = -Infinity; // the time of the last recording, in ms
  #planned = -Infinity; // the time until which a request may still record, in ms

  // now is the wall clock in BigInt nanoseconds. each is the number of ms between two
  // recordings; the platform lets a request linger for 30 s.
  constructor({ now, log = () => {}, each = 20_000 }) {
    Object.assign(this, { now, log, each });
  }

  // note counts one report, {integration, outcome, key}. Invalid reports are ignored.
  note({ integration: id, outcome, key: of }) {
    const today = Number(this.now() / day);
    if (of !== "") {
      if (!key.test(of)) return;
      const use = this.#keys.get(of) ?? this.#begin(this.#keys, of, { last: -1, recorded: -1 });
      if (use) use.last = Math.max(use.last, today);
      return;
    }
    if (!outcomes.has(outcome) || !integration.test(id)) return;
    const name = `${id}/${today}`;
    const sum = this.#days.get(name) ?? this.#begin(this.#days, name, {
      integration: id, day: today, instance: this.#name, counts: {}, recorded: {},
    });
    if (sum) sum.counts[outcome] = (sum.counts[outcome] ?? 0) + 1;
  }

  #begin(map, name, value) {
    if (map.size >= most) {
      this.#rejected++;
      return null;
    }
    map.set(name, value);
    return value;
  }

  // settle makes the calling request record the usage in time, unless another request will do it. It resolves
  // when the request may end, and does not reject. run runs an entry, in the context of that request. If the
  // platform ends the request before, a later request does it.
  async settle(run) {
    const begin = Date.now();
    if (begin < this.#planned || !this.#changed()) return;
    const wait = Math.max(0, this.#recorded + this.each - begin);
    this.#planned = begin + wait + recordTime;
    if (wait > 0) await new Promise((done) => { setTimeout(done, wait); });
    this.#planned = -Infinity; // later usage may need another recording
    try {
      await this.record(run);
    } catch (e) {
      this.log({ level: 4, message: "usage not recorded; will be tried again", error: e.message });
    }
  }

  #changed() {
    for (const sum of this.#days.values()) if (changed(sum)) return true;
    for (const use of this.#keys.values()) if (use.last !== use.recorded) return true;
    return false;
  }

  // record makes the core write all changed sums. Failed writes are repeated the next time.
  async record(run) {
    this.#recorded = Date.now();
    const rows = [];
    for (const sum of this.#days.values()) {
      if (!changed(sum)) continue;
      const counts = { ...sum.counts };
      rows.push({ days: [{ ...sum, counts: pairs(counts) }], keys: [], done: () => { sum.recorded = counts; } });
    }
    for (const [of, use] of this.#keys) {
      const { last } = use;
      if (last === use.recorded) continue;
      rows.push({ days: [], keys: [{ key: of, day: last }], done: () => { use.recorded = last; } });
    }
    for (let i = 0; i < rows.length; i += batch) {
      const some = rows.slice(i, i + batch);
      const totals = { days: some.flatMap(({ days }) => days), keys: some.flatMap(({ keys }) => keys) };
      const result = await run(abi.entry.recordUsage, abi.write(abi.totals, totals), recordTime);
      const { status, text } = abi.read(abi.outcome, result);
      if (status !== abi.status.ok) throw new Error(text);
      for (const { done } of some) done();
    }
    this.#tidy();
  }

  // tidy drops recorded sums of earlier days, and all recorded sums if there is little room left. A new sum
  // has another name, because it begins at zero.
  #tidy() {
    const today = Number(this.now() / day), before = this.#days.size;
    const full = (map) => map.size > most / 4 * 3;
    const days = full(this.#days), keys = full(this.#keys);
    for (const [name, sum] of this.#days) {
      if ((days || sum.day < today) && !changed(sum)) this.#days.delete(name);
    }
    for (const [of, use] of this.#keys) {
      if ((keys || use.last < today) && use.last === use.recorded) this.#keys.delete(of);
    }
    if (this.#days.size < before) this.#name = newName();
    if (this.#rejected > 0) {
      this.log({
        level: 8, message: "usage not counted: too many integrations or keys",
        usage_events: this.#rejected, most,
      });
      this.#rejected = 0;
    }
  }
}

const changed = ({ counts, recorded }) => Object.keys(counts).some((of) => counts[of] !== recorded[of]);

// pairs returns counts in the form of the ABI.
const pairs = (counts) => Object.entries(counts).map(([outcome, n]) => ({ outcome, n: BigInt(n) }));

function newName() {
  return [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, "0")).join("");
}
