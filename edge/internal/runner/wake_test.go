package runner

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/wait"
)

// slow is an outbox in which something happens before a claim returns.
type slow struct {
	*outbox
	meanwhile func()
}

func (s slow) Claim(ctx context.Context, p kv.Partition, n int) ([]host.Job, time.Time, error) {
	jobs, next, err := s.outbox.Claim(ctx, p, n)
	s.meanwhile()
	return jobs, next, err
}

// The claim has not seen the task, and only its wake reports it.
func TestRunner_WakeDuringClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *Runner
		var once sync.Once
		o := newOutbox()
		r = New(Config{Exclusive: true, Engine: slow{o, func() {
			once.Do(func() {
				o.add(1, "a", time.Now())
				r.Wake("p", time.Now())
			})
		}}})
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan error)
		go func() { out <- r.Run(ctx) }()
		defer func() { cancel(); wait.For(out) }()
		time.Sleep(time.Minute)
		if n, _ := o.done("a"); n != 1 {
			t.Errorf("%d of 1 task done; the task fell due during a claim", n)
		}
	})
}
