package webhook

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

func TestTestEvent_Types(t *testing.T) {
	created := time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)
	h := Head{ID: "evt_694069ac-4d4e-475f-906b-2f11c5eca7bd", CreatedAt: created, PublisherID: "pub_a",
		IntegrationID: "694069ac-4d4e-475f-906b-2f11c5eca7bd", SessionID: "svc_sess_x"}
	members := map[string][]string{
		TypeStarted:   {"expires_at", "message", "status"},
		TypeCompleted: {"external_user_id", "message", "publisher_state", "result", "status"},
		TypeFailed:    {"external_user_id", "failure", "message", "publisher_state", "status"},
		TypeExpired:   {"expires_at", "message", "status"},
		TypeCancelled: {"message", "status"},
	}
	for _, typ := range Types() {
		e, ok := TestEvent(h, typ, "L2", 18)
		if !ok || !e.Test || e.Type != typ || e.ID != h.ID || e.IdempotencyKey != "svc_sess_x:"+typ ||
			"verification."+e.Data.Status != typ || *e.Data.Message != testMessage {
			t.Errorf("%s: %+v", typ, e)
		}
		var body struct{ Data map[string]any }
		if err := json.Unmarshal(e.Body(), &body); err != nil {
			t.Fatal(err)
		}
		var got []string
		for name := range body.Data {
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, members[typ]) {
			t.Errorf("%s: data has %q, want %q", typ, got, members[typ])
		}
		delete(members, typ)
		if r := e.Data.Result; r != nil && *r != (Result{Verified: true, Level: "L2", ChallengeAge: 18}) {
			t.Errorf("%s: %+v", typ, r)
		}
	}
	if len(members) != 0 {
		t.Errorf("Types leaves out %v", members)
	}
	if e, ok := TestEvent(h, "verification.unknown", "L1", 18); ok {
		t.Errorf("a type that does not exist: %+v", e)
	}
}
