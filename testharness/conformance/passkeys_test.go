package conformance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// A user with a device that has passkeys (contract 38).
type passkeyUser struct {
	*testharness.Harness
	t      *testing.T
	device *passkeytest.Authenticator
}

func newPasskeyUser(t *testing.T) *passkeyUser {
	t.Helper()
	h := newHarness(t, &opts{Production: true, Configure: func(c *core.Config) { c.Dev = true }})
	for _, i := range []*testharness.Integration{h.Publisher.L1, h.Publisher.L2, h.Other.L1} {
		h.Reconfigure(i, "", func(c *integration.Integration) { c.Passkeys = integration.PasskeysService })
	}
	return &passkeyUser{h, t, passkeytest.New(h.BaseURL)}
}

// answers returns the form of the page's script for the device's response to its options.
func (u *passkeyUser) answers(page *testharness.Page, say func(options []byte) (passkeytest.Answer, error),
) testharness.Form {
	u.t.Helper()
	at := slices.IndexFunc(page.Forms, asksPasskey)
	if at < 0 {
		u.t.Fatalf("contract 38: the %s page has no form with a passkey: %s", page.Kind, page.Body)
	}
	answer, err := say([]byte(page.Forms[at].Data["options"]))
	if err != nil {
		u.t.Fatal(err)
	}
	form := page.Forms[at]
	form.Fields.Set("credential", string(answer.JSON()))
	return form
}

func (u *passkeyUser) makes(page *testharness.Page) *testharness.Page {
	u.t.Helper()
	return page.SubmitForm(
		u.answers(page, func(o []byte) (passkeytest.Answer, error) { return u.device.Create(o) }))
}

func (u *passkeyUser) uses(page *testharness.Page, changes ...func(*passkeytest.Ceremony)) *testharness.Page {
	u.t.Helper()
	return page.SubmitForm(u.answers(page, func(o []byte) (passkeytest.Answer, error) {
		return u.device.Get(o, changes...)
	}))
}

// asksPasskey reports whether a form needs a passkey's response.
func asksPasskey(f testharness.Form) bool { return f.Data["options"] != "" }

func offersPasskey(page *testharness.Page) bool { return slices.ContainsFunc(page.Forms, asksPasskey) }

// begins starts a session and shows its first page.
func (u *passkeyUser) begins(i *testharness.Integration) (*testharness.Page, testharness.Started) {
	u.t.Helper()
	s := u.Start(body{"integration_id": i.ID, "state": canaryState, "external_user_id": canaryUser})
	return u.Open(s.RedirectURL), s
}

// TestPasskeys walks from a check to a passkey, and from there to the next sessions.
func TestPasskeys(t *testing.T) {
	u := newPasskeyUser(t)
	u.device.Counts = true
	page, s := u.begins(u.Publisher.L1)
	done := page.Submit("approve")
	if done.Callback == nil || !offersPasskey(done) {
		t.Fatalf("contract 38: after a success: %s", done.Body)
	}
	u.Settle()
	if events := u.Sink.EventsOf(s.SessionID); len(events) != 2 {
		t.Errorf("contract 38: the webhook waits for the passkey: %d events", len(events))
	}
	if made := u.makes(done); made.Callback == nil || offersPasskey(made) {
		t.Fatalf("contract 38: after the passkey is made: %s", made.Body)
	}
	wantFacts(t, u, done.Callback, "L1", 25)
	u.holdsNothing(s)

	u.Advance(time.Minute)
	page, s = u.begins(u.Publisher.L1)
	cancelled := page.Submit("cancel")
	if cancelled.Kind != "cancelled" {
		t.Fatalf("%s", cancelled.Kind)
	}
	done = u.uses(cancelled)
	if done.Callback == nil || offersPasskey(done) {
		t.Fatalf("contract 38: with a passkey on the page after cancelling: %s", done.Body)
	}
	wantFacts(t, u, done.Callback, "L1", 25)
	if r := u.Reconcile(s.SessionID).JSON(); r["status"] != "COMPLETED" {
		t.Errorf("contract 38: %v", r)
	}
	query := "?method=passkey&publisher_id=" + u.Publisher.ID
	listed := string(u.Admin("GET", "/admin/v1/sessions"+query, nil).Body)
	if strings.Count(listed, "session_id") != 1 || !strings.Contains(listed, s.SessionID) {
		t.Errorf("contract 38: the finished sessions by a passkey: %s", listed)
	}

	// The ring is rotated, and a new guest or module runs.
	u.RotateKeyring()
	u.Engine.Forget()
	page, _ = u.begins(u.Publisher.L1)
	if done := u.uses(page); done.Callback == nil {
		t.Fatalf("contract 16: after a rotation: %s", done.Body)
	}

	// L1 is not enough for L2: no attempt is counted, the page shows the reason, and still offers the method.
	page, s = u.begins(u.Publisher.L2)
	rejected := u.uses(page)
	if rejected.Callback != nil || rejected.Kind != "method" || !strings.Contains(string(rejected.Body),
		"asks for one with an ID") {
		t.Fatalf("contract 38: L1 for L2: %s", rejected.Body)
	}
	if r := u.Reconcile(s.SessionID).JSON(); r["status"] != "PENDING" {
		t.Errorf("contract 38: L1 for L2: %v", r)
	}
	if done := rejected.Submit("approve"); done.Callback == nil {
		t.Errorf("contract 38: the method is gone: %s", done.Body)
	}

	// Where only the publisher's own passkeys count.
	u.Reconfigure(u.Other.L1, "",
		func(c *integration.Integration) { c.Passkeys = integration.PasskeysPublisher })
	other := u.Do("POST", web.StartPath, testharness.Bearer(u.Other.SecretKey),
		u.StartBody(body{"integration_id": u.Other.L1.ID})).JSON()["redirect_url"]
	elsewhere := u.uses(u.Open(other.(string)))
	if elsewhere.Callback != nil || !strings.Contains(string(elsewhere.Body), "for another site") {
		t.Errorf("contract 38: another publisher's passkey: %s", elsewhere.Body)
	}

	// Invalid responses, and a copy.
	page, s = u.begins(u.Publisher.L1)
	bad := u.uses(page, func(c *passkeytest.Ceremony) { c.Flags &^= passkeytest.UserVerified })
	if bad.Status != 400 || bad.Callback != nil {
		t.Errorf("contract 38: a user who is not verified: %d", bad.Status)
	}
	u.Advance(time.Second)
	copied := u.uses(u.Open(s.RedirectURL), func(c *passkeytest.Ceremony) { c.Counter = 1 })
	if copied.Callback != nil || !strings.Contains(string(copied.Body), "It may have been copied") {
		t.Errorf("contract 38: a counter that goes down: %s", copied.Body)
	}
	u.Advance(time.Second)
	if again := u.uses(u.Open(s.RedirectURL)); again.Callback != nil {
		t.Error("contract 38: a blocked passkey is accepted")
	}
	if seen := u.Logs() + u.Metrics(); strings.Contains(seen, canaryUser) ||
		strings.Contains(seen, canaryState) || !strings.Contains(seen, "passkey not accepted") {
		t.Errorf("contract 13: the log and the metrics: %s", seen)
	}
}

