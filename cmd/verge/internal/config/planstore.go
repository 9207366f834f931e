package config

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters"
)

// checkStore checks the store. The settings of flags are in c already, and override the environment.
func (c *File) checkStore(sys *System, flags *StoreFlags, pl *Plan, ps *problems) {
	if c.KV == "" {
		ps.add("kv: not set; for example \"bolt:/var/lib/verge/verge.db\"")
		return
	}
	at, err := kvadapters.ParseAddress(c.KV)
	if err != nil {
		ps.add("%v", err)
		return
	}
	switch at.Kind {
	case kvadapters.Miniredis:
		ps.add("kv: miniredis is for `verge dev`; %s", kvadapters.Choices)
	case kvadapters.Memory:
		if !pl.Core.Dev && !pl.Core.Test {
			ps.add("kv: memory loses the list of used result tokens at every restart, so they could " +
				"be used again; use bolt:FILE in production")
		} else if pl.Core.Test {
			pl.warn("kv: memory loses all data at a restart, including API keys and webhook events; set " +
				"kv = \"bolt:FILE\" to keep them")
		}
	case kvadapters.Bolt:
		if err := writable(sys.FS, filepath.Dir(at.Path)); err != nil {
			ps.add("kv: %s cannot be written: %v", filepath.Dir(at.Path), err)
		}
	}
	c.checkStoreOptions(sys, flags, at, pl, ps)
}

// These variables replace kv, store.password_file and store.key.
const (
	kvVariable         = "VERGE_KV"
	kvPasswordVariable = "VERGE_KV_PASSWORD"
	kvKeyVariable      = "VERGE_KV_KEY"
)

// checkStoreOptions checks the settings of the store other than its URL.
func (c *File) checkStoreOptions(
	sys *System, flags *StoreFlags, at kvadapters.Address, pl *Plan, ps *problems,
) {
	s := c.Store
	if key, _ := sys.Getenv(kvKeyVariable); key != "" && flags.Key == "" && at.Shared() {
		s.Key = key
	}
	if !at.Shared() && (s.PasswordFile != "" || s.CA != "" || s.Cert != "" || s.Key != "") {
		ps.add("store: password_file, ca, cert and key are for redis:// and postgres:// URLs; "+
			"kv is %s", at)
	}
	if at.Kind != kvadapters.Redis && (s.Prefix != "" || s.Replicas != 0 || s.Wait != nil) {
		ps.add("store: prefix, replicas and wait are for redis:// URLs; kv is %s", at)
	}
	if at.Shared() {
		at = c.withPassword(sys, flags, at, ps)
	}
	var err error
	at.TLS, err = clientTLS(sys, s.CA, s.Cert, s.Key)
	ps.addLines("store", err)
	if at.TLS != nil && len(at.TLS.Certificates) > 0 {
		pl.expires("store.cert", at.TLS.Certificates[0].Leaf)
	}
	at.Prefix, at.Replicas, at.Wait = s.Prefix, s.Replicas, givenSpan(ps, "store.wait", s.Wait)
	if !notNegative(ps, "store.replicas", s.Replicas) {
		// The number is already rejected, so the store is not checked with it.
	} else if err := at.Valid(); err != nil {
		ps.add("kv: %v", err)
	} else if open := at.Exposed(); open != "" && !s.TrustedNetwork {
		ps.add("kv: %s: %s; use %s with a password or a client certificate, or, if only Verge can reach "+
			"that network, set store.trusted_network = true", at, open, at.AskForTLS())
	}
	if at.Kind == kvadapters.Redis && s.Wait != nil && s.Replicas == 0 {
		ps.add("store.wait: it needs store.replicas; set both, or neither")
	}
	pl.Core.Partitions = at.Partitions()
	if n := given(ps, "store.partitions", s.Partitions); n > 0 {
		if err := edge.CheckPartitionCount(n); err != nil {
			ps.add("store.partitions: %v", err)
		} else {
			pl.Core.Partitions = n
		}
	}
	pl.Store = at
	if b := s.Budget; b != nil {
		var ok bool
		if pl.Budget, ok = readSpan(ps, "store.budget", *b); ok {
			if err := edge.CheckStoreBudget(pl.Budget); err != nil {
				ps.add("store.budget: %v", err)
			}
		}
	}
}

