package host

import (
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Job is a leased task as a runner sees it: enough to run it fairly, nothing
// of what it is about. The core makes jobs by claiming, and is handed them
// back to run or to defer; whoever holds one in between does not look inside
// the task.
type Job struct {
	Partition kv.Partition
	Task      kv.Task // with the lease that Claim set

	// Until is when the lease may be taken over. Run begins nothing that
	// could last longer.
	Until time.Time

	// Lane names where the job's time is spent: jobs of one lane go to one
	// destination and share its fate when it hangs or fails, so a runner
	// bounds how many of one lane run at once. It is opaque, stable across
	// claims and instances, and may appear in no log, since a destination's
	// URL can hold a secret. "" is no destination at all (an expiry timer):
	// such a job waits for the store alone and is never held back.
	Lane string
}
