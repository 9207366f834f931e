// A partition of the KV: a Durable Object with SQLite. It keeps items and tasks
// (store.js), and its alarm runs the tasks as they fall due.
//
// What is due is in the storage and nowhere else. An alarm is no more than a
// reason to look: it is set for the earliest task with every change, and again
// at the end of each alarm, whatever came of that. So one that the platform
// has lost or given up costs time and no event.

import { DurableObject } from "cloudflare:workers";
import * as abi from "./abi.js";
import { effects, objects } from "./effects.js";
import { runDue } from "./runner.js";
import { egressOf, engineOf, jobTime, log, spendOf } from "./service.js";
import { Store } from "./store.js";

const millisecond = 1_000_000n;
const again = 1_000; // ms after which an alarm that left something due is repeated
const lost = 30_000; // ms after which one that keeps being killed is: leases are over by then

export class Partition extends DurableObject {
  #store = null;
  #armed = null; // when the alarm is set for, ms
  #awake = false; // the alarm's handler runs, and arms at its end
  #news = null;

  // What it stands on; the tests' objects stand on something else.
  now() { return BigInt(Date.now()) * millisecond; }
  engine() { return engineOf(this.env); }
  spender() { return spendOf(this.env); }
  fetcher() { return egressOf(this.env); }
  object() { return objects(this.env.PARTITION); }
  log(line) { log(line); }

  // alarmAt is the time on the platform's clock, in ms, at which an instant of
  // ours has come; null for never.
  alarmAt(due) { return Number((due + millisecond - 1n) / millisecond); }

  store() {
    return (this.#store ??= new Store(this.ctx.storage, () => this.now()));
  }

  // effect is called by whoever runs a guest, in any isolate. An object is not
  // told its name by an alarm, so it remembers.
  async effect(name, kind, body) {
    const store = this.store();
    if (this.name === undefined) {
      this.#armed = await this.ctx.storage.getAlarm();
      const kept = store.fact("name");
      if (kept === undefined) store.setFact("name", name);
      this.name = kept ?? name; // last, so that what has failed is done again
    }
    const reply = store.effect(kind, body);
    if (kind === abi.kind.commit) this.#arm(store.scheduled());
    else if (kind === abi.kind.claim) this.#arm(store.earliest());
    return reply;
  }

  // arm sets the alarm for a task that is due then, unless it is set for a time
  // before. An alarm too early costs a look.
  #arm(due) {
    if (due === null) return;
    if (this.#awake) {
      this.#news?.();
      return;
    }
    const when = this.alarmAt(due);
    if (when !== null && (this.#armed === null || when < this.#armed)) this.#set(when);
  }

  #next() {
    const due = this.store().earliest();
    return due === null ? null : this.alarmAt(due);
  }

  #set(when) {
    if (when === null) this.ctx.storage.deleteAlarm();
    else this.ctx.storage.setAlarm(Math.max(when, 1));
    this.#armed = when;
  }

  // alarm never throws. One that was killed the platform repeats, soon but only
  // a few times: from the third on, another one is set before anything is done.
  async alarm(info) {
    const begin = Date.now();
    const failed = (e) => this.log({ level: 8, message: "an alarm has failed", partition: this.name, error: e.message });
    let more = false;
    this.#awake = true;
    this.#armed = null; // it has come
    try {
      this.name ??= this.store().fact("name");
      if (info?.retryCount > 2) this.#set(begin + lost);
      more = await runDue(this.#outbox(), (line) => this.log({ ...line, partition: this.name }));
    } catch (e) {
      failed(e);
    }
    this.#awake = false;
    let when = begin;
    try {
      when = this.#next();
    } catch (e) {
      failed(e);
    }
    // What could not be done is not tried in a loop.
    const now = Date.now();
    if (when !== null && when <= now) when = more ? now : Math.max(begin + again, now);
    this.#set(when);
  }

  #outbox() {
    const engine = this.engine(), object = this.object();
    // Its own tasks are at hand; the rest is in other objects.
    const own = { effect: (kind, body) => this.effect(this.name, kind, body) };
    const carryOut = effects((partition) => (partition === this.partition() ? own : object(partition)), this.spender(), this.fetcher());
    const run = (entry, type, message) => engine.run(entry, abi.write(type, message), carryOut, jobTime);
    const outcome = (o) => {
      if (o.status !== abi.status.ok) throw new Error(o.text);
    };
    return {
      now: () => this.now(),
      due: () => {
        const at = this.store().earliest();
        return at !== null && at <= this.now();
      },
      news: () => new Promise((done) => { this.#news = done; }),
      claim: async (n) => {
        const jobs = abi.read(abi.jobs, await run(abi.entry.claim, abi.claimJobs, { partition: this.partition(), n }));
        outcome(jobs.outcome);
        return jobs;
      },
      run: async (job) => outcome(abi.read(abi.outcome, await run(abi.entry.run, abi.jobUntil, { ...job, again: null }))),
      defer: async (job, until) => outcome(abi.read(abi.outcome, await run(abi.entry.defer, abi.jobUntil, { ...job, again: until }))),
    };
  }

  partition() { return this.name; }
}
