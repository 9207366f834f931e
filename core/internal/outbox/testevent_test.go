package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/delivery"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

var tested = integration.Integration{ID: testUUID, PublisherID: "pub_a", Level: "L2", ChallengeAge: 18,
	Webhook: integration.Webhook{URL: hookURL}}

// Contract 44: a test event of any of the five types, with test set, is sent like any other event.
func TestSendTestOfEveryType(t *testing.T) {
	w := newFixture(t)
	for n, typ := range webhook.Types() {
		w.answer = func(host.FetchRequest) (int, error) {
			w.Clock.Advance(70 * time.Millisecond)
			return 202,
				nil
		}
		sent := ms(w.Clock.Now())
		x, err := w.SendTest(ctx, &tested, secret, typ)
		coretest.Must(t, err)
		if len(w.posts) != n+1 {
			t.Fatalf("%s: %d posts", typ, len(w.posts))
		}
		p := w.posts[n]
		if p.URL != hookURL || p.Method != "POST" || string(p.Body) != string(x.Body) || p.For != "" {
			t.Errorf("%s: posted %+v", typ, p)
		}
		header := map[string][]string{}
		for name, value := range x.Header {
			header[name] = []string{value}
			if p.Header[name] != value {
				t.Errorf("%s: %s differs from the request sent", typ, name)
			}
		}
		if err := webhook.Verify(secret, header, x.Body, sent, 0); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
		var e webhook.Event
		coretest.Must(t, json.Unmarshal(x.Body, &e))
		if e.Type != typ || !e.Test || e.Data.Message == nil || e.PublisherID != "pub_a" ||
			e.IntegrationID != "int_"+testUUID {
			t.Errorf("%s: the event is %s", typ, x.Body)
		}
		if _, err := session.ParseID(w.Outbox.Sealer, e.SessionID); !errors.Is(err, session.ErrForged) {
			t.Errorf("%s: its session can be asked for: %v", typ, err)
		}
		if r := e.Data.Result; r != nil && (r.Level != "L2" || r.ChallengeAge != 18) {
			t.Errorf("%s: the result is not of this integration: %+v", typ, r)
		}
		if x.Status != 202 || x.Took != 70*time.Millisecond || x.Verdict != delivery.Delivered ||
			x.Cause != "" || !x.At.Equal(sent) {
			t.Errorf("%s: %+v", typ, x)
		}
		d := w.log(t)[0]
		if d.Event != e.ID || d.Type != typ || !d.Test || d.State != StateDelivered || len(d.Attempts) != 1 ||
			d.Attempts[0] != x.Attempt {
			t.Errorf("%s: log entry %+v", typ, d)
		}
		kept := string(d.Body)
		if strings.Contains(kept, "publisher_state") || strings.Contains(kept, "external_user_id") {
			t.Errorf("%s: kept is %s", typ, d.Body)
		}
	}
	if _, err := w.SendTest(ctx, &tested, secret, "verification.unknown"); !errors.Is(err, ErrNoType) {
		t.Errorf("another type: %v", err)
	}
	off := tested
	off.Webhook = integration.Webhook{Off: true}
	if _, err := w.SendTest(ctx, &off, secret, webhook.TypeStarted); !errors.Is(err, errNoReceiver) {
		t.Errorf("switched off: %v", err)
	}
	if len(w.posts) != len(webhook.Types()) {
		t.Errorf("%d posts", len(w.posts))
	}
}

func TestSendTest_OneAttempt(t *testing.T) {
	for _, c := range []struct {
		answer  func(host.FetchRequest) (int, error)
		verdict delivery.Verdict
		words   string
	}{
		{status(500), delivery.Retry, "returned 500"},
		{status(308), delivery.Retry, "Redirects are not followed"},
		{status(401), delivery.Failed, "did not accept the signature"},
		{status(404), delivery.Failed, "fail without a retry"},
		{fails(host.FetchDNS), delivery.Retry, host.FetchCause(host.FetchDNS)},
		{fails("a reason of a later release"), delivery.Retry, "no response"},
	} {
		w := newFixture(t)
		w.answer = c.answer
		x, err := w.SendTest(ctx, &tested, secret, webhook.TypeFailed)
		coretest.Must(t, err)
		if x.Verdict != c.verdict || !strings.Contains(x.Words, c.words) {
			t.Errorf("%s: %s: %q, want %q in it", x.Attempt, x.Verdict, x.Words, c.words)
		}
		w.idle(t)
		w.agree(t)
		d := w.log(t)
		if len(d) != 1 || !d[0].Test || d[0].State != StateDead || d[0].Reason != onlyTest ||
			len(w.dead(t)) != 0 {
			t.Errorf("%s: log entry %+v, dead %+v", x.Attempt, d, w.dead(t))
		}
		if _, err := w.Resend(ctx, d[0].Partition, d[0].Event, ""); !errors.Is(err, ErrNotDead) {
			t.Errorf("%s: sent again: %v", x.Attempt, err)
		}
	}
}

