// The core as a guest: one instance serves any number of requests at the same time.
//
// A request runs its own effects in its own context, and calls the exports itself. No request works for
// another one. There is no queue, because the platform cancels a request's I/O when its client has gone, and
// rejects I/O for another request.

import * as abi from "./abi.js";
import { canaryPath } from "./routes.js";
import { Exit, wasi } from "./wasi.js";

// Unavailable is thrown if a request has no result. Nothing was granted.
export class Unavailable extends Error {}

// Busy is thrown if there are more requests than the engine accepts.
export class Busy extends Unavailable {}

const grace = 5_000_000_000n; // ns from a request's deadline until it is abandoned
const millisecond = 1_000_000n;
const maxWords = 4096;

// canary is a request to which the core responds without the KV.
const canary = abi.write(abi.request, {
  method: "GET", path: canaryPath, query: "", header: {}, body: abi.empty, client: abi.empty,
});

// Engine runs the core. It creates an instance with the first request, and a new one
// after an instance has failed or grown.
export class Engine {
  #guest = null;
  #drawn = []; // the random bytes of the last instance

  // module   a WebAssembly.Module
  // config   the text of the guest's configuration
  // now      the wall clock in BigInt nanoseconds
  // log      takes {level, message, …} with plain values
  // count    takes the names of events that metrics count
  // measure  takes events of verification methods, {method, event, reason}
  // countUsage takes usage events, {integration, outcome, key}
  // places   the maximum number of concurrent requests
  // memory   bytes of memory; an instance that has more is replaced once it is idle,
  //          and an instance with twice as many immediately, while it finishes its requests
  constructor({
    module, config, now, log = () => {}, count = () => {}, measure = () => {},
    countUsage = () => {}, places = 1024, memory = 48 << 20,
  }) {
    Object.assign(this, { module, config, now, log, count, measure, countUsage, places, memory });
  }

  // run lets the guest work on an entry until it has a result. effects carries out one
  // effect, {kind, body}. It returns {status, body} or a promise of that, which does
  // not reject. timeout is in milliseconds.
  // about takes the request info each time that the guest sends it.
  async run(entry, message, effects, timeout, about = () => {}) {
    const guest = this.#current();
    guest.cancelOverdue();
    if (guest.live.size >= this.places) throw new Busy("too many concurrent requests");
    try {
      return await guest.run(entry, message, effects, timeout, about);
    } finally {
      if (guest.failed) {
        if (this.#guest === guest) this.#guest = null;
      } else if (this.#guest === guest && this.#hasGrown(guest)) {
        this.log({ level: 0, message: "replacing a guest with too much memory", bytes: guest.bytes() });
        this.#guest = null;
      }
    }
  }

  #hasGrown(guest) {
    return guest.bytes() > (guest.live.size === 0 ? this.memory : 2 * this.memory);
  }

  // forget makes the next request use a new instance.
  forget() {
    this.#guest = null;
  }

  // state returns the size of the instance and the number of its requests.
  state() {
    return this.#guest ? { bytes: this.#guest.bytes(), live: this.#guest.live.size } : { bytes: 0, live: 0 };
  }

  #current() {
    if (this.#guest === null) {
      const guest = new Guest(this);
      this.#drawn = guest.test(this.#drawn);
      this.#guest = guest;
    }
    return this.#guest;
  }
}

class Guest {
  live = new Map(); // by number, the time at which a request is abandoned
  failed = null;
  #about = new Map(); // by number, the callback for the request info
  #numbers = 0;
  #clock = { wall: 0n, mono: 1n }; // the clock of Go does not start at zero
  #words = ""; // the beginning of its output to standard error
  #begin;
  #exports;
  #bytes; // views of its memory
  #view;

  constructor(engine) {
    this.engine = engine;
    this.#begin = engine.now();
    this.#tick();
    const no = () => -1; // the guest has the keys from its configuration
    const instance = new WebAssembly.Instance(engine.module, {
      wasi_snapshot_preview1: wasi(() => instance.exports.memory, this.#clock, (text) => {
        this.#words += text.slice(0, maxWords - this.#words.length);
      }),
      verge: { seal: no, open: no, mac: no, check_mac: no },
    });
    this.#exports = instance.exports;
    this.#export(() => {
      instance.exports._initialize();
      const version = instance.exports.verge_abi();
      if (version !== abi.version) {
        throw new Error(`the module speaks version ${version} of the ABI, this host ${abi.version}`);
      }
      const error = instance.exports.verge_config(this.#put(abi.bytesOf(engine.config)));
      if (error !== 0) throw new Error(abi.textOf(this.#outbox(error)));
    });
  }

