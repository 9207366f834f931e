package conformance_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/wait"
)

// tests asks for the test events of an integration.
func tests(h *testharness.Harness, key, integration string, since time.Time,
	headers ...string) *testharness.Response {
	query := url.Values{"integration_id": {integration}, "since": {since.UTC().Format(time.RFC3339Nano)}}
	return h.Do("GET", web.TestsPath+"?"+query.Encode(), also(testharness.Bearer(key), headers...), nil)
}

// sendTest sends a test event to an integration's receiver.
func sendTest(t *testing.T, h *testharness.Harness, i *testharness.Integration) {
	t.Helper()
	wantStatus(t, h.Admin("POST", "/admin/v1/integrations/"+i.ID+"/test-event",
		map[string]any{"type": webhook.TypeStarted}), 200)
}

// contract 49: the response has an ETag of the list. A request with it gets 304 if the list is unchanged.
func TestTestEvents_ETag(t *testing.T) {
	h := newHarness(t, nil)
	i, begin := h.Publisher.L1, h.Now()
	ask := func(since time.Time, headers ...string) *testharness.Response {
		return tests(h, h.Publisher.SecretKey, i.ID, since, headers...)
	}
	empty := ask(begin)
	wantStatus(t, empty, 200)
	tag := empty.Header.Get("Etag")
	for _, condition := range []string{tag, strings.TrimPrefix(tag, "W/"), `"other", ` + tag, "*"} {
		r := ask(begin, "If-None-Match", condition)
		wantStatus(t, r, 304)
		if len(r.Body) != 0 || r.Header.Get("Etag") != tag || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("contract 49: If-None-Match %s: %v %q", condition, r.Header, r.Body)
		}
		if r.Header.Get("RateLimit") == "" || r.Header.Get("Preference-Applied") != "" {
			t.Errorf("contract 30, 49: %v", r.Header)
		}
	}
	wantStatus(t, ask(begin, "If-None-Match", `"other"`), 200)
	h.Advance(time.Minute)
	wantStatus(t, ask(begin, "If-None-Match", tag), 304) // the time is not in the tag
	seen := map[string]bool{tag: true}
	for range 2 {
		sendTest(t, h, i)
		r := ask(begin, "If-None-Match", tag)
		wantStatus(t, r, 200)
		if tag = r.Header.Get("Etag"); seen[tag] {
			t.Errorf("contract 49: two lists have the tag %s", tag)
		}
		seen[tag] = true
		wantStatus(t, ask(begin, "If-None-Match", tag), 304)
		h.Advance(time.Minute)
	}
	wantStatus(t, ask(h.Now(), "If-None-Match", tag), 200) // a list without the two
	// A caller without access to the list gets no information from the tag.
	wantError(t, tests(h, h.Other.SecretKey, i.ID, begin, "If-None-Match", "*"), 404, "NOT_FOUND")
	wantError(t, tests(h, "", i.ID, begin, "If-None-Match", "*"), 401, "UNAUTHORIZED")
}

// contract 49: a request that prefers to wait returns as soon as there is an event, or when its time is over,
// and counts once (contract 21).
func TestTestEvents_Wait(t *testing.T) {
	h := newHarness(t, nil)
	i, begin := h.Publisher.L1, h.Now()
	tag := tests(h, h.Publisher.SecretKey, i.ID, begin).Header.Get("Etag")
	answer := make(chan *testharness.Response, 1)
	go func() {
		answer <- tests(h, h.Publisher.SecretKey, i.ID, begin, "If-None-Match", tag, "Prefer", "wait=20")
	}()
	time.Sleep(100 * time.Millisecond) // usually it waits by now; if not, it gets the event immediately
	sendTest(t, h, i)
	r := wait.For(answer)
	wantStatus(t, r, 200)
	if got := list(t, r, "events"); len(got) != 1 {
		t.Errorf("contract 49: %d events, want only the new event", len(got))
	}
	tag = r.Header.Get("Etag")
	r = tests(h, h.Publisher.SecretKey, i.ID, begin, "If-None-Match", tag, "Prefer", "wait=3")
	wantStatus(t, r, 304)
	if r.Header.Get("Preference-Applied") != "wait=3" {
		t.Errorf("contract 49: Preference-Applied is %q", r.Header.Get("Preference-Applied"))
	}
	// Three were counted. The last one was sent several times.
	if left := remaining(t, r); left != 117 {
		t.Errorf("contract 21: 3 requests have left %d of 120", left)
	}
	if left := remaining(t, tests(h, h.Publisher.SecretKey, i.ID, begin)); left != 116 {
		t.Errorf("contract 21: 4 requests have left %d of 120", left)
	}
}

