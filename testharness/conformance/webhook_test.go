package conformance_test

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

var eventID = regexp.MustCompile(`evt_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// ending brings a session to its end.
func ending(h *testharness.Harness, s testharness.Started, how string) {
	switch how {
	case "":
	case "expire":
		h.Advance(10 * time.Minute)
	default:
		h.Open(s.RedirectURL).Submit(how)
	}
}

// The bodies byte for byte, with ids replaced. A receiver may rely on every byte.
func TestEventGolden(t *testing.T) {
	const envelope = `{"id":"EVT","type":"verification.%s","created_at":"%s",` +
		`"schema_version":"2026-01-07","publisher_id":"pub_shop",` +
		`"integration_id":"int_5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a%s","session_id":"SESS","test":false,` +
		`"idempotency_key":"SESS:verification.%s","data":%s}`
	failed := func(code, message string) string {
		return `{"status":"failed","failure":{"code":"` + code + `","message":"` + message +
			`"},"external_user_id":"u<1>","publisher_state":"s&2"}`
	}
	given := body{"state": "s&2", "external_user_id": "u<1>"}
	for _, c := range []struct {
		name, how string
		change    body
		typ, data string
		at, level string
	}{
		{"spec: verification.started", "", given, "started",
			`{"status":"started","expires_at":"2026-11-20T22:20:00.000Z"}`, "2026-11-20T22:10:00.000Z", "01"},
		{"spec: verification.completed, L1", "approve", given, "completed",
			`{"status":"completed","result":{"verified":true,"level":"L1","challenge_age":25},` +
				`"external_user_id":"u<1>","publisher_state":"s&2"}`, "2026-11-20T22:10:01.000Z", "01"},
		{"spec: verification.completed, L2", "approve", body{"integration_id": "L2"}, "completed",
			`{"status":"completed","result":{"verified":true,"level":"L2","challenge_age":18}}`,
			"2026-11-20T22:10:01.000Z", "02"},
		{"contract 8: empty strings were given", "approve", body{"state": "", "external_user_id": ""},
			"completed",
			`{"status":"completed","result":{"verified":true,"level":"L1","challenge_age":25},` +
				`"external_user_id":"","publisher_state":""}`, "2026-11-20T22:10:01.000Z", "01"},
		{"spec: verification.failed", "reject", given, "failed",
			failed("PROVIDER_REJECTED", webhook.FailureMessage("PROVIDER_REJECTED")),
			"2026-11-20T22:10:01.000Z",
			"01"},
		{"spec: verification.failed, nothing given", "unknown", nil, "failed",
			`{"status":"failed","failure":{"code":"UNKNOWN","message":"` + webhook.FailureMessage("UNKNOWN") + `"}}`,
			"2026-11-20T22:10:01.000Z", "01"},
		{"spec: verification.failed, withdrawn", "withdraw", given, "failed",
			failed("USER_CANCELLED", webhook.FailureMessage("USER_CANCELLED")), "2026-11-20T22:10:01.000Z",
			"01"},
		{"spec: verification.expired", "expire", given, "expired",
			`{"status":"expired","expires_at":"2026-11-20T22:20:00.000Z"}`, "2026-11-20T22:20:00.000Z", "01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, nil)
			change := body{}
			maps.Copy(change, c.change)
			if change["integration_id"] == "L2" {
				change["integration_id"] = h.Publisher.L2.ID
			}
			s := h.Start(change)
			h.Settle()
			if c.how != "expire" && c.how != "" {
				h.Advance(time.Second)
			}
			ending(h, s, c.how)
			h.Settle()
			var last testharness.Delivery
			for _, d := range h.Sink.Deliveries() {
				last = d
			}
			if last.Err != nil {
				t.Errorf("the signature: %v", last.Err)
			}
			got := strings.ReplaceAll(eventID.ReplaceAllString(string(last.Body), "EVT"), s.SessionID, "SESS")
			want := fmt.Sprintf(envelope, c.typ, c.at, c.level, c.typ, c.data)
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if !eventID.MatchString(last.Event.ID) {
				t.Errorf("spec: id %q", last.Event.ID)
			}
		})
	}
	t.Run("spec: MAX_ATTEMPTS", func(t *testing.T) {
		h := newHarness(t, nil)
		s := h.Start(nil)
		h.Open(s.RedirectURL).Submit("fail_attempt").Submit("fail_attempt").Submit("fail_attempt")
		h.Settle()
		for _, e := range h.Sink.EventsOf(s.SessionID) {
			if e.Type == webhook.TypeFailed && e.Data.Failure.Code == "MAX_ATTEMPTS" &&
				e.Data.Failure.Message != "" {
				return
			}
		}
		t.Errorf("no event says MAX_ATTEMPTS: %+v", h.Sink.Events())
	})
}