  bytes() {
    return this.#exports.memory.buffer.byteLength;
  }

  // test rejects a guest that repeats its random bytes or the previous guest's, that does not use the host's
  // clock, that misreads a rejected signature, or that cannot respond. It returns the random bytes of this
  // guest.
  test(before) {
    const drawn = [];
    for (let n = 0; n < 2; n++) { // twice, to compare the bytes of one instance, too
      const { result, wall } = this.#result(abi.entry.selfTest, abi.empty);
      const { random, now, signed } = abi.read(abi.self, result);
      if (now !== wall) throw new Unavailable(`the guest takes ${now} for the time, and it is ${wall}`);
      if (signed !== abi.status.notFound) {
        throw new Unavailable("the guest misreads the status of an unknown key");
      }
      const text = random.join();
      if (random.length !== 32 || random.every((b) => b === 0) || [...before, ...drawn].includes(text)) {
        throw new Unavailable("the guest's source of randomness repeats itself");
      }
      drawn.push(text);
    }
    const { status, body } = abi.read(abi.response, this.#result(abi.entry.handle, canary).result);
    if (status !== 200 || body.length === 0) {
      const got = `status ${status} and ${body.length} bytes`;
      throw new Unavailable(`the guest returned ${got} for the canary request`);
    }
    return drawn;
  }

  // result returns the result of an entry that has no effect but the signature of the
  // self-test, for which there is no key, and the time at which the entry began.
  #result(entry, message) {
    const id = this.#number();
    let at = this.#step(id, () => this.#submit(id, entry, message));
    const { wall } = this.#clock;
    if (at.effect?.kind === abi.kind.sign) {
      const { op } = at.effect;
      at = this.#step(id, () => {
        return this.#exports.verge_complete(id, op, abi.status.notFound, this.#put(abi.empty));
      });
    }
    const { result } = at;
    if (result === undefined) throw new Unavailable("the guest does not respond to its test immediately");
    return { result, wall };
  }

  async run(entry, message, effects, timeout, about) {
    const id = this.#number();
    this.live.set(id, this.engine.now() + BigInt(timeout) * millisecond + grace);
    this.#about.set(id, about);
    let timer;
    try {
      let at = this.#step(id, () => this.#submit(id, entry, message));
      let deadline;
      while (at.effect) {
        let reply = effects(at.effect);
        if (reply instanceof Promise) {
          deadline ??= new Promise((done) => { timer = setTimeout(done, timeout, null); });
          reply = await Promise.race([reply, deadline]);
        }
        if (!this.live.has(id)) throw new Unavailable("the request was abandoned before it continued");
        if (reply === null) {
          at = this.#step(id, () => this.#exports.verge_cancel(id, 1));
          break; // its further effects are not carried out
        }
        const { op } = at.effect;
        at = this.#step(id, () => this.#exports.verge_complete(id, op, reply.status, this.#put(reply.body)));
      }
      if (at.result === undefined) throw this.#poison(new Error("a cancelled request continues"));
      return at.result;
    } finally {
      clearTimeout(timer);
      this.live.delete(id);
      this.#about.delete(id);
    }
  }

  // cancelOverdue cancels requests that are past their deadline. Their contexts are gone, so nothing else cancels
  // them, and no one waits for their results.
  cancelOverdue() {
    const now = this.engine.now();
    for (const [id, until] of this.live) {
      if (until > now) continue;
      this.live.delete(id);
      this.#about.delete(id);
      this.#step(id, () => this.#exports.verge_cancel(id, 2), true);
    }
  }

  #number() {
    do this.#numbers = (this.#numbers + 1) >>> 0; while (this.#numbers === 0 || this.live.has(this.#numbers));
    return this.#numbers;
  }

  // tick reads the host's clock. The guest's clock does not advance until the next tick.
  #tick() {
    this.#clock.wall = this.engine.now();
    const mono = this.#clock.wall - this.#begin + 1n;
    if (mono > this.#clock.mono) this.#clock.mono = mono;
  }

  // step calls an export for a request. It returns the request's result, or the effect
  // that the request waits for.
  #step(id, call, gone = false) {
    return this.#export(() => {
      const at = {};
      for (const rec of abi.read(abi.records, this.#outbox(call(id)))) {
        switch (rec.kind) {
          case abi.kind.log: this.#log(rec.body); break;
          case abi.kind.count: this.engine.count(abi.textOf(rec.body)); break;
          case abi.kind.measure: this.engine.measure(abi.read(abi.methodEvent, rec.body)); break;
          case abi.kind.usageEvent: this.engine.countUsage(abi.read(abi.usageEvent, rec.body)); break;
          case abi.kind.about:
            if (rec.request === id) this.#about.get(id)?.(abi.read(abi.about, rec.body));
            break;
          case abi.kind.wake: break; // the partition knows its own tasks
          case abi.kind.respond:
            if (rec.request === id) at.result = rec.body;
            break;
          default:
            if (rec.kind > abi.kind.respond) break; // a notice that this host does not know
            if (rec.request !== id || at.effect) throw new Error("an effect of a request that cannot have one now");
            at.effect = rec;
        }
      }
      if (!at.effect && at.result === undefined && !gone) throw new Error("a request without a result or an effect");
      return at;
    });
  }

  // export runs a function that calls exports. If it throws, the instance counts as
  // failed, because its output can no longer be trusted.
  #export(call) {
    if (this.failed) throw this.failed;
    this.#tick();
    try {
      return call();
    } catch (e) {
      throw this.#poison(e);
    }
  }

  #poison(e) {
    this.failed = new Unavailable(`the guest has failed: ${e.message}`);
    this.engine.log({
      level: 8, message: "a guest has failed, and the requests in it",
      cause: this.#cause(e), error: e.message, requests: this.live.size,
    });
    return this.failed;
  }

  // cause returns one of the causes of edge/wasmhost. Go's runtime writes the reason of its
  // end to standard error. That text is not logged, because a panic may quote a request.
  #cause(e) {
    if (/out of memory|cannot allocate memory/.test(this.#words)) return "out_of_memory";
    return e instanceof Exit || e instanceof WebAssembly.RuntimeError ? "trap" : "protocol";
  }

  // submit begins a request. Its message is the byte of the entry and the entry's input.
  #submit(id, entry, message) {
    const n = 1 + message.length, at = this.#reserve(n), memory = this.#memory();
    memory[at] = entry;
    memory.set(message, at + 1);
    return this.#exports.verge_submit(id, n);
  }

  // put writes bytes into the inbox and returns their number.
  #put(bytes) {
    const at = this.#reserve(bytes.length);
    this.#memory().set(bytes, at);
    return bytes.length;
  }

  // reserve returns the address of an inbox with room for n bytes.
  #reserve(n) {
    const at = this.#exports.verge_reserve(n);
    if (at === 0) throw new Error(`it grants no room for ${n} bytes`);
    return at >>> 0;
  }

  // outbox copies the bytes that a header points to, because the next export changes
  // them.
  #outbox(header) {
    const memory = this.#memory(), h = header >>> 0;
    if (h + 8 > memory.length) throw new Error("its header is outside of its memory");
    const at = this.#view.getUint32(h, true), n = this.#view.getUint32(h + 4, true);
    if (n > abi.maxOutbox || at + n > memory.length) throw new Error("its outbox is outside of its memory");
    return memory.slice(at, at + n);
  }

  // memory is a view of the guest's memory. It is created again when the memory has grown.
  #memory() {
    const { buffer } = this.#exports.memory;
    if (this.#bytes?.buffer !== buffer) {
      this.#bytes = new Uint8Array(buffer);
      this.#view = new DataView(buffer);
    }
    return this.#bytes;
  }

  #log(body) {
    const { level, message, attrs } = abi.read(abi.log, body);
    const line = { level, message };
    for (const { key, value } of attrs) {
      try {
        line[key] = JSON.parse(abi.textOf(value));
      } catch {
        line[key] = abi.textOf(value);
      }
    }
    this.engine.log(line);
  }
}
