package hosted

import (
	"reflect"
	"testing"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/method"
)

// The step of the browser waits for a response, as after a return.
func TestDecide(t *testing.T) {
	v := &visit{Hosted: &Hosted{}, session: lifecycle.Session{Integration: &integration.Integration{}}}
	m := method.Opened{}
	m.Name = "bank"
	s := token.StepClaims{Handle: "h", Attempt: 1, Leave: "https://bank",
		Pending: token.Pending{Response: "r"}}
	next := token.StepClaims{Handle: "h", Attempt: 1, State: []byte("n"), Issued: token.At(v.now)}
	named, left := next, next
	named.Method = "bank"
	left.Method, left.Handle, left.Leave = "bank", "new", "https://other"
	fires := func(trigger session.Trigger, result string) effect {
		return effect{fire: &lifecycle.Step{Trigger: trigger, Attempt: 1, Browser: session.Proof("h"),
			Entry: session.Step{Method: "bank", Result: result, Reason: result}}}
	}
	for _, c := range []struct {
		name  string
		phone bool
		d     method.Decision
		want  effect
	}{
		{"another step", false, method.Decision{Verdict: method.Pending, State: []byte("n")},
			effect{step: next, stay: true}},
		{"another site", false, method.Decision{Verdict: method.Pending, State: []byte("n"),
			Leave: &method.Leave{URL: "https://other", Handle: "new"}}, effect{step: left, leave: true}},
		{"a pending response, on a phone", true, method.Decision{Verdict: method.Pending, State: []byte("n"),
			Await: true}, effect{step: named, await: true}},
		{"contract 38: no basis without passkeys", false, method.Decision{Verdict: method.Approved,
			Basis: verdict.Basis{Method: "bank"}}, fires(session.Succeeded, "approved")},
		{"a cancelled step", false, method.Decision{Verdict: method.Cancelled},
			fires(session.Cancelled, "cancelled")},
		{"no verdict", false, method.Decision{}, fires(session.Unclassified, "unclassified")},
		{"contract 40: a phone completes no session", true, method.Decision{Verdict: method.Approved},
			effect{bring: true}},
	} {
		if v.phone = nil; c.phone {
			v.phone = &lifecycle.Pending{}
		}
		if got := v.decide(m, s, c.d); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
