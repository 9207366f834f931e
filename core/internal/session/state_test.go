package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
)

var allTriggers = []Trigger{InitiationFailed, Succeeded, Rejected, AttemptFailed, Withdrawn, Unclassified,
	Cancelled, TimeUp}

// TestStateMachine tests every state and trigger at every relevant time: active, the last instant, the
// instant of expiry, long after.
func TestStateMachine(t *testing.T) {
	const attempts = 3
	expires := testTime.Add(Life)
	earlier := testTime.Add(time.Second)

	// The expected outcome of an active session.
	type outcome struct {
		state    State
		code     string
		attempts int
		changed  bool
	}
	alive := func(made int) map[Trigger]outcome {
		rows := map[Trigger]outcome{
			InitiationFailed: {Failed, "UNKNOWN", made, true},
			Succeeded:        {Completed, "", made, true},
			Rejected:         {Failed, "PROVIDER_REJECTED", made, true},
			AttemptFailed:    {Started, "", made + 1, true},
			Withdrawn:        {Failed, "USER_CANCELLED", made, true},
			Unclassified:     {Failed, "UNKNOWN", made, true},
			Cancelled:        {Started, "", made, false},
			TimeUp:           {Started, "", made, false},
		}
		if made+1 == attempts {
			rows[AttemptFailed] = outcome{Failed, "MAX_ATTEMPTS", attempts, true}
		}
		return rows
	}

	for _, now := range []struct {
		name  string
		at    time.Time
		alive bool
	}{
		{"right after creation", testTime, true},
		{"an instant before expiry", expires.Add(-time.Nanosecond), true},
		{"at expiry", expires, false},
		{"long after", expires.Add(time.Hour), false},
	} {
		for _, made := range []int{0, 1, 2} {
			for _, from := range []State{"", Started} {
				r := Record{State: from, Attempts: made}
				for _, trigger := range allTriggers {
					want, ok := alive(made)[trigger]
					if !ok {
						t.Fatalf("no row for %s", trigger)
					}
					rule := "spec, States: "
					at := now.at
					if !now.alive {
						rule = "contract 20: "
						want = outcome{Expired, "TIMEOUT", made, true}
						at = expires
					}
					if want.state == Started {
						at = time.Time{}
					}
					name := fmt.Sprintf("%s%q with %d attempts, %s, %s", rule, from, made, trigger, now.name)
					t.Run(name, func(t *testing.T) {
						next, changed := r.Apply(trigger, now.at, expires, attempts)
						if next != (Record{State: want.state, Attempts: want.attempts, FailureCode: want.code,
							At: at}) || changed != want.changed {
							t.Errorf("becomes %+v, changed %v, want %+v at %s", next, changed, want, at)
						}
					})
				}
			}
		}
		for _, final := range []Record{
			{State: Completed, Attempts: 1, At: earlier},
			{State: Failed, FailureCode: webhook.FailureMaxAttempts, Attempts: 3, At: earlier},
			{State: Failed, FailureCode: webhook.FailureProviderRejected, At: earlier},
			{State: Expired, FailureCode: webhook.FailureTimeout, At: expires},
		} {
			for _, trigger := range allTriggers {
				name := fmt.Sprintf("contract 18: %s %s is final, %s, %s",
					final.State, final.FailureCode, trigger, now.name)
				t.Run(name, func(t *testing.T) {
					if next, changed := final.Apply(trigger, now.at, expires, attempts); next != final ||
						changed {
						t.Errorf("becomes %+v, changed %v", next, changed)
					}
				})
			}
		}
	}
}

// A repeated trigger has no further effect, unless it belongs to another attempt.
func TestApply_DuplicateTrigger(t *testing.T) {
	expires := testTime.Add(Life)
	for _, trigger := range []Trigger{InitiationFailed, Succeeded, Rejected, Withdrawn, Unclassified} {
		once, changed := Record{}.Apply(trigger, testTime, expires, 3)
		if !changed || !once.Terminal() {
			t.Fatalf("%s: %+v, changed %v", trigger, once, changed)
		}
		if twice, changed := once.Apply(trigger, testTime.Add(time.Second), expires, 3); changed ||
			twice != once {
			t.Errorf("contract 18: %s a second time makes %+v of %+v", trigger, twice, once)
		}
	}
}

func TestApply_UnknownTrigger(t *testing.T) {
	next, changed := (Record{}).Apply("something new", testTime, testTime.Add(Life), 3)
	if changed || next.State != Started {
		t.Errorf("it becomes %+v, changed %v", next, changed)
	}
}

func TestApply_OneAttempt(t *testing.T) {
	next, changed := Record{}.Apply(AttemptFailed, testTime, testTime.Add(Life), 1)
	if !changed || next.State != Failed || next.FailureCode != webhook.FailureMaxAttempts ||
		next.Attempts != 1 {
		t.Errorf("contract 23: the only attempt failed, and it becomes %+v", next)
	}
}

