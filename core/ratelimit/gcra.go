package ratelimit

import (
	"fmt"
	"time"
)

// Limit allows Count requests in a period Per. They may come all at once. After that one more is
// allowed whenever a Count-th part of the period has passed. So any window has at most Count requests
// plus those that its own length gives back.
type Limit struct {
	Count int
	Per   time.Duration
}

// PerMinute is the limit of count requests a minute.
func PerMinute(count int) Limit { return Limit{count, time.Minute} }

// cost is what one request adds to a counter. It is rounded up, so that a period that Count does not
// divide never allows more than Count. It is in whole microseconds, so that a store with no finer time
// decides the same.
func (l Limit) cost() time.Duration {
	if l.Count < 1 || l.Per < time.Microsecond {
		panic(fmt.Sprintf("ratelimit: a limit of %d per %v: Count and Per must be positive", l.Count, l.Per))
	}
	step := time.Duration(l.Count) * time.Microsecond
	return (l.Per + step - 1) / step * time.Microsecond
}

func (l Limit) burst() time.Duration { return l.cost() * time.Duration(l.Count) }

// Decision is a limit's answer to one request.
type Decision struct {
	Allowed    bool
	NewTAT     time.Time     // the counter afterwards
	Remaining  int           // requests that would be allowed at once afterwards
	Reset      time.Duration // until the whole Count is allowed again
	RetryAfter time.Duration // until a request would be allowed; zero if one would be now
}

// Decide is the generic cell rate algorithm. tat is the counter, as its theoretical arrival time: the
// instant when the whole Count is allowed again. The zero time is a counter that was never used.
//
// If the clock goes back, tat can be further ahead than the counter could reach. Then less is allowed,
// never more.
func Decide(tat, now time.Time, limit Limit) Decision {
	d := limit.standing(tat, now)
	if d.Remaining < 1 {
		return d
	}
	d = limit.standing(d.NewTAT.Add(limit.cost()), now)
	d.Allowed = true
	return d
}

// standing returns the state of a counter at now, without a request.
func (l Limit) standing(tat, now time.Time) Decision {
	if tat.Before(now) {
		tat = now
	}
	d := Decision{NewTAT: tat, Reset: tat.Sub(now)}
	if room := l.burst() - d.Reset; room >= l.cost() {
		d.Remaining = int(room / l.cost())
	} else {
		d.RetryAfter = l.cost() - room
	}
	return d
}
