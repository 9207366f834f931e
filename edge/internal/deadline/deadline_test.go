package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/edge/internal/deadline"
)

var errLate = errors.New("late")

func TestContext(t *testing.T) {
	type key struct{}
	for _, c := range []struct {
		name  string
		cause func() error
		end   func(c *deadline.Context, cancel func()) // ends the context, or its caller's
		err   error
		want  error // the cause
	}{
		{"deadline", nil, func(*deadline.Context, func()) { time.Sleep(time.Second) },
			context.DeadlineExceeded, context.DeadlineExceeded},
		{"deadline with a cause", func() error { return errLate },
			func(*deadline.Context, func()) { time.Sleep(time.Second) }, context.DeadlineExceeded, errLate},
		{"caller canceled", nil, func(_ *deadline.Context, cancel func()) { cancel() },
			context.Canceled, context.Canceled},
		{"stopped", nil, func(c *deadline.Context, _ func()) { c.Stop() }, context.Canceled,
			context.Canceled},
	} {
		for _, waits := range []bool{false, true} { // before the end
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				defer cancel()
				begin := time.Now()
				ctx := deadline.New(parent, begin.Add(time.Second), c.cause)
				defer ctx.Stop()
				derived := context.Context(ctx)
				if waits {
					ctx.Done()
					var end context.CancelFunc
					derived, end = context.WithCancel(ctx)
					defer end()
				}
				if err := ctx.Err(); err != nil {
					t.Errorf("%s: active, but Err returns %v", c.name, err)
				}
				if at, ok := ctx.Deadline(); !ok || !at.Equal(begin.Add(time.Second)) {
					t.Errorf("%s: deadline %v, %v", c.name, at, ok)
				}
				c.end(ctx, cancel)
				synctest.Wait() // a timer that is due runs
				if err := ctx.Err(); !errors.Is(err, c.err) {
					t.Errorf("%s: Err returns %v, want %v", c.name, err, c.err)
				}
				<-ctx.Done()
				<-derived.Done()
				if err := context.Cause(derived); !errors.Is(err, c.want) {
					t.Errorf("%s: cause %v, want %v", c.name, err, c.want)
				}
				if v := ctx.Value(key{}); v != "value" {
					t.Errorf("%s: the caller's value is %v", c.name, v)
				}
			})
		}
	}
}

func TestContext_EarlierDeadlineOfCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want, _ := parent.Deadline()
		ctx := deadline.New(parent, time.Now().Add(time.Minute), nil)
		defer ctx.Stop()
		if at, _ := ctx.Deadline(); !at.Equal(want) {
			t.Errorf("deadline %v, want the caller's, %v", at, want)
		}
		<-ctx.Done()
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) || time.Now().Before(want) {
			t.Errorf("%v at %v, want the end at %v", err, time.Now(), want)
		}
	})
}
