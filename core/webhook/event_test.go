package webhook

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func ptr(s string) *string { return &s }

var testHead = Head{
	ID:            "evt_6f1c8a52-0d8e-4c53-9a53-0d6f2b1f7c11",
	CreatedAt:     time.Date(2026, 11, 20, 23, 10, 0, 7_999_999, time.FixedZone("CET", 3600)),
	PublisherID:   "pub_1",
	IntegrationID: "0b9f2a3c-5d6e-4f70-8a91-b2c3d4e5f607",
	SessionID:     "svc_sess_1",
}

const envelope = `{"id":"evt_6f1c8a52-0d8e-4c53-9a53-0d6f2b1f7c11","type":"verification.TYPE",` +
	`"created_at":"2026-11-20T22:10:00.007Z","schema_version":"2026-01-07",` +
	`"publisher_id":"pub_1","integration_id":"int_0b9f2a3c-5d6e-4f70-8a91-b2c3d4e5f607",` +
	`"session_id":"svc_sess_1","test":false,"idempotency_key":"svc_sess_1:verification.TYPE","data":`

func TestEventBodies(t *testing.T) {
	expires := testHead.CreatedAt.Add(10 * time.Minute)
	for _, tc := range []struct {
		rule  string
		event Event
		typ   string
		data  string
	}{
		{"spec Events: started", Started(testHead, expires), "started",
			`{"status":"started","expires_at":"2026-11-20T22:20:00.007Z"}`},
		{"spec Events: completed with user and state", Completed(testHead, "L2", 18, ptr("u-1"),
			ptr("s-1")), "completed",
			`{"status":"completed","result":{"verified":true,"level":"L2","challenge_age":18},` +
				`"external_user_id":"u-1","publisher_state":"s-1"}`},
		{"spec Events: what was not given is absent, not null",
			Completed(testHead, "L1", 25, nil, nil), "completed",
			`{"status":"completed","result":{"verified":true,"level":"L1","challenge_age":25}}`},
		{"contract 8: an empty string counts as given",
			Completed(testHead, "L1", 25, ptr(""), ptr("")), "completed",
			`{"status":"completed","result":{"verified":true,"level":"L1","challenge_age":25},` +
				`"external_user_id":"","publisher_state":""}`},
		{"spec Events: a zero is present", Completed(testHead, "L1", 0, nil, nil), "completed",
			`{"status":"completed","result":{"verified":true,"level":"L1","challenge_age":0}}`},
		{"text is not escaped for HTML", Completed(testHead, "L1", 25, nil, ptr(`a<b>&"ü"`)), "completed",
			`{"status":"completed","result":{"verified":true,"level":"L1","challenge_age":25},` +
				`"publisher_state":"a<b>&\"ü\""}`},
		{"spec Events: failed", Failed(testHead, FailureTimeout, "m", ptr("u-1"), nil), "failed",
			`{"status":"failed","failure":{"code":"TIMEOUT","message":"m"},"external_user_id":"u-1"}`},
		{"spec Events: expired", Expired(testHead, expires), "expired",
			`{"status":"expired","expires_at":"2026-11-20T22:20:00.007Z"}`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			want := strings.ReplaceAll(envelope, "TYPE", tc.typ) + tc.data + "}"
			got := tc.event.Body()
			if string(got) != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if again := tc.event.Body(); !bytes.Equal(got, again) {
				t.Errorf("contract 25: the second call gave other bytes: %s", again)
			}
			var back Event
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, tc.event) {
				t.Errorf("a publisher reads %+v, sent was %+v", back, tc.event)
			}
		})
	}
}

func TestMaxBodyHoldsTheLongestEvent(t *testing.T) {
	// U+2028 is the worst character that contract 8 allows: JSON turns its three bytes into six. A
	// quote is as bad: one byte becomes two.
	for _, worst := range []string{"\"", "\u2028"} {
		h := testHead
		h.SessionID = strings.Repeat("x", 1024)
		h.PublisherID = strings.Repeat("x", 256)
		body := Failed(h, FailureProviderRejected, FailureMessage(FailureProviderRejected),
			ptr(strings.Repeat(worst, 256/len(worst))), ptr(strings.Repeat(worst, 1024/len(worst)))).Body()
		if len(body) > MaxBody {
			t.Errorf("an event of %d bytes is longer than MaxBody", len(body))
		}
	}
}

func TestNewID(t *testing.T) {
	ones := bytes.NewReader(bytes.Repeat([]byte{0xff}, 16))
	got, want := NewID(ones), "evt_ffffffff-ffff-4fff-bfff-ffffffffffff"
	if got != want {
		t.Errorf("all ones: %s, want %s", got, want)
	}
	got, want = NewID(bytes.NewReader(make([]byte, 16))), "evt_00000000-0000-4000-8000-000000000000"
	if got != want {
		t.Errorf("all zeros: %s, want %s", got, want)
	}
	v4 := regexp.MustCompile(`^evt_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if got := NewID(strings.NewReader("0123456789abcdef")); !v4.MatchString(got) {
		t.Errorf("contract 25: %s is not evt_ and a version 4 UUID", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an id was made from 15 random bytes")
		}
	}()
	NewID(io.LimitReader(strings.NewReader("0123456789abcdef"), 15))
}

func TestFailureMessages(t *testing.T) {
	seen := map[string]string{}
	for _, code := range []string{
		FailureProviderRejected,
		FailureUserCancelled,
		FailureTimeout,
		FailureMaxAttempts,
		FailureUnknown,
	} {
		m := FailureMessage(code)
		if other, ok := seen[m]; ok || m == "" {
			t.Errorf("%s says %q, as does %q", code, m, other)
		}
		seen[m] = code
	}
	if got := FailureMessage("NO_SUCH_CODE"); got != FailureMessage(FailureUnknown) {
		t.Errorf("an unknown code says %q", got)
	}
}
