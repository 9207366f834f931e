package conformance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/testharness"
)

// The published list of callbacks, bad and good, through the whole service. A
// rejection names the field. A callback that is accepted is used as it was given.
func TestCallbackVectors(t *testing.T) {
	text, err := os.ReadFile("../../core/internal/weburl/testdata/callback_urls.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Bad, Good []struct {
			URL, Why string
			Dev      bool
			Origins  []string
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Bad) < 200 || len(vectors.Good) < 20 {
		t.Fatalf("%d bad and %d good", len(vectors.Bad), len(vectors.Good))
	}
	dev, production := newHarness(t, &opts{Configure: unlimited}),
		newHarness(t, &opts{Configure: unlimited, Production: true})
	production.MakeReady(production.Publisher.L1)
	ask := func(
		t *testing.T, isDev bool, url string, origins []string,
	) (*testharness.Harness, *testharness.Response) {
		h := production
		if isDev {
			h = dev
		}
		h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) { i.CallbackOrigins = origins })
		return h, h.TryStart(body{"callback_url": url, "state": "s"})
	}
	for _, v := range vectors.Bad {
		t.Run("contract 8: "+v.Why, func(t *testing.T) {
			_, r := ask(t, v.Dev, v.URL, v.Origins)
			wantError(t, r, 400, "INVALID_REQUEST")
			if got := r.Details(); !slices.Equal(got, []string{"callback_url"}) {
				t.Errorf("details name %v", got)
			}
		})
	}
	for _, v := range vectors.Good {
		t.Run("contract 8: accept "+v.Why, func(t *testing.T) {
			h, r := ask(t, v.Dev, v.URL, v.Origins)
			wantStatus(t, r, 200)
			var s testharness.Started
			if err := json.Unmarshal(r.Body, &s); err != nil {
				t.Fatal(err)
			}
			back := h.Approve(s)
			if !strings.HasPrefix(back.URL, v.URL) || back.State != "s" || back.ResultToken == "" {
				t.Errorf("%s came back as %s", v.URL, back.URL)
			}
		})
	}
}

// Sessions over several partitions are the same sessions.
func TestPartitions(t *testing.T) {
	h := newHarness(t, &opts{Configure: func(c *core.Config) { unlimited(c); c.Partitions = 7 }})
	var sessions []testharness.Started
	for range 30 {
		sessions = append(sessions, h.Start(nil))
	}
	for n, s := range sessions {
		if n%2 == 0 {
			wantStatus(t, h.Validate(h.Approve(s).ResultToken), 200)
		}
	}
	a := start(h, with(h, "Idempotency-Key", "k"), string(h.StartBody(nil)))
	b := start(h, with(h, "Idempotency-Key", "k"), string(h.StartBody(nil)))
	if string(a.Body) != string(b.Body) {
		t.Errorf("contract 11: %s\n%s", a.Body, b.Body)
	}
	h.Sink.Next(testharness.Answer(410), testharness.Answer(410), testharness.Answer(410))
	h.Advance(10 * time.Minute)
	for n, s := range sessions {
		want := []string{"COMPLETED", "EXPIRED"}[n%2]
		if m := h.Reconcile(s.SessionID).JSON(); m["status"] != want {
			t.Errorf("contract 20: %v, want %s", m["status"], want)
		}
	}
	list := dead(t, h)
	if len(list) != 3 {
		t.Fatalf("contract 27: %d dead events", len(list))
	}
	for _, d := range list {
		wantStatus(t, h.Admin("POST", fmt.Sprintf("/admin/v1/deliveries/%s/resend", d["event"]), nil), 200)
	}
	h.Settle()
	for n, s := range sessions {
		if types := h.Sink.Types(s.SessionID); len(types) != 2 {
			t.Errorf("session %d has sent %v", n, types)
		}
	}
}

// After a restart on the same store and key ring, no acknowledged state is lost.
func TestRestart(t *testing.T) {
	if engineName == "memory" {
		t.Skip("SKIP: memory stores no data")
	}
	store := engine(t)
	first := newHarness(t, &opts{KV: store})
	pending, waiting := first.Start(body{"state": "s"}), first.Start(nil)
	used, unused := first.Approve(first.Start(nil)).ResultToken, first.Approve(first.Start(nil)).ResultToken
	wantStatus(t, first.Validate(used), 200)
	if file, ok := first.KV.(*bolt.Store); ok { // only one store can have the file open
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}

	// The publishers are new. The sessions and tokens are from the first harness.
	second := newHarness(t, &opts{KV: store, Keyring: first.Keyring})
	t.Run("spec: a used token stays used",
		func(t *testing.T) { wantError(t, second.Validate(used), 409, "ALREADY_USED") })
	t.Run("spec: an unused token is good once", func(t *testing.T) {
		wantStatus(t, second.Validate(unused), 200)
		wantError(t, second.Validate(unused), 409, "ALREADY_USED")
	})
	t.Run("spec: a session continues", func(t *testing.T) {
		back := second.Open(second.BaseURL + web.HostedPath + "?flow=" +
			flowOf(t, pending.RedirectURL)).Submit("approve").Callback
		if back == nil || back.State != "s" {
			t.Fatalf("the page hops to %+v, want a result and the state", back)
		}
		wantStatus(t, second.Validate(back.ResultToken), 200)
	})
	t.Run("contract 25: events of before the restart are sent after it, and timers fire", func(t *testing.T) {
		second.Advance(10 * time.Minute)
		for id, want := range map[string][]string{
			pending.SessionID: {"verification.completed", "verification.started"},
			waiting.SessionID: {"verification.expired", "verification.started"},
		} {
			types := second.Sink.Types(id)
			slices.Sort(types)
			if !slices.Equal(types, want) {
				t.Errorf("%v, want %v", types, want)
			}
		}
	})
}
