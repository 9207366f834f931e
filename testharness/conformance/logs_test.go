package conformance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness"
)

// logLine is a line of the log.
type logLine map[string]any

// linesOf returns the lines that have this session.
func linesOf(t *testing.T, h *testharness.Harness, session string) (lines []logLine) {
	t.Helper()
	for text := range strings.Lines(h.Logs()) {
		var l logLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("contract 48: a line is no JSON object: %v: %s", err, text)
		}
		for _, name := range []string{"time", "level", "msg"} {
			if s, _ := l[name].(string); s == "" {
				t.Errorf("contract 48: a line has no %s: %s", name, text)
			}
		}
		if l["session"] == session {
			lines = append(lines, l)
		}
	}
	return lines
}

func having(lines []logLine, member string, value any) (some []logLine) {
	for _, l := range lines {
		if l[member] == value {
			some = append(some, l)
		}
	}
	return some
}

// Contract 48: a session can be followed by its id through every line about it, on every engine, and the
// lines match the operators' API.
func TestLog_FollowsSession(t *testing.T) {
	h := newHarness(t, nil)
	for _, how := range []string{"approve", "reject", "fail_attempt", "expire"} {
		t.Run(how, func(t *testing.T) {
			h.Sink.Next(testharness.Answer(204), testharness.Answer(503))
			s := h.Start(body{"state": canaryState, "external_user_id": canaryUser})
			h.Settle()
			switch how {
			case "approve":
				back := h.Approve(s)
				h.Settle()
				h.Validate(back.ResultToken)
				wantError(t, h.Validate(back.ResultToken), 409, "ALREADY_USED")
			case "fail_attempt":
				for range 3 {
					h.Open(s.RedirectURL).Submit(how)
				}
			default:
				ending(h, s, how)
			}
			h.Reconcile(s.SessionID)
			h.Settle()
			lines := linesOf(t, h, s.SessionID)
			checkRequests(t, h, lines, how)
			checkAgreement(t, h, s.SessionID, lines)
			for _, l := range lines {
				if text := fmt.Sprint(l); strings.Contains(text, canaryState) ||
					strings.Contains(text, canaryUser) {
					t.Errorf("contract 13, 48: a line has the publisher's text: %v", l)
				}
			}
		})
	}
}

// checkRequests checks the lines of answered requests.
func checkRequests(t *testing.T, h *testharness.Harness, lines []logLine, how string) {
	t.Helper()
	requests := having(lines, "msg", "request")
	want := map[string]int{"start": 1, "sessions": 1}
	if how == "approve" {
		want["validate"] = 2
	}
	if how != "expire" {
		want["verify"] = 2
	}
	for route, n := range want {
		if got := len(having(requests, "route", route)); got < n {
			t.Errorf("contract 48: %d lines of %s have the session, want %d: %v", got, route, n, lines)
		}
	}
	for _, l := range requests {
		took, timed := l["took_ms"].(float64)
		id, _ := l["request_id"].(string)
		if l["integration"] != h.Publisher.L1.ID || l["publisher"] != h.Publisher.ID || !timed || took < 0 ||
			!strings.HasPrefix(id, "req_") {
			t.Errorf("contract 48: a request's line lacks what is known: %v", l)
		}
		key, _ := l["key"].(string)
		if l["route"] != "verify" && !strings.HasPrefix(key, "key_") || l["route"] == "verify" && key != "" {
			t.Errorf("contract 48: the key of %s is %q", l["route"], key)
		}
	}
	if used := having(requests, "code", "ALREADY_USED"); how == "approve" && len(used) != 1 {
		t.Errorf("contract 48: %d lines have the code of the refusal: %v", len(used), requests)
	}
}

// checkAgreement compares the lines with the operators' view of the session.
func checkAgreement(t *testing.T, h *testharness.Harness, session string, lines []logLine) {
	t.Helper()
	r := h.Admin("GET", "/admin/v1/sessions/"+session, nil)
	wantStatus(t, r, 200)
	shown := r.JSON()
	ends := having(lines, "msg", "session ended")
	if len(ends) != 1 {
		t.Fatalf("contract 48: %d lines say that the session ended: %v", len(ends), lines)
	}
	end := ends[0]
	if end["state"] != shown["status"] || end["code"] != shown["failure_code"] ||
		end["integration"] != shown["integration_id"] || end["publisher"] != shown["publisher_id"] {
		t.Errorf("contract 48: the log says %v, the operators' API %v", end, shown)
	}
	attempts := map[string]int{}
	for _, l := range lines {
		if event, ok := l["event"].(string); ok {
			attempts[event]++
			if l["took_ms"] == nil || l["last"] == nil || l["integration"] != h.Publisher.L1.ID ||
				l["publisher"] != h.Publisher.ID {
				t.Errorf("contract 48: the line of an attempt lacks what is known: %v", l)
			}
		}
	}
	want := map[string]int{}
	events, _ := shown["events"].([]any)
	for _, e := range events {
		event := e.(map[string]any)
		made, _ := event["attempts"].([]any)
		want[fmt.Sprint(event["event"])] = len(made)
	}
	if !maps.Equal(attempts, want) || len(want) < 2 {
		t.Errorf("contract 48: attempts by event are %v in the log and %v in the operators' API: %s",
			attempts, want, slices.Sorted(maps.Keys(shown)))
	}
}
