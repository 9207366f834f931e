package cli

import (
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/wait"
)

// lost is a service whose store was restored from a backup. ring, base and the rest belong to the earlier
// service.
type lost struct {
	ring   keyring.File
	base   string
	key    string // of the publisher, revoked since the backup
	backup string
	stop   time.Time // when the service before ended

	used     string // a result token that was used since the backup, of a session completed before it
	rejected testharness.Started
	later    testharness.Started // began and completed since the backup
	result   string              // of later, and used
}

// newLost runs a service on bolt, creates a backup, and continues for a while.
func newLost(t *testing.T) *lost {
	dir := t.TempDir()
	l := &lost{backup: filepath.Join(dir, "backup")}
	var err error
	if l.ring, err = keyring.Generate(rand.Reader, testharness.Epoch); err != nil {
		t.Fatal(err)
	}
	h := testharness.New(t, &testharness.Options{Keyring: l.ring,
		KV: boltAt(t, filepath.Join(dir, "verge.db"))})
	l.base, l.key = h.BaseURL, h.Publisher.SecretKey
	l.used = h.Approve(h.Start(nil)).ResultToken
	l.rejected = h.Start(nil)
	h.Settle()
	if _, err := h.KV.(*bolt.Store).Backup(t.Context(), l.backup); err != nil {
		t.Fatal(err)
	}
	h.Advance(time.Minute)
	if r := h.Validate(l.used); r.Status != 200 {
		t.Fatalf("the token before the restore: %d %s", r.Status, r.Body)
	}
	h.Open(l.rejected.RedirectURL).Submit("reject")
	l.later = h.Start(nil)
	l.result = h.Approve(l.later).ResultToken
	if r := h.Validate(l.result); r.Status != 200 {
		t.Fatalf("the later token before the restore: %d %s", r.Status, r.Body)
	}
	var keys struct{ Keys []struct{ ID, Last4 string } }
	listed := h.Admin("GET", operate.ListKeys.Path+"?publisher_id="+h.Publisher.ID, nil)
	if err := json.Unmarshal(listed.Body, &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.Keys {
		if strings.HasSuffix(l.key, k.Last4) {
			h.Admin("POST", strings.Replace(operate.RevokeKey.Path, "{id}", k.ID, 1), map[string]any{})
		}
	}
	h.Engine.Forget()
	if r := h.Reconcile(l.later.SessionID); r.Status != 401 {
		t.Fatalf("the revoked key before the restore: %d %s", r.Status, r.Body)
	}
	l.stop = h.Now()
	return l
}

func boltAt(t *testing.T, path string) func(func() time.Time) kv.KV {
	return func(now func() time.Time) kv.KV {
		s, err := bolt.Open(path, bolt.Config{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
}

// startAgain starts a service on the backup, that long after the earlier one ended.
func (l *lost) startAgain(t *testing.T, after time.Duration) *testharness.Harness {
	path := filepath.Join(t.TempDir(), "verge.db")
	if _, err := bolt.Restore(t.Context(), l.backup, path, l.stop); err != nil {
		t.Fatal(err)
	}
	h := testharness.New(t, &testharness.Options{Keyring: l.ring, KV: boltAt(t, path)})
	h.Pause(l.stop.Add(after).Sub(h.Now()))
	return h
}

// TestRestore_LostChanges checks the effects of a restore that OPERATING.md lists: the tokens that are valid
// again, and that nothing from before is once ten minutes have passed.
func TestRestore_LostChanges(t *testing.T) {
	t.Parallel()
	l := newLost(t)
	asks := func(h *testharness.Harness, s testharness.Started) string {
		return strings.Replace(s.RedirectURL, l.base, h.BaseURL, 1)
	}
	t.Run("a server that starts immediately accepts used tokens again", func(t *testing.T) {
		h := l.startAgain(t, 0)
		if r := h.Validate(l.used); r.Status != 200 {
			t.Errorf("a used token whose session the backup has: %d %s", r.Status, r.Body)
		}
		if r := h.Validate(l.result); r.Status == 200 {
			t.Errorf("contract 17: a token validates whose outcome is not in the store: %s", r.Body)
		}
		if r := h.Reconcile(l.rejected.SessionID); r.Text("status") != "PENDING" {
			t.Errorf("a session rejected since the backup is %s", r.Body)
		}
		if back := h.Open(asks(h, l.later)).Submit("approve"); back.Callback.ResultToken == "" {
			t.Error("a session that was completed since the backup cannot be completed again")
		}
	})
	t.Run("a server that starts when every session is over accepts nothing", func(t *testing.T) {
		h := l.startAgain(t, core.SessionLife)
		for name, result := range map[string]string{"before": l.used, "since": l.result} {
			if r := h.Validate(result); r.Code() != "EXPIRED" {
				t.Errorf("spec, single use: a token of %s the backup gets %d %s", name, r.Status, r.Body)
			}
		}
		for name, s := range map[string]testharness.Started{"rejected": l.rejected, "completed": l.later} {
			if r := h.Reconcile(s.SessionID); r.Text("status") != "EXPIRED" {
				t.Errorf("a session that was %s since the backup is %s", name, r.Body)
			}
			if page := h.Open(asks(h, s)); len(page.Forms) > 0 {
				t.Errorf("contract 18: a session that was %s since the backup can be completed", name)
			}
		}
	})
	t.Run("a key that was revoked since is good again until it is revoked again", func(t *testing.T) {
		h := l.startAgain(t, core.SessionLife)
		ask := func() int {
			return h.Do("GET", "/api/v1/verify/sessions/"+l.later.SessionID, testharness.Bearer(l.key),
				nil).Status
		}
		if status := ask(); status != 200 {
			t.Errorf("the key gets %d", status)
		}
		var keys struct{ Keys []struct{ ID, Last4 string } }
		if err := json.Unmarshal(h.Admin("GET", operate.ListKeys.Path, nil).Body, &keys); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys.Keys {
			if strings.HasSuffix(l.key, k.Last4) {
				h.Admin("POST", strings.Replace(operate.RevokeKey.Path, "{id}", k.ID, 1), map[string]any{})
			}
		}
		h.Engine.Forget()
		if status := ask(); status != 401 {
			t.Errorf("revoked again, it gets %d", status)
		}
	})
}

// TestBackupAndRestoreByCommand does what OPERATING.md says: a backup of a server under load, and a restore
// while it is stopped.
func TestBackupAndRestoreByCommand(t *testing.T) {
	t.Parallel()
	sink := newEvents(t)
	sink.trust(testSecret)
	path := filepath.Join(t.TempDir(), "verge.db")
	site := newSite(t, "bolt:"+path, sink.URL, unlimited)
	in := site.start()
	p := onDisk()
	p.Getenv = func(name string) (string, bool) { return testToken, name == config.OperatorTokenVariable }

	w := &walkers{fleet: []member{{served: in, ring: site.ring}}}
	var load sync.WaitGroup
	for i := range 2 {
		load.Go(func() {
			for step := i; !w.stop.Load(); step++ {
				w.walk(step, 0)
			}
		})
	}
	id, redirect, err := in.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.approve(redirect); err != nil {
		t.Fatal(err)
	}
	code, out := asOperator(p, in.at, "kv", "backup", "--json")
	var made admin.BackupMade
	if code != exitOK || json.Unmarshal([]byte(out), &made) != nil ||
		!strings.HasPrefix(made.Path, path+".backup-") {
		t.Fatalf("kv backup: exit code %d: %s", code, out)
	}
	code, out = asOperator(p, in.at, "audit", "--json")
	if code != exitOK || !strings.Contains(out, `"operation":"backup.make"`) ||
		!strings.Contains(out, `"target":"`+made.Path+`"`) {
		t.Errorf("contract 42: the audit lacks the backup: exit code %d: %s", code, out)
	}
	since, _, err := in.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}
	w.stop.Store(true)
	load.Wait()
	for _, what := range w.failed() {
		t.Errorf("while a backup was made: %s", what)
	}
	p.Getenv = func(string) (string, bool) { return "another-token-that-is-long", true }
	if code, out := asOperator(p, in.at, "kv", "backup"); code != exitFailed ||
		!strings.Contains(out, "UNAUTHORIZED") {
		t.Errorf("contract 42: with another token: exit code %d: %s", code, out)
	}

	restore := []string{"kv", "restore", made.Path, "--config", site.config}
	if code, said := runFor(t, onDiskWith(site), restore); code != exitFailed ||
		!strings.Contains(said, "another process has it open") {
		t.Errorf("a restore under a running server: exit code %d: %s", code, said)
	}
	in.cmd.Process.Signal(syscall.SIGTERM)
	wait.For(in.ended)
	code, said := runFor(t, onDiskWith(site), restore)
	if code != exitOK {
		t.Fatalf("kv restore: exit code %d: %s", code, said)
	}
	for _, says := range []string{"Start the server not before ",
		"The old file is now " + path + ".replaced-"} {
		if !strings.Contains(said, says) {
			t.Errorf("it does not contain %q: %s", says, said)
		}
	}
	again := site.start()
	status, _, body, err := again.api("GET", "/api/v1/verify/sessions/"+id, nil)
	if err != nil || !strings.Contains(string(body), `"COMPLETED"`) {
		t.Errorf("a session of before the backup: %d %s %v", status, body, err)
	}
	status, _, body, err = again.api("GET", "/api/v1/verify/sessions/"+since, nil)
	if err != nil || status != 200 {
		t.Errorf("a session that began since, whose id says all of it: %d %s %v", status, body, err)
	}
}

// TestBackupsThatAreRejected: an operator learns what to do, and internal causes go to the log alone.
func TestBackupsThatAreRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := boltAt(t, filepath.Join(dir, "verge.db"))(time.Now).(*bolt.Store)
	nowhere := filepath.Join(dir, "verge.db", "no-directory")
	for _, c := range []struct {
		name   string
		store  *bolt.Store
		at     kvadapters.Address
		status int
		says   string
	}{
		{"a store that others share", nil, kvadapters.Address{Kind: kvadapters.Redis}, 409,
			"The store is redis, not bolt"},
		{"a disk that fails", store, kvadapters.Address{Path: nowhere}, 503, "log has the reason"},
	} {
		var log lines
		b := &backups{store: c.store, at: c.at, now: time.Now,
			log: slog.New(slog.NewTextHandler(&log, nil))}
		_, e := b.adminEndpoint().Handle(t.Context(),
			&edge.Call{Request: &web.Request{Method: "POST"}, ID: "req_x"})
		if e == nil {
			t.Errorf("%s: a backup was made", c.name)
			continue
		}
		r := e.Response("req_x", "")
		if r.Status != c.status || !strings.Contains(string(r.Body), c.says) ||
			strings.Contains(string(r.Body), "no-directory") {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Body)
		}
		if c.status == 503 && !strings.Contains(log.String(), "no-directory") {
			t.Errorf("%s: the log has no reason: %s", c.name, log.String())
		}
	}
}

func onDiskWith(s *site) *program {
	p := onDisk()
	p.Getenv = func(name string) (string, bool) { return testSecret, name == "HOOK" }
	return p
}

// TestRestore_KeyRing rotates the key ring after a backup. The restored store takes the new ring
// as long as that has a key of the backup's time, and rejects a ring without such a key.
func TestRestore_KeyRing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "verge.db")
	site := newSite(t, "bolt:"+path, "https://shop.example/hooks", "")
	in := site.start()
	p := onDisk()
	p.Getenv = func(name string) (string, bool) { return testToken, name == config.OperatorTokenVariable }
	code, backup := asOperator(p, in.at, "kv", "backup")
	backup, _, _ = strings.Cut(backup, "\n")
	if code != exitOK {
		t.Fatal(backup)
	}
	in.cmd.Process.Signal(syscall.SIGTERM)
	wait.For(in.ended)
	check := func() (int, string) {
		p := onDisk()
		p.Getenv = func(name string) (string, bool) {
			v := map[string]string{"HOOK": testSecret, config.OperatorTokenVariable: testToken}[name]
			return v, v != ""
		}
		return runFor(t, p, []string{"serve", "--config", site.config, "--check"})
	}
	must := func(args ...string) {
		t.Helper()
		if code, said := runFor(t, onDisk(), args); code != exitOK {
			t.Fatalf("%v: exit code %d: %s", args, code, said)
		}
	}
	old := readRing(t, site.ring).Keys[0].ID
	must("keyring", "rotate", site.ring, "--seals-in", "0s")
	must("kv", "restore", backup, "bolt:"+path)
	if code, said := check(); code != exitOK || !strings.Contains(said, "is valid") {
		t.Errorf("a ring rotated since: exit code %d: %s", code, said)
	}
	kept, err := os.ReadFile(site.ring)
	if err != nil {
		t.Fatal(err)
	}
	must("keyring", "retire", site.ring, old, "--force")
	if code, said := check(); code != exitUsage || !strings.Contains(said, "has another key ring") {
		t.Errorf("a ring without a key of the backup's time: exit code %d: %s", code, said)
	}
	if err := os.WriteFile(site.ring, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := check(); code != exitOK {
		t.Errorf("the ring of before the key was retired: exit code %d: %s", code, said)
	}
}
