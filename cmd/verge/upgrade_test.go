package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/stores"
)

// TestUpgrade upgrades two instances from the release before to this one, under load and one after the
// other, then goes back, and then upgrades again and rotates the key ring. The ring and the store are
// those that the release before has made. VERGE_BEFORE names its binary. Each stage uses sessions and
// result tokens of the stage before.
func TestUpgrade(t *testing.T) {
	before := os.Getenv("VERGE_BEFORE")
	if before == "" {
		t.Skip("SKIP: VERGE_BEFORE does not name the binary of the release before")
	}
	sink := newEvents(t)
	sink.trust(testSecret)
	site := newSite(t, stores.StartRedis(t, stores.Durable...).URL(), sink.URL, unlimited)
	asBefore(t, site.ring)
	config, configBefore := site.config, withoutLimits(t, site.config)

	stages := []struct {
		name string
		old  []bool // whether each of the two instances is of the release before
	}{
		{"the release before", []bool{true, true}},
		{"one instance upgraded", []bool{true, false}},
		{"all upgraded", []bool{false, false}},
		{"one instance back", []bool{true, false}},
		{"all back", []bool{true, true}},
		{"all upgraded again", []bool{false, false}},
		{"after the first rotation", []bool{false, false}},
	}
	var carried []unfinished
	var running []member
	for n, stage := range stages {
		if n == len(stages)-1 {
			code := run(t.Context(), []string{"keyring", "rotate", site.ring, "--seals-in", "0s"}, onDisk())
			if code != exitOK {
				t.Fatal("rotate: exit code ", code)
			}
			time.Sleep(20 * time.Second) // until the new key seals and every record is signed
		}
		for i, old := range stage.old {
			if n > 0 && stages[n-1].old[i] == old {
				continue
			}
			if site.binary, site.config = "", config; old {
				site.binary, site.config = before, configBefore
			}
			next := member{site.start(), site.ring}
			next.redirects = old
			if n == 0 {
				running = append(running, next)
				continue
			}
			last := running[i]
			running[i] = next
			last.cmd.Process.Signal(syscall.SIGTERM)
			<-last.ended
		}
		for _, s := range carried {
			goesOn(t, stage.name, s, running)
		}
		w := &walkers{fleet: running}
		w.begin(2)
		time.Sleep(4 * time.Second)
		w.end()
		for _, what := range w.failed() {
			t.Errorf("%s: %s", stage.name, what)
		}
		carried = leftOpen(t, stage.name, running)
		for _, id := range w.sessions() {
			eventually(t, "the events of "+id, func() bool {
				return sink.has(id, "started") && sink.has(id, "completed")
			})
		}
		t.Logf("%s: %d requests, %d failed", stage.name, w.requests.Load(), len(w.failed()))
	}
	for _, what := range sink.complaints() {
		t.Error(what)
	}
}

// unfinished is a session that one stage begins and the next one ends. result is "" before the user decides.
type unfinished struct{ id, redirect, result string }

// leftOpen begins sessions for the next stage.
func leftOpen(t *testing.T, stage string, running []member) (all []unfinished) {
	t.Helper()
	for k := range 20 {
		id, redirect, err := running[k%2].start(testIntegration)
		if err != nil {
			t.Fatalf("%s: %v", stage, err)
		}
		s := unfinished{id: id, redirect: redirect}
		if k%4 > 1 {
			if s.result, err = running[k%2].approve(redirect); err != nil {
				t.Fatalf("%s: %v", stage, err)
			}
		}
		all = append(all, s)
	}
	return all
}

// goesOn ends a session of the stage before.
func goesOn(t *testing.T, stage string, s unfinished, running []member) {
	t.Helper()
	result := s.result
	var err error
	if result == "" {
		if result, err = running[0].approve(s.redirect); err != nil {
			t.Errorf("%s: a session of the stage before: %v", stage, err)
			return
		}
	}
	if valid, status, body := running[1].validate(result); !valid {
		t.Errorf("%s: a result of the stage before: %d %s", stage, status, body)
	}
	status, _, body, err := running[0].api("GET", "/api/v1/verify/sessions/"+s.id, nil)
	if err != nil || status != 200 {
		t.Errorf("%s: a session of the stage before: %d %s %v", stage, status, body, err)
	}
}

// withoutLimits writes a configuration for the release before, which has no limits of pages and
// preflights.
func withoutLimits(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	added := strings.NewReplacer("preflights_per_ip = 1000000\n", "", "pages_per_ip = 1000000\n", "")
	text := added.Replace(string(b))
	path += ".before"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// asBefore writes the file of a ring in the form of the release before.
func asBefore(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Version int              `json:"version"`
		Keys    []map[string]any `json:"keys"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	delete(f.Keys[0], "seals_from")
	if b, err = json.Marshal(f); err != nil || strings.Contains(string(b), "seals_from") {
		t.Fatal(err)
	}
	if err := writePrivate(afero.NewOsFs(), path, b); err != nil {
		t.Fatal(err)
	}
}
