package outbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/timeline"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/kv"
)

// Undelivered counts the waiting and the dead events of an integration.
type Undelivered struct {
	Integration string // the bare UUID
	Waiting     int
	Dead        int
	Oldest      time.Time // oldest waiting event, by the time of the event; zero if none waits
	Newest      time.Time // newest dead event; zero if there is no dead event
	More        bool      // there are more than were counted, and perhaps an older waiting event
}

const (
	mostCounted  = 1000 // names of one state that one call reads in all partitions
	leastCounted = 16   // the minimum per partition, if there are many partitions

	// shareOfOne limits one integration to this fraction of the names read per partition, so that it cannot
	// hide others.
	shareOfOne = 4

	behindPlaces = "~" // sorts after every place
)

// Undelivered counts waiting and dead events by integration. The integration with the oldest waiting event
// comes first. The number of names read is limited: more reports that further integrations may be missing.
// Names in the store are not authenticated here; the code that shows an event checks the event.
func (o *Outbox) Undelivered(ctx context.Context) (all []Undelivered, more bool, err error) {
	found := map[string]*Undelivered{}
	for _, prefix := range []string{waitingInLog, deadInLog} {
		for _, p := range o.Partitions {
			cut, err := o.countNames(ctx, kv.Key{Partition: p, Name: prefix}, found)
			if err != nil {
				return nil, false, err
			}
			more = more || cut
		}
	}
	for _, u := range found {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b Undelivered) int {
		switch {
		case a.Oldest.IsZero() != b.Oldest.IsZero():
			if a.Oldest.IsZero() {
				return 1
			}
			return -1
		case !a.Oldest.Equal(b.Oldest):
			return a.Oldest.Compare(b.Oldest)
		}
		return cmp.Or(b.Newest.Compare(a.Newest), strings.Compare(a.Integration, b.Integration))
	})
	return all, more, nil
}

// countNames counts the names under a prefix in one partition. It reports whether it stopped before the end.
func (o *Outbox) countNames(ctx context.Context, prefix kv.Key, found map[string]*Undelivered) (bool, error) {
	room := max(mostCounted/len(o.Partitions), leastCounted)
	most := room / shareOfOne
	var last *Undelivered // owner of the last name read
	counted := 0          // names of last in this partition
	for after := ""; room > 0; {
		n := min(room, most+1)
		items, err := o.KV.List(ctx, prefix, after, n)
		if err != nil {
			return false, err
		}
		ended := len(items) < n
		for _, item := range items {
			room--
			after = item.Key.Name
			integration, place, _ := strings.Cut(strings.TrimPrefix(after, prefix.Name), "/")
			if _, err := uuid.Parse(integration); err != nil || !isPlace(place) {
				o.suspect(item.Key)
				continue
			}
			if last == nil || last.Integration != integration {
				if found[integration] == nil {
					found[integration] = &Undelivered{Integration: integration}
				}
				last, counted = found[integration], 0
			}
			if counted++; counted > most {
				last.More, ended = true, false
				after = prefix.Name + integration + "/" + behindPlaces
				break
			}
			last.count(prefix.Name, momentAt(place))
		}
		if ended {
			return false, nil
		}
	}
	if last != nil {
		last.More = true
	}
	return true, nil
}

func (u *Undelivered) count(prefix string, at time.Time) {
	if prefix == deadInLog {
		u.Dead++
		if at.After(u.Newest) {
			u.Newest = at
		}
		return
	}
	u.Waiting++
	if u.Oldest.IsZero() || at.Before(u.Oldest) {
		u.Oldest = at
	}
}

// momentAt returns the time of the event at a place.
func momentAt(place string) time.Time {
	t, _ := timeline.Time(place)
	return t
}
