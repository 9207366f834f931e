package workers_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/long"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/settings"
)

// generated is a key ring that was made an hour ago.
func generated(t *testing.T, now time.Time) keyring.File {
	t.Helper()
	ring, err := keyring.Generate(rand.Reader, now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// rotated returns the ring with one more key, which is active immediately according to the file.
func rotated(t *testing.T, ring keyring.File, now time.Time) keyring.File {
	t.Helper()
	after := keyring.File{Keys: slices.Clone(ring.Keys)}
	if err := after.Rotate(rand.Reader, now, 0); err != nil {
		t.Fatal(err)
	}
	return after
}

func marshalled(t *testing.T, ring keyring.File) []byte {
	t.Helper()
	b, err := ring.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sealedWith is the id of the key that made a link's flow token.
func sealedWith(t *testing.T, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	flow, ok := strings.CutPrefix(u.Query().Get("flow"), "svc_ft_")
	if !ok {
		t.Fatalf("no flow token in %s", link)
	}
	return keyOf(flow)
}

// keyOf returns the id of the key that sealed a text, or "" if it is not sealed. The id follows the version.
func keyOf(text string) string {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(sealed) < 5 {
		return ""
	}
	return hex.EncodeToString(sealed[1:5])
}

// everything returns the stored data of a deployed Worker: the items, and the due times.
func everything(t *testing.T, store kv.KV) string {
	t.Helper()
	var b strings.Builder
	for _, p := range []kv.Partition{"c", "p0", "p1"} {
		items, err := store.List(t.Context(), kv.Key{Partition: p}, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			fmt.Fprintln(&b, it.Key, it.Tx, string(it.Value))
		}
		_, next, err := store.Claim(t.Context(), p, time.Unix(0, 0), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, p, next.UnixNano())
	}
	return b.String()
}

// page opens a link as a browser does.
func (s *service) page(link string) answer {
	s.t.Helper()
	return s.do("GET", link, http.Header{"Accept": {"text/html"}}, nil)
}

func (s *service) status(id string) answer {
	s.t.Helper()
	return s.do("GET", s.base+web.SessionsPath+id, bearer(s.key), nil)
}

// servesNobody checks that the service rejects all requests and that the stored data does not change.
func (s *service) servesNobody(server *workerd.Server, id, link, result, log string) {
	s.t.Helper()
	kept := everything(s.t, server.KV())
	// Several simultaneous requests are the first of their isolate.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			a := s.page(link)
			isPage := strings.HasPrefix(a.header.Get("Content-Type"), "text/html")
			if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !isPage {
				s.t.Errorf("contract 16, 22: the link: %d %v %.200s, want a page with 503 and Retry-After",
					a.status, a.header, a.body)
			}
		})
	}
	wg.Wait()
	for what, a := range map[string]answer{
		"start": s.askForStart(integrationID), "validate": s.validate(result), "reconcile": s.status(id),
	} {
		if a.status != http.StatusServiceUnavailable || a.text("code") != "UNAVAILABLE" ||
			a.header.Get("Retry-After") == "" {
			s.t.Errorf("contract 16: %s: %d %v %s, want 503 and Retry-After", what, a.status, a.header,
				a.body)
		}
	}
	for _, path := range []string{"/readyz", "/readyz?store=ignore"} {
		if a := s.do("GET", s.base+path, nil, nil); a.status != http.StatusServiceUnavailable {
			s.t.Errorf("contract 16: %s: %d %s", path, a.status, a.body)
		}
	}
	if a := s.do("GET", s.base+"/healthz", nil, nil); a.status != http.StatusOK {
		s.t.Errorf("healthz: %d %s", a.status, a.body)
	}
	for _, text := range []string{log, "cannot claim tasks"} {
		wait.Until(s.t, text+" in the log", func() bool { return strings.Contains(server.Log(), text) })
	}
	if now := everything(s.t, server.KV()); now != kept {
		s.t.Errorf("contract 16: the Worker kept\n%s\nand now keeps\n%s", kept, now)
	}
}

