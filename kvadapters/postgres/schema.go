package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// oldestServer is the oldest server on which the tests run.
const oldestServer = 15

// migrations create the tables of version 1, 2 and so on from the previous ones. A migration only adds, and
// an added column has a default, so that programs of the previous version can continue to read and write. A
// released migration never changes.
var migrations = []string{`
CREATE TABLE {schema}.version (
	single  boolean PRIMARY KEY DEFAULT true CHECK (single),
	version integer NOT NULL,
	oldest  integer NOT NULL
);
INSERT INTO {schema}.version (version, oldest) VALUES (1, 1);
CREATE TABLE {schema}.items (
	partition text COLLATE "C" NOT NULL,
	name      text COLLATE "C" NOT NULL,
	tx        bytea NOT NULL,
	expires   bigint NOT NULL,
	value     bytea NOT NULL,
	PRIMARY KEY (partition, name)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX items_expires ON {schema}.items (expires) WHERE expires < 9223372036854775807;
CREATE TABLE {schema}.tasks (
	partition text COLLATE "C" NOT NULL,
	id        text COLLATE "C" NOT NULL,
	due       bigint NOT NULL,
	ready     bigint NOT NULL,
	lease     bigint,
	payload   bytea NOT NULL,
	PRIMARY KEY (partition, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX tasks_ready ON {schema}.tasks (partition, ready, id);
CREATE UNLOGGED TABLE {schema}.counters (
	partition text COLLATE "C" NOT NULL,
	name      text COLLATE "C" NOT NULL,
	tat       bigint NOT NULL,
	forget    bigint NOT NULL,
	PRIMARY KEY (partition, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX counters_forget ON {schema}.counters (forget);
`, `
-- A completed task leaves two deleted rows, and every claim reads those that are not removed yet. The table is
-- small, so autovacuum need not pause. This lock does not wait for reads and writes, nor they for it.
ALTER TABLE {schema}.tasks SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_cost_delay = 0);
`}

// prepare checks the server and creates the tables.
func (s *Store) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.timeout)
	defer cancel()
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return failed("opening", err)
	}
	defer c.Release()
	var number, version, isolation, durable string
	err = c.QueryRow(ctx, `SELECT current_setting('server_version_num'), current_setting('server_version'),
		current_setting('default_transaction_isolation'), current_setting('synchronous_commit')`).
		Scan(&number, &version, &isolation, &durable)
	switch {
	case err != nil:
		return failed("opening", err)
	case len(number) < 6 || number < fmt.Sprintf("%06d", oldestServer*10000):
		return fmt.Errorf("postgres: the server is PostgreSQL %s, and Verge needs %d or later",
			version, oldestServer)
	case isolation != "read committed":
		return fmt.Errorf("postgres: default_transaction_isolation is %q for this user; "+
			"ALTER ROLE … SET default_transaction_isolation = 'read committed'", isolation)
	case durable == "off":
		return errors.New("postgres: synchronous_commit is off, so a crash would forget which " +
			"tokens were used; ALTER ROLE … SET synchronous_commit = on")
	}
	found, oldest, err := s.version(ctx, c.Conn())
	if err == nil && found < len(migrations) {
		found, oldest, err = s.migrate(ctx, c.Conn())
	}
	if err != nil {
		return failed("opening", err)
	}
	if oldest > len(migrations) {
		return fmt.Errorf("postgres: the tables in schema %q have version %d, which programs for version %d "+
			"and later can use, but this one is for version %d: use the version of Verge that wrote them, "+
			"or another schema", s.schema, found, oldest, len(migrations))
	}
	return nil
}

// version returns the version of the tables, or 0 if there are no tables, and the oldest version whose
// programs can use them.
func (s *Store) version(
	ctx context.Context, c interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
) (version, oldest int, err error) {
	// to_regclass could use cached data of the connection, from before another instance created the table.
	var there bool
	err = c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
		WHERE nspname = $1 AND relname = 'version')`, s.schema).Scan(&there)
	if err != nil || !there {
		return 0, 0, err
	}
	table := pgx.Identifier{s.schema, "version"}.Sanitize()
	err = c.QueryRow(ctx, `SELECT version, oldest FROM `+table).Scan(&version, &oldest)
	return version, oldest, err
}

// migrate runs the missing migrations in one transaction. If several instances start together, one migrates
// and the others wait.
func (s *Store) migrate(ctx context.Context, c *pgx.Conn) (version, oldest int, err error) {
	schema := pgx.Identifier{s.schema}.Sanitize()
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockSQL, []int64{lockOf(s.schema, "migrations", "", "")}); err != nil {
			return err
		}
		if version, oldest, err = s.version(ctx, tx); err != nil || version >= len(migrations) {
			return err
		}
		if version == 0 {
			var there bool
			err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, s.schema).
				Scan(&there)
			if err == nil && !there { // a user without the right to create a schema may use an existing one
				_, err = tx.Exec(ctx, `CREATE SCHEMA `+schema)
			}
			if err != nil {
				return err
			}
		}
		for ; version < len(migrations); version++ {
			sql := strings.ReplaceAll(migrations[version], "{schema}", schema)
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, `UPDATE `+schema+`.version SET version = $1 RETURNING oldest`, version).
			Scan(&oldest)
	})
	if rejected, ok := errors.AsType[*pgconn.PgError](err); ok && rejected.Code == "42501" {
		err = fmt.Errorf("%w; the user needs its own schema: CREATE SCHEMA %s AUTHORIZATION user",
			err, schema)
	}
	return version, oldest, err
}
