package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// The load around a rotation, as operators see it.
const load, sealsIn = time.Minute, 20 * time.Second

// TestRotationInAFleet is I12: three instances share a store and are under load during a rotation. No request
// fails, and no event is missing.
func TestRotationInAFleet(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestRotationInAFleet")
	for _, c := range []struct {
		name   string
		open   func(t *testing.T) string
		copied []time.Duration // of the file to each instance, after the rotation
	}{
		{"redis, one file", func(t *testing.T) string { return stores.StartRedis(t).URL() }, nil},
		{"postgres, files copied seconds apart",
			func(t *testing.T) string { return stores.StartPostgres(t).URL("verge") },
			[]time.Duration{0, 3 * time.Second, 6 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sink := newEvents(t)
			sink.trust(testSecret)
			site := newSite(t, c.open(t), sink.URL, unlimited)
			fleet := site.fleet(3, c.copied != nil)
			w := &walkers{fleet: fleet, rest: 5 * time.Second}
			w.begin(4)

			time.Sleep(load / 8)
			p := onDisk()
			args := []string{"keyring", "rotate", site.ring, "--seals-in", sealsIn.String()}
			if code := run(t.Context(), args, p); code != exitOK {
				t.Fatal("rotate: exit code ", code)
			}
			for n, after := range c.copied {
				time.AfterFunc(after, func() { copyFile(t, site.ring, fleet[n].ring) })
			}
			time.Sleep(load * 7 / 8)
			w.end()

			for _, what := range w.failed() {
				t.Errorf("I12: %s", what)
			}
			sessions := w.sessions()
			wait.Until(t, "every event", func() bool {
				for _, id := range sessions {
					if !sink.has(id, "started") || !sink.has(id, "completed") {
						return false
					}
				}
				return true
			})
			for n, in := range fleet {
				sealing := in.metric(t, "verge_keyring_sealing_key")
				if !strings.Contains(sealing, newest(t, site.ring)) {
					t.Errorf("I12: instance %d seals with the key of %q, not with the new one", n,
						sealing)
				}
			}
			for _, what := range sink.complaints() {
				t.Error(what)
			}
			t.Logf("%d requests, %d of them failed; %d sessions, no event missing",
				w.requests.Load(), len(w.failed()), len(sessions))
		})
	}
}

// TestRotation_OtherRing is I13: an instance with another ring ends immediately and names both rings, and
// so does `--check`. The other instances continue undisturbed.
func TestRotation_OtherRing(t *testing.T) {
	t.Parallel()
	redis := stores.StartRedis(t)
	sink := newEvents(t)
	sink.trust(testSecret)
	ours, theirs := newSite(t, redis.URL(), sink.URL, unlimited), newSite(t, redis.URL(), sink.URL, unlimited)
	fleet := ours.fleet(2, false)
	w := &walkers{fleet: fleet, rest: time.Second}
	w.begin(2)
	prints := []string{fingerprint(t, ours.ring), fingerprint(t, theirs.ring)}

	var said []string // by each stranger
	for range 3 {
		stranger := theirs.launch()
		select {
		case <-stranger.ended:
		case <-time.After(patience):
			t.Fatal("I13: a stranger serves")
		}
		if code := stranger.cmd.ProcessState.ExitCode(); code != exitUsage {
			t.Errorf("I13: a stranger ends with %d, want %d", code, exitUsage)
		}
		for _, f := range prints {
			if !strings.Contains(stranger.logs.String(), f) {
				t.Errorf("I13: it does not name the fingerprint %s: %s", f, stranger.logs)
			}
		}
		said = append(said, stranger.logs.String())
	}
	p, stdout, stderr := testProgram()
	p.FS = afero.NewOsFs()
	p.Getenv = func(name string) (string, bool) {
		v, ok := map[string]string{"VERGE_OPERATOR_TOKEN": testToken, "HOOK": testSecret}[name]
		return v, ok
	}
	if code := run(t.Context(), []string{"serve", "--check", "--config", theirs.config},
		p); code != exitUsage {
		t.Errorf("I13: --check of a stranger's ring ends with %d, want %d", code, exitUsage)
	}
	if stdout.String() != "" {
		t.Errorf("I13: --check of a stranger's ring has good news, too: %s", stdout)
	}
	for _, f := range prints {
		if !strings.Contains(stderr.String(), f) {
			t.Errorf("I13: --check does not name the fingerprint %s: %s", f, stderr)
		}
	}
	for _, log := range said {
		if !strings.Contains(log, stderr.String()) {
			t.Errorf("--check says %s\nand a start %s", stderr, log)
		}
	}
	w.end()
	for _, what := range w.failed() {
		t.Errorf("I13: %s", what)
	}
	for _, id := range w.sessions() {
		wait.Until(t, "the events of "+id, func() bool {
			return sink.has(id, "started") && sink.has(id, "completed")
		})
	}
	for n, in := range fleet {
		if got := in.metric(t, "verge_keyring_missing_keys"); !strings.HasSuffix(got, " 0") {
			t.Errorf("I13: instance %d: %s", n, got)
		}
	}

	// After the operator gives up the old ring, the store is the stranger's own.
	for _, in := range fleet {
		in.kill()
	}
	if code := run(t.Context(), []string{"keyring", "adopt", "--config", theirs.config}, p); code != exitOK {
		t.Fatalf("adopt: exit code %d: %s", code, stderr)
	}
	theirs.key = ""
	theirs.start()
	back := ours.launch()
	wait.For(back.ended)
	if back.cmd.ProcessState.ExitCode() == exitOK {
		t.Error("I13: the abandoned ring still serves")
	}
}