func TestSignatureHeaders(t *testing.T) {
	h := newHarness(t, nil)
	h.Advance(1500 * time.Millisecond)
	h.Start(nil)
	h.Settle()
	d := h.Sink.Deliveries()[0]
	now := fmt.Sprint(d.At.Unix())
	if ts := d.Header["X-Service-Timestamp"]; !slices.Equal(ts, []string{now}) {
		t.Errorf("spec: X-Service-Timestamp %q, want %s", ts, now)
	}
	if !regexp.MustCompile(`^t=` + now + `,v1=[0-9a-f]{64}$`).
		MatchString(d.Header.Get("X-Service-Signature")) {
		t.Errorf("spec: X-Service-Signature %q", d.Header.Get("X-Service-Signature"))
	}
	for name, want := range map[string]string{"Webhook-Id": d.Event.ID, "Webhook-Timestamp": now,
		"Webhook-Signature": `v1,[A-Za-z0-9+/]{43}=`} {
		if got := d.Header[name]; len(got) != 1 || !regexp.MustCompile(`^`+want+`$`).MatchString(got[0]) {
			t.Errorf("contract 51: %s is %q, want %s", name, got, want)
		}
	}
	if ct := d.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		t.Errorf("spec: Content-Type %q", ct)
	}
	for name, values := range d.Header {
		for _, v := range values {
			if strings.Contains(v, "svc_") || strings.Contains(v, h.Publisher.L1.WebhookSecret) {
				t.Errorf("contract 13: header %s holds a secret", name)
			}
		}
	}
	if err := webhook.Verify(h.Publisher.L2.WebhookSecret, d.Header, d.Body, d.At, 0); err == nil {
		t.Error("spec: another integration's secret verifies it")
	}
}

var delays = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute,
	30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}

// dead returns the dead events of the admin API.
func dead(t testing.TB, h *testharness.Harness) []map[string]any {
	t.Helper()
	r := h.Admin("GET", "/admin/v1/deliveries", nil)
	wantStatus(t, r, 200)
	return list(t, r, "deliveries")
}

func TestSchedule(t *testing.T) {
	retried := map[string]testharness.Reply{
		"500":           testharness.Answer(500),
		"503":           testharness.Answer(503),
		"599":           testharness.Answer(599),
		"300":           testharness.Answer(300),
		"304":           testharness.Answer(304),
		"cut off":       {Reset: true},
		"redirect, 307": testharness.RedirectTo("https://elsewhere.example/"),
	}
	for name, reply := range retried {
		t.Run("contract 26: "+name+" is retried at the schedule's instants, then dead", func(t *testing.T) {
			retriedUntilDead(t, reply)
		})
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"contract 26: the jitter spreads", jitterSpreads},
		{"contract 26: the schedule can be set", scheduleIsSet},
		{"contract 26: a 2xx ends it, also a late one", successEnds},
		{"contract 26: a body that is too long is cut off and does not matter", longBody},
		{"contract 26: a late response counts as none", lateAnswer},
		{"contract 28: a redirect is not followed, not even to ourselves", redirects},
	} {
		t.Run(c.name, c.run)
	}
}