func (c *File) withPassword(
	sys *System, flags *StoreFlags, at kvadapters.Address, ps *problems,
) kvadapters.Address {
	name := kvPasswordVariable
	password, isHeld, err := sys.SecretIn(name)
	if !isHeld || flags.PasswordFile != "" {
		if name = "store.password_file"; c.Store.PasswordFile == "" {
			return at
		}
		password, err = sys.secretFrom(c.Store.PasswordFile)
	}
	if err == nil {
		at, err = at.WithPassword(password)
	}
	if err != nil {
		ps.add("%s: %v", name, err)
	}
	return at
}

// readKV returns the store's URL. A URL from the environment may have a password, so it is read as a secret.
// given is the value of the flag. If the flag is missing, the variable sets it.
func (sys *System) readKV(given, kv string, ps *problems) string {
	raw, _ := sys.Getenv(kvVariable)
	if given != "" && given != raw {
		return kv
	}
	held, isSet, err := sys.SecretIn(kvVariable)
	switch {
	case err != nil:
		ps.add("kv: %s: %v", kvVariable, err)
	case isSet:
		return held
	}
	return kv
}

// StoreFlags select a store, and override its settings of a configuration. Each command that checks or
// restores a store uses them.
type StoreFlags struct {
	URL string `arg:"" optional:"" name:"url" env:"VERGE_KV" help:"redis://, redis+cluster://, redis+sentinel:// (rediss for TLS), postgres://, unix://, or bolt:FILE. Default: the configuration's kv. Put a URL with a password into the variable."`

	Config       string `type:"path" placeholder:"FILE" env:"VERGE_CONFIG" help:"A server's configuration file; its kv and [store] are used."`
	PasswordFile string `type:"path" placeholder:"FILE" help:"File with the password, mode 0600."`
	CA           string `name:"ca" type:"path" placeholder:"FILE" help:"Certificates of a private CA, PEM."`
	Cert         string `type:"path" placeholder:"FILE" help:"Client certificate, PEM."`
	Key          string `type:"path" placeholder:"FILE" help:"Its key, PEM."`
	Prefix       string `placeholder:"NAME" help:"Redis: prefix of every key. Default: verge."`
	Replicas     int    `placeholder:"N" help:"Redis: number of replicas that must confirm a write."`
}

// Read returns the store of the flags and the configuration. example is a command line with a store, for the
// error without a store.
func (c *StoreFlags) Read(sys *System, example string) (kvadapters.Address, error) {
	var conf File
	var ps problems
	if err := readConfig(sys.FS, c.Config, &conf, &ps); err != nil {
		return kvadapters.Address{}, fmt.Errorf("configuration: %w", err)
	}
	for _, o := range []struct {
		given string
		value *string
	}{
		{c.URL, &conf.KV}, {c.PasswordFile, &conf.Store.PasswordFile}, {c.CA, &conf.Store.CA},
		{c.Cert, &conf.Store.Cert}, {c.Key, &conf.Store.Key}, {c.Prefix, &conf.Store.Prefix},
	} {
		*o.value = cmp.Or(o.given, *o.value)
	}
	conf.Store.Replicas = cmp.Or(c.Replicas, conf.Store.Replicas)
	conf.KV = sys.readKV(c.URL, conf.KV, &ps)
	switch conf.KV {
	case "":
		return kvadapters.Address{}, fmt.Errorf("name the store, as in `%s`, or a --config file with kv",
			example)
	case "memory", "miniredis":
		return kvadapters.Address{}, fmt.Errorf("kv %s: it is part of Verge and has no data on disk; "+
			"name another store, as in `%s`", conf.KV, example)
	}
	var pl Plan
	conf.checkStore(sys, c, &pl, &ps)
	return pl.Store, ps.err(cmp.Or(c.Config, "store"))
}
