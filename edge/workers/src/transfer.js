// Exports and imports the rows of one partition, for `verge kv export` and `verge kv import`. All functions
// take the Store of the partition, and are synchronous: no other function runs in between.
//
// An export reads pages while the partition continues. Triggers note the names that change during the
// export. The last pages have those rows as they are then. After the last page, the reader has all rows as
// they were at the moment of that page.
//
// An import works on a locked partition, which rejects every effect. A partition whose import was
// interrupted stays locked.

import { Rejected, validItem, validTask } from "./store.js";

const pageBytes = 512 * 1024; // of values and payloads, unless a single one is larger
const pageRows = 1_000;
const forgotten = 600_000_000_000n; // ns after the last page until an export ends automatically

// The fact "locked" is "1", or "incomplete" from the beginning of an import to its end.

// lock makes the partition reject every effect, even after a restart. It returns whether it has no rows, and
// whether an import of it was interrupted.
function lock(store) {
  endExport(store);
  const isIncomplete = store.fact("locked") === incomplete;
  if (!isIncomplete) store.setFact("locked", "1");
  store.locked = true;
  return { empty: isEmpty(store), interrupted: isIncomplete };
}

const incomplete = "incomplete";

const interrupted = "The import of this partition was interrupted, so its store is incomplete. Run the import again.";

// clear begins an import: it removes all rows of a locked partition.
function clear(store) {
  needLock(store);
  store.storage.transactionSync(() => {
    store.setFact("locked", incomplete);
    store.sql.exec("DELETE FROM items");
    store.sql.exec("DELETE FROM tasks");
  });
  return {};
}

// load adds rows to a locked partition, or replaces those of the same names.
function load(store, { items = [], tasks = [] }) {
  needLock(store);
  const puts = items.map(({ name, value, tx, expires = null }) => {
    return validItem({ name, tx, value: decoded(value), expires: timeOf(expires) });
  });
  const schedule = tasks.map(({ id, due, payload }) => {
    return validTask({ id, due: timeOf(due), payload: decoded(payload) });
  });
  store.storage.transactionSync(() => store.write(puts, schedule));
  return {};
}

// count returns the numbers of rows, so that the importer can compare them.
function count({ sql }) {
  const of = (table) => Number(sql.exec(`SELECT count(*) AS n FROM ${table}`).one().n);
  return { items: of("items"), tasks: of("tasks") };
}

// unlock ends the lock of a partition whose import has not started.
function unlock(store) {
  if (store.fact("locked") === incomplete) throw new Rejected(interrupted);
  return finish(store);
}

// finish ends the lock of a partition whose import is complete.
function finish(store) {
  store.sql.exec("DELETE FROM facts WHERE name = 'locked'");
  store.locked = false;
  return {};
}

function needLock(store) {
  if (!store.locked) throw new Rejected("The partition is not locked. Lock it first.");
}

const isEmpty = ({ sql }) => {
  return sql.exec("SELECT 1 FROM items UNION ALL SELECT 1 FROM tasks LIMIT 1").toArray().length === 0;
};

const actions = { page: (store, { after }) => page(store, after), lock, clear, load, count, unlock, finish };

// transfer carries out an action. It returns {value}, or {rejected} with the reason.
export function transfer(store, action, input) {
  try {
    return { value: actions[action](store, input) };
  } catch (e) {
    if (e instanceof Rejected) return { rejected: e.message };
    throw e;
  }
}

// page returns a page of rows and the cursor of the next page, "" for the last one. after is the cursor of
// this page, "" for the first one.
function page(store, after) {
  if (store.fact("locked") === incomplete) throw new Rejected(interrupted);
  tidy(store); // each claim calls it, too, but a partition without tasks has no claims
  const [id, table, ...rest] = after === "" ? [begin(store), "items", ""] : after.split("/");
  const from = rest.join("/");
  if (after !== "" && store.fact("export") !== id) {
    throw new Rejected("This export has ended, or another one has begun. Begin again.");
  }
  store.setFact("export_used", String(store.now()));
  const out = { items: [], tasks: [], removed_items: [], removed_tasks: [], next: "" };
  let size = 0, rows = 0;
  // add puts a row into the page, and reports whether the page has room for another one.
  const add = (list, row, n) => {
    list.push(row);
    size += n;
    return ++rows < pageRows && size < pageBytes;
  };
  if (table === "items") {
    for (const row of rowsAfter(store, itemColumns, "items", "name", from)) {
      if (!add(out.items, itemOf(row), row.value.byteLength)) {
        return { ...out, next: `${id}/items/${row.name}` };
      }
    }
    return { ...out, next: `${id}/tasks/` };
  }
  if (table === "tasks") {
    for (const row of rowsAfter(store, taskColumns, "tasks", "id", from)) {
      if (!add(out.tasks, taskOf(row), row.payload.byteLength)) {
        return { ...out, next: `${id}/tasks/${row.id}` };
      }
    }
    return { ...out, next: `${id}/changes/0` };
  }
  const changes = store.sql.exec("SELECT seq, kind, name FROM changes WHERE seq > ? ORDER BY seq LIMIT ?",
    Number(from), pageRows + 1).toArray();
  for (const { seq, kind, name } of changes) {
    if (!addChange(store, out, add, kind, name)) return { ...out, next: `${id}/changes/${seq}` };
  }
  endExport(store);
  return out;
}

