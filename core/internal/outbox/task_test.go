package outbox

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/webhook"
)

// Stores keep whole milliseconds and may round up. An event due between two of them would wait for its first
// attempt.
func TestEvent_StoreThatRoundsUp(t *testing.T) {
	w := newFixture(t)
	for _, fine := range []time.Duration{0, 1, 999_999 * time.Nanosecond} {
		now := w.Clock.Now().Truncate(time.Millisecond).Add(fine)
		e := webhook.Started(webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: now,
			SessionID: "svc_sess_x"}, now.Add(time.Minute))
		task, err := Event(w.Outbox.Sealer, e, testUUID, now)
		coretest.Must(t, err)
		up := task.Due.Add(time.Millisecond - 1).Truncate(time.Millisecond)
		if up.After(now) || now.Sub(task.Due) >= time.Millisecond {
			t.Errorf("at %v: due %v, which a store rounds up to %v", now, task.Due, up)
		}
	}
}

// A task's payload begins with the output of package json. readMeta parses it, and rejects damaged input.
func TestReadMeta(t *testing.T) {
	for _, want := range []Meta{
		{Kind: Expire, Session: "svc_sess_x", Integration: testUUID},
		{Kind: Deliver, Session: "<&>\u2028\"", Integration: testUUID, Type: webhook.TypeFailed, Attempts: 1,
			Postponed: 2, Before: 3, Tried: "1:200:3 4:timeout:5"},
	} {
		line, err := json.Marshal(want)
		coretest.Must(t, err)
		if got, err := readMeta(line); err != nil || got != want {
			t.Errorf("%s is read as %+v, %v", line, got, err)
		}
		if got := want.payload([]byte("body")); string(got) != string(line)+"\nbody" {
			t.Errorf("payload %s, want %s, a line feed and the body", got, line)
		}
	}
	for _, damaged := range []string{"", "x", "{}", `{"k":"deliver"`, `{"k":"other"}`, `{"k":1}`,
		`{"k":"deliver","n":"1"}`, `{"k":"deliver","n":1.5}`, `{"k":"deliver","a":7}`, `{"k":"deliver"} x`} {
		if got, err := readMeta([]byte(damaged)); err == nil {
			t.Errorf("%s is read as %+v", damaged, got)
		}
	}
}
