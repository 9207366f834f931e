package webhook

import "time"

// Types returns the five event types, in the order in which a session can have them.
func Types() []string {
	return []string{TypeStarted, TypeCompleted, TypeFailed, TypeExpired, TypeCancelled}
}

// statusCancelled is only in test events, as the type is.
const statusCancelled = "cancelled"

// Values of a test event that replace the values of a start, and the life of its session.
const (
	testUser  = "user-of-a-test-event"
	testState = "state-of-a-test-event"
	testLife  = 10 * time.Minute
)

// testMessage explains to readers of a log that the session of a test event does not exist.
const testMessage = "This event tests your webhook. It belongs to no session."

// TestEvent returns an event of the type to test a receiver. Its session does not exist, as its data states.
// It has all optional fields of its type, so that a receiver is tested with them. ok is false if there is no
// such type.
func TestEvent(h Head, typ, level string, challengeAge int) (e Event, ok bool) {
	h.Test = true
	user, state, message := testUser, testState, testMessage
	switch typ {
	case TypeStarted:
		e = Started(h, h.CreatedAt.Add(testLife))
	case TypeCompleted:
		e = Completed(h, level, challengeAge, &user, &state)
	case TypeFailed:
		const code = FailureProviderRejected
		e = Failed(h, code, FailureMessage(code), &user, &state)
	case TypeExpired:
		e = Expired(h, h.CreatedAt)
	case TypeCancelled:
		e = h.event(typ, Data{Status: statusCancelled})
	default:
		return Event{}, false
	}
	e.Data.Message = &message
	return e, true
}
