package cli

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/stores"
)

// The binary serves where Go's cryptography rejects everything outside FIPS 140-3: it reads the tokens of
// instances elsewhere, so it makes the same ones.
func TestServe_FIPSOnly(t *testing.T) {
	t.Parallel()
	sink := newEvents(t)
	sink.trust(testSecret)
	s := newSite(t, stores.StartRedis(t).URL(), sink.URL, unlimited)
	plain := s.start()
	s.env = []string{"GODEBUG=fips140=only"}
	only := s.start()
	for name, from := range map[string][2]*served{"alone": {only, only},
		"from another instance": {plain, only}, "to another instance": {only, plain}} {
		id, redirect, err := from[0].publisher.start(testIntegration)
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, only.logs)
		}
		redirect = strings.Replace(redirect, from[0].at.Public, from[1].at.Public, 1)
		token, err := from[1].approve(redirect)
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, only.logs)
		}
		if valid, status, body := from[1].validate(token); !valid {
			t.Errorf("%s: validate: %d %s", name, status, body)
		}
		if !within(patience, func() bool { return sink.has(id, "completed") }) {
			t.Fatalf("%s: no event: %s", name, only.logs)
		}
	}
	if complaints := sink.complaints(); len(complaints) > 0 {
		t.Error(complaints)
	}
}
