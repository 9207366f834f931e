// A partition of the KV: a Durable Object with SQLite. It keeps items and tasks
// (store.js), and its alarm runs the tasks when they fall due.
//
// Due tasks are only in the storage; an alarm only makes the object check it. The alarm is set for the
// earliest task with every change, and again at the end of each alarm, even a failed one. If the platform
// loses an alarm, events are late, but none is lost.

import { DurableObject } from "cloudflare:workers";
import * as abi from "./abi.js";
import { effects, objects } from "./effects.js";
import { runDue } from "./runner.js";
import { egressOf, engineOf, jobTime, log, namespaceOf, settle, signerOf, spendOf } from "./service.js";
import { Store } from "./store.js";
import { tidy, transfer } from "./transfer.js";

const millisecond = 1_000_000n;
const again = 1_000; // ms until the next alarm, if tasks are still due
const lost = 30_000; // ms until the next alarm, if alarms are killed repeatedly: leases have expired by then

export class Partition extends DurableObject {
  #store = null;
  #armed = null; // the time of the alarm, in ms
  #awake = false; // whether the alarm's handler is running; it sets the next alarm at its end
  #news = null;

  // The platform's functions. The tests replace these methods.
  now() { return BigInt(Date.now()) * millisecond; }
  engine() { return engineOf(this.env); }
  spender() { return spendOf(this.env); }
  fetcher() { return egressOf(this.env); }
  signer() { return signerOf(this.env); }
  object() { return objects(namespaceOf(this.env, "PARTITION")); }
  log(line) { log(line); }
  settle(carryOut) { return settle(this.env, carryOut); }

  // alarmAt converts a time to the platform's clock, in ms.
  alarmAt(due) { return Number((due + millisecond - 1n) / millisecond); }

  store() {
    return (this.#store ??= new Store(this.ctx.storage, () => this.now()));
  }

  // effect is called by the runner of a guest, in any isolate. It stores the name of the object, because an
  // alarm does not have it.
  async effect(name, kind, body) {
    const store = await this.#named(name);
    if (kind === abi.kind.claim) tidy(store);
    const reply = store.effect(kind, body);
    if (kind === abi.kind.commit) this.#arm(store.scheduled());
    else if (kind === abi.kind.claim) this.#arm(store.earliest());
    return reply;
  }

  // transfer carries out a part of an export or an import (transfer.js).
  async transfer(name, action, input) {
    const store = await this.#named(name);
    const before = store.locked, result = transfer(store, action, input);
    if (before && !store.locked) this.#set(this.#next());
    return result;
  }

  async #named(name) {
    const store = this.store();
    if (this.name === undefined) {
      this.#armed = await this.ctx.storage.getAlarm();
      const kept = store.fact("name");
      if (kept === undefined) store.setFact("name", name);
      this.name = kept ?? name; // last, so that a failure repeats all of this
    }
    return store;
  }

  // arm sets the alarm for the time of a task, unless it is set for an earlier time.
  // An alarm that is too early does no harm.
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

  // alarm never throws. If it is killed, the platform repeats it, but only a few
  // times. So from the third repetition on, it sets another alarm before it does
  // anything.
  async alarm(info) {
    const begin = Date.now();
    const failed = (e) => {
      this.log({ level: 8, message: "alarm failed", partition: this.name, error: e.message });
    };
    let more = false;
    this.#awake = true;
    this.#armed = null; // the alarm has fired
    try {
      this.name ??= this.store().fact("name");
      if (this.store().locked) { // its end sets the alarm
        this.#awake = false;
        return;
      }
      if (info?.retryCount > 2) this.#set(begin + lost);
      more = await runDue(this.#outbox(), (line) => this.log({ ...line, partition: this.name }));
      this.ctx.waitUntil(this.settle(this.#carryOut()));
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
    // A failed task is not tried again immediately.
    const now = Date.now();
    if (when !== null && when <= now) when = more ? now : Math.max(begin + again, now);
    this.#set(when);
  }

  #carryOut() {
    const object = this.object();
    // This object carries out the effects of its own partition itself.
    const own = { effect: (kind, body) => this.effect(this.name, kind, body) };
    const of = (partition) => (partition === this.partition() ? own : object(partition));
    return effects(of, this.spender(), this.fetcher(), this.signer());
  }

  #outbox() {
    const engine = this.engine(), carryOut = this.#carryOut();
    const run = (entry, type, message) => engine.run(entry, abi.write(type, message), carryOut, jobTime);
    const outcome = (o) => {
      if (o.status !== abi.status.ok) throw new Error(o.text);
    };
    const runJob = async (entry, job, again) => {
      outcome(abi.read(abi.outcome, await run(entry, abi.jobUntil, { ...job, again })));
    };
    return {
      now: () => this.now(),
      due: () => {
        const at = this.store().earliest();
        return at !== null && at <= this.now();
      },
      news: () => new Promise((done) => { this.#news = done; }),
      claim: async (n) => {
        const question = { partition: this.partition(), n };
        const jobs = abi.read(abi.jobs, await run(abi.entry.claim, abi.claimJobs, question));
        outcome(jobs.outcome);
        return jobs;
      },
      run: (job) => runJob(abi.entry.run, job, null),
      defer: (job, until) => runJob(abi.entry.defer, job, until),
    };
  }

  partition() { return this.name; }
}
