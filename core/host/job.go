package host

import (
	"time"

	"github.com/verge-id/verge/core/kv"
)

// Job is a leased task as a runner sees it. It has enough to run the task fairly, and nothing about the
// task's subject. The core makes jobs by claiming, and gets them back to run or to defer. A runner that
// holds a job does not look inside the task.
type Job struct {
	Partition kv.Partition
	Task      kv.Task // with the lease that Claim set

	// Until is when another may take the lease over, by the wall clock alone. Run begins nothing that could
	// last longer.
	Until time.Time

	// Destination names the server for which the job waits. If that server hangs or fails, all jobs of the
	// destination do, so a runner limits how many of them run at the same time. The name is opaque and the
	// same in all claims and instances. No log may contain it, because a destination's URL can hold a
	// secret. "" means no destination (an expiry timer): such a job waits only for the store and is never
	// postponed.
	Destination string
}
