package testharness_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness"
)

// Contract 13: one of each secret goes through every path, and none may come
// out in a log, a metric or an error.
func TestNoSecretIsTold(t *testing.T) {
	const (
		state   = "canary-state-5d2c1b"
		user    = "canary-user-8e4f7a"
		query   = "canary-query-1c9d3e"
		content = "canary-body-77aa10"
	)
	f := newFaults(t)
	var mu sync.Mutex
	var errors []string
	h := newHarness(t, &opts{KV: f.open, Configure: unlimited, WebhookTimeout: 500 * time.Millisecond, Observe: func(r *testharness.Response) {
		if r.Status >= 400 && strings.HasPrefix(r.Request.URL.Path, "/api/") {
			mu.Lock()
			defer mu.Unlock()
			errors = append(errors, string(r.Body))
		}
	}})
	canaries := map[string]string{"state": state, "external_user_id": user, "callback query": query, "request body": content,
		"secret key": h.Publisher.SecretKey, "public key": h.Publisher.L1.PublicKey, "webhook secret": h.Publisher.L1.WebhookSecret,
		"operator token": h.OperatorToken}
	var tokens []string
	given := body{"state": state, "external_user_id": user, "callback_url": "https://shop.example/return?q=" + query}

	for _, how := range []string{"approve", "reject", "fail_attempt", "withdraw", "unknown", "cancel", "expire"} {
		s := h.Start(given)
		tokens = append(tokens, flowOf(t, s.RedirectURL))
		h.Sink.Next(testharness.Answer(500), testharness.Answer(410), testharness.Reply{Reset: true}, testharness.Reply{Hang: true})
		if how == "approve" {
			back := h.Approve(s)
			tokens = append(tokens, back.ResultToken)
			h.Validate(back.ResultToken)
			h.Validate(back.ResultToken)
			h.ValidateAs(testharness.Bearer(h.Other.SecretKey), back.ResultToken)
			h.Reconcile(back.ResultToken)
			h.ValidateAs(testharness.Bearer(back.ResultToken), back.ResultToken)
			h.Do("GET", "/"+back.ResultToken+"/"+h.Publisher.SecretKey+"?"+query, nil, nil)
		} else {
			ending(h, s, how)
		}
		h.Reconcile(s.SessionID)
		h.Settle()
	}
	start(h, nil, string(h.StartBody(body{"public_key": h.Publisher.L1.PublicKey, "state": state})))
	_, slow := providerToken(t, h)
	tokens = append(tokens, slow)
	h.TryStart(body{"external_user_id": "sandbox:init_error", "state": state})
	for _, member := range []string{"integration_id", "callback_url", "state", "external_user_id", "language"} {
		for _, value := range []any{content, content + "\x00", content + strings.Repeat("x", 3000), []string{content}, map[string]any{content: content}} {
			h.TryStart(body{member: value})
		}
	}
	for _, callback := range []string{"https://" + content + ":pw@shop.example/", "https://shop.example/#" + content, "https://shop.example/?state=" + content} {
		h.TryStart(body{"callback_url": callback})
	}
	for _, raw := range []string{`{"` + content + `":1,"` + content + `":2}`, content, `{"state":"` + content, `{"state":"` + content + "\xff\"}", `"` + content + `"`} {
		start(h, with(h, "Idempotency-Key", content), raw)
		h.Do("POST", api.ValidatePath, with(h), []byte(raw))
		h.Do("POST", api.HostedPath, headers("Content-Type", "application/x-www-form-urlencoded"), []byte(raw))
	}
	start(h, with(h, "Idempotency-Key", "k"), string(h.StartBody(given)))
	start(h, with(h, "Idempotency-Key", "k"), string(h.StartBody(nil)))
	for _, key := range []string{"svc_sk_" + content, h.Publisher.L1.PublicKey, h.Publisher.SecretKey + "x"} {
		start(h, testharness.Bearer(key), string(h.StartBody(given)))
		h.ValidateAs(also(testharness.Bearer(key), "Origin", "https://"+content), content)
	}
	h.Do("GET", api.HostedPath+"?flow="+content, nil, nil)
	if !inWorker { // workerd itself refuses methods that it does not know
		h.Do(content, api.StartPath, with(h), nil)
	}
	h.MakeReady(h.Publisher.L1)
	h.Admin("GET", "/admin/v1/deliveries", nil)
	h.Admin("POST", "/admin/v1/keys", body{"publisher_id": content})

	for _, fault := range []kvtest.Fault{kvtest.Refuse, kvtest.LoseReply} { // the store's errors are logged in full
		s := h.Start(given)
		page := h.Open(s.RedirectURL)
		token := h.Approve(h.Start(given)).ResultToken
		tokens = append(tokens, flowOf(t, s.RedirectURL), token)
		h.Pause(6 * time.Second)
		f.set(func(c kvtest.Call) kvtest.Fault { return fault })
		h.TryStart(given)
		start(h, with(h, "Idempotency-Key", "k2"), string(h.StartBody(given)))
		h.Validate(token)
		h.Reconcile(s.SessionID)
		page.Post("approve")
		page.Reload()
		h.Engine.RunDue(t.Context())
		f.off()
	}
	h.Advance(20 * time.Minute)

	seen := h.Logs() + h.Metrics()
	mu.Lock()
	defer mu.Unlock()
	if len(errors) < 40 || strings.Count(seen, "\n") < 100 {
		t.Errorf("only %d errors and %d lines seen", len(errors), strings.Count(seen, "\n"))
	}
	for _, want := range []string{"webhook is given up", "request failed", "hosted page unavailable", "provider initiation failed"} {
		if !strings.Contains(seen, want) {
			t.Errorf("the log does not hold %q: the paths were not walked", want)
		}
	}
	look := func(name, secret string) {
		for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))[:12],
			base64.RawURLEncoding.EncodeToString([]byte(secret))[:12], secret[:min(len(secret), 24)]} {
			if i := strings.Index(seen, form); i >= 0 {
				t.Errorf("contract 13: log or metrics hold a %s: …%s…", name, seen[max(0, i-200):min(len(seen), i+100)])
			}
			for _, e := range errors {
				if strings.Contains(e, form) {
					t.Errorf("contract 5: an error holds a %s: %s", name, e)
				}
			}
		}
	}
	for name, secret := range canaries {
		look(name, secret)
	}
	for _, token := range tokens {
		if len(token) < 100 {
			t.Errorf("that is no token: %q", token)
		}
		look("token", token[7:])
	}
}
