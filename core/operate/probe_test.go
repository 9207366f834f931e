package operate

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

func TestWebhookTest_Outcomes(t *testing.T) {
	bad := func(probe string, status int) func(*fixture) func(host.FetchRequest) (int, error) {
		n := slices.Index([]string{webhook.ProbeGood, webhook.ProbeBadSignature, webhook.ProbeStaleTimestamp,
			webhook.ProbeDifferingTimestamp, webhook.ProbeAlteredBody}, probe)
		return func(w *fixture) func(host.FetchRequest) (int, error) {
			at := 0
			return func(req host.FetchRequest) (int, error) {
				if at++; at == n+1 {
					return status, nil
				}
				return w.verifying(secret)(req)
			}
		}
	}
	for _, c := range []struct {
		name   string
		answer func(*fixture) func(host.FetchRequest) (int, error)
		reason string // in the one reason, "" for Ready
	}{
		{"a receiver that verifies", func(w *fixture) func(host.FetchRequest) (int, error) {
			return w.verifying(secret)
		}, ""},
		{"rejects the good one", bad(webhook.ProbeGood, 401), webhook.ProbeGood},
		{"redirects the good one", bad(webhook.ProbeGood, 302), "redirect"},
		{"takes a bad signature", bad(webhook.ProbeBadSignature, 200), webhook.ProbeBadSignature},
		{"answers a bad signature with 403", bad(webhook.ProbeBadSignature, 403), "403"},
		{"takes a stale timestamp", bad(webhook.ProbeStaleTimestamp, 200), webhook.ProbeStaleTimestamp},
		{"takes a differing timestamp", bad(webhook.ProbeDifferingTimestamp, 200),
			webhook.ProbeDifferingTimestamp},
		{"takes an altered body", bad(webhook.ProbeAlteredBody, 204), webhook.ProbeAlteredBody},
	} {
		t.Run("contract 29: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			w.answer = c.answer(w)
			report, err := w.TestWebhook(ctx, developer, intA, false)
			coretest.Must(t, err)
			if report.Ready != (c.reason == "") || len(report.Probes) != 5 {
				t.Errorf("report %+v", report)
			}
			if c.reason != "" && (len(report.Reasons) != 1 ||
				!strings.Contains(report.Reasons[0], c.reason)) {
				t.Errorf("reasons %v, want one that says %q", report.Reasons, c.reason)
			}
			i, err := w.Directory.Integration(ctx, intA)
			coretest.Must(t, err)
			if ready, err := w.Directory.Ready(ctx, i); err != nil || ready != report.Ready {
				t.Errorf("the store says ready %v, %v", ready, err)
			}
		})
	}
}

// A developer who fixes a receiver sees its request and its response.
func TestWebhookTest_ShowsRequestAndResponse(t *testing.T) {
	w := newFixture(t)
	for says, want := range map[string]struct {
		body string
		cut  bool
	}{
		"":                             {"", false},
		"the signature is old":         {"the signature is old", false},
		strings.Repeat("é", 600):       {strings.Repeat("é", 512), true},
		"a" + strings.Repeat("é", 600): {"a" + strings.Repeat("é", 511), true},
	} {
		var sent []host.FetchRequest
		w.says = says
		w.answer = func(req host.FetchRequest) (int, error) {
			sent = append(sent, req)
			return w.verifying(secret)(req)
		}
		report, err := w.TestWebhook(ctx, developer, intA, false)
		coretest.Must(t, err)
		if len(report.Probes) != len(sent) || report.URL != sent[0].URL {
			t.Fatalf("%d probes to %s, of which %d were sent", len(report.Probes), report.URL, len(sent))
		}
		for n, p := range report.Probes {
			if p.RequestBody != string(sent[n].Body) || !maps.Equal(p.RequestHeader, sent[n].Header) {
				t.Errorf("%s: shown %v %q, sent %v %q", p.Name, p.RequestHeader, p.RequestBody,
					sent[n].Header, sent[n].Body)
			}
			if p.Body != want.body || p.Cut != want.cut {
				t.Errorf("%s: shown %q, %v; the receiver said %q", p.Name, p.Body, p.Cut, says)
			}
		}
	}
}

