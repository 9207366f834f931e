package host

import (
	"slices"

	"github.com/verge-id/verge/core/internal/metric"
)

// CountKeyMissing is counted at each look at the file of the key ring, by a guest that has its own ring.
const CountKeyMissing = "key_ring_not_ready"

// countOther stands for a name or reason outside of the lists.
const countOther = "other"

var counts = append(metric.Counts(), CountKeyMissing)

// CountNames returns all names that Observer.Count receives.
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