// retriedUntilDead fails unless an attempt is made at each time of the schedule, all with the same bytes, and
// then the event is dead.
func retriedUntilDead(t *testing.T, reply testharness.Reply) {
	h := newHarness(t, nil)
	h.Sink.Always(reply)
	s := h.Start(nil)
	ending(h, s, "reject") // so there is no timer
	h.Advance(20 * time.Hour)
	attempts := map[string][]testharness.Delivery{}
	for _, d := range h.Sink.Deliveries() {
		attempts[d.Event.Type] = append(attempts[d.Event.Type], d)
	}
	for typ, ds := range attempts {
		if len(ds) != len(delays)+1 {
			t.Errorf("%s: %d attempts, want %d", typ, len(ds), len(delays)+1)
			continue
		}
		for n, d := range ds {
			if string(d.Body) != string(ds[0].Body) {
				t.Errorf("contract 25: attempt %d of %s has other bytes", n, typ)
			}
			if d.Err != nil || d.Header.Get("X-Service-Timestamp") != fmt.Sprint(d.At.Unix()) {
				t.Errorf("contract 25: t of attempt %d is not the attempt's: %v", n, d.Err)
			}
			if n == 0 {
				continue
			}
			wait, want := d.At.Sub(ds[n-1].At), delays[n-1]
			if math.Abs(float64(wait-want)) > 0.2*float64(want) {
				t.Errorf("attempt %d came after %v, want %v ±20 %%", n, wait, want)
			}
		}
	}
	if len(attempts) != 2 {
		t.Errorf("%d events", len(attempts))
	}
	list := dead(t, h)
	if len(list) != 2 {
		t.Fatalf("contract 27: %d dead events: %v", len(list), list)
	}
	for _, d := range list {
		if d["reason"] != "exhausted" || d["attempts"] != float64(10) || d["session_id"] != s.SessionID {
			t.Errorf("contract 27: %v", d)
		}
	}
}

func jitterSpreads(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	h.Sink.Always(testharness.Answer(500))
	for range 20 {
		h.Start(nil)
	}
	h.Settle()
	h.Sink.Forget()
	h.Advance(6 * time.Second)
	waits := map[time.Duration]bool{}
	for _, d := range h.Sink.Deliveries() {
		waits[d.At.Sub(testharness.Epoch)] = true
	}
	if len(waits) < 10 {
		t.Errorf("20 events came back at %d different instants", len(waits))
	}
}

func scheduleIsSet(t *testing.T) {
	h := newHarness(t, &opts{Configure: func(c *core.Config) {
		c.Schedule = webhook.Schedule{Delays: []time.Duration{time.Minute}, JitterPercent: -1}
	}})
	h.Sink.Always(testharness.Answer(500))
	h.Start(nil)
	h.Advance(9 * time.Minute)
	ds := h.Sink.Deliveries()
	if len(ds) != 2 || ds[1].At.Sub(ds[0].At) != time.Minute {
		t.Errorf("%d attempts", len(ds))
	}
}

func successEnds(t *testing.T) {
	for _, status := range []int{200, 201, 202, 204, 226, 299} {
		h := newHarness(t, nil)
		h.Sink.Next(testharness.Answer(500), testharness.Answer(502), testharness.Answer(status))
		h.Start(nil)
		h.Advance(9 * time.Minute)
		if n := len(h.Sink.Deliveries()); n != 3 {
			t.Errorf("%d: %d attempts, want 3", status, n)
		}
		if list := dead(t, h); len(list) != 0 {
			t.Errorf("want no dead event: %v", list)
		}
	}
}

func longBody(t *testing.T) {
	h := newHarness(t, nil)
	h.Sink.Next(testharness.Reply{Status: 200, Size: 1 << 20})
	h.Start(nil)
	h.Advance(9 * time.Minute)
	if n := len(h.Sink.Deliveries()); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

func lateAnswer(t *testing.T) {
	h := newHarness(t, &opts{WebhookTimeout: time.Second})
	h.Sink.Next(testharness.Reply{Hang: true}, testharness.Reply{Status: 200, Stall: true},
		testharness.Reply{Delay: 3 * time.Second})
	h.Start(nil)
	h.Advance(9 * time.Minute)
	if n := len(h.Sink.Deliveries()); n < 4 { // more if the fourth one is late on a slow machine
		t.Errorf("%d attempts, want at least 4", n)
	}
}

func redirects(t *testing.T) {
	h := newHarness(t, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		h.Sink.Next(testharness.Reply{Status: status, Header: headers("Location", h.Sink.URL+"/elsewhere")})
	}
	h.Start(nil)
	h.Advance(9 * time.Minute)
	for _, d := range h.Sink.Deliveries() {
		if d.Path == "/elsewhere" {
			t.Error("the redirect was followed")
		}
	}
}

func TestDeadEvents(t *testing.T) {
	for _, status := range []int{400, 401, 404, 408, 410, 429, 499} {
		t.Run(fmt.Sprintf("contract 26: %d ends the delivery immediately", status), func(t *testing.T) {
			h := newHarness(t, nil)
			h.Sink.Next(testharness.Answer(status))
			s := h.Start(nil)
			h.Settle()
			h.Advance(9 * time.Minute)
			if n := len(h.Sink.Deliveries()); n != 1 {
				t.Errorf("%d attempts", n)
			}
			list := dead(t, h)
			if len(list) != 1 || list[0]["reason"] != "refused" ||
				list[0]["last"] != fmt.Sprintf("status %d", status) ||
				list[0]["type"] != "verification.started" || list[0]["session_id"] != s.SessionID {
				t.Fatalf("contract 27: %v", list)
			}
		})
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"contract 27: sent again by hand: the same id and bytes, then gone from the list", sentAgain},
		{"contract 27: a dead event stays 30 days", thirtyDays},
		{"spec: one event can exhaust delivery independently of another", oneOfTwo},
		{"spec: at most one POST for an idempotency key without faults, and none after a 2xx", onePost},
		{"spec: verification.cancelled is never sent", neverCancelled},
	} {
		t.Run(c.name, c.run)
	}
}

