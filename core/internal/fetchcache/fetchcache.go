// Package fetchcache keeps documents of other servers in memory, such as a provider's keys or a status list,
// and limits how often a server is asked for one.
//
// No request waits for another's. A document is asked for by a Fetch of the caller, which may take seconds.
// Requests that come in the meantime use the old document if it still counts. Otherwise they ask too, up to a
// limit, and the others get ErrBusy.
package fetchcache

import (
	"errors"
	"sync"
	"time"
)

// ErrBusy means that the server is being asked, or was just asked often enough.
var ErrBusy = errors.New("fetchcache: the server has not responded to the last requests; " +
	"it is asked again in a few seconds")

// Policy limits how often a server is asked.
type Policy struct {
	// Window is the time in which at most Burst requests begin, at most Retries (0: Burst) if the last one
	// failed, and at most one while an old document counts.
	Window         time.Duration
	Burst, Retries int

	// Failure is the time for which an error counts: the server is not asked again, and Get returns that
	// error. 0: errors do not count.
	Failure time.Duration

	// Renewal is the least time between two renewals of a document that is still fresh (MayRenew).
	Renewal time.Duration
}

// Copy is a document as a server has sent it. The server is asked again after Fresh. The document counts
// until Until.
type Copy[T any] struct {
	Value        T
	Fresh, Until time.Time
}

// Document is one document. The zero value is empty. It may be used concurrently.
type Document[T any] struct{ document }

// Get returns the document, and calls fetch for a new one if it must and may. fetched reports that it called
// fetch. The error is fetch's, the one that counts by Policy.Failure, or ErrBusy.
func (d *Document[T]) Get(now time.Time, p Policy, fetch func() (Copy[T], error)) (
	value T, fetched bool, err error) {
	old, err, ask := d.look(now, p)
	if !ask {
		return as[T](old), false, err
	}
	c, err := fetch()
	if err != nil {
		d.fail(now, err)
		return value, true, err
	}
	d.Put(now, c)
	return c.Value, true, nil
}

// as returns a value of a Document. It is the zero T without one.
func as[T any](value any) T {
	v, _ := value.(T)
	return v
}

// Last returns the document if it counts, for a caller whose fetch has failed.
func (d *Document[T]) Last(now time.Time) (value T, ok bool) {
	last, ok := d.last(now)
	return as[T](last), ok
}

// Put keeps a copy that was asked for at a time.
func (d *Document[T]) Put(now time.Time, c Copy[T]) { d.put(now, c.Value, c.Fresh, c.Until) }

// document is a Document whose value has no type, so that a guest has its code once.
type document struct {
	mu   sync.Mutex
	copy Copy[any]
	at   time.Time // of the last Put; zero: no document

	window  time.Time // when the current window began
	asked   int       // requests that began in it
	renewed time.Time // when MayRenew last returned true

	failure  error // of the last request, nil if it succeeded
	failedAt time.Time
}

// look returns the document if it serves, or why not, and whether the caller is to ask for a new one.
func (d *document) look(now time.Time, p Policy) (value any, err error, ask bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	serves := d.counts(now)
	if serves && now.Before(d.copy.Fresh) {
		return d.copy.Value, nil, false
	}
	if !within(d.window, now, p.Window) {
		d.window, d.asked = now, 0
	}
	failed := d.failure != nil && within(d.failedAt, now, p.Failure)
	most := p.Burst
	switch {
	case serves:
		most = 1
	case d.failure != nil && p.Retries > 0:
		most = p.Retries
	}
	switch ask = !failed && d.asked < most; {
	case ask:
		d.asked++
	case serves:
		return d.copy.Value, nil, false
	case failed:
		return value, d.failure, false
	}
	return value, ErrBusy, ask
}

// within reports whether now is less than span after a time, and not before it. A clock may be set back.
func within(begin, now time.Time, span time.Duration) bool {
	past := now.Sub(begin)
	return past >= 0 && past < span
}

// counts reports whether the document may be used.
func (d *document) counts(now time.Time) bool {
	return !d.at.IsZero() && !now.Before(d.at) && now.Before(d.copy.Until)
}

// last is Last.
func (d *document) last(now time.Time) (value any, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.counts(now) {
		return value, false
	}
	return d.copy.Value, true
}

// put is Put.
func (d *document) put(now time.Time, value any, fresh, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copy, d.at, d.failure = Copy[any]{value, fresh, until}, now, nil
}

func (d *document) fail(now time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure, d.failedAt = err, now
}

// MayRenew reports whether a document that lacks something may be asked for before it is no longer fresh. A
// caller that gets true must ask.
func (d *document) MayRenew(now time.Time, p Policy) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if within(d.renewed, now, p.Renewal) {
		return false
	}
	d.renewed = now
	return true
}
