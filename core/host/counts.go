package host

import "slices"

// All names that Observer.Count receives. Each name is a permanent time series, so new names are added here
// and nowhere else.
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
	// at each look at the file, by a guest that has its own key ring
	CountKeyMissing = "key_ring_not_ready"
	countOther      = "other"
)

var counts = []string{
	CountSessionCompleted, CountSessionFailed, CountSessionExpired, CountLateAnswer,
	CountWebhookDelivered, CountAttemptFailed, CountWebhookPostponed, CountWebhookDead,
	CountLeaseLost, CountTaskDropped, CountNotAuthentic,
	CountKeyMissing,
}

// CountNames returns all names.
func CountNames() []string { return slices.Clone(counts) }

// CountName returns the name under which an event is counted: the event's own name if the list has it,
// otherwise "other". A module that is newer than its host may count events that the host does not know. A
// hostile one counts anything.
func CountName(event string) string { return among(counts, event) }

// among returns name as the list has it, or "other".
func among(list []string, name string) string {
	if i := slices.Index(list, name); i >= 0 {
		return list[i]
	}
	return countOther
}
