package workerd_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/settings"
)

var start = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

func config(t *testing.T) workerd.Config {
	t.Helper()
	ring, err := keyring.Generate(rand.Reader, start)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ring.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return workerd.Config{Now: start, Guest: settings.Config{
		Config:  core.Config{Dev: true, OperatorToken: "op_of_the_tests_of_workerd"},
		Keyring: text, Host: "verge.example"}}
}

func put(t *testing.T, s kv.KV, name, value string) {
	t.Helper()
	tx := kv.Tx{ID: name + value, Partition: "p0", Puts: []kv.Put{{Name: name, Value: []byte(value)}}}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s kv.KV, name string) string {
	t.Helper()
	it, err := s.Get(t.Context(), kv.Key{Partition: "p0", Name: name})
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		t.Fatal(err)
	}
	return string(it.Value)
}

func TestSitesKnowNothingOfEachOther(t *testing.T) {
	server := workerd.Shared(t)
	a, b := server.Site(t, config(t)), server.Site(t, config(t))
	put(t, a.KV(), "name", "a's")
	if got := get(t, b.KV(), "name"); got != "" {
		t.Errorf("b has %q", got)
	}
	a.Advance(time.Hour)
	if !a.Now().Equal(start.Add(time.Hour)) || !b.Now().Equal(start) {
		t.Errorf("a's clock is at %s, b's at %s", a.Now(), b.Now())
	}
	for site, want := range map[*workerd.Site]time.Time{a: a.Now(), b: start} {
		reply, err := site.Entry(t.Context(), abi.SelfTest, nil)
		if err != nil {
			t.Fatal(err)
		}
		if self, err := abi.Read.Self(reply); err != nil || !self.Now.Equal(want) {
			t.Errorf("the guest takes %s for the time, want %s, %v", self.Now, want, err)
		}
	}
	a.Close()
	if _, err := a.Entry(t.Context(), abi.Ready, nil); err == nil {
		t.Error("a site that was dropped answers")
	}
	if got := get(t, b.KV(), "name"); got != "" {
		t.Errorf("b has %q", got)
	}
}

func TestSite(t *testing.T) {
	site := workerd.Shared(t).Site(t, config(t))
	if err := site.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if next, err := site.RunDue(t.Context()); err != nil || !next.IsZero() {
		t.Errorf("%s, %v", next, err)
	}
	for url, want := range map[string]int{
		site.BaseURL + "/api/v1/openapi.yaml":    200,
		"https://verge.example/nowhere":          404,
		site.BaseURL + "/admin/v1/keys":          404,
		site.AdminURL + "/admin/v1/keys":         401,
		site.AdminURL + "/api/v1/openapi.yaml":   401,
		"https://verge.example/api/v1/verify/.x": 404,
	} {
		resp, err := site.Client().Get(url)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", url, resp.StatusCode, b, want)
		}
	}
	if !strings.Contains(site.Logs(), `"route":"other"`) {
		t.Errorf("the log: %s", site.Logs())
	}
	before, _ := site.Guest()
	site.Forget()
	if after, _ := site.Guest(); before == 0 || after != 0 {
		t.Errorf("the guest has %d bytes, and is forgotten with %d", before, after)
	}
	resp, err := http.Get(strings.Replace(site.BaseURL, site.ID+".localhost", "127.0.0.1", 1))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a request for no site returned %d", resp.StatusCode)
	}
}

// A test gets the store before its configuration. The store may be in this process.
func TestConfigure(t *testing.T) {
	c := config(t)
	site := workerd.Shared(t).Site(t, workerd.Config{Now: start})
	put(t, site.KV(), "name", "kept")
	if err := site.Ready(t.Context()); err == nil {
		t.Error("a site without a key ring is ready")
	}
	site.Configure(c)
	if err := site.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if got := get(t, site.KV(), "name"); got != "kept" {
		t.Errorf("it keeps %q", got)
	}
	asked := &counting{KV: memory.New(memory.Config{})}
	c.Store = asked
	site.Configure(c)
	if err := site.Ready(t.Context()); err != nil || asked.n != 1 {
		t.Errorf("%v; the store of this process was asked %d times", err, asked.n)
	}
}

type counting struct {
	kv.KV
	n int
}

func (c *counting) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	c.n++
	return c.KV.Get(ctx, key)
}

func TestRestart(t *testing.T) {
	server := workerd.Start(t, nil)
	site := server.Site(t, config(t))
	put(t, site.KV(), "name", "kept")
	before := server.Addr
	server.Restart(t)
	if server.Addr != before {
		t.Errorf("it was at %s and is at %s", before, server.Addr)
	}
	if got := get(t, site.KV(), "name"); got != "kept" {
		t.Errorf("it keeps %q", got)
	}
	if err := site.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