func sentAgain(t *testing.T) {
	h := newHarness(t, nil)
	h.Sink.Next(testharness.Answer(410))
	h.Start(nil)
	h.Settle()
	id := fmt.Sprint(dead(t, h)[0]["event"])
	h.Advance(2 * time.Hour) // meanwhile the session ends, and its event is sent
	h.Sink.Next(testharness.Answer(503))
	wantStatus(t, h.Admin("POST", "/admin/v1/deliveries/"+id+"/resend", nil), 200)
	wantError(t, h.Admin("POST", "/admin/v1/deliveries/"+id+"/resend", nil), 404, "NOT_FOUND")
	h.Advance(time.Hour) // a resent event has its whole schedule again
	var of []testharness.Delivery
	for _, d := range h.Sink.Deliveries() {
		if d.Event.ID == id {
			of = append(of, d)
		}
	}
	if len(of) != 3 || of[2].Err != nil ||
		string(of[0].Body) != string(of[1].Body) || string(of[0].Body) != string(of[2].Body) {
		t.Errorf("%d attempts", len(of))
	}
	if list := dead(t, h); len(list) != 0 {
		t.Errorf("want no dead event: %v", list)
	}
	wantError(t, h.Admin("POST", "/admin/v1/deliveries/"+id+"/resend", nil), 404, "NOT_FOUND")
	wantError(t, h.Admin("POST", "/admin/v1/deliveries/evt_x/resend", nil), 400, "INVALID_REQUEST")
}

func thirtyDays(t *testing.T) {
	h := newHarness(t, nil)
	h.Sink.Next(testharness.Answer(410))
	h.Start(nil)
	h.Settle()
	h.Advance(30*24*time.Hour - time.Millisecond)
	if list := dead(t, h); len(list) != 1 {
		t.Errorf("want one dead event until 30 days are over: %v", list)
	}
	h.Advance(time.Millisecond)
	if list := dead(t, h); len(list) != 0 {
		t.Errorf("want no dead event after 30 days: %v", list)
	}
}

func oneOfTwo(t *testing.T) {
	h := newHarness(t, nil)
	h.Sink.Next(testharness.Answer(410))
	s := h.Start(nil)
	h.Settle()
	ending(h, s, "approve")
	h.Settle()
	if ds := h.Sink.Deliveries(); len(ds) != 2 || ds[1].Event.Type != "verification.completed" {
		t.Errorf("%d attempts", len(ds))
	}
	if list := dead(t, h); len(list) != 1 {
		t.Errorf("want one dead event: %v", list)
	}
}

func onePost(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	for _, how := range []string{"approve", "reject", "withdraw", "unknown", "cancel", ""} {
		ending(h, h.Start(nil), how)
	}
	h.Advance(24 * time.Hour)
	seen := map[string]int{}
	for _, d := range h.Sink.Deliveries() {
		seen[d.Event.IdempotencyKey]++
	}
	if len(seen) != 12 {
		t.Errorf("%d events, want 12", len(seen))
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%d times %s", n, key)
		}
	}
}

func neverCancelled(t *testing.T) {
	h := newHarness(t, nil)
	for _, how := range []string{"cancel", "withdraw"} {
		ending(h, h.Start(nil), how)
	}
	h.Advance(time.Hour)
	for _, e := range h.Sink.Events() {
		if e.Type == webhook.TypeCancelled {
			t.Error("verification.cancelled was sent")
		}
	}
}

