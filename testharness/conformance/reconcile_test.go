package conformance_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

func TestReconcileTable(t *testing.T) {
	reasons := map[string]bool{}
	for _, c := range []struct {
		name, user string
		submit     []string // one for each page, a second apart
		wait       time.Duration
		status     string
		verified   any
		code       any
		completed  any
	}{
		{"contract 20: started is PENDING", "", nil, 0, "PENDING", nil, nil, nil},
		{"contract 20: cancelled is PENDING", "", []string{"cancel"}, 0, "PENDING", nil, nil, nil},
		{"contract 20: an attempt failed is PENDING", "", []string{"fail_attempt", "fail_attempt"}, 0,
			"PENDING", nil, nil, nil},
		{"contract 20: completed is COMPLETED", "", []string{"approve"}, 0, "COMPLETED", true, nil,
			"2026-11-20T22:10:01.000Z"},
		{"contract 20: completed stays COMPLETED after the 10 minutes", "", []string{"approve"}, time.Hour,
			"COMPLETED", true, nil, "2026-11-20T22:10:01.000Z"},
		{"contract 20: rejected is FAILED", "", []string{"reject"}, 0, "FAILED", false, "PROVIDER_REJECTED",
			"2026-11-20T22:10:01.000Z"},
		{"contract 20: withdrawn is FAILED", "", []string{"withdraw"}, 0, "FAILED", false, "USER_CANCELLED",
			"2026-11-20T22:10:01.000Z"},
		{"contract 20: unclassified is FAILED", "", []string{"unknown"}, 0, "FAILED", false, "UNKNOWN",
			"2026-11-20T22:10:01.000Z"},
		{"contract 20: no attempts left is FAILED", "",
			[]string{"fail_attempt", "fail_attempt", "fail_attempt"},
			0, "FAILED", false, "MAX_ATTEMPTS", "2026-11-20T22:10:03.000Z"},
		{"contract 20: expired is EXPIRED with TIMEOUT", "", nil, 10 * time.Minute, "EXPIRED", false,
			"TIMEOUT", "2026-11-20T22:20:00.000Z"},
		{"contract 20: expired long ago", "", []string{"fail_attempt"}, 24 * time.Hour, "EXPIRED", false,
			"TIMEOUT", "2026-11-20T22:20:00.000Z"},
	} {
		for _, level := range []string{"L1", "L2"} {
			t.Run(c.name+", "+level, func(t *testing.T) {
				h := newHarness(t, nil)
				i := map[string]*testharness.Integration{"L1": h.Publisher.L1, "L2": h.Publisher.L2}[level]
				s := h.Start(body{"integration_id": i.ID, "state": "s", "external_user_id": "u"})
				page := h.Open(s.RedirectURL)
				for _, outcome := range c.submit {
					h.Advance(time.Second)
					page = page.Submit(outcome)
				}
				h.Advance(c.wait)
				r := h.Reconcile(s.SessionID)
				m := r.JSON()
				reason, _ := m["failure_reason"].(string)
				if (reason != "") != (c.code != nil) {
					t.Errorf("failure_code %v, failure_reason %v", c.code, m["failure_reason"])
				}
				reasons[reason] = true
				wantJSON(t, r, 200, map[string]any{
					"session_id": s.SessionID, "status": c.status, "verified": c.verified,
					"failure_code":   c.code,
					"failure_reason": m["failure_reason"], "level": level,
					"challenge_age": float64(i.ChallengeAge),
					"completed_at":  c.completed, "expires_at": "2026-11-20T22:20:00.000Z",
					"result_available": c.status == "COMPLETED",
				})
				if _, there := m["failure_reason"]; !there {
					t.Error("failure_reason is absent, not null")
				}
			})
		}
	}
	if len(reasons) != 6 {
		t.Errorf("failure reasons: %v, want one for each code and none", reasons)
	}
}

