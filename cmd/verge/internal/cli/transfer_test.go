package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/settings"
)

// movable is a deployed Worker with the key ring of a site, and its operator.
type movable struct {
	t      *testing.T
	server *workerd.Server
	*publisher
}

func newMovable(t *testing.T, ring string, partitions int) *movable {
	t.Helper()
	server := workerd.Start(t, &workerd.Options{Worker: &workerd.Worker{
		Config: settings.Config{
			Config: core.Config{BaseURL: "http://127.0.0.1", Dev: true, Partitions: partitions},
		},
		Secrets:   map[string]string{"VERGE_KEYRING": readText(t, ring), "VERGE_OPERATOR_TOKEN": testToken},
		AdminHost: "127.0.0.1",
	}})
	return &movable{t, server, newPublisher(readyFile{BaseURL: "http://" + server.Addr})}
}

// kv runs a command of `verge kv`, and returns its exit code and output.
func (m *movable) kv(args ...string) (code int, out string) {
	m.t.Helper()
	p := onDisk()
	p.Getenv = func(name string) (string, bool) { return testToken, name == config.OperatorTokenVariable }
	return asOperator(p, serving{Admin: m.server.Addr}, append([]string{"kv"}, args...)...)
}

// A native deployment moves to a Worker and back. Sessions in progress continue, results count once, and
// events that wait are delivered.
func TestMoveToAWorkerAndBack(t *testing.T) {
	long.Skip(t, "TestMoveToAWorkerAndBack")
	t.Parallel()
	sink := newEvents(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "verge.db")
	site := newSite(t, "bolt:"+path, sink.URL, "")
	in := site.start()
	sink.trust(testSecret)
	var all []unfinished
	for range 3 {
		s := unfinished{}
		var err error
		if s.id, s.redirect, err = in.start(testIntegration); err == nil {
			s.result, err = in.approve(s.redirect)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	pending, redirect, err := in.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}
	used, unused, later := all[0].result, all[1].result, all[2].result
	if valid, status, body := in.validate(used); !valid {
		t.Fatalf("%d %s", status, body)
	}
	in.cmd.Process.Signal(syscall.SIGTERM)
	wait.For(in.ended)

	few := newMovable(t, site.ring, 1)
	few.SecretKey = site.key
	if _, err := few.do0(); err == nil {
		t.Error("an empty Worker knows the key")
	}
	if code, out := few.kv("import", path); code != exitOK || !strings.Contains(out, "npx wrangler deploy") {
		t.Fatalf("import: %d %s", code, out)
	}
	few.server.Restart(t) // as a deployment does
	for token, want := range map[string]bool{used: false, unused: true} {
		if valid, status, body := few.validate(token); valid != want {
			t.Errorf("on the Worker: %v, want %v: %d %s", valid, want, status, body)
		}
	}
	result, err := few.approve(redirect)
	if err != nil {
		t.Fatalf("a session of before, on the Worker: %v", err)
	}
	wait.Until(
		t,
		"its events",
		func() bool { return sink.has(pending, "started") && sink.has(pending, "completed") },
	)
	if code, out := few.kv("import", path); code != exitUsage || !strings.Contains(out, "--replace") {
		t.Errorf("an import into a store in use: %d %s", code, out)
	}
	if valid, status, body := few.validate(result); !valid {
		t.Errorf("after a rejected import: %d %s", status, body)
	}

	back := filepath.Join(dir, "back")
	if code, out := few.kv("export", "--lock", back); code != exitOK || !strings.Contains(out, "locked") {
		t.Fatalf("export: %d %s", code, out)
	}
	if _, _, err := few.start(testIntegration); err == nil {
		t.Error("a locked Worker starts sessions")
	}
	if _, err := bolt.Restore(t.Context(), back, path, time.Now()); err != nil {
		t.Fatal(err)
	}
	again := site.start()
	for token, want := range map[string]bool{used: false, unused: false, result: false, later: true} {
		if valid, status, body := again.validate(token); valid != want {
			t.Errorf("after the way back: %v, want %v: %d %s", valid, want, status, body)
		}
	}
	if code, out := few.kv("unlock"); code != exitOK {
		t.Errorf("unlock: %d %s", code, out)
	}
	if _, _, err := few.start(testIntegration); err != nil {
		t.Errorf("after unlock: %v", err)
	}
	many := filepath.Join(dir, "many")
	if _, err := bolt.WriteBackup(t.Context(), many, onePartition("p7"), time.Now); err != nil {
		t.Fatal(err)
	}
	code, out := few.kv("import", "--replace", many)
	if code != exitFailed || !strings.Contains(out, "partitions = 1: increase it") {
		t.Errorf("a backup of more partitions: %d %s", code, out)
	}
	if _, _, err := few.start(testIntegration); err != nil {
		t.Errorf("after a backup of more partitions: %v", err)
	}
	if code, _ := few.kv("export", back); code == exitOK {
		t.Error("an existing file was replaced")
	}
}

// do0 asks for a session, and returns its id.
func (m *movable) do0() (string, error) {
	id, _, err := m.start(testIntegration)
	return id, err
}

// onePartition returns the rows of a store with one item in that partition.
func onePartition(p kv.Partition) func() (*bolt.Records, error) {
	rows := []*bolt.Records{
		{Partition: p, Items: []kv.Item{{Key: kv.Key{Partition: p, Name: "x"}, Tx: "t"}}},
		nil,
	}
	return func() (*bolt.Records, error) {
		r := rows[0]
		rows = rows[1:]
		return r, nil
	}
}

// fakeStore is the store route of a Worker with partitions in these states. Its pages fail.
type fakeStore struct {
	first   string // the rows of the first partition; ""
	states  map[string]adminclient.StoreState
	actions []string
}

func (f *fakeStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == "GET" && f.first != "" && r.URL.Query().Get("partition") == "c" {
		fmt.Fprint(w, f.first)
		return
	}
	if r.Method == "GET" && r.URL.Query().Get("partition") != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"code":"UNAVAILABLE","error":"away"}`)
		return
	}
	if r.Method == "GET" {
		fmt.Fprint(w, `{"partitions":2}`)
		return
	}
	var in struct{ Action, Partition string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	f.actions = append(f.actions, in.Action+" "+in.Partition)
	_ = json.NewEncoder(w).Encode(f.states[in.Partition])
}

// kv runs a command of `verge kv` against the store.
func (f *fakeStore) kv(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	server := httptest.NewServer(f)
	defer server.Close()
	p := onDisk()
	p.Getenv = func(name string) (string, bool) { return testToken, name == config.OperatorTokenVariable }
	return asOperator(p, serving{Admin: server.Listener.Addr().String()}, append([]string{"kv"}, args...)...)
}

func TestKVExport_Lock(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there.db")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		locked     bool
		says       string
	}{
		{"an existing file", there, false, "already exists and was not changed"},
		{"no directory", filepath.Join(dir, "none", "move.db"), false, "no such file or directory"},
		{"a page fails", filepath.Join(dir, "move.db"), true, "`verge kv unlock` ends that"},
	} {
		f := &fakeStore{}
		code, out := f.kv(t, "export", "--lock", c.file)
		if code != exitFailed || !strings.Contains(out, c.says) || len(f.actions) > 0 != c.locked {
			t.Errorf("contract 60: %s: exit code %d after %q: %s", c.name, code, f.actions, out)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%d files are left, %v", len(names), err)
	}
}

// TestKVImport_Again repeats an import that has finished some partitions, which serve since.
func TestKVImport_Again(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.db")
	if _, err := bolt.WriteBackup(t.Context(), file, onePartition("p0"), time.Now); err != nil {
		t.Fatal(err)
	}
	type states = map[string]adminclient.StoreState
	all := core.StorePartitions(2)
	first, second := string(all[0]), string(all[1])
	interrupted := states{}
	for _, of := range all {
		interrupted[string(of)] = adminclient.StoreState{Interrupted: true}
	}
	with := func(of string) states {
		s := maps.Clone(interrupted)
		s[of] = adminclient.StoreState{}
		return s
	}
	for _, c := range []struct {
		name     string
		states   states
		rejected bool
	}{
		{"nothing is finished", interrupted, false},
		{"the first partition serves", with(first), true},
		{"another partition serves", with(second), true},
	} {
		f := &fakeStore{states: c.states, first: `{}`}
		code, out := f.kv(t, "import", file)
		if c.rejected != (code == exitUsage && strings.Contains(out, "Add --replace")) ||
			c.rejected == slices.Contains(f.actions, "clear "+first) {
			t.Errorf("contract 60: %s: exit code %d after %q: %s", c.name, code, f.actions, out)
		}
		if got := len(f.actions) - len(all); c.rejected && got != 1 {
			t.Errorf("contract 60: %s: %d partitions were unlocked, want one", c.name, got)
		}
	}
}

// Records that people have made are not lost without --replace, even if no session has begun yet.
func TestKVImport_FirstPartition(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.db")
	if _, err := bolt.WriteBackup(t.Context(), file, onePartition("p0"), time.Now); err != nil {
		t.Fatal(err)
	}
	empty := map[string]adminclient.StoreState{}
	for _, of := range core.StorePartitions(2) {
		empty[string(of)] = adminclient.StoreState{Empty: true}
	}
	row := func(name, value string) string {
		return fmt.Sprintf(`{"items":[{"name":%q,"value":%q}]}`, name,
			base64.StdEncoding.EncodeToString([]byte(value)))
	}
	for name, c := range map[string]struct{ rows, args, want string }{
		"the configuration":          {row("c/pub/pub_a", `{"managed":true}`), "", ""},
		"the audit":                  {row("c/aud/1", "x"), "", ""},
		"a publisher":                {row("c/pub/pub_a", `{}`), "", "publishers"},
		"an API key":                 {row("c/key/1", `{}`), "", "API keys"},
		"a member":                   {row("c/mem/1", `{"managed":true}`), "", "members"},
		"an API key, with --replace": {row("c/key/1", `{}`), "--replace", ""},
	} {
		f := &fakeStore{states: empty, first: c.rows}
		args := []string{"import", file}
		if c.args != "" {
			args = append(args, c.args)
		}
		code, out := f.kv(t, args...)
		rejected := code == exitUsage && strings.Contains(out, "in use: it has "+c.want)
		if want := c.want != ""; rejected != want || want == (len(f.actions) > 0) {
			t.Errorf("contract 60: %s: exit code %d after %q: %s", name, code, f.actions, out)
		}
	}
}

// A Worker whose key ring is not that of the backup never serves; one whose ring is right does in seconds.
func TestKVImport_OtherKeyRing(t *testing.T) {
	unavailable := &adminclient.Error{Status: http.StatusServiceUnavailable}
	for _, c := range []struct {
		name     string
		from, to int // these requests fail
		err      error
		waits    int
		complete bool
	}{
		{"the same ring", 0, 0, nil, 1, true},
		{"the ring is compared again", 1, 3, unavailable, 3, true},
		{"another ring", 1, 1000, unavailable, 11, false},
		{"another ring that was not compared yet", 2, 1000, unavailable, 11, false},
		{"a limit", 1, 1000, &adminclient.Error{Status: http.StatusTooManyRequests}, 1, true},
		{"an internal error", 1, 1000, &adminclient.Error{Status: http.StatusInternalServerError}, 11, false},
		{"no connection", 1, 1000, errors.New("connection refused"), 11, false},
	} {
		requests, waits := 0, 0
		err := serves(t.Context(), func(context.Context, time.Duration) { waits++ }, func() error {
			if requests++; requests >= c.from && requests <= c.to {
				return c.err
			}
			return nil
		})
		if (err == nil) != c.complete || waits != c.waits ||
			err != nil && !strings.Contains(err.Error(), "wrangler secret put VERGE_KEYRING") {
			t.Errorf("contract 60: %s: %v after %d pauses", c.name, err, waits)
		}
	}
}
