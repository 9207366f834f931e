// Package metric has the names of the events that only the core counts or measures.
package metric

// The events that the core counts. Each name is a permanent time series, so new names are added here and
// nowhere else.
const (
	SessionCompleted = "session_completed"
	SessionFailed    = "session_failed"
	SessionExpired   = "session_expired"
	LateAnswer       = "late_answer_ignored"
	WebhookDelivered = "webhook_delivered"
	AttemptFailed    = "webhook_attempt_failed"
	WebhookPostponed = "webhook_postponed"
	WebhookDead      = "webhook_dead"
	LeaseLost        = "lease_lost"
	TaskDropped      = "task_dropped"
	NotAuthentic     = "record_not_authentic"
)

// Counts returns the events that the core counts.
func Counts() []string {
	return []string{SessionCompleted, SessionFailed, SessionExpired, LateAnswer, WebhookDelivered,
		AttemptFailed, WebhookPostponed, WebhookDead, LeaseLost, TaskDropped, NotAuthentic}
}

// The events of a method, except the fetches, which the host measures. Each is a time series for every method
// and reason, so new ones are added here and nowhere else.
const (
	MethodBegun            = "begun"       // its first step was prepared
	MethodUnavailable      = "unavailable" // it did not begin, or the provider did not respond to a step
	MethodLeft             = "left"        // the browser was sent to another site
	MethodReturned         = "returned"    // the browser came back
	MethodResponseRejected = "refused"     // a response of the provider was rejected; see the reason
	MethodFailed           = "failed"      // a step failed for another cause, and nothing was decided

	// MethodUnchecked is a proof that counts although it is not known whether it was revoked. The reason
	// names the missing list.
	MethodUnchecked = "unchecked"

	// the verdicts of method.Decision; a failed attempt has its reason
	MethodApproved      = "approved"
	MethodRejected      = "rejected"
	MethodAttemptFailed = "attempt_failed"
	MethodWithdrawn     = "withdrawn"
	MethodCancelled     = "cancelled"
	MethodUnclassified  = "unclassified"
)

// MethodEvents returns the events of a method that the core measures.
func MethodEvents() []string {
	return []string{MethodBegun, MethodUnavailable, MethodLeft, MethodReturned, MethodResponseRejected,
		MethodFailed, MethodUnchecked, MethodApproved, MethodRejected, MethodAttemptFailed, MethodWithdrawn,
		MethodCancelled, MethodUnclassified}
}
