package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// TestUpgrade upgrades two instances from the release before to this one, under load and one at a
// time, then goes back, and then upgrades again and rotates the key ring. The ring and the store are
// those that the release before has made. Each stage uses sessions and result tokens of the stage before.
func TestUpgrade(t *testing.T) {
	long.Skip(t, "TestUpgrade")
	before := releaseBefore(t)
	sink := newEvents(t)
	sink.trust(testSecret)
	site := newSite(t, stores.StartRedis(t, stores.Durable...).URL(), sink.URL, unlimited)
	asBefore(t, site.ring)

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
			if site.binary = ""; old {
				site.binary = before
			}
			next := member{site.start(), site.ring}
			if n == 0 {
				running = append(running, next)
				continue
			}
			last := running[i]
			running[i] = next
			last.cmd.Process.Signal(syscall.SIGTERM)
			wait.For(last.ended)
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
			wait.Until(t, "the events of "+id, func() bool {
				return sink.has(id, "started") && sink.has(id, "completed")
			})
		}
		t.Logf("%s: %d requests, %d failed", stage.name, w.requests.Load(), len(w.failed()))
	}
	for _, what := range sink.complaints() {
		t.Error(what)
	}
}

// commitBefore replaces the release before until there is a tag: the last commit before the upgrade
// policy.
const commitBefore = "4cb1fbfc7fe65addb69792ce8cf24babe974e4f5"

// releaseBefore returns the binary of the last release before this one: the binary that VERGE_BEFORE names,
// or a binary that is built from the last tag.
func releaseBefore(t *testing.T) string {
	t.Helper()
	if given := os.Getenv("VERGE_BEFORE"); given != "" {
		return given
	}
	binary, err := builtBefore()
	if errors.Is(err, errNoHistory) {
		t.Skipf("SKIP: %v; fetch the whole history, or name a binary in VERGE_BEFORE", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

var errNoHistory = errors.New("the source of the release before is not here")

// builtBefore builds it once for all tests.
var builtBefore = sync.OnceValues(func() (string, error) {
	at := commitBefore
	tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^").Output()
	if err == nil {
		at = strings.TrimSpace(string(tag))
	}
	if out, err := exec.Command("git", "cat-file", "-e", at+"^{commit}").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s: %s", errNoHistory, at, out)
	}
	dir := filepath.Join(shared, "before")
	script := `mkdir -p "$1/source" && git -C ../../../.. archive "$0" | tar -x -C "$1/source" && cd "$1/source" && ` +
		`go build -o "$1/verge" ./cmd/verge`
	if out, err := exec.Command("bash", "-o", "pipefail", "-c", script, at,
		dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", at, err, out)
	}
	return filepath.Join(dir, "verge"), nil
})

// TestRollingUpgradeBehindProxies upgrades three instances one at a time, and goes back, while users
// and a publisher come by three proxies. No request fails.
func TestRollingUpgradeBehindProxies(t *testing.T) {
	long.Skip(t, "TestRollingUpgradeBehindProxies")
	before := releaseBefore(t)
	sink := newEvents(t)
	sink.trust(testSecret)
	s := behindProxies(t, sink.URL)
	s.binary = before
	running := make([]*served, 3)
	var behind []string
	for i := range running {
		s.listen = fmt.Sprintf("127.0.0.1:%d", stores.FreePort(t)) // it is still free for the next binary
		running[i] = s.start()
		behind = append(behind, s.listen)
	}
	var fleet []member
	for n := range proxies {
		f := startProxy(t, t, n, behind)
		p := newPublisher(readyFile{BaseURL: "https://verify.example.com",
			seeds: seeds{SecretKey: s.key, IntegrationID: testIntegration}})
		p.http = f.client
		fleet = append(fleet, member{&served{publisher: p}, s.ring})
	}
	w := &walkers{fleet: fleet, pause: 20 * time.Millisecond}
	w.begin(2)
	for _, step := range []struct{ name, binary string }{{"upgrade", ""}, {"the way back", before}} {
		for i := range running {
			running[i].cmd.Process.Signal(syscall.SIGTERM)
			wait.For(running[i].ended)
			if code := running[i].cmd.ProcessState.ExitCode(); code != exitOK {
				t.Errorf("%s: instance %d ended with %d: %s", step.name, i, code, running[i].logs)
			}
			s.binary, s.listen = step.binary, behind[i]
			running[i] = s.start()
			time.Sleep(3 * time.Second) // until every proxy has seen it
		}
		t.Logf("%s: %d requests so far, %d failed", step.name, w.requests.Load(), len(w.failed()))
	}
	w.end()
	for _, what := range w.failed() {
		t.Error(what)
	}
	if len(w.sessions()) < 100 {
		t.Errorf("only %d sessions were completed meanwhile", len(w.sessions()))
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

// sinceBefore are the settings of these tests that the release before does not have.
var sinceBefore = []string{"starts_per_publisher"}

// configBefore writes the configuration without the settings that the release before lacks.
func (s *site) configBefore() string {
	s.t.Helper()
	var kept strings.Builder
	for line := range strings.Lines(readText(s.t, s.config)) {
		if name, _, _ := strings.Cut(line, " "); !slices.Contains(sinceBefore, name) {
			kept.WriteString(line)
		}
	}
	path := s.config + ".before"
	if err := os.WriteFile(path, []byte(kept.String()), 0o600); err != nil {
		s.t.Fatal(err)
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
	if err := config.WritePrivate(afero.NewOsFs(), path, b); err != nil {
		t.Fatal(err)
	}
}
