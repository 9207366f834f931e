package main

import (
	"path/filepath"

	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters"
)

func (c *config) checkStore(p *program, pl *plan, ps *problems) {
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
		if !pl.core.Dev && !pl.core.Test {
			ps.add("kv: memory forgets at every restart which result tokens were used, so they could " +
				"be used again; take bolt:FILE in production")
		} else if pl.core.Test {
			pl.warnings = append(pl.warnings,
				"kv: memory loses everything at a restart, API keys and webhook "+
					"events too; set kv = \"bolt:FILE\" to keep them")
		}
	case kvadapters.Bolt:
		if err := writable(p.fs, filepath.Dir(at.Path)); err != nil {
			ps.add("kv: %s cannot be written: %v", filepath.Dir(at.Path), err)
		}
	}
	c.checkStoreOptions(p, at, pl, ps)
}

// These hold what store.password_file and store.key name.
const (
	kvPasswordVariable = "VERGE_KV_PASSWORD"
	kvKeyVariable      = "VERGE_KV_KEY"
)

// checkStoreOptions checks the settings of the store other than its URL.
func (c *config) checkStoreOptions(p *program, at kvadapters.Address, pl *plan, ps *problems) {
	s := c.Store
	held, isHeld, heldErr := p.secretIn(kvPasswordVariable)
	if key, _ := p.getenv(kvKeyVariable); key != "" && at.Shared() {
		s.Key = key
	}
	if !at.Shared() && (s.PasswordFile != "" || s.CA != "" || s.Cert != "" || s.Key != "") {
		ps.add("store: password_file, ca, cert and key are for redis:// and postgres:// URLs; "+
			"kv is %s", at)
	}
	if at.Kind != kvadapters.Redis && (s.Prefix != "" || s.Replicas != 0 || s.Wait != nil) {
		ps.add("store: prefix, replicas and wait are for redis:// URLs; kv is %s", at)
	}
	switch {
	case !at.Shared():
	case isHeld:
		if heldErr == nil {
			at, heldErr = at.WithPassword(held)
		}
		if heldErr != nil {
			ps.add("%s: %v", kvPasswordVariable, heldErr)
		}
	case s.PasswordFile != "":
		password, err := p.secretFrom(s.PasswordFile)
		if err == nil {
			at, err = at.WithPassword(password)
		}
		if err != nil {
			ps.add("store.password_file: %v", err)
		}
	}
	var err error
	at.TLS, err = clientTLS(p, s.CA, s.Cert, s.Key)
	ps.addLines("store", err)
	at.Prefix, at.Replicas, at.Wait = s.Prefix, s.Replicas, givenSpan(ps, "store.wait", s.Wait)
	if !notNegative(ps, "store.replicas", s.Replicas) {
		// The number is refused already, so the store is not judged with it.
	} else if err := at.Valid(); err != nil {
		ps.add("kv: %v", err)
	} else if open := at.Exposed(); open != "" && !s.TrustedNetwork {
		ps.add("kv: %s: %s; take %s with a password or a client's certificate, or, if nobody else can reach "+
			"that network, set store.trusted_network = true", at, open, at.AskForTLS())
	}
	if at.Kind == kvadapters.Redis && s.Wait != nil && s.Replicas == 0 {
		ps.add("store.wait: there is nothing to wait for; set store.replicas as well, or neither")
	}
	pl.core.Partitions = at.Partitions()
	if n := given(ps, "store.partitions", s.Partitions); n > 0 {
		if err := edge.CheckPartitionCount(n); err != nil {
			ps.add("store.partitions: %v", err)
		} else {
			pl.core.Partitions = n
		}
	}
	pl.store = at
	if b := s.Budget; b != nil {
		var ok bool
		if pl.budget, ok = readSpan(ps, "store.budget", *b); ok {
			if err := edge.CheckStoreBudget(pl.budget); err != nil {
				ps.add("store.budget: %v", err)
			}
		}
	}
}