// probes are the requests of a webhook test, in their order.
var probes = []string{"good", "bad_signature", "stale_timestamp", "differing_timestamp", "altered_body"}

// testWebhook runs the webhook test of L1.
func testWebhook(h *testharness.Harness) *testharness.Response {
	return h.Admin("POST", "/admin/v1/integrations/"+h.Publisher.L1.ID+"/test", nil)
}

func TestReadiness(t *testing.T) {
	wrong := map[string][]testharness.Reply{
		"wrong status":      {testharness.Answer(400)},
		"accepted or not":   {testharness.Answer(200)},
		"refused otherwise": {testharness.Answer(403)},
		"redirect":          {testharness.RedirectTo("https://elsewhere.example")},
		"reset":             {{Reset: true}},
	}
	for n, probe := range probes {
		for name, replies := range wrong {
			if probe == "good" && name == "accepted or not" {
				continue
			}
			t.Run("contract 29: NOT_READY names "+probe+", "+name, func(t *testing.T) {
				h := newHarness(t, &opts{Production: true})
				for range n {
					h.Sink.Next(testharness.Reply{})
				}
				h.Sink.Next(replies...)
				r := testWebhook(h)
				m := r.JSON()
				reasons, _ := m["reasons"].([]any)
				if r.Status != 200 || m["ready"] != false || len(reasons) != 1 ||
					!strings.HasPrefix(fmt.Sprint(reasons[0]), probe+":") {
					t.Errorf("want 200, not ready, and one reason of the probe: %d %s", r.Status, r.Body)
				}
				wantError(t, h.TryStart(nil), 409, "INTEGRATION_NOT_READY")
			})
		}
	}
	reset := map[string]func(h *testharness.Harness){
		"the URL": func(h *testharness.Harness) {
			h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) { i.Webhook.URL += "?v=2" })
		},
		"the secret": func(h *testharness.Harness) {
			h.Sink.SetSecret(h.Publisher.L1, "whsec_new")
			h.Reconfigure(h.Publisher.L1, "whsec_new", func(*integration.Integration) {})
		},
	}
	for name, change := range reset {
		t.Run("contract 29: changing "+name+" resets it", func(t *testing.T) {
			h := newHarness(t, &opts{Production: true})
			h.MakeReady(h.Publisher.L1)
			wantStatus(t, h.TryStart(nil), 200)
			change(h)
			wantError(t, h.TryStart(nil), 409, "INTEGRATION_NOT_READY")
			h.MakeReady(h.Publisher.L1)
			s := h.Start(nil)
			h.Settle()
			if types := h.Sink.Types(s.SessionID); len(types) != 1 {
				t.Errorf("events after the change: %v", types)
			}
		})
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"contract 29: a receiver that verifies is Ready", receiverVerifies},
		{"contract 29: every failing probe is named in one response", everyProbeNamed},
		{"contract 29: a failing test takes readiness away", failingTest},
		{"contract 29: changing anything else does not", harmlessChange},
		{"contract 29: nothing to test without a URL; no such integration", nothingToTest},
		{"contract 29: operators see who is ready, and no secret", operatorsSeeReady},
		{"spec: the test event is marked by test, and has no session", noSessionOfATest},
		{"contract 29: who looks up the session of a test event finds none", lookUpOfATest},
	} {
		t.Run(c.name, c.run)
	}
}

func receiverVerifies(t *testing.T) {
	h := newHarness(t, &opts{Production: true})
	r := testWebhook(h)
	wantStatus(t, r, 200)
	if r.JSON()["ready"] != true {
		t.Fatalf("want it ready: %s", r.Body)
	}
	ds := h.Sink.Deliveries()
	if len(ds) != 5 || ds[0].Err != nil || !ds[0].Event.Test || ds[0].Event.Type != "verification.started" {
		t.Fatalf("%d probes, the first: %+v", len(ds), ds[0])
	}
	for n, d := range ds[1:] {
		if d.Err == nil {
			t.Errorf("probe %s verifies", probes[n+1])
		}
	}
	if d := ds[0]; d.Path != "/shop/l1" || d.Header.Get("X-Service-Timestamp") == "" {
		t.Errorf("spec: the readiness request uses the same signature contract: %v", d.Header)
	}
	wantStatus(t, h.TryStart(nil), 200)
}

