package host

import "slices"

// What Host.Count is told, all of it. Each name is a time series for ever, so
// a new one is added here and nowhere else.
const (
	CountSessionCompleted = "session_completed"
	CountSessionFailed    = "session_failed"
	CountSessionExpired   = "session_expired"
	CountLateAnswer       = "late_answer_ignored"
	CountWebhookDelivered = "webhook_delivered"
	CountAttemptFailed    = "webhook_attempt_failed"
	CountWebhookPostponed = "webhook_postponed"
	CountWebhookDead      = "webhook_dead"
	CountLeaseLost        = "lease_lost"
	CountTaskDropped      = "task_dropped"
	CountNotAuthentic     = "record_not_authentic"
	CountKeyMissing       = "key_ring_not_ready" // at each look, by a guest that has its own key ring
	countOther            = "other"
)

var counts = []string{
	CountSessionCompleted, CountSessionFailed, CountSessionExpired, CountLateAnswer,
	CountWebhookDelivered, CountAttemptFailed, CountWebhookPostponed, CountWebhookDead, CountLeaseLost, CountTaskDropped, CountNotAuthentic,
	CountKeyMissing,
}

// CountName is the name under which an event is counted: its own if the list
// has it, and "other" if not. A module that is newer than its host may count
// what the host does not know; one that is hostile counts anything.
func CountName(event string) string {
	if i := slices.Index(counts, event); i >= 0 {
		return counts[i]
	}
	return countOther
}