// member is an instance of a fleet, with the file of its ring.
type member struct {
	*served
	ring string
}

// fleet starts n instances. With copies, each has a separate ring file.
func (s *site) fleet(n int, copies bool) []member {
	s.t.Helper()
	all := make([]member, n)
	for i := range all {
		at := *s
		if copies {
			dir := s.t.TempDir()
			at.ring, at.config = filepath.Join(dir, "ring.json"), filepath.Join(dir, "verge.toml")
			copyFile(s.t, s.ring, at.ring)
			config, err := os.ReadFile(s.config)
			if err != nil {
				s.t.Fatal(err)
			}
			changed := strings.ReplaceAll(string(config), s.ring, at.ring)
			if err := os.WriteFile(at.config, []byte(changed), 0o600); err != nil {
				s.t.Fatal(err)
			}
		}
		all[i] = member{at.start(), at.ring}
		s.key = at.key
	}
	return all
}

func copyFile(t *testing.T, from, to string) {
	b, err := os.ReadFile(from)
	if err == nil {
		err = config.WritePrivate(afero.NewOsFs(), to, b)
	}
	if err != nil {
		t.Error(err)
	}
}

func onDisk() *program {
	p, _, _ := testProgram()
	p.FS = afero.NewOsFs()
	return p
}

func readRing(t *testing.T, path string) keyring.File {
	t.Helper()
	ring, err := config.ReadKeyring(afero.NewOsFs(), path)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func newest(t *testing.T, path string) string      { return readRing(t, path).Keys[0].ID }
func fingerprint(t *testing.T, path string) string { return readRing(t, path).Keys[0].Fingerprint() }

// metric returns the lines of one metric.
func (in *served) metric(t *testing.T, name string) string {
	t.Helper()
	resp, err := http.Get("http://" + in.at.Ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := new(strings.Builder)
	if _, err := io.Copy(body, resp.Body); err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(body.String()) {
		if strings.HasPrefix(line, name) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found, "\n")
}

// walkers do whole verifications on a fleet, each request at another instance, until they
// have to end. Some sessions pause between their steps, so that tokens made before a rotation are used
// after it.
type walkers struct {
	fleet    []member
	pause    time.Duration // of each walker between two verifications
	rest     time.Duration // of some sessions between their steps
	requests atomic.Int64

	mu       sync.Mutex
	wrong    []string
	complete []string
	stop     atomic.Bool
	running  sync.WaitGroup
}

func (w *walkers) begin(n int) {
	for i := range n {
		w.running.Go(func() {
			for step := i; !w.stop.Load(); step++ {
				w.walk(step, 0)
				time.Sleep(w.pause)
			}
		})
	}
	w.running.Go(func() {
		var resting sync.WaitGroup
		for step := 0; !w.stop.Load(); step++ {
			resting.Go(func() { w.walk(step, w.rest) })
			time.Sleep(200 * time.Millisecond)
		}
		resting.Wait()
	})
}

func (w *walkers) end() {
	w.stop.Store(true)
	w.running.Wait()
}

func (w *walkers) walk(step int, rest time.Duration) {
	at := func(n int) *served { return w.fleet[(step+n)%len(w.fleet)].served }
	fail := func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wrong = append(w.wrong, err.Error())
	}
	id, redirect, err := at(0).start(testIntegration)
	w.requests.Add(1)
	if err != nil {
		fail(err)
		return
	}
	time.Sleep(rest)
	result, err := at(1).approve(redirect)
	w.requests.Add(2) // the page, and its form
	if err != nil {
		fail(err)
		return
	}
	time.Sleep(rest)
	if valid, status, body := at(2).validate(result); !valid {
		fail(fmt.Errorf("validate: %d %s", status, body))
	}
	status, _, body, err := at(0).api("GET", "/api/v1/verify/sessions/"+id, nil)
	if err != nil || status != 200 || !strings.Contains(string(body), "COMPLETED") {
		fail(fmt.Errorf("reconcile: %d %s %v", status, body, err))
	}
	w.requests.Add(2)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complete = append(w.complete, id)
}

func (w *walkers) failed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 10 {
		return append(w.wrong[:10:10], fmt.Sprintf("and %d more", len(w.wrong)-10))
	}
	return w.wrong
}

func (w *walkers) sessions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.complete
}
