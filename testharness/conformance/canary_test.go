package conformance_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// Contract 13: one of each secret goes through every path, and none may come
// out in a log, a metric or an error.
func TestNoSecretIsTold(t *testing.T) {
	t.Parallel() // it waits for a deadline
	w := newCanaries(t)
	w.walkSessions(t)
	said := w.walkPasskeys(t)
	w.sendBadRequests()
	w.MakeReady(w.Publisher.L1)
	w.Admin("GET", "/admin/v1/deliveries", nil)
	w.Admin("POST", "/admin/v1/keys", body{"publisher_id": canaryContent})
	w.failTheStore(t)
	w.Advance(20 * time.Minute)

	seen := w.Logs() + w.Metrics()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errors) < 40 || strings.Count(seen, "\n") < 100 {
		t.Errorf("only %d errors and %d lines seen", len(w.errors), strings.Count(seen, "\n"))
	}
	for _, want := range []string{
		"webhook failed", "request failed", "hosted page unavailable", "provider initiation failed",
		"passkey not accepted", "passkey not kept", "page of passkeys unavailable",
	} {
		if !strings.Contains(seen, want) {
			t.Errorf("the log does not hold %q: the paths were not walked", want)
		}
	}
	for name, secret := range map[string]string{
		"state": canaryState, "external_user_id": canaryUser,
		"callback query": canaryQuery, "request body": canaryContent,
		"secret key": w.Publisher.SecretKey, "public key": w.Publisher.L1.PublicKey,
		"webhook secret": w.Publisher.L1.WebhookSecret, "operator token": w.OperatorToken,
	} {
		w.look(t, seen, name, secret)
	}
	for _, answer := range said {
		for name, bytes := range map[string][]byte{"passkey's id": answer.ID,
			"passkey's answer":    answer.ClientData,
			"passkey's signature": answer.Signature, "passkey's handle": answer.UserHandle} {
			if len(bytes) > 0 {
				w.look(t, seen, name, base64.RawURLEncoding.EncodeToString(bytes))
			}
		}
	}
	for _, token := range w.tokens {
		if len(token) < 100 {
			t.Errorf("that is no token: %q", token)
		}
		w.look(t, seen, "token", token[7:])
	}
}

const (
	canaryState   = "canary-state-5d2c1b"
	canaryUser    = "canary-user-8e4f7a"
	canaryQuery   = "canary-query-1c9d3e"
	canaryContent = "canary-body-77aa10"
)

// canaries is a service whose clients send nothing but secrets.
type canaries struct {
	*testharness.Harness
	store  *faults
	given  body     // what sessions start with
	tokens []string // that were given out

	mu     sync.Mutex
	errors []string // that the API has answered
}

func newCanaries(t *testing.T) *canaries {
	t.Helper()
	w := &canaries{store: newFaults(t), given: body{
		"state": canaryState, "external_user_id": canaryUser,
		"callback_url": "https://shop.example/return?q=" + canaryQuery,
	}}
	w.Harness = newHarness(t, &opts{
		Production: true, // passkeys need a name
		Configure:  func(c *core.Config) { unlimited(c); c.Dev = true },
		KV:         w.store.open, WebhookTimeout: 500 * time.Millisecond,
		Observe: func(r *testharness.Response) {
			if r.Status >= 400 && strings.HasPrefix(r.Request.URL.Path, "/api/") {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.errors = append(w.errors, string(r.Body))
			}
		},
	})
	return w
}

// walkSessions leads sessions to every end, with receivers that fail.
func (w *canaries) walkSessions(t *testing.T) {
	for _, how := range []string{
		"approve", "reject", "fail_attempt", "withdraw", "unknown", "cancel", "expire",
	} {
		s := w.Start(w.given)
		w.tokens = append(w.tokens, flowOf(t, s.RedirectURL))
		w.Sink.Next(testharness.Answer(500), testharness.Answer(410),
			testharness.Reply{Reset: true}, testharness.Reply{Hang: true})
		if how == "approve" {
			w.misuse(w.Approve(s).ResultToken)
		} else {
			ending(w.Harness, s, how)
		}
		w.Reconcile(s.SessionID)
		w.Settle()
	}
	clientSide := w.StartBody(body{"public_key": w.Publisher.L1.PublicKey, "state": canaryState})
	start(w.Harness, nil, string(clientSide))
	_, slow := providerToken(t, w.Harness)
	w.tokens = append(w.tokens, slow)
	w.TryStart(body{"external_user_id": "sandbox:init_error", "state": canaryState})
}

