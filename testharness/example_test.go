package testharness_test

import (
	"testing"
	"time"

	"github.com/verge-id/verge/testharness"
)

// What a publisher's test looks like: its server has asked for a session, the
// user is approved, the result is exchanged, and the webhooks tell the same.
func Example() {
	_ = func(t *testing.T) {
		h := testharness.New(t, nil)

		started := h.Start(testharness.Body{"state": "s-1", "external_user_id": "user-42"})
		h.Advance(30 * time.Second) // the user takes a while
		back := h.Open(started.RedirectURL).Submit("approve").Callback
		if back.State != "s-1" {
			t.Errorf("state came back as %q", back.State)
		}

		facts := h.Validate(back.ResultToken).JSON()
		if facts["verified"] != true || facts["level"] != "L1" {
			t.Errorf("the facts are %v", facts)
		}
		if code := h.Validate(back.ResultToken).Code(); code != "ALREADY_USED" {
			t.Errorf("the token was exchanged again: %q", code)
		}

		h.Settle()
		for _, e := range h.Sink.Events() {
			t.Log(e.Type, e.Data.Status)
		}
	}
}
