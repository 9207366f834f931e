package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/verge-id/verge/core/kv"
)

// Scratch is a separate set of stores for tests on servers that are in use. Its stores begin empty, are
// separate from the stores on the server and match the same key pattern of an ACL. Erase removes all their
// data.
type Scratch struct {
	root *Store

	mu    sync.Mutex
	wrote map[string]map[string]bool // keys that may exist, by base
}

// OpenScratch is Open for a Scratch. The name must be unique and consist of the characters of
// Config.Prefix.
func (c Config) OpenScratch(ctx context.Context, rawURL, name string) (*Scratch, error) {
	silence()
	root, err := newOwned(rawURL, c)
	if err != nil {
		return nil, err
	}
	root.config.Prefix += ":" + name
	s := &Scratch{root: root, wrote: make(map[string]map[string]bool)}
	if err := root.Check(ctx); err != nil {
		// A probe that was denied one command may already have written with another.
		s.Erase(ctx)
		s.Close()
		return nil, err
	}
	return s, nil
}

// KeysBegin returns the prefix of the keys of all its stores. No other key has this prefix.
func (s *Scratch) KeysBegin() string { return "{" + s.root.config.Prefix }

// scratchStore is one store of a Scratch.
type scratchStore struct {
	*Store
	scratch *Scratch
}

var (
	_ kv.KV    = (*scratchStore)(nil)
	_ kv.Meter = (*scratchStore)(nil)
)

// Store returns the store of that name. The name consists of the characters of Config.Prefix.
func (s *Scratch) Store(name string) *scratchStore {
	c := s.root.config
	c.Prefix += "-" + name
	return &scratchStore{&Store{config: c, client: s.root.client}, s}
}

// Commit implements kv.KV.
func (s *scratchStore) Commit(ctx context.Context, tx kv.Tx) error {
	base := s.base(tx.Partition)
	keys := fixed(base)
	for _, p := range tx.Puts {
		keys = append(keys, base+"i:"+p.Name)
	}
	s.scratch.note(base, keys)
	return s.Store.Commit(ctx, tx)
}

// Spend implements kv.Meter.
func (s *scratchStore) Spend(
	ctx context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	for _, c := range charges {
		base := s.counterBase(p, c.Name)
		s.scratch.note(base, []string{base + "r:" + c.Name})
	}
	return s.Store.Spend(ctx, p, now, charges)
}

// note records keys before they are written. So Erase also removes the writes of a commit with a lost
// reply, without scanning the keyspace.
func (s *Scratch) note(base string, keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrote[base] == nil {
		s.wrote[base] = make(map[string]bool)
	}
	for _, key := range keys {
		s.wrote[base][key] = true
	}
}

// Erase removes all data of the stores. No calls may be in progress in them.
func (s *Scratch) Erase(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The probe of Check removes its own keys, unless it ended early.
	probe := s.root.base("")
	jobs := []request{{base: probe, args: []any{"del", probe + "i:", probe + "n", probe + "t"}}}
	const atOnce = 256 // few enough that other clients do not wait long
	for base, keys := range s.wrote {
		r := request{base: base}
		for key := range keys {
			if len(r.args) == 0 {
				r.args = []any{"del"}
			}
			if r.args = append(r.args, key); len(r.args) > atOnce {
				jobs, r.args = append(jobs, r), nil
			}
		}
		if len(r.args) > 0 {
			jobs = append(jobs, r)
		}
	}
	for _, r := range jobs {
		r.repeatable = true
		if _, err := s.root.do(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the connections. It erases no data.
func (s *Scratch) Close() error { return s.root.Close() }

// Server has a primary's information about itself.
type Server struct {
	Addr string

	Product  string // "Redis 7.2.4", "Valkey 8.0.1"; empty: forbidden by the ACL
	Replicas string // number of connected replicas; empty: forbidden by the ACL

	// Settings are the server's settings for durability, as reported by CONFIG GET or INFO. Settings that
	// the ACL forbids to read are missing.
	Settings map[string]string

	// Ahead is how far the server's clock is ahead of now. The error is at most Within.
	Ahead, Within time.Duration
}

// Asked returns the names of the Settings that Servers asks for.
func (Server) Asked() []string {
	return []string{"appendonly", "appendfsync", "maxmemory", "maxmemory-policy",
		"min-replicas-to-write", "min-replicas-max-lag", "cluster-require-full-coverage"}
}

// Servers asks every primary. It fails only if a primary does not report its clock. For all Settings, an
// ACL user needs +config|get in addition to the permissions in the package's documentation.
func (s *Scratch) Servers(ctx context.Context, now func() time.Time) ([]Server, error) {
	if s.root.cluster() == nil {
		server, err := s.server(ctx, s.root.client.(*redis.Client), now)
		return []Server{server}, err
	}
	var mu sync.Mutex
	var servers []Server
	err := s.root.cluster().ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		server, err := s.server(ctx, node, now)
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, server)
		return err
	})
	slices.SortFunc(servers, func(a, b Server) int { return strings.Compare(a.Addr, b.Addr) })
	return servers, err
}

func (s *Scratch) server(ctx context.Context, node *redis.Client, now func() time.Time) (Server, error) {
	server := Server{Addr: node.Options().Addr, Settings: make(map[string]string), Within: -1}
	probe := request{base: s.root.base("")}

	// The fastest of several replies is the most exact: the server read its clock at some time between the
	// request and the reply.
	for range 9 {
		asked := now()
		serverTime, err := node.Time(ctx).Result()
		took := now().Sub(asked)
		if err != nil {
			return server, s.root.probed(probe, err)
		}
		if within := took / 2; server.Within < 0 || within < server.Within {
			server.Ahead, server.Within = serverTime.Sub(asked.Add(within)), within
		}
	}

	info, err := node.Info(ctx).Result()
	if err != nil && !isReply(err) {
		return server, s.root.probed(probe, err)
	}
	fields := fieldsOf(info)
	if version := fields["valkey_version"]; version != "" {
		server.Product = "Valkey " + version
	} else if version := fields["redis_version"]; version != "" {
		server.Product = "Redis " + version
	}
	server.Replicas = fields["connected_slaves"]
	for _, name := range []string{"maxmemory", "maxmemory-policy"} {
		if value, ok := fields[strings.ReplaceAll(name, "-", "_")]; ok {
			server.Settings[name] = value
		}
	}
	if value, ok := fields["aof_enabled"]; ok {
		server.Settings["appendonly"] = map[string]string{"0": "no", "1": "yes"}[value]
	}
	for _, name := range server.Asked() {
		settings, err := node.ConfigGet(ctx, name).Result()
		if err != nil && !isReply(err) {
			return server, s.root.probed(probe, err)
		}
		if value, ok := settings[name]; ok && err == nil {
			server.Settings[name] = value
		}
	}
	return server, nil
}

// isReply reports whether err is a server's error reply, such as one for a missing permission.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// probed returns the error of a request for a server's information about itself.
func (s *Store) probed(r request, err error) error {
	if isReply(err) {
		return s.rejected(r, err)
	}
	return s.unavailable(r, fmt.Errorf("asking a server about itself: %w", err))
}
