// The core as a guest: one instance serves any number of requests at once.
//
// A request carries out its own effects, in its own context, and calls the
// exports itself: nothing is ever continued for another. The platform cancels
// what a request still waits for when its client has gone, and refuses I/O on
// behalf of another request, so there is no queue here and no owner.

import * as abi from "./abi.js";
import { canaryPath } from "./routes.js";
import { Exit, wasi } from "./wasi.js";

// Unavailable is why a request has no result. Nothing was granted.
export class Unavailable extends Error {}

// Busy is one request more than the engine takes.
export class Busy extends Unavailable {}

const grace = 5_000_000_000n; // how long after its deadline a request is given up for lost
const millisecond = 1_000_000n;
const maxWords = 4096;

// canary is a request that the core answers without the KV.
const canary = abi.write(abi.request, { method: "GET", path: canaryPath, query: "", header: {}, body: abi.empty, client: abi.empty });

// entered is a message behind the entry that it is for.
function entered(entry, message) {
  const inbox = new Uint8Array(1 + message.length);
  inbox[0] = entry;
  inbox.set(message, 1);
  return inbox;
}

// Engine runs the core. It makes an instance with the first request, and
// another when that one has failed or grown.
export class Engine {
  #guest = null;
  #drawn = []; // by the last instance, for random

  // module   a WebAssembly.Module
  // config   the text of the guest's configuration
  // now      the wall clock in BigInt nanoseconds
  // log      takes {level, message, …} of plain values
  // count    takes the names of events worth a metric
  // places   how many requests at once
  // memory   the bytes of memory from which on an instance is replaced, once
  //          it is idle; at twice as many it is replaced at once and drains
  constructor({ module, config, now, log = () => {}, count = () => {}, places = 1024, memory = 48 << 20 }) {
    Object.assign(this, { module, config, now, log, count, places, memory });
  }