// A store error does not hide the result: the receiver has got the event.
func TestSendTest_NotLogged(t *testing.T) {
	w := newFixture(t)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			return kvtest.Reject
		}
		return kvtest.Pass
	}
	x, err := w.SendTest(ctx, &tested, secret, webhook.TypeStarted)
	if err != nil || x.Status != 200 || !strings.Contains(w.Logged.String(), "test delivery not logged") {
		t.Errorf("%+v, %v; logged %s", x, err, &w.Logged)
	}
}

func TestSendTest_Stopped(t *testing.T) {
	w := newFixture(t)
	stopped, stop := context.WithCancel(ctx)
	w.answer = func(host.FetchRequest) (int, error) {
		stop()
		return 0, &host.FetchError{Reason: host.FetchNetwork, Err: context.Canceled}
	}
	if _, err := w.SendTest(stopped, &tested, secret, webhook.TypeStarted); !errors.Is(err,
		context.Canceled) {
		t.Errorf("error %v", err)
	}
	if items, err := w.Memory.List(ctx, kv.Key{Partition: "p0"}, "", 5); err != nil || len(items) != 0 {
		t.Errorf("logged %+v, %v", items, err)
	}
}

func TestBeginning(t *testing.T) {
	for _, c := range []struct {
		name, body, want string
		cut              bool
	}{
		{"none", "", "", false},
		{"HTML is unchanged", "<b>&amp;</b>\x00", "<b>&amp;</b>\x00", false},
		{"exactly full", strings.Repeat("a", maxShownBody), strings.Repeat("a", maxShownBody), false},
		{"one more", strings.Repeat("a", maxShownBody+1), strings.Repeat("a", maxShownBody), true},
		{"a character across the end", strings.Repeat("a", maxShownBody-1) + "€€",
			strings.Repeat("a", maxShownBody-1), true},
		{"a character up to the end", strings.Repeat("a", maxShownBody-3) + "€€",
			strings.Repeat("a", maxShownBody-3) + "€", true},
		{"no UTF-8", "a\xffb", "a\uFFFDb", false},
		{"no UTF-8 at all", strings.Repeat("\x80", maxShownBody+9), "\uFFFD", true},
	} {
		text, cut := beginning([]byte(c.body))
		if text != c.want || cut != c.cut || !utf8.ValidString(text) {
			t.Errorf("%s: %d bytes, %.20q…, cut %v; want %d, %.20q…, %v",
				c.name, len(text), text, cut, len(c.want), c.want, c.cut)
		}
	}
}

// Contract 49: the list contains only test events, even if an attacker with write access to the store adds
// another entry.
func TestTests_OnlyTestEvents(t *testing.T) {
	w := newFixture(t)
	begin := w.Clock.Now()
	w.schedule(t)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	items, err := w.Memory.List(ctx, kv.Key{Partition: part, Name: logPrefix}, "", 5)
	coretest.Must(t, err)
	moved := testsInLog + strings.TrimPrefix(items[0].Key.Name, logPrefix)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "move", Partition: part,
		Puts: []kv.Put{{Name: moved, Value: items[0].Value}}}))
	sent, err := w.SendTest(ctx, &tested, secret, "verification.expired")
	coretest.Must(t, err)
	var event webhook.Event
	coretest.Must(t, json.Unmarshal(sent.Body, &event))
	found, more, err := w.Tests(ctx, testUUID, begin)
	if err != nil || more || len(found) != 1 || found[0].Event != event.ID {
		t.Errorf("found %+v, %v, %v, want only the event %s", found, more, err, event.ID)
	}
}
