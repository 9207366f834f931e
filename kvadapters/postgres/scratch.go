package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/core/kv"
)

// Scratch is a separate schema for tests on a server that is in use. Its stores begin empty. Erase removes
// all their data. The user must be allowed to create a schema.
type Scratch struct{ root *Store }

// OpenScratch is Open for a Scratch. The name must be unique and valid as a schema in a URL. The stores
// never sweep.
func (c Config) OpenScratch(ctx context.Context, url, name string) (*Scratch, error) {
	root, err := open(ctx, url, c, name)
	if err != nil {
		return nil, err
	}
	return &Scratch{root}, nil
}

// Begins returns the prefix of the names of all its tables. No other table's name has this prefix.
func (s *Scratch) Begins() string { return s.root.schema + "." }

// Store returns the store of that name. The caller must not close it.
func (s *Scratch) Store(name string) *Store {
	r := s.root
	return &Store{
		pool: r.pool, sql: r.sql, schema: r.schema, within: r.within + name + " ",
		now: r.now, random: r.random, timeout: r.timeout, grace: r.grace, stop: func() {},
		signals: r.signals, instance: r.instance, signalling: r.signalling, look: r.look,
	}
}

// Signals tests whether a signal arrives. on is false if the URL disables signals. The error is the reason
// why no signal arrives.
func (s *Scratch) Signals(ctx context.Context) (on bool, err error) {
	if !s.root.signals {
		return false, nil
	}
	within, end := context.WithCancel(ctx)
	defer end()
	err = s.root.Signals(within, func(kv.Partition) { end() })
	if err == nil {
		err = context.Cause(ctx) // heard ends it only after a signal has arrived
	}
	return true, err
}

// Erase removes the schema. No calls may be in progress.
func (s *Scratch) Erase(ctx context.Context) error {
	_, err := s.root.pool.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{s.root.schema}.Sanitize()+` CASCADE`)
	if err != nil {
		return failed("erasing", err)
	}
	return nil
}

// Close closes the connections. It erases no data.
func (s *Scratch) Close() error { return s.root.Close() }

// Server has a primary's information about itself.
type Server struct {
	Version  string
	Settings map[string]string // of Asked; settings that the user may not read are missing

	Replicas    int // connected replicas
	Synchronous int // replicas for which commits wait; -1 if the user may not see that
}

// Asked returns the names of the settings that determine which data survives a failure.
func (Server) Asked() []string {
	return []string{"synchronous_commit", "synchronous_standby_names", "fsync", "full_page_writes"}
}

// Server asks the primary for information about itself.
func (s *Scratch) Server(ctx context.Context) (Server, error) {
	server := Server{Settings: make(map[string]string)}
	ctx, cancel := context.WithTimeout(ctx, s.root.timeout)
	defer cancel()
	c, err := s.root.pool.Acquire(ctx)
	if err != nil {
		return server, failed("asking the server", err)
	}
	defer c.Release()
	err = c.QueryRow(ctx, `SELECT current_setting('server_version')`).Scan(&server.Version)
	if err != nil {
		return server, failed("asking the server", err)
	}
	server.Version, _, _ = strings.Cut(server.Version, " ")
	for _, name := range server.Asked() {
		var value *string
		if c.QueryRow(ctx, `SELECT current_setting($1, true)`, name).Scan(&value) == nil && value != nil {
			server.Settings[name] = *value
		}
	}
	var hidden int
	err = c.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')),
		count(*) FILTER (WHERE sync_state IS NULL) FROM pg_stat_replication`).
		Scan(&server.Replicas, &server.Synchronous, &hidden)
	if err != nil || hidden > 0 {
		server.Synchronous = -1
	}
	return server, nil
}