func wantFacts(t *testing.T, u *passkeyUser, back *testharness.Return, level string, age float64) {
	t.Helper()
	r := u.Validate(back.ResultToken)
	facts := r.JSON()
	if r.Status != 200 || facts["level"] != level || facts["challenge_age"] != age ||
		strings.Contains(string(r.Body), "passkey") {
		t.Errorf("contract 38: validate: %d %s", r.Status, r.Body)
	}
}

// holdsNothing checks that the stored passkeys contain no data of a session, no name and none of the other
// texts.
func (u *passkeyUser) holdsNothing(s testharness.Started, others ...string) {
	u.t.Helper()
	secrets := append(others, s.SessionID, canaryState, canaryUser, u.Publisher.L1.ID, "shop.example")
	found := 0
	for n := range 8 {
		items, err := u.KV.List(u.t.Context(), kv.Key{Partition: kv.Partition(fmt.Sprint("k", n))}, "", 100)
		if err != nil {
			u.t.Fatal(err)
		}
		for _, it := range items {
			found++
			for _, secret := range secrets {
				if strings.Contains(it.Key.Name+string(it.Value), secret) {
					u.t.Errorf("contract 38: %s has %q", it.Key, secret)
				}
			}
		}
	}
	if found != 2 {
		u.t.Errorf("contract 38: the store has %d items of one passkey, want 2", found)
	}
}

// TestPasskeysOfOperators counts and ends a publisher's passkeys, and has a user see and delete one.
func TestPasskeysOfOperators(t *testing.T) {
	u := newPasskeyUser(t)
	for range 3 {
		page, _ := u.begins(u.Publisher.L1)
		u.makes(page.Submit("approve"))
	}
	counts := func(want float64) {
		t.Helper()
		r := u.Admin("GET", "/admin/v1/passkeys?publisher_id="+u.Publisher.ID, nil)
		if got := r.JSON(); r.Status != 200 || got["count"] != want || got["more"] != false {
			t.Errorf("contract 38: %d %s, want %v", r.Status, r.Body, want)
		}
	}
	counts(3)
	own := u.Open(u.BaseURL + "/verify/passkeys")
	shown := u.uses(own)
	if !strings.Contains(string(shown.Body), "A check that you are 18 or older") {
		t.Fatalf("contract 38: %s", shown.Body)
	}
	if deleted := shown.Submit("delete"); !strings.Contains(string(deleted.Body), "Passkey data deleted") {
		t.Errorf("contract 38: %s", deleted.Body)
	}
	counts(2)
	u.device.Passkeys = u.device.Passkeys[:2]
	u.Advance(time.Second)
	if r := u.Admin("POST", "/admin/v1/passkeys/end", body{"publisher_id": u.Other.ID}); r.Status != 200 {
		t.Errorf("contract 38: %d %s", r.Status, r.Body)
	}
	counts(2)
	page, _ := u.begins(u.Publisher.L1)
	if done := u.uses(page); done.Callback == nil {
		t.Errorf("contract 38: another publisher's passkeys were ended: %s", done.Body)
	}
	if r := u.Admin("POST", "/admin/v1/passkeys/end", body{"publisher_id": u.Publisher.ID}); r.Status != 200 {
		t.Errorf("contract 38: %d %s", r.Status, r.Body)
	}
	counts(0)
	page, _ = u.begins(u.Publisher.L1)
	if rejected := u.uses(page); rejected.Callback != nil ||
		!strings.Contains(string(rejected.Body), "It is no longer valid") {
		t.Errorf("contract 38: an ended passkey: %s", rejected.Body)
	}
	if r := u.Admin("POST", "/admin/v1/passkeys/end", body{"publisher_id": "pub_none"}); r.Status != 404 &&
		r.Status != 400 {
		t.Errorf("contract 42: no such publisher: %d %s", r.Status, r.Body)
	}
	audit := string(u.Admin("GET", "/admin/v1/audit?publisher_id="+u.Publisher.ID, nil).Body)
	if !strings.Contains(audit, "passkeys.end") {
		t.Errorf("contract 42: the audit: %s", audit)
	}
}