// walkPasskeys creates a passkey of a session, uses it correctly and incorrectly, and searches the stored
// data, while the store works and while it fails. It returns the device's responses.
func (w *canaries) walkPasskeys(t *testing.T) (said []passkeytest.Answer) {
	w.Reconfigure(w.Publisher.L1, "",
		func(c *integration.Integration) { c.Passkeys = integration.PasskeysService })
	u := &passkeyUser{w.Harness, t, passkeytest.New(w.BaseURL)}
	u.device.Counts = true
	creates := func(options []byte) (passkeytest.Answer, error) {
		a, err := u.device.Create(options)
		said = append(said, a)
		return a, err
	}
	gets := func(changes ...func(*passkeytest.Ceremony)) func([]byte) (passkeytest.Answer, error) {
		return func(options []byte) (passkeytest.Answer, error) {
			a, err := u.device.Get(options, changes...)
			said = append(said, a)
			return a, err
		}
	}
	fails := func(do func()) {
		w.store.set(func(kvtest.Call) kvtest.Fault { return kvtest.Reject })
		do()
		w.store.off()
	}
	began := w.Start(w.given)
	done := w.Open(began.RedirectURL).Submit("approve")
	form := u.answers(done, creates)
	w.store.set(func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			return kvtest.Reject
		}
		return kvtest.Pass
	})
	done.SubmitForm(form)
	w.store.off()
	done.SubmitForm(form)
	u.holdsNothing(began, canaryQuery)

	for _, change := range []func(*passkeytest.Ceremony){
		func(*passkeytest.Ceremony) {}, // as it should be
		func(c *passkeytest.Ceremony) { c.Flags &^= passkeytest.UserVerified },
		func(c *passkeytest.Ceremony) { c.ID = []byte("a passkey of nobody") },
		func(c *passkeytest.Ceremony) { c.Counter = 0 }, // a copy
	} {
		w.Advance(time.Second)
		s := w.Start(w.given)
		page := w.Open(s.RedirectURL)
		form := u.answers(page, gets(change))
		fails(func() { page.SubmitForm(form) })
		page.SubmitForm(form)
		u.holdsNothing(s, canaryQuery)
	}
	fails(func() { w.Open(w.BaseURL + web.HostedPath + "/passkeys") })
	own := w.Open(w.BaseURL + web.HostedPath + "/passkeys")
	form = u.answers(own, gets())
	fails(func() { own.SubmitForm(form) })
	own.SubmitForm(form).Submit("delete")
	return said
}

// misuse sends a result token to where it belongs, twice, and to where it does not.
func (w *canaries) misuse(token string) {
	w.tokens = append(w.tokens, token)
	w.Validate(token)
	w.Validate(token)
	w.ValidateAs(testharness.Bearer(w.Other.SecretKey), token)
	w.Reconcile(token)
	w.ValidateAs(testharness.Bearer(token), token)
	w.Do("GET", "/"+token+"/"+w.Publisher.SecretKey+"?"+canaryQuery, nil, nil)
}

// sendBadRequests puts a secret into each rejected part of a request.
func (w *canaries) sendBadRequests() {
	const content = canaryContent
	for _, member := range []string{"integration_id", "callback_url", "state", "external_user_id",
		"language"} {
		for _, value := range []any{
			content, content + "\x00", content + strings.Repeat("x", 3000),
			[]string{content}, map[string]any{content: content},
		} {
			w.TryStart(body{member: value})
		}
	}
	for _, callback := range []string{
		"https://" + content + ":pw@shop.example/",
		"https://shop.example/#" + content,
		"https://shop.example/?state=" + content,
	} {
		w.TryStart(body{"callback_url": callback})
	}
	h := w.Harness
	for _, raw := range []string{
		`{"` + content + `":1,"` + content + `":2}`, content, `{"state":"` + content,
		`{"state":"` + content + "\xff\"}", `"` + content + `"`,
	} {
		start(h, with(h, "Idempotency-Key", content), raw)
		w.Do("POST", web.ValidatePath, with(h), []byte(raw))
		w.Do("POST", web.HostedPath, headers("Content-Type", formType), []byte(raw))
	}
	start(h, with(h, "Idempotency-Key", "k"), string(w.StartBody(w.given)))
	start(h, with(h, "Idempotency-Key", "k"), string(w.StartBody(nil)))
	for _, key := range []string{"svc_sk_" + content, w.Publisher.L1.PublicKey, w.Publisher.SecretKey + "x"} {
		start(h, testharness.Bearer(key), string(w.StartBody(w.given)))
		w.ValidateAs(also(testharness.Bearer(key), "Origin", "https://"+content), content)
	}
	w.Do("GET", web.HostedPath+"?flow="+content, nil, nil)
	if !inWorker { // workerd itself rejects methods that it does not know
		w.Do(content, web.StartPath, with(h), nil)
	}
}

// failTheStore has every request meet a store that fails: its errors are
// logged in full.
func (w *canaries) failTheStore(t *testing.T) {
	for _, fault := range []kvtest.Fault{kvtest.Reject, kvtest.LoseReply} {
		s := w.Start(w.given)
		page := w.Open(s.RedirectURL)
		token := w.Approve(w.Start(w.given)).ResultToken
		w.tokens = append(w.tokens, flowOf(t, s.RedirectURL), token)
		w.Pause(6 * time.Second)
		w.store.set(func(kvtest.Call) kvtest.Fault { return fault })
		w.TryStart(w.given)
		start(w.Harness, with(w.Harness, "Idempotency-Key", "k2"), string(w.StartBody(w.given)))
		w.Validate(token)
		w.Reconcile(s.SessionID)
		page.Post("approve")
		page.Reload()
		w.Engine.RunDue(t.Context())
		w.store.off()
	}
}

// look searches the logs and responses for a secret, or its beginning.
func (w *canaries) look(t *testing.T, seen, name, secret string) {
	t.Helper()
	for _, form := range []string{
		secret, secret[:min(len(secret), 24)], url.QueryEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret))[:12],
		base64.RawURLEncoding.EncodeToString([]byte(secret))[:12],
	} {
		if i := strings.Index(seen, form); i >= 0 {
			around := seen[max(0, i-200):min(len(seen), i+100)]
			t.Errorf("contract 13: log or metrics hold a %s: …%s…", name, around)
		}
		for _, e := range w.errors {
			if strings.Contains(e, form) {
				t.Errorf("contract 5: an error holds a %s: %s", name, e)
			}
		}
	}
}
