package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// lockSQL takes locks that end with the transaction, in the order of their numbers.
const lockSQL = `SELECT pg_advisory_xact_lock(number) FROM unnest($1::bigint[]) AS number`

// statements are the statements on the tables of one schema.
type statements struct {
	get, list, lockTasks, commit, claim, spend, sweepItems, sweepCounters, measure string
}

func statementsFor(schema string) statements {
	in := strings.NewReplacer("{schema}", pgx.Identifier{schema}.Sanitize())
	return statements{
		get: in.Replace(`
SELECT tx, expires, value FROM {schema}.items WHERE partition = $1 AND name = $2 AND expires > $3::bigint`),

		list: in.Replace(`
SELECT name, tx, expires, value FROM {schema}.items
WHERE partition = $1 AND name >= $2 AND name < $3 AND name > $4 AND expires > $5::bigint
ORDER BY name LIMIT $6::bigint`),

		// A claim in progress has locked its rows as well. So a commit waits until the claim has ended, and
		// later claims skip the rows that the commit has locked.
		lockTasks: in.Replace(`
SELECT FROM {schema}.tasks WHERE partition = $1 AND id = ANY($2::text[]) FOR UPDATE`),

		// A rejected commit writes a row as well, which has expired already, so that it waits for the
		// synchronous replica. If the wait of an earlier commit was cancelled, only the primary has the item
		// that it found.
		commit: in.Replace(`
WITH failed AS MATERIALIZED (
	SELECT c.name, i.tx, i.expires, i.value
	FROM unnest($4::text[], $5::bytea[]) AS c(name, tx)
	LEFT JOIN {schema}.items i ON i.partition = $1 AND i.name = c.name AND i.expires > $3::bigint
	WHERE coalesce(i.tx, '') <> c.tx
), lost AS MATERIALIZED (
	SELECT h.id
	FROM unnest($6::text[], $7::bigint[]) AS h(id, lease)
	LEFT JOIN {schema}.tasks t ON t.partition = $1 AND t.id = h.id AND t.lease = h.lease
	WHERE t.id IS NULL
), allowed AS MATERIALIZED (
	SELECT WHERE NOT EXISTS (SELECT FROM failed) AND NOT EXISTS (SELECT FROM lost)
), confirmed AS (
	INSERT INTO {schema}.items (partition, name, tx, expires, value)
	SELECT $1, '~' || encode($2::bytea, 'hex'), $2::bytea, $3::bigint, ''
	WHERE EXISTS (SELECT FROM failed) AND current_setting('synchronous_standby_names') <> ''
	ON CONFLICT (partition, name) DO UPDATE SET expires = excluded.expires
), put AS (
	INSERT INTO {schema}.items (partition, name, tx, expires, value)
	SELECT $1, p.name, $2::bytea, p.expires, p.value
	FROM allowed, unnest($8::text[], $9::bytea[], $10::bigint[]) AS p(name, value, expires)
	ON CONFLICT (partition, name)
	DO UPDATE SET tx = excluded.tx, expires = excluded.expires, value = excluded.value
), deleted AS (
	DELETE FROM {schema}.items i USING allowed WHERE i.partition = $1 AND i.name = ANY($11::text[])
), scheduled AS (
	INSERT INTO {schema}.tasks (partition, id, due, ready, payload)
	SELECT $1, t.id, t.due, t.due, t.payload
	FROM allowed, unnest($12::text[], $13::bigint[], $14::bytea[]) AS t(id, due, payload)
	ON CONFLICT (partition, id)
	DO UPDATE SET due = excluded.due, ready = excluded.ready, payload = excluded.payload, lease = NULL
), cancelled AS (
	DELETE FROM {schema}.tasks t USING allowed WHERE t.partition = $1 AND t.id = ANY($15::text[])
)
SELECT false, name, tx, expires, value FROM failed
UNION ALL
SELECT true, id, NULL, NULL, NULL FROM lost`),

		// The last row, without an id, has the time when the first other task is ready.
		claim: in.Replace(`
WITH free AS MATERIALIZED (
	SELECT id, ready FROM {schema}.tasks WHERE partition = $1 AND ready <= $2::bigint
	ORDER BY ready, id LIMIT $5::bigint
	FOR UPDATE SKIP LOCKED
), taken AS (
	UPDATE {schema}.tasks t SET ready = $3::bigint, lease = $4::bigint
	FROM free WHERE t.partition = $1 AND t.id = free.id
	RETURNING t.id, free.ready, t.due, t.payload
), next AS (
	SELECT ready FROM {schema}.tasks
	WHERE partition = $1 AND id NOT IN (SELECT id FROM free)
	ORDER BY ready LIMIT 1
)
(SELECT id, due, payload FROM taken ORDER BY ready, id)
UNION ALL
SELECT NULL, ready, NULL FROM next`),

		spend: in.Replace(`
WITH charge AS MATERIALIZED (
	SELECT c.place, c.name, m.tat, c.bound,
		greatest(m.tat, $2::bigint) +
			(sum(c.cost) OVER (PARTITION BY c.name ORDER BY c.place))::bigint AS becomes
	FROM unnest($3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS c(name, cost, bound, place)
	LEFT JOIN {schema}.counters m ON m.partition = $1 AND m.name = c.name
), spent AS (
	INSERT INTO {schema}.counters (partition, name, tat, forget)
	SELECT $1, name, max(becomes), max(becomes) / 60000000000 + 1 FROM charge
	WHERE NOT EXISTS (SELECT FROM charge WHERE becomes > bound)
	GROUP BY name
	ON CONFLICT (partition, name) DO UPDATE SET tat = excluded.tat, forget = excluded.forget
)
SELECT tat FROM charge ORDER BY place`),

		// $3 is where the previous step ended. Without it, each step would read all index entries of the rows
		// that the previous ones deleted, as long as an old snapshot keeps autovacuum from removing them.
		sweepItems: in.Replace(`
WITH gone AS (
	DELETE FROM {schema}.items WHERE (partition, name) IN (
		SELECT partition, name FROM {schema}.items WHERE expires <= $1::bigint AND expires >= $3::bigint
		ORDER BY expires LIMIT $2::bigint
		FOR UPDATE SKIP LOCKED)
	RETURNING expires
)
SELECT count(*), coalesce(max(expires), $3::bigint) FROM gone`),

		sweepCounters: in.Replace(`
WITH gone AS (
	DELETE FROM {schema}.counters WHERE (partition, name) IN (
		SELECT partition, name FROM {schema}.counters
		WHERE forget <= $1::bigint / 60000000000 AND forget >= $3::bigint
		ORDER BY forget LIMIT $2::bigint
		FOR UPDATE SKIP LOCKED)
	RETURNING forget
)
SELECT count(*), coalesce(max(forget), $3::bigint) FROM gone`),

		measure: in.Replace(`
SELECT
	(SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname IN ('items', 'tasks', 'counters') AND c.relkind = 'r'),
	coalesce((SELECT n_dead_tup FROM pg_stat_user_tables
		WHERE schemaname = $1 AND relname = 'tasks'), -1),
	(SELECT expires FROM {schema}.items WHERE expires < 9223372036854775807 ORDER BY expires LIMIT 1)`),
	}
}