// TestWebhookTest_TLSFault: contract 29: the test names the fault of a certificate, without other text of the
// error.
func TestWebhookTest_TLSFault(t *testing.T) {
	w := newFixture(t)
	w.answer = func(host.FetchRequest) (int, error) {
		return 0, &host.FetchError{Reason: host.FetchTLS,
			Err: errors.New("canary: tls: failed to verify certificate: x509: certificate has expired")}
	}
	report, err := w.TestWebhook(ctx, developer, intA, false)
	want := "good: expected 2xx, but there was no response (tls_error: " + host.FetchCause(host.FetchTLS) +
		"; x509: certificate has expired)"
	if err != nil || !slices.Equal(report.Reasons, []string{want}) {
		t.Errorf("%q, %v; want %q", report.Reasons, err, want)
	}
}

func TestWebhookTest_NoResponse(t *testing.T) {
	for _, reason := range []string{host.FetchBlocked, host.FetchTimeout, host.FetchDNS, host.FetchRefused,
		host.FetchTLS, host.FetchNetwork, host.FetchStatusLine, host.FetchHeaderLine, host.FetchHeaderSize,
		host.FetchCut, host.FetchMalformed} {
		w := newFixture(t)
		sent := 0
		w.answer = func(host.FetchRequest) (int, error) {
			sent++
			return 0, &host.FetchError{Reason: reason, Err: errors.New("x")}
		}
		report, err := w.TestWebhook(ctx, developer, intA, false)
		if err != nil || report.Ready || report.Status != statusNotReady {
			t.Errorf("contract 29: %+v, %v", report, err)
		}
		want := "good: expected 2xx, but there was no response (" + reason + ": " +
			host.FetchCause(reason) + ")"
		if !slices.Equal(report.Reasons, []string{want}) || sent != 1 {
			t.Errorf("contract 29: %d probes were sent; %q, want %q alone", sent, report.Reasons, want)
		}
		if len(report.Probes) != 1 || report.Probes[0].Reason != reason {
			t.Errorf("contract 29: %+v", report.Probes)
		}
	}
}

// A receiver that fails after the first probe gets the other probes, too.
func TestWebhookTest_ContinuesAfterResponse(t *testing.T) {
	w := newFixture(t)
	sent := 0
	w.answer = func(req host.FetchRequest) (int, error) {
		if sent++; sent > 1 {
			return 0, &host.FetchError{Reason: host.FetchNetwork, Err: errors.New("x")}
		}
		return w.verifying(secret)(req)
	}
	report, err := w.TestWebhook(ctx, developer, intA, false)
	const want = "bad_signature, stale_timestamp, differing_timestamp, altered_body: "
	if err != nil || sent != 5 || len(report.Reasons) != 1 || !strings.HasPrefix(report.Reasons[0], want) {
		t.Errorf("contract 29: %d probes were sent; %+v, %v", sent, report, err)
	}
}

// A ready integration is no longer ready after a failed test.
func TestWebhookTest_FailureEndsReadiness(t *testing.T) {
	w := newFixture(t)
	for _, want := range []bool{true, false, true} {
		w.Clock.Advance(time.Second) // the audit is in the order of time
		w.answer = w.verifying(secret)
		if !want {
			w.answer = func(host.FetchRequest) (int, error) { return 200, nil }
		}
		report, err := w.TestWebhook(ctx, developer, intA, false)
		if err != nil || report.Ready != want {
			t.Fatalf("contract 29: %+v, %v", report, err)
		}
		i, err := w.Directory.Integration(ctx, intA)
		coretest.Must(t, err)
		if ready, err := w.Directory.Ready(ctx, i); err != nil || ready != want {
			t.Errorf("contract 29: ready %v, %v, want %v", ready, err, want)
		}
		all, err := w.Audit(ctx, admin, pubA, Cursor{})
		coretest.Must(t, err)
		if e := all.Items[0]; e.Operation != webhookTest || e.Target != intA ||
			!slices.Equal(e.Changes, []change{{Field: "readiness", To: report.Status}}) {
			t.Errorf("contract 42: the audit has %+v", e)
		}
	}
}

