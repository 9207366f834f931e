// The codec of wasm/ABI.md. The type of a message reads and writes it, and is made of
// smaller types, so both directions have one description.
//
// Times and durations are BigInt nanoseconds. Times count from 1970, and null is no
// time. Bytes are Uint8Array. A str may hold any bytes: write takes text or bytes, and
// read returns text.

export const version = 4;

// The largest outbox (wasm/abi).
export const maxOutbox = 32 << 20;

export const entry = {
  handle: 1, admin: 2, ready: 3, claim: 4, run: 5, defer: 6, runDue: 7, selfTest: 8, apply: 9,
  recordUsage: 10, handleAgain: 11,
};

export const kind = {
  get: 1, commit: 2, claim: 3, list: 4, spend: 5, fetch: 6, sign: 7, verify: 8, decrypt: 10,
  respond: 16, log: 17, count: 18, wake: 19, measure: 20, usageEvent: 21, about: 22,
};

export const status = { ok: 0, notFound: 1, conflict: 2, unavailable: 3, unknown: 4, noResponse: 5, failed: 6 };

// Malformed is thrown for bytes that are not a message of this version.
export class Malformed extends Error {}

const second = 1_000_000_000n;
const noTime = -(1n << 63n);
const text = new TextDecoder();
const utf8 = new TextEncoder();
const empty = new Uint8Array();

class Reader {
  #view = null;

  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  // view is created only if it is needed, because it costs as much as reading some
  // members.
  get view() {
    return (this.#view ??= new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength));
  }
  take(n) {
    if (n > this.bytes.length - this.at) {
      throw new Malformed(`${n} bytes are wanted, ${this.bytes.length - this.at} are left`);
    }
    this.at += n;
    return this.at - n;
  }
  slice(n) {
    const at = this.take(n);
    return this.bytes.subarray(at, at + n);
  }
}

class Writer {
  at = 0;

