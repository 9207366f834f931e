// The KV port (core/kv/kv.go) on the SQLite of one Durable Object, which is one
// partition. Every method is synchronous, so that no other method runs in between. The
// object responds only after its writes are on disk.
//
// Times are BigInt nanoseconds here and 64-bit integers in SQLite. They are passed
// as text, because a number in JavaScript has only 53 bits.

import * as abi from "./abi.js";

const sweepEach = 8; // puts between two sweeps
const maxName = 256, maxValue = 64 * 1024, maxTx = 64;
const farthest = (1n << 63n) - 1n;

// Rejected is thrown for an input that the store does not accept. The store does not change.
export class Rejected extends Error {}

export class Store {
  #unswept = 0; // puts since the last sweep
  #scheduled = null;
  locked = false; // every effect is rejected (transfer.js)

  // storage is the object's storage, and now returns the time.
  constructor(storage, now) {
    this.storage = storage;
    this.sql = storage.sql;
    this.now = now;
    for (const statement of [
      `CREATE TABLE IF NOT EXISTS items
        (name TEXT PRIMARY KEY, value BLOB NOT NULL, tx TEXT NOT NULL, expires INTEGER)`,
      "CREATE INDEX IF NOT EXISTS items_expires ON items (expires) WHERE expires IS NOT NULL",
      `CREATE TABLE IF NOT EXISTS tasks
        (id TEXT PRIMARY KEY, due INTEGER NOT NULL, payload BLOB NOT NULL, lease TEXT,
        ready INTEGER NOT NULL)`,
      "CREATE INDEX IF NOT EXISTS tasks_ready ON tasks (ready, id)",
      "DROP TABLE IF EXISTS counters", // of an earlier release, which stored them
      "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value)",
    ]) this.sql.exec(statement);
    this.locked = this.fact("locked") !== undefined;
  }

