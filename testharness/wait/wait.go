// Package wait bounds the waits of tests. Use [For] instead of a bare receive, which would hang until the
// limit of the whole test binary and hide the test's name, and [Until] instead of a loop that polls.
package wait

import (
	"fmt"
	"testing"
	"time"
)

// limit is far above the time that a slow machine needs.
const limit = 5 * time.Minute

// For returns the next value of a channel, or the zero value if the channel is closed. If neither happens
// within five minutes, it panics. A panic, unlike a test's Fatal, is safe in every goroutine.
func For[T any](from <-chan T) T {
	return within(limit, from)
}

func within[T any](limit time.Duration, from <-chan T) T {
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case v := <-from:
		return v
	case <-over.C:
		panic(fmt.Sprintf("no value of type %T arrived within %s", *new(T), limit))
	}
}

// Until returns when done reports true. If it does not within five minutes, the test fails with the name of
// the condition. Call it from the test's own goroutine.
func Until(t testing.TB, condition string, done func() bool) {
	t.Helper()
	until(t, limit, condition, done)
}

func until(t testing.TB, limit time.Duration, condition string, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("not within %s: %s", limit, condition)
		}
	}
}
