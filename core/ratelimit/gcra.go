package ratelimit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Limit allows Count requests per period Per, in one burst. After that, one more request is allowed after
// each Count-th part of the period. So any window has at most Count requests, plus the requests that are
// restored during its length.
type Limit struct {
	Count int
	Per   time.Duration
}

// PerMinute is the limit of count requests a minute.
func PerMinute(count int) Limit { return Limit{count, time.Minute} }

// MarshalJSON writes a limit per minute as its count. Any other limit is an error.
func (l Limit) MarshalJSON() ([]byte, error) {
	if l != (Limit{}) && l.Per != time.Minute {
		return nil, fmt.Errorf("%d per %s; a guest counts per minute", l.Count, l.Per)
	}
	return strconv.AppendInt(nil, int64(l.Count), 10), nil
}

// UnmarshalJSON reads the output of MarshalJSON.
func (l *Limit) UnmarshalJSON(b []byte) error {
	var count int
	err := json.Unmarshal(b, &count)
	if *l = (Limit{}); count != 0 {
		*l = PerMinute(count)
	}
	return err
}

// Validate returns an error for a limit that would allow no request or all requests.
func (l Limit) Validate() error {
	if l.Count < 1 || l.Per < time.Microsecond {
		return fmt.Errorf("%d requests per %s; it must be at least 1 per microsecond or longer", l.Count,
			l.Per)
	}
	return nil
}

// cost is the time that one request adds to a counter. It is rounded up, so that the limit is never exceeded
// if Count does not divide the period. It is in whole microseconds, so that stores with this resolution make
// the same decision.
func (l Limit) cost() time.Duration {
	if err := l.Validate(); err != nil {
		panic("ratelimit: " + err.Error())
	}
	step := time.Duration(l.Count) * time.Microsecond
	return (l.Per + step - 1) / step * time.Microsecond
}

func (l Limit) burst() time.Duration { return l.cost() * time.Duration(l.Count) }

// decision is the decision of a limit about one request.
type decision struct {
	Allowed    bool
	NewTAT     time.Time     // the counter afterwards
	Remaining  int           // requests that would be allowed immediately afterwards
	Reset      time.Duration // until the whole Count is allowed again
	RetryAfter time.Duration // until a request would be allowed; zero if one would be now
}

// decide is the generic cell rate algorithm. tat is the counter, the
// theoretical arrival time: the time at which it is full again. The zero
// time is a counter that was never used.
//
// A clock that went back leaves tat further ahead than a counter can get;
// then less is allowed, never more.
func decide(tat, now time.Time, limit Limit) decision {
	d := limit.standing(tat, now)
	if d.Remaining < 1 {
		return d
	}
	d = limit.standing(d.NewTAT.Add(limit.cost()), now)
	d.Allowed = true
	return d
}

// standing returns the state of a counter at now, without a request.
func (l Limit) standing(tat, now time.Time) decision {
	if tat.Before(now) {
		tat = now
	}
	d := decision{NewTAT: tat, Reset: tat.Sub(now)}
	cost := l.cost()
	if room := cost*time.Duration(l.Count) - d.Reset; room >= cost {
		d.Remaining = int(room / cost)
	} else {
		d.RetryAfter = cost - room
	}
	return d
}