// rowsAfter reads few rows at a time, because they can be large. It leaves no cursor open, which would lock
// the tables.
function* rowsAfter({ sql }, columns, table, key, from) {
  for (let rows; ; from = rows.at(-1)[key]) {
    rows = sql.exec(`SELECT ${columns} FROM ${table} WHERE ${key} > ? ORDER BY ${key} LIMIT ?`, from, step).toArray();
    yield* rows;
    if (rows.length < step) return;
  }
}

const step = 32;

function addChange(store, out, add, kind, name) {
  const item = kind === "items";
  const row = item
    ? store.sql.exec(`SELECT ${itemColumns} FROM items WHERE name = ?`, name).toArray()[0]
    : store.sql.exec(`SELECT ${taskColumns} FROM tasks WHERE id = ?`, name).toArray()[0];
  if (row === undefined) return add(item ? out.removed_items : out.removed_tasks, name, 0);
  return item ? add(out.items, itemOf(row), row.value.byteLength) : add(out.tasks, taskOf(row), row.payload.byteLength);
}

// begin starts an export and returns its id. An earlier export ends.
function begin(store) {
  endExport(store);
  const id = crypto.randomUUID();
  store.storage.transactionSync(() => {
    store.sql.exec("CREATE TABLE changes (kind TEXT, name TEXT, seq INTEGER NOT NULL, PRIMARY KEY (kind, name))");
    store.sql.exec("CREATE UNIQUE INDEX changes_seq ON changes (seq)");
    for (const { name, table, event, key } of triggers) {
      store.sql.exec(`CREATE TRIGGER ${name} AFTER ${event} ON ${table} BEGIN
        INSERT OR REPLACE INTO changes VALUES
          ('${table}', ${key}, (SELECT coalesce(max(seq), 0) + 1 FROM changes)); END`);
    }
    store.setFact("export", id);
  });
  return id;
}

// The lease of a task is not exported, so its update is no change.
const triggers = [
  { name: "item_put", table: "items", event: "INSERT", key: "new.name" },
  { name: "item_deleted", table: "items", event: "DELETE", key: "old.name" },
  { name: "task_scheduled", table: "tasks", event: "INSERT", key: "new.id" },
  { name: "task_deleted", table: "tasks", event: "DELETE", key: "old.id" },
];

function endExport(store) {
  if (store.fact("export") === undefined) return;
  store.storage.transactionSync(() => {
    for (const { name } of triggers) store.sql.exec(`DROP TRIGGER IF EXISTS ${name}`);
    store.sql.exec("DROP TABLE IF EXISTS changes");
    store.sql.exec("DELETE FROM facts WHERE name IN ('export', 'export_used')");
  });
}

// tidy ends an export whose reader has left.
export function tidy(store) {
  const used = store.fact("export_used");
  if (used !== undefined && store.now() - BigInt(used) > forgotten) endExport(store);
}

const itemColumns = "name, value, tx, CAST(expires AS TEXT) AS expires";
const taskColumns = "id, CAST(due AS TEXT) AS due, payload";

const itemOf = ({ name, value, tx, expires }) => ({ name, value: encoded(value), tx, expires });
const taskOf = ({ id, due, payload }) => ({ id, due, payload: encoded(payload) });

// Times are nanoseconds since 1970, in decimal.
function timeOf(s) {
  if (s === null) return null;
  if (typeof s !== "string" || !/^-?\d{1,19}$/.test(s)) throw new Rejected("A time is not a decimal number in a string.");
  return BigInt(s);
}

function encoded(buffer) {
  const bytes = new Uint8Array(buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x2000) text += String.fromCharCode(...bytes.subarray(i, i + 0x2000));
  return btoa(text);
}

function decoded(text) {
  try {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  } catch {
    throw new Rejected("A value is not base64.");
  }
}
