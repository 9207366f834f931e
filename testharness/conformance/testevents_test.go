package conformance_test

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

// tests asks for the test events of an integration.
func tests(h *testharness.Harness, key, integration string, since time.Time) *testharness.Response {
	query := url.Values{"integration_id": {integration}, "since": {since.UTC().Format(time.RFC3339Nano)}}
	return h.Do("GET", api.TestsPath+"?"+query.Encode(), testharness.Bearer(key), nil)
}

// contract 49: a publisher reads its test events from a time on, each once, the oldest first. Nothing else is
// there.
func TestTestEvents(t *testing.T) {
	h := newHarness(t, nil)
	i, begin := h.Publisher.L1, h.Now()
	if got := list(t, tests(h, h.Publisher.SecretKey, i.ID, begin), "events"); len(got) != 0 {
		t.Errorf("contract 49: %v before there was a test event", got)
	}
	h.Approve(h.Start(nil))
	var want []string
	for n, typ := range webhook.Types() {
		h.Sink.Next(testharness.Answer([]int{204, 500, 401}[n%3])) // whatever the receiver answers
		r := h.Admin("POST", "/admin/v1/integrations/"+i.ID+"/test-event", map[string]any{"type": typ})
		wantStatus(t, r, 200)
		want = append(want, typ)
		h.Advance(time.Minute)
	}
	types := func(since time.Time) (all []string) {
		r := tests(h, h.Publisher.SecretKey, i.ID, since)
		wantStatus(t, r, 200)
		if r.JSON()["more"] != false || r.Text("now") != h.Now().UTC().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("contract 49: more %v, now %s", r.JSON()["more"], r.Text("now"))
		}
		for _, e := range list(t, r, "events") {
			if e["test"] != true {
				t.Errorf("contract 49: a real event is there: %v", e)
			}
			all = append(all, e["type"].(string))
		}
		return all
	}
	if got := types(begin); !slices.Equal(got, want) {
		t.Errorf("contract 49: %q, want %q", got, want)
	}
	if got := types(begin.Add(2 * time.Minute)); !slices.Equal(got, want[2:]) {
		t.Errorf("contract 49: from the third on: %q, want %q", got, want[2:])
	}
	h.Advance(8 * 24 * time.Hour)
	if got := types(begin); len(got) != 0 {
		t.Errorf("contract 49: after 8 days: %q", got)
	}
}

func TestTestEventsRefuse(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	i, since := h.Publisher.L1.ID, "2026-11-20T22:10:00.000Z"
	for _, c := range []struct {
		rule, key, query string
		status           int
		code             string
	}{
		{"contract 49: no integration", h.Publisher.SecretKey, "since=" + since, 400, "INVALID_REQUEST"},
		{"contract 49: no time", h.Publisher.SecretKey, "integration_id=" + i, 400, "INVALID_REQUEST"},
		{"contract 49: no UUID", h.Publisher.SecretKey, "integration_id=x&since=" + since, 400,
			"INVALID_REQUEST"},
		{"contract 49: two integrations", h.Publisher.SecretKey,
			"integration_id=" + i + "&integration_id=" + i + "&since=" + since, 400, "INVALID_REQUEST"},
		{"contract 49: no time of day", h.Publisher.SecretKey, "integration_id=" + i + "&since=2026-11-20",
			400, "INVALID_REQUEST"},
		{"contract 5: another publisher's", h.Other.SecretKey, "integration_id=" + i + "&since=" + since, 404,
			"NOT_FOUND"},
		{"contract 5: a public key", h.Publisher.L1.PublicKey, "integration_id=" + i + "&since=" + since, 403,
			"FORBIDDEN"},
		{"contract 5: no key", "", "integration_id=" + i + "&since=" + since, 401, "UNAUTHORIZED"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			wantError(t, h.Do("GET", api.TestsPath+"?"+c.query, testharness.Bearer(c.key), nil), c.status,
				c.code)
		})
	}
	limited := newHarness(t, nil)
	for range 120 {
		wantStatus(t, tests(limited, limited.Publisher.SecretKey, limited.Publisher.L1.ID, limited.Now()),
			200)
	}
	wantError(t, tests(limited, limited.Publisher.SecretKey, limited.Publisher.L1.ID, limited.Now()),
		429, "RATE_LIMITED")
}