  constructor(room) {
    this.bytes = new Uint8Array(room);
    this.view = new DataView(this.bytes.buffer);
  }
  room(n) {
    if (this.at + n > this.bytes.length) {
      const larger = new Uint8Array(Math.max(2 * this.bytes.length, this.at + n));
      larger.set(this.bytes.subarray(0, this.at));
      this.bytes = larger;
      this.view = new DataView(larger.buffer);
    }
    this.at += n;
    return this.at - n;
  }
}

const u8 = {
  read: (r) => r.bytes[r.take(1)],
  write: (w, v) => { const at = w.room(1); w.view.setUint8(at, v); },
};
const i8 = {
  read: (r) => r.view.getInt8(r.take(1)),
  write: (w, v) => { const at = w.room(1); w.view.setInt8(at, v); },
};
const u32 = {
  read: (r) => {
    const at = r.take(4), b = r.bytes;
    return (b[at] | b[at + 1] << 8 | b[at + 2] << 16 | b[at + 3] << 24) >>> 0;
  },
  write: (w, v) => { const at = w.room(4); w.view.setUint32(at, v, true); },
};
const duration = {
  read: (r) => r.view.getBigInt64(r.take(8), true),
  write: (w, v) => { const at = w.room(8); w.view.setBigInt64(at, v, true); },
};
const bytes = {
  read: (r) => r.slice(u32.read(r)),
  write: (w, v) => {
    u32.write(w, v.length);
    const at = w.room(v.length);
    w.bytes.set(v, at);
  },
};
const str = {
  read: (r) => {
    const n = u32.read(r);
    return n > short ? text.decode(r.slice(n)) : shortText(r.bytes, r.take(n), n);
  },
  write: (w, v) => {
    if (typeof v !== "string") bytes.write(w, v);
    else if (v.length > short || !writeShort(w, v)) bytes.write(w, utf8.encode(v));
  },
};

// For a short text, the platform's codec costs more than the rest, and most texts are
// short and ASCII.
const short = 64;

function shortText(bytes, at, n) {
  for (let i = at; i < at + n; i++) if (bytes[i] > 0x7f) return text.decode(bytes.subarray(at, at + n));
  return String.fromCharCode.apply(null, bytes.subarray(at, at + n));
}

function writeShort(w, v) {
  for (let i = 0; i < v.length; i++) if (v.charCodeAt(i) > 0x7f) return false;
  u32.write(w, v.length);
  const at = w.room(v.length);
  for (let i = 0; i < v.length; i++) w.bytes[at + i] = v.charCodeAt(i);
  return true;
}
const time = {
  read: (r) => {
    const s = duration.read(r), ns = BigInt(u32.read(r));
    if (s === noTime && ns === 0n) return null;
    if (ns >= second) throw new Malformed(`no time: ${s} s and ${ns} ns`);
    return s * second + ns;
  },
  write: (w, v) => {
    if (v === null) {
      duration.write(w, noTime);
      u32.write(w, 0);
      return;
    }
    const ns = ((v % second) + second) % second; // % has the sign of the dividend
    duration.write(w, (v - ns) / second);
    u32.write(w, Number(ns));
  },
};

const list = (of) => ({
  read: (r) => {
    const n = u32.read(r);
    if (n > r.bytes.length - r.at) throw new Malformed(`${n} of them in ${r.bytes.length - r.at} bytes`);
    return Array.from({ length: n }, () => of.read(r));
  },
  write: (w, v) => {
    u32.write(w, v.length);
    for (const one of v) of.write(w, one);
  },
});

const struct = (fields) => {
  const all = Object.entries(fields);
  return {
    read: (r) => {
      const v = {};
      for (const [name, of] of all) v[name] = of.read(r);
      return v;
    },
    write: (w, v) => { for (const [name, of] of all) of.write(w, v[name]); },
  };
};

// named is an object, as a list of names with a value each, in the order of the names.
const named = (of) => {
  const pairs = list(struct({ name: str, value: of }));
  return {
    read: (r) => {
      const v = {};
      let last = null;
      for (const { name, value } of pairs.read(r)) {
        if (last !== null && name <= last) throw new Malformed("names are not in order, each once");
        last = name;
        v[name] = value;
      }
      return v;
    },
    write: (w, v) => pairs.write(w, Object.keys(v).sort().map((name) => ({ name, value: v[name] }))),
  };
};

const key = struct({ partition: str, name: str });
const item = struct({ key, value: bytes, tx: str, expires: time });
const task = struct({ id: str, due: time, payload: bytes, lease: str });
const statusByte = {
  read: (r) => {
    const v = u8.read(r);
    if (v > status.failed) throw new Malformed(`there is no status ${v}`);
    return v;
  },
  write: u8.write,
};
// verified reports whether a signature is by the key.
export const verified = {
  read: (r) => {
    const v = u8.read(r);
    if (v > 1) throw new Malformed("a signature is either the key's or not");
    return v === 1;
  },
  write: (w, v) => u8.write(w, v ? 1 : 0),
};
const outcome = struct({ status: statusByte, text: str });
const jobFields = { partition: str, task, until: time, destination: str };
const job = struct(jobFields);

export const request = struct({
  method: str, path: str, query: str, header: named(list(str)), body: bytes, client: bytes,
});
export const response = struct({ status: u32, header: named(list(str)), body: bytes });
export { key, item, outcome };
export const items = list(item);
export const tx = struct({
  id: str, partition: str,
  checks: list(struct({ name: str, tx: str })), held: list(struct({ task: str, lease: str })),
  puts: list(struct({ name: str, value: bytes, expires: time })), deletes: list(str),
  schedule: list(task), cancel: list(str),
});
export const conflict = struct({ items, lost: list(str) });
export const claim = struct({ partition: str, now: time, lease: duration, n: u32 });
export const tasks = struct({ tasks: list(task), next: time });
export const listing = struct({ prefix: key, after: str, n: u32 });
export const spend = struct({
  partition: str, now: time, charges: list(struct({ name: str, cost: duration, burst: duration })),
});
export const times = list(time);
export const fetch = struct({
  method: str, url: str, header: named(str), body: bytes, for: str, timeout: duration,
});
export const fetched = struct({ status: u32, header: named(str), body: bytes });
export const fetchError = struct({ reason: str, text: str });
export const sign = struct({ key: str, algorithm: str, message: bytes });
export const verify = struct({ algorithm: str, publicKey: bytes, message: bytes, signature: bytes });
export const claimJobs = struct({ partition: str, n: u32 });
export const jobs = struct({ jobs: list(job), next: time, outcome });
export const jobUntil = struct({ ...jobFields, again: time });
export const self = struct({ random: bytes, now: time, signed: statusByte });
export const methodEvent = struct({ method: str, event: str, reason: str });
export const usageEvent = struct({ integration: str, outcome: str, key: str });
export const about = struct({ session: str, integration: str, publisher: str, key: str, code: str });
const counts = list(struct({ outcome: str, n: duration }));
export const totals = struct({
  days: list(struct({ integration: str, day: u32, instance: str, counts })),
  keys: list(struct({ key: str, day: u32 })),
});
export const wake = struct({ partition: str, due: time });
export const log = struct({ level: i8, message: str, attrs: list(struct({ key: str, value: bytes })) });
export const record = struct({ request: u32, op: u32, kind: u8, body: bytes });
export const records = {
  read: (r) => {
    const all = [];
    while (r.at < r.bytes.length) all.push(record.read(r));
    return all;
  },
};

// read returns the value of a whole message. Bytes in it are views of the message.
export function read(type, message) {
  const r = new Reader(message);
  const v = type.read(r);
  if (r.at < message.length) throw new Malformed(`${message.length - r.at} bytes left over`);
  return v;
}

// write returns a value as a message. All messages are written with one writer, unless
// one has become large, because a new one costs as much as writing a short message.
export function write(type, v) {
  if (writer.bytes.length > maxSize) writer = new Writer(usualSize);
  writer.at = 0;
  type.write(writer, v);
  return writer.bytes.slice(0, writer.at);
}

const usualSize = 4 << 10, maxSize = 64 << 10;
let writer = new Writer(usualSize);

// textOf and bytesOf are for the few bodies that are plain text.
export const textOf = (b) => text.decode(b);
export const bytesOf = (s) => utf8.encode(s);
export { empty };

// partitionOf returns the partition of an effect of the store.
export function partitionOf(of, body) {
  const r = new Reader(body);
  if (of === kind.commit) bytes.read(r); // the id
  return str.read(r);
}