// contract 49: 16 requests of a client wait. Another one returns immediately, and all get the next event.
func TestTestEvents_WaitLimit(t *testing.T) {
	h := newHarness(t, nil)
	i, begin := h.Publisher.L1, h.Now()
	tag := tests(h, h.Publisher.SecretKey, i.ID, begin).Header.Get("Etag")
	const most = 16
	answers := make(chan *testharness.Response, most+1)
	for range most + 1 {
		go func() {
			answers <- tests(h, h.Publisher.SecretKey, i.ID, begin, "If-None-Match", tag, "Prefer", "wait=20")
		}()
	}
	first := wait.For(answers) // it found that so many wait
	if wantStatus(t, first, 304); first.Header.Get("Preference-Applied") != "" {
		t.Errorf("contract 49: all %d wait: %v", most+1, first.Header)
	}
	sendTest(t, h, i)
	for range most {
		r := wait.For(answers)
		if wantStatus(t, r, 200); r.Header.Get("Preference-Applied") != "wait=20" {
			t.Errorf("contract 49: one did not wait: %v", r.Header)
		}
	}
}

// contract 12, 30: a repeated request of a host gets the same response without being counted, and the
// credential is checked.
func TestTestEvents_Repeated(t *testing.T) {
	h := newHarness(t, nil)
	query := url.Values{"integration_id": {h.Publisher.L1.ID}, "since": {"2026-11-20T22:10:00.000Z"}}
	ask := func(key string) *web.Response {
		return h.Engine.Handle(t.Context(), &web.Request{Method: "GET", Path: web.TestsPath,
			Query: query.Encode(), Client: netip.MustParseAddr("192.0.2.7"), Again: true,
			Header: web.Header{"Authorization": {"Bearer " + key}}})
	}
	for range 130 {
		resp := ask(h.Publisher.SecretKey)
		if resp.Status != 200 || resp.Header.Has("Ratelimit") || resp.Header.Has("Ratelimit-Policy") {
			t.Fatalf("contract 30: %d %v %s", resp.Status, resp.Header, resp.Body)
		}
	}
	if left := remaining(t, tests(h, h.Publisher.SecretKey, h.Publisher.L1.ID, h.Now())); left != 119 {
		t.Errorf("contract 21: one request has left %d of 120", left)
	}
	if resp := ask("svc_sk_x"); resp.Status != 401 {
		t.Errorf("contract 12: a key that does not exist: %d", resp.Status)
	}
	key, id := keyMaker{h}.create(t, nil)
	if resp := ask(key); resp.Status != 200 {
		t.Errorf("contract 12: a key that was made: %d", resp.Status)
	}
	wantStatus(t, h.Admin("POST", "/admin/v1/keys/"+id+"/revoke", nil), 200)
	h.Advance(6 * time.Second)
	if resp := ask(key); resp.Status != 401 {
		t.Errorf("contract 12: a key that was revoked: %d", resp.Status)
	}
}

// contract 49: a publisher reads its test events since a time, each once, the oldest first. The list has no
// other events.
func TestTestEvents(t *testing.T) {
	h := newHarness(t, nil)
	i, begin := h.Publisher.L1, h.Now()
	if got := list(t, tests(h, h.Publisher.SecretKey, i.ID, begin), "events"); len(got) != 0 {
		t.Errorf("contract 49: %v before there was a test event", got)
	}
	h.Approve(h.Start(nil))
	var want []string
	for n, typ := range webhook.Types() {
		h.Sink.Next(testharness.Answer([]int{204, 500, 401}[n%3])) // with any response
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
				t.Errorf("contract 49: the list has a real event: %v", e)
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

// remaining returns the number of requests left in the limit of a key, according to a response.
func remaining(t *testing.T, r *testharness.Response) (left int) {
	t.Helper()
	_, rest, found := strings.Cut(r.Header.Get("RateLimit"), `"reconcile-key";r=`)
	if _, err := fmt.Sscanf(rest, "%d", &left); !found || err != nil {
		t.Errorf("contract 30: RateLimit is %q", r.Header.Get("RateLimit"))
	}
	return left
}

func TestTestEventsReject(t *testing.T) {
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
			wantError(t, h.Do("GET", web.TestsPath+"?"+c.query, testharness.Bearer(c.key), nil), c.status,
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