func TestRecord_As(t *testing.T) {
	expires := testTime.Add(Life)
	done := Record{State: Completed, At: testTime}
	for _, c := range []struct {
		name string
		r    Record
		now  time.Time
		want Record
	}{
		{"contract 20: nothing has happened", Record{}, testTime, Record{State: Started}},
		{"contract 20: an instant before expiry", Record{Attempts: 2}, expires.Add(-1),
			Record{State: Started, Attempts: 2}},
		{"contract 20: expired immediately, before the timer", Record{State: Started, Attempts: 2}, expires,
			Record{State: Expired, Attempts: 2, FailureCode: webhook.FailureTimeout, At: expires}},
		{"contract 20: expired at its expiry, whenever asked", Record{}, expires.Add(time.Hour),
			Record{State: Expired, FailureCode: webhook.FailureTimeout, At: expires}},
		{"contract 37: an attempt that is asked about",
			Record{AskedUntil: expires}, testTime, Record{State: Started, AskedUntil: expires}},
		{"contract 37: until the session is over", Record{AskedUntil: expires.Add(1)}, expires,
			Record{State: Expired, FailureCode: webhook.FailureTimeout, At: expires}},
		{"contract 18: completed stays", done, expires.Add(time.Hour), done},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.r.As(c.now, expires); got != c.want {
				t.Errorf("it is %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	for state, want := range map[State]string{"": "PENDING", Started: "PENDING", Completed: "COMPLETED",
		Failed: "FAILED", Expired: "EXPIRED"} {
		if got := state.Status(); got != want {
			t.Errorf("contract 20: %q is shown as %s, want %s", state, got, want)
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range []Record{
		{State: Started},
		{State: Started, Attempts: 2},
		{State: Started, AskedUntil: testTime},
		{State: Started, Response: "b", HandOff: "h"},
		{State: Started, Steps: stepsOf(Step{testTime, "bank", "unavailable", "timeout", "", ""},
			Step{testTime, "bank", "cancelled", "cancelled", "", ""})},
		{State: Failed, FailureCode: webhook.FailureUnknown, At: testTime,
			Steps: stepsOf(Step{testTime, "bank", "attempt_failed", "unconfirmed", "proof.claim",
				"age.over"})},
		{State: Started, AskedUntil: testTime, Forms: "ab", Pictures: 10},
		{State: Completed, Attempts: 1, At: testTime},
		{State: Failed, Attempts: 3, FailureCode: webhook.FailureMaxAttempts, At: testTime},
		{State: Expired, FailureCode: webhook.FailureTimeout, At: testTime.Add(Life)},
	} {
		if back, err := ParseRecord(r.Marshal()); err != nil || back != r {
			t.Errorf("%+v came back as %+v, %v", r, back, err)
		}
	}
	// The time is stored in milliseconds, as publishers see it.
	r := Record{State: Completed, At: testTime.Add(999 * time.Microsecond)}
	if back, err := ParseRecord(r.Marshal()); err != nil || !back.At.Equal(testTime) {
		t.Errorf("contract 2: %s came back as %s, %v", r.At, back.At, err)
	}
}

func TestParseRecord_Damaged(t *testing.T) {
	for _, s := range []string{"", "null", "{}", "[]", "completed", `{"s":""}`, `{"s":"done"}`,
		`{"s":"COMPLETED"}`, `{"s":5}`, `{"s":"started","n":"1"}`, `{"s":"failed","c":1}`,
		`{"s":"completed","t":"1"}`, `{"s":"completed","t":1.5}`, `{"s":"started"} x`,
		`{"s":"started","f":1}`, `{"s":"started","i":"1"}`,
		`{"s":"started","l":{}}`, `{"s":"started","l":[1]}`, `{"s":"started","l":[{"t":"1"}]}`,
		`{"s":"started","l":[{"t":1,"m":2}]}`} {
		if r, err := ParseRecord([]byte(s)); err == nil {
			t.Errorf("%q is parsed as %+v: a damaged record must be an error", s, r)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, s := range []string{`{"s":"started","n":2}`, `{"s":"completed","t":1795212600123}`,
		`{"s":"failed","c":"MAX_ATTEMPTS","n":3,"t":1}`, `{"s":"expired"}`, `{}`, ``,
		`{"s":"started","l":[{"t":1,"m":"bank","e":"failed"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			if r != (Record{}) {
				t.Errorf("%q is rejected, but the result is %+v", b, r)
			}
			return
		}
		if back, err := ParseRecord(r.Marshal()); err != nil ||
			string(back.Marshal()) != string(r.Marshal()) {
			t.Errorf("%+v came back as %+v, %v", r, back, err)
		}
	})
}