func TestReconcileErrors(t *testing.T) {
	h := newHarness(t, nil)
	s := h.Start(nil)
	for _, c := range []struct {
		name, id string
		status   int
		code     string
	}{
		{"contract 6: 400 for a malformed session id", "sess_1", 400, "INVALID_REQUEST"},
		{"contract 6: 400 for the prefix alone", "svc_sess_", 400, "INVALID_REQUEST"},
		{"contract 6: 400 for a text that is too long", "svc_sess_" + strings.Repeat("A", 248),
			400, "INVALID_REQUEST"},
		{"contract 6: 404 for a text that resembles one", "svc_sess_doesnotexist", 404, "NOT_FOUND"},
		{"contract 6: 404 for a session id cut short", s.SessionID[:len(s.SessionID)-1], 404, "NOT_FOUND"},
		{"contract 6: 404 for a session id with more", s.SessionID + "A", 404, "NOT_FOUND"},
		{"contract 6: 400 for a session id with an encoded line break",
			s.SessionID[:20] + "%0A" + s.SessionID[20:], 400, "INVALID_REQUEST"},
		{"contract 6: 404 for a forged session id",
			s.SessionID[:12] + flip(s.SessionID[12]) + s.SessionID[13:], 404, "NOT_FOUND"},
		{"contract 6: 200", s.SessionID, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := h.Reconcile(c.id)
			wantError(t, r, c.status, c.code)
			if got := r.Details(); c.status == 400 && !slices.Equal(got, []string{"sessionId"}) {
				t.Errorf("details name %v", got)
			}
		})
	}
	t.Run("contract 6: 401, 403 and 404 by credential", func(t *testing.T) {
		as := func(key string) *testharness.Response {
			return h.Do("GET", web.SessionsPath+s.SessionID, testharness.Bearer(key), nil)
		}
		wantError(t, h.Do("GET", web.SessionsPath+s.SessionID, nil, nil), 401, "UNAUTHORIZED")
		wantError(t, as(h.Publisher.L1.PublicKey), 403, "FORBIDDEN")
		wantError(t, as(h.Other.SecretKey), 404, "NOT_FOUND")
	})
}

func TestOutcomeLife(t *testing.T) {
	for _, c := range []struct {
		name      string
		configure func(*core.Config)
		life      time.Duration
	}{
		{"contract 21: outcomes are kept 30 days", nil, 30 * 24 * time.Hour},
		{"contract 21: or as long as is set", func(c *core.Config) { c.OutcomeLife = time.Hour }, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, &opts{Configure: c.configure})
			completed, pending := h.Start(nil), h.Start(nil)
			h.Approve(completed)
			end := testharness.Epoch.Add(10*time.Minute + c.life)
			h.AdvanceTo(end.Add(-time.Millisecond))
			if m := h.Reconcile(completed.SessionID).JSON(); m["status"] != "COMPLETED" {
				t.Errorf("reconcile does not return COMPLETED: %v", m)
			}
			if m := h.Reconcile(pending.SessionID).JSON(); m["status"] != "EXPIRED" {
				t.Errorf("reconcile does not return EXPIRED: %v", m)
			}
			h.AdvanceTo(end)
			wantError(t, h.Reconcile(completed.SessionID), 404, "NOT_FOUND")
			wantError(t, h.Reconcile(pending.SessionID), 404, "NOT_FOUND")
		})
	}
}

// Contract 19: the stored data of a session, before and after its end.
func TestReconcile_StoredData(t *testing.T) {
	h := newHarness(t, nil)
	const state, user = "canary-state-7d1f", "canary-user-93ac"
	s := h.Start(body{"state": state, "external_user_id": user})
	h.Approve(s)
	h.Open(h.Start(body{"state": state, "external_user_id": user}).RedirectURL).Submit("reject")
	h.Advance(time.Minute)
	n := 0
	for item := range everything(t, h) {
		n++
		for _, secret := range []string{state, user, "Y2FuYXJ5", h.Publisher.L1.WebhookSecret} {
			if containsFold(item, secret) {
				t.Errorf("contract 19: the store holds %s after its events are delivered: %s", secret, item)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d items seen", n)
	}
}
