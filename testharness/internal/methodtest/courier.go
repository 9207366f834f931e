package methodtest

// Answers of the courier, as they are posted.
const (
	Approve = "approve"
	Reject  = "reject"
	Fail    = "fail_attempt"
	Cancel  = "cancel"
	Nothing = "nothing" // a response without stored data; it cancels
	Later   = "later"   // a response that cannot be verified now
	Vast    = "vast"    // one of which more is to be kept than fits
)