// contract 16 at the edge, I12 and I13: a rotated ring is put as the next version of the secret. No request
// fails because of it. An isolate of the previous version, or with another fleet's ring, makes no changes.
func TestRotation_NextSecret(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestRotation_NextSecret")
	in := newInbox(t)
	before := generated(t, time.Now())
	a := before.Keys[0].ID
	s, server := deploy(t, in, func(w *workerd.Worker) {
		w.Secrets["VERGE_KEYRING"] = string(marshalled(t, before))
		w.Config.Schedule.Delays = slices.Repeat([]time.Duration{1500 * time.Millisecond}, 30)
		// Requests in progress become free that soon.
		w.Config.AttemptTime, w.Config.Lease = time.Second, 2100*time.Millisecond
	})
	with := func(ring keyring.File) {
		t.Helper()
		server.Redeploy(t,
			func(w *workerd.Worker) { w.Secrets["VERGE_KEYRING"] = string(marshalled(t, ring)) })
	}
	s.makeKey()
	id, link := s.start()
	_, other := s.start()
	result := s.approve(other)
	if got := sealedWith(t, link); got != a {
		t.Fatalf("the first link is sealed with %s, want %s", got, a)
	}

	after := rotated(t, before, time.Now())
	b := after.Keys[0]
	with(after)
	begin, started := time.Now(), 0
	for sealed := a; sealed != b.ID; started++ {
		if time.Since(begin) > time.Minute {
			t.Fatal("contract 16: the new key does not seal")
		}
		page, status := s.page(link), s.status(id)
		if page.status != http.StatusOK || status.status != http.StatusOK {
			t.Fatalf("I12: while the key is announced: the link %d, reconcile %d %s",
				page.status, status.status, status.body)
		}
		_, now := s.start()
		sealed = sealedWith(t, now)
		time.Sleep(200 * time.Millisecond)
	}
	if took := time.Since(begin); took < keyset.Settle {
		t.Errorf("contract 16: the new key seals after %s, before other isolates have looked", took)
	}
	t.Logf("%d verifications started until the new key sealed", started)
	s.want(s.validate(result), http.StatusOK, "")
	s.want(s.validate(s.approve(link)), http.StatusOK, "")
	wait.Until(t, "webhook secrets sealed with the new key", func() bool {
		s.status(id) // the set of keys is checked within a request
		key := kv.Key{Partition: integration.Partition, Name: "c/int/" + integrationID}
		item, err := server.KV().Get(t.Context(), key)
		var i integration.Integration
		if err != nil || json.Unmarshal(item.Value, &i) != nil {
			t.Fatalf("the integration: %v %s", err, item.Value)
		}
		return keyOf(i.Webhook.Sealed) == b.ID
	})

	_, other = s.start()
	result = s.approve(other)
	in.answer(http.StatusInternalServerError)
	id, link = s.start()
	wait.Until(t, "an attempt that fails",
		func() bool { return len(in.statuses(id, "verification.started")) > 0 })
	key := "key " + b.ID + " (fingerprint " + b.Fingerprint() + ")"
	for _, ring := range []struct {
		keys keyring.File
		log  string
	}{
		{before, "lacks " + key},
		{generated(t, time.Now()), "the key ring is another fleet's: the store is used with " + key},
	} {
		with(ring.keys)
		s.servesNobody(server, id, link, result, ring.log)
	}
	in.answer(0)
	with(after)
	var wg sync.WaitGroup
	for range 8 { // the first requests of an isolate that has just begun
		wg.Go(func() {
			if a := s.page(link); a.status != http.StatusOK {
				t.Errorf("with the ring again: the link: %d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	s.want(s.validate(result), http.StatusOK, "")
	if a := s.do("GET", s.base+"/readyz", nil, nil); a.status != http.StatusOK {
		t.Errorf("with the ring again: readyz: %d %s", a.status, a.body)
	}
	wait.Until(t, "the event that waited", func() bool {
		all := in.statuses(id, "verification.started")
		return len(all) > 0 && all[len(all)-1] == http.StatusNoContent
	})
}

// gate is a store that makes readers of the set of keys wait once it is closed.
type gate struct {
	kv.KV
	mu      sync.Mutex
	opened  chan struct{} // nil: no request waits
	arrived chan struct{}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened, g.arrived = make(chan struct{}), make(chan struct{}, 8)
}

func (g *gate) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	g.mu.Lock()
	opened, arrived := g.opened, g.arrived
	g.mu.Unlock()
	if opened != nil && key.Name == "c/ring" {
		arrived <- struct{}{}
		wait.For(opened)
	}
	return g.KV.Get(ctx, key)
}

// An isolate that had no request for a while does not know of a key that has begun to
// seal since. None of its next requests may treat that key as unknown, or seal with the
// key before, whichever of them looks first.
func TestNoRequestGoesByAnOldSetOfKeys(t *testing.T) {
	for name, request := range map[string]func(s *service, link string) answer{
		"contract 16: a link of the new key": (*service).page,
		"contract 16: a start": func(s *service, _ string) answer {
			return s.askForStart(integrationID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, s, link := idle(t)
			store.close()
			answers := make(chan answer, 2)
			go func() { answers <- s.page(link) }()
			wait.For(store.arrived)
			go func() { answers <- request(s, link) }()
			var got []answer
			select { // the second one may look as well
			case <-store.arrived:
			case a := <-answers:
				got = append(got, a)
			}
			close(store.opened)
			for len(got) < 2 {
				got = append(got, wait.For(answers))
			}
			for _, a := range got {
				if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
					t.Errorf("contract 16: %d %v %.200s, want 503 and Retry-After", a.status, a.header,
						a.body)
				}
			}
		})
	}
}

// idle returns a service that had no request since others began to seal with a key
// that it lacks, and a link that they made.
func idle(t *testing.T) (*gate, *service, string) {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	before := generated(t, now)
	after := rotated(t, before, now)
	store := &gate{KV: memory.New(memory.Config{Now: func() time.Time { return now }})}
	guest := settings.Config{
		Config:  core.Config{Dev: true, OperatorToken: operatorToken},
		Host:    "verge.example",
		Keyring: marshalled(t, before),
		KeySet:  true,
	}
	site := workerd.Shared(t).Site(t, workerd.Config{Store: store, Now: now, Guest: guest})
	s := &service{t: t, client: site.Client(), base: site.BaseURL, admin: site.AdminURL}
	apply(t, site, shop(newInbox(t), "secret", webhookSecret))
	s.makeKey()
	s.start()

	other, err := keyset.New(keyset.Config{Name: "verge.example", Keyring: after,
		Host: host.Host{KV: store.KV, Now: site.Now, Random: rand.Reader}})
	if err != nil {
		t.Fatal(err)
	}
	// It announces the key, and seals no secrets with it yet.
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	site.Advance(keyset.Settle)
	flow, err := sessiontest.Forger{Sealer: other}.Flow("", "", site.Now())
	if err != nil {
		t.Fatal(err)
	}
	link := s.base + web.HostedPath + "?flow=" + flow
	if got := sealedWith(t, link); got != after.Keys[0].ID {
		t.Fatalf("the other isolate seals with %s", got)
	}
	return store, s, link
}