  // effect carries out an effect of the ABI and returns {status, body}.
  effect(of, body) {
    if (this.locked) return { status: abi.status.unavailable, body: abi.bytesOf("partition: locked for an import") };
    try {
      switch (of) {
        case abi.kind.get: return this.#get(abi.read(abi.key, body));
        case abi.kind.commit: return this.#commit(abi.read(abi.tx, body));
        case abi.kind.claim: return ok(abi.tasks, this.claim(abi.read(abi.claim, body)));
        case abi.kind.list: return ok(abi.items, this.#list(abi.read(abi.listing, body)));
      }
      throw new Rejected("the store has no such effect");
    } catch (e) {
      // There is no change, even in a commit: transactionSync has rolled it back.
      return { status: abi.status.unavailable, body: abi.bytesOf(`partition: ${e.message}`) };
    }
  }

  // earliest returns the time at which the first task is due or its lease ends, or null.
  earliest() {
    return timeOf(this.#one("SELECT CAST(min(ready) AS TEXT) AS at FROM tasks")?.at);
  }

  fact(name) {
    return this.#one("SELECT value FROM facts WHERE name = ?", name)?.value;
  }

  setFact(name, value) {
    this.sql.exec(`INSERT INTO facts VALUES (?, ?)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value);
  }

  #one(query, ...values) {
    return this.sql.exec(query, ...values).toArray()[0];
  }

  #live(name) {
    return this.#one(`SELECT name, value, tx, CAST(expires AS TEXT) AS expires FROM items
      WHERE name = ? AND (expires IS NULL OR expires > CAST(? AS INTEGER))`, name, String(this.now()));
  }

  #get({ partition, name }) {
    const row = this.#live(name);
    return row ? ok(abi.item, itemOf(partition, row)) : { status: abi.status.notFound, body: abi.empty };
  }

  #commit(tx) {
    validate(tx);
    const against = this.#against(tx);
    if (against) return { status: abi.status.conflict, body: abi.write(abi.conflict, against) };
    // A sweep removes more items than were put, so that expired items cannot pile
    // up. It is small and does not come with every commit, so that no commit takes
    // much longer than others. It comes before the commit, so that its failure is
    // never reported for a commit that has happened.
    this.#unswept += tx.puts.length;
    if (this.#unswept >= sweepEach) {
      this.#sweep(this.#unswept + 2);
      this.#unswept = 0;
    }
    // A single statement is atomic. Several need a transaction.
    const statements = tx.puts.length + tx.deletes.length + tx.schedule.length + tx.cancel.length;
    if (statements === 1) this.#apply(tx);
    else if (statements > 1) this.storage.transactionSync(() => this.#apply(tx));
    for (const { due } of tx.schedule) {
      if (this.#scheduled === null || due < this.#scheduled) this.#scheduled = due;
    }
    return { status: abi.status.ok, body: abi.empty };
  }

  #apply(tx) {
    this.#put(tx.puts, tx.id);
    for (const name of tx.deletes) this.sql.exec("DELETE FROM items WHERE name = ?", name);
    this.#schedule(tx.schedule);
    for (const id of tx.cancel) this.sql.exec("DELETE FROM tasks WHERE id = ?", id);
  }

  #put(puts, by) {
    for (const { name, value, expires, tx = by } of puts) {
      this.sql.exec("INSERT OR REPLACE INTO items VALUES (?, ?, ?, CAST(? AS INTEGER))",
        name, value, tx, number(expires));
    }
  }

  #schedule(tasks) {
    for (const { id, due, payload } of tasks) {
      this.sql.exec(`INSERT OR REPLACE INTO tasks
        VALUES (?1, CAST(?2 AS INTEGER), ?3, NULL, CAST(?2 AS INTEGER))`, id, number(due), payload);
    }
  }

  // write adds items, each with the transaction that wrote it in another store, and tasks (transfer.js).
  write(items, tasks) {
    this.#put(items);
    this.#schedule(tasks);
  }

  // scheduled returns the earliest time of the tasks that were scheduled since the last
  // call, or null.
  scheduled() {
    const due = this.#scheduled;
    this.#scheduled = null;
    return due;
  }

  // against returns the conflict of a transaction, or null.
  #against(tx) {
    const items = [], lost = [];
    let failed = false;
    for (const check of tx.checks) {
      const row = this.#live(check.name);
      if ((row ? row.tx : "") === check.tx) continue;
      failed = true;
      if (row) items.push(itemOf(tx.partition, row));
    }
    for (const { task, lease } of tx.held) {
      // A task that was never claimed has NULL, which equals no lease.
      if (this.#one("SELECT lease FROM tasks WHERE id = ?", task)?.lease === lease) continue;
      failed = true;
      lost.push(task);
    }
    return failed ? { items, lost } : null;
  }

  // claim takes the fields of a claim and returns the fields of its reply.
  claim({ now, lease, n }) {
    const until = number(now + lease);
    return this.storage.transactionSync(() => {
      this.#sweep(64); // so that expired items are deleted even without writes
      const rows = this.sql.exec(`SELECT id, CAST(due AS TEXT) AS due, payload, CAST(ready AS TEXT) AS ready
        FROM tasks ORDER BY ready, id LIMIT ?`, n + 1).toArray();
      let claimed = rows.findIndex((row, i) => i === n || timeOf(row.ready) > now);
      if (claimed < 0) claimed = rows.length;
      let leases = this.fact("leases") ?? 0;
      const tasks = rows.slice(0, claimed).map(({ id, due, payload }) => {
        const lease = (++leases).toString(36);
        this.sql.exec("UPDATE tasks SET lease = ?, ready = CAST(? AS INTEGER) WHERE id = ?",
          lease, until, id);
        return { id, due: timeOf(due), payload: new Uint8Array(payload), lease };
      });
      if (claimed > 0) this.setFact("leases", leases);
      return { tasks, next: rows.length > claimed ? timeOf(rows[claimed].ready) : null };
    });
  }

  #list({ prefix: { partition, name }, after, n }) {
    const rows = this.sql.exec(`SELECT name, value, tx, CAST(expires AS TEXT) AS expires FROM items
      WHERE name >= ? AND name > ? AND name < ? AND (expires IS NULL OR expires > CAST(? AS INTEGER))
      ORDER BY name LIMIT ?`,
      name, after, name + "\x7f", String(this.now()), n); // every character of a name is below \x7f
    return rows.toArray().map((row) => itemOf(partition, row));
  }

  // sweep removes up to n expired items, in the order of their expiry.
  #sweep(n) {
    this.sql.exec(`DELETE FROM items WHERE rowid IN
      (SELECT rowid FROM items WHERE expires <= CAST(? AS INTEGER) ORDER BY expires LIMIT ?)`,
      String(this.now()), n);
  }
}

const ok = (type, v) => ({ status: abi.status.ok, body: abi.write(type, v) });

const timeOf = (s) => (s === null || s === undefined ? null : BigInt(s));

function number(t) {
  if (t === null) return null;
  if (t > farthest || t < -farthest) {
    throw new Rejected("a time that is not between the years 1678 and 2262");
  }
  return String(t);
}

const itemOf = (partition, { name, value, tx, expires }) => {
  return { key: { partition, name }, value: new Uint8Array(value), tx, expires: timeOf(expires) };
};

// validate has the checks of Tx.Validate in core/kv.
function validate(tx) {
  const bad = rejection(`transaction ${JSON.stringify(tx.id)}`);
  const id = abi.bytesOf(tx.id).length;
  if (id < 1 || id > 64) bad(`an ID of ${id} bytes, want 1 to 64`);
  checkName(tx.partition, "partition", bad);
  const lists = [tx.checks, tx.held, tx.puts, tx.deletes, tx.schedule, tx.cancel];
  const parts = lists.reduce((n, list) => n + list.length, 0);
  if (parts > maxTx) bad(`${parts} parts, want at most ${maxTx}`);
  for (const c of tx.checks) checkName(c.name, "check of", bad);
  for (const h of tx.held) checkName(h.task, "held task", bad);
  for (const p of tx.puts) {
    checkName(p.name, "put to", bad);
    checkValue(p.value, `value of ${p.name}`, bad);
  }
  for (const d of tx.deletes) checkName(d, "delete of", bad);
  for (const t of tx.schedule) checkTask(t, bad);
  for (const c of tx.cancel) checkName(c, "cancelled task", bad);
}

const rejection = (of) => (what) => { throw new Rejected(`${of}: ${what}`); };

function checkName(s, what, bad) {
  const valid = 1 <= s.length && s.length <= maxName && !/[^!-~]/.test(s);
  if (!valid) bad(`${what} ${JSON.stringify(s)} is not a name`);
}

function checkValue(v, what, bad) {
  if (v.length > maxValue) bad(`${what} has ${v.length} bytes, want at most ${maxValue}`);
}

function checkTask(t, bad) {
  checkName(t.id, "task", bad);
  if (t.due === null) bad(`task ${t.id} has no due time`);
  checkValue(t.payload, `payload of task ${t.id}`, bad);
}

// validItem and validTask return an item and a task of another store, or throw.
export function validItem(item) {
  const bad = rejection("import");
  checkName(item.name, "item", bad);
  checkName(item.tx, "transaction", bad);
  checkValue(item.value, `value of ${item.name}`, bad);
  return item;
}

export function validTask(task) {
  checkTask(task, rejection("import"));
  return task;
}
