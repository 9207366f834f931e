package hosted

import (
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
)

// effect is the consequence of a method's decision. Exactly one of the fields below step applies.
type effect struct {
	step token.StepClaims // as the browser carries it next, if the session continues

	leave bool            // the browser leaves for step.Leave
	await bool            // a pending response opens, for which the browser waits
	stay  bool            // the browser goes to the page of step
	bring bool            // a phone has decided, for the browser that began
	fire  *lifecycle.Step // the attempt ends
}

// triggerOf returns the session's trigger for the verdict of a method. Pending has none.
func triggerOf(v method.Verdict) (t session.Trigger, ends bool) {
	switch v {
	case method.Unclassified:
		return session.Unclassified, true
	case method.Approved:
		return session.Succeeded, true
	case method.Rejected:
		return session.Rejected, true
	case method.AttemptFailed:
		return session.AttemptFailed, true
	case method.Withdrawn:
		return session.Withdrawn, true
	case method.Cancelled:
		return session.Cancelled, true
	}
	return t, false
}

// decide returns the effect of a method's decision about a step. It is pure.
func (v *visit) decide(m method.Opened, s token.StepClaims, d method.Decision) effect {
	trigger, ends := triggerOf(d.Verdict)
	switch {
	case !ends: // Pending: nothing has happened yet, and after a return the browser is back
		s.State, s.Issued, s.Leave, s.Pending = d.State, token.At(v.now), "", token.Pending{}
		if d.Leave == nil && !d.Await {
			return effect{step: s, stay: true}
		}
		s.Method = m.Name // a step of the sandbox does not name it
		if d.Leave != nil {
			s.Handle, s.Leave = d.Leave.Handle, d.Leave.URL
		}
		return effect{step: s, leave: d.Leave != nil, await: d.Leave == nil}
	case v.phone != nil:
		return effect{bring: true}
	}
	step := lifecycle.Step{Trigger: trigger, Attempt: s.Attempt, Entry: entryOf(m.Name, d),
		Estimated: d.Basis.ChallengeAge}
	if s.Handle != "" {
		step.Browser = session.Proof(s.Handle)
	}
	if trigger == session.Succeeded && v.allowsPasskeys() {
		step.Proven = d.Basis
	}
	return effect{fire: &step}
}

// entryOf returns a decision for the log and the record.
func entryOf(name string, d method.Decision) session.Step {
	result, reason := d.Result()
	return session.Step{Method: name, Result: result, Reason: reason, Setting: d.Setting, Detail: d.Detail}
}