func everyProbeNamed(t *testing.T) {
	h := newHarness(t, &opts{Production: true})
	h.Sink.Always(testharness.Answer(500))
	reasons, _ := testWebhook(h).JSON()["reasons"].([]any)
	if len(reasons) != 5 {
		t.Errorf("want five reasons: %v", reasons)
	}
}

func failingTest(t *testing.T) {
	h := newHarness(t, &opts{Production: true})
	h.MakeReady(h.Publisher.L1)
	h.Sink.Always(testharness.Answer(200))
	testWebhook(h)
	wantError(t, h.TryStart(nil), 409, "INTEGRATION_NOT_READY")
}

func harmlessChange(t *testing.T) {
	h := newHarness(t, &opts{Production: true})
	h.MakeReady(h.Publisher.L1)
	h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) {
		i.ChallengeAge, i.Name = 30,
			"other"
	})
	wantStatus(t, h.TryStart(nil), 200)
}

func nothingToTest(t *testing.T) {
	h := newHarness(t, nil)
	h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) { i.Webhook.URL = "" })
	wantError(t, testWebhook(h), 400, "INVALID_REQUEST")
	wantError(t, h.Admin("POST", "/admin/v1/integrations/00000000-0000-4000-8000-000000000000/test", nil),
		404, "NOT_FOUND")
}

func operatorsSeeReady(t *testing.T) {
	h := newHarness(t, nil)
	h.MakeReady(h.Publisher.L1)
	r := h.Admin("GET", "/admin/v1/integrations", nil)
	ready := map[string]bool{}
	for _, i := range list(t, r, "integrations") {
		ready[fmt.Sprint(i["id"])] = i["ready"] == true
	}
	answer := string(r.Body)
	if strings.Contains(answer, "sealed") || strings.Contains(answer, h.Publisher.L1.WebhookSecret) {
		t.Error("a secret is shown, sealed or not")
	}
	if len(ready) != 4 || !ready[h.Publisher.L1.ID] || ready[h.Publisher.L2.ID] {
		t.Errorf("want four integrations, of which L1 is ready and L2 is not: %v", ready)
	}
}

func noSessionOfATest(t *testing.T) {
	h := newHarness(t, nil)
	h.MakeReady(h.Publisher.L1)
	h.Advance(time.Hour)
	if events := h.Sink.Events(); len(events) != 1 || !events[0].Test {
		t.Errorf("want one event, which says that it is a test: %+v", events)
	}
}

func lookUpOfATest(t *testing.T) {
	h := newHarness(t, nil)
	h.MakeReady(h.Publisher.L1)
	event := h.Sink.Events()[0]
	wantError(t, h.Reconcile(event.SessionID), 404, "NOT_FOUND")
	if event.Data.Message == nil || !strings.Contains(*event.Data.Message, "It belongs to no session") {
		t.Errorf("the event lacks the message: %+v", event.Data)
	}
}

func TestWebhooksOff(t *testing.T) {
	for name, change := range map[string]func(*integration.Integration){
		"contract 5: switched off": func(i *integration.Integration) {
			i.Webhook.Off,
				i.Webhook.URL = true, ""
		},
		"contract 5: no URL, in dev rules": func(i *integration.Integration) { i.Webhook.URL = "" },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.Reconfigure(h.Publisher.L1, "", change)
			done, left := h.Start(nil), h.Start(nil)
			back := h.Approve(done)
			wantStatus(t, h.Validate(back.ResultToken), 200)
			h.Advance(time.Hour)
			if n := len(h.Sink.Deliveries()); n != 0 {
				t.Errorf("%d requests", n)
			}
			if m := h.Reconcile(left.SessionID).JSON(); m["status"] != "EXPIRED" {
				t.Errorf("reconcile does not return EXPIRED: %v", m)
			}
			if m := h.Reconcile(done.SessionID).JSON(); m["status"] != "COMPLETED" {
				t.Errorf("reconcile does not return COMPLETED: %v", m)
			}
		})
	}
	const title = "contract 27: events of an integration that has lost its URL become dead, not lost"
	t.Run(title, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Start(nil)
		h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) { i.Webhook.URL = "" })
		h.Settle()
		if list := dead(t, h); len(list) != 1 || list[0]["reason"] != "no_target" {
			t.Errorf("want one dead event with the reason no_target: %v", list)
		}
	})
}