func TestWebhookTest_NoWebhook(t *testing.T) {
	w := newFixture(t)
	var rejected *web.Error
	for _, hook := range []integration.Webhook{{}, {Off: true}, {URL: "https://hooks.publisher.example/"}} {
		const id = "22222222-4d4e-475f-906b-2f11c5eca7bd"
		i := integration.Integration{ID: id, PublisherID: pubA, Level: "L1", ChallengeAge: 25, Webhook: hook}
		coretest.Must(t, w.Directory.PutIntegration(ctx, i, ""))
		if _, err := w.TestWebhook(ctx, developer, id, false); !errors.As(err, &rejected) {
			t.Errorf("%+v: %v", hook, err)
		}
	}
	if _, err := w.TestWebhook(ctx, developer, intA, true); !errors.As(err, &rejected) {
		t.Errorf("nothing is staged: %v", err)
	}
	w.Store.Decide = func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	w.Directory = integration.NewDirectory(w.Host.Host)
	if _, err := w.TestWebhook(ctx, developer, intA, false); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("without a store: %v", err)
	}
}

// TestLinesNameThePublisher: contract 48. A line of the log that names an integration names its publisher.
func TestLinesNameThePublisher(t *testing.T) {
	w := newFixture(t)
	_, err := w.TestWebhook(ctx, developer, intA, false)
	coretest.Must(t, err)
	const noSecret = "22222222-4d4e-475f-906b-2f11c5eca7bd"
	coretest.Must(t, w.Directory.PutIntegration(ctx, integration.Integration{ID: noSecret, PublisherID: pubA,
		Level: "L1", ChallengeAge: 25,
		Webhook: integration.Webhook{URL: "https://hooks.publisher.example/"}}, ""))
	var rejected *web.Error
	if _, err := w.TestWebhook(ctx, developer, noSecret, false); !errors.As(err, &rejected) {
		t.Errorf("testing a webhook without a secret: %v", err)
	}
	if _, err := w.SendTestEvent(ctx, developer, noSecret, webhook.TypeStarted); !errors.As(err, &rejected) {
		t.Errorf("trying a webhook without a secret: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(w.Logged.String()), "\n")
	if len(lines) != 3 {
		t.Errorf("contract 48: the log has %q", lines)
	}
	for _, line := range lines {
		if !strings.Contains(line, " publisher="+pubA+" ") {
			t.Errorf("contract 48: no publisher in %s", line)
		}
	}
}

// To a receiver the event looks like any other, but its session does not exist.
func TestWebhookTest_EventWithoutSession(t *testing.T) {
	w := newFixture(t)
	var bodies [][]byte
	w.answer = func(req host.FetchRequest) (int, error) {
		bodies = append(bodies, req.Body)
		return w.verifying(secret)(req)
	}
	_, err := w.TestWebhook(ctx, developer, intA, false)
	coretest.Must(t, err)
	var e webhook.Event
	coretest.Must(t, json.Unmarshal(bodies[0], &e))
	if e.Type != webhook.TypeStarted || !e.Test ||
		e.IntegrationID != "int_"+intA || e.PublisherID != pubA ||
		!strings.HasPrefix(e.SessionID, session.Prefix) {
		t.Errorf("contract 29: %+v", e)
	}
	if _, err := session.ParseID(w.Host.Sealer, e.SessionID); !errors.Is(err, session.ErrForged) {
		t.Errorf("contract 29: the test's session id parses: %v", err)
	}
	if e.Data.Message == nil || !strings.Contains(*e.Data.Message, "It belongs to no session") {
		t.Errorf("contract 29: the event lacks the note that it has no session: %s", bodies[0])
	}
}