  // run has the guest work on an entry until it has a result. effects carries
  // out one effect, {kind, body}, and resolves to {status, body}; it does not
  // reject; where nothing is to be waited for, it may return the reply itself.
  // timeout is in milliseconds.
  async run(entry, message, effects, timeout) {
    const guest = this.#current();
    guest.forsake();
    if (guest.live.size >= this.places) throw new Busy("too many requests at once");
    try {
      return await guest.run(entry, message, effects, timeout);
    } finally {
      if (guest.failed) {
        if (this.#guest === guest) this.#guest = null;
      } else if (this.#guest === guest && guest.bytes() > (guest.live.size === 0 ? this.memory : 2 * this.memory)) {
        this.log({ level: 0, message: "replacing a guest that has grown", bytes: guest.bytes() });
        this.#guest = null;
      }
    }
  }

  // forget has the next request make a new instance.
  forget() {
    this.#guest = null;
  }

  // state is how large the instance is and how many requests are in it.
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
  live = new Map(); // by number: when a request is given up for lost
  failed = null;
  #numbers = 0;
  #clock = { wall: 0n, mono: 1n }; // Go refuses to begin at zero
  #words = ""; // the beginning of what it writes to standard error
  #begin;
  #exports;
  #bytes; // views of its memory
  #view;

  constructor(engine) {
    this.engine = engine;
    this.#begin = engine.now();
    this.#tick();
    const no = () => -1; // the configuration has the keys
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
      if (version !== abi.version) throw new Error(`the module speaks version ${version} of the ABI, this host ${abi.version}`);
      const refused = instance.exports.verge_config(this.#put(abi.bytesOf(engine.config)));
      if (refused !== 0) throw new Error(abi.textOf(this.#outbox(refused)));
    });
  }

  bytes() {
    return this.#exports.memory.buffer.byteLength;
  }

  // test refuses a guest whose randomness repeats itself or is what the one
  // before drew, that goes by another clock, or that cannot answer. It returns
  // what this one drew.
  test(before) {
    const drawn = [];
    for (let n = 0; n < 2; n++) { // of one instance, too
      const { random, now } = abi.read(abi.self, this.#answer(abi.entry.selfTest, abi.empty));
      if (now !== this.#clock.wall) throw new Unavailable(`the guest takes ${now} for the time, and it is ${this.#clock.wall}`);
      const text = random.join();
      if (random.length !== 32 || random.every((b) => b === 0) || [...before, ...drawn].includes(text)) {
        throw new Unavailable("what the guest takes for random repeats itself");
      }
      drawn.push(text);
    }
    const { status, body } = abi.read(abi.response, this.#answer(abi.entry.handle, canary));
    if (status !== 200 || body.length === 0) {
      throw new Unavailable(`the guest answers the canary request with status ${status} and ${body.length} bytes`);
    }
    return drawn;
  }

  // answer is the result of an entry that takes no effect.
  #answer(entry, message) {
    const { result } = this.#step(this.#number(), (id) => this.#exports.verge_submit(id, this.#put(entered(entry, message))));
    if (result === undefined) throw new Unavailable("the guest does not answer its test at once");
    return result;
  }

  async run(entry, message, effects, timeout) {
    const id = this.#number();
    this.live.set(id, this.engine.now() + BigInt(timeout) * millisecond + grace);
    let timer;
    try {
      const inbox = entered(entry, message);
      let at = this.#step(id, () => this.#exports.verge_submit(id, this.#put(inbox)));
      let deadline;
      while (at.effect) {
        let reply = effects(at.effect);
        if (reply instanceof Promise) {
          deadline ??= new Promise((done) => { timer = setTimeout(done, timeout, null); });
          reply = await Promise.race([reply, deadline]);
        }
        if (!this.live.has(id)) throw new Unavailable("the request was given up for lost before it went on");
        if (reply === null) {
          at = this.#step(id, () => this.#exports.verge_cancel(id, 1));
          break; // what it would still like to do is not done
        }
        const { op } = at.effect;
        at = this.#step(id, () => this.#exports.verge_complete(id, op, reply.status, this.#put(reply.body)));
      }
      if (at.result === undefined) throw this.#poison(new Error("a cancelled request goes on"));
      return at.result;
    } finally {
      clearTimeout(timer);
      this.live.delete(id);
    }
  }

  // forsake cancels requests that have outlived their deadline: their contexts
  // are gone, and nobody else will. What they still say is nobody's.
  forsake() {
    const now = this.engine.now();
    for (const [id, until] of this.live) {
      if (until > now) continue;
      this.live.delete(id);
      this.#step(id, () => this.#exports.verge_cancel(id, 2), true);
    }
  }

  #number() {
    do this.#numbers = (this.#numbers + 1) >>> 0; while (this.#numbers === 0 || this.live.has(this.#numbers));
    return this.#numbers;
  }

  // tick reads the clock, which then stands still.
  #tick() {
    this.#clock.wall = this.engine.now();
    const mono = this.#clock.wall - this.#begin + 1n;
    if (mono > this.#clock.mono) this.#clock.mono = mono;
  }

  // step calls an export on behalf of a request and returns its result, or the
  // effect that it waits for.
  #step(id, call, gone = false) {
    return this.#export(() => {
      const at = {};
      for (const rec of abi.read(abi.records, this.#outbox(call(id)))) {
        switch (rec.kind) {
          case abi.kind.log: this.#log(rec.body); break;
          case abi.kind.count: this.engine.count(abi.textOf(rec.body)); break;
          case abi.kind.wake: break; // the partition sees what is scheduled in it
          case abi.kind.respond:
            if (rec.request === id) at.result = rec.body;
            break;
          default:
            if (rec.request !== id || at.effect) throw new Error("an effect of nobody's");
            at.effect = rec;
        }
      }
      if (!at.effect && at.result === undefined && !gone) throw new Error("a request that waits for nothing");
      return at;
    });
  }

  // export runs what calls exports. Whatever goes wrong in there poisons the
  // instance: nothing that it says could be trusted.
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
    this.engine.log({ level: 8, message: "a guest has failed, and the requests in it", cause: this.#cause(e), error: e.message, requests: this.live.size });
    return this.failed;
  }

  // cause is one of edge/wasmhost's. Go's runtime says on standard error why it
  // ends; its words are not logged, for a panic may quote a request.
  #cause(e) {
    if (/out of memory|cannot allocate memory/.test(this.#words)) return "out_of_memory";
    return e instanceof Exit || e instanceof WebAssembly.RuntimeError ? "trap" : "protocol";
  }

  // put writes bytes into the inbox and returns how many they are.
  #put(bytes) {
    const at = this.#exports.verge_reserve(bytes.length);
    if (at === 0) throw new Error(`it grants no room for ${bytes.length} bytes`);
    this.#memory().set(bytes, at >>> 0);
    return bytes.length;
  }

  // outbox copies what a header points to, since the next export changes it.
  #outbox(header) {
    const memory = this.#memory(), h = header >>> 0;
    if (h + 8 > memory.length) throw new Error("its header lies outside of its memory");
    const at = this.#view.getUint32(h, true), n = this.#view.getUint32(h + 4, true);
    if (n > abi.maxOutbox || at + n > memory.length) throw new Error("its outbox lies outside of its memory");
    return memory.slice(at, at + n);
  }

  // memory is the guest's, seen anew when it has grown.
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
